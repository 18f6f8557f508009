import { sql } from 'kysely';
import { inList } from '../../../src/lib/in-list.ts';
import type { Store } from '../../../src/plugin/plugin.ts';
import { tables } from './tables.ts';

/** All identities together. */
export const EVERYBODY = '*';

/**
 * What the sessions of an identity hang on: a text that changes when its token or secret is renewed, and when its sessions are ended, in
 * whichever process that is done.
 */
export interface Standings {
  /** By name of the identity: `operator`, `project:<id>`. No entry: it cannot log in any more. */
  read(names: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** Of one identity, or of everybody. */
  endSessions(name: string): Promise<void>;
}

const PROJECT = 'project:';

/** `isConfigured`: operators log in with the token of the configuration. */
export function createStandings(store: Store, isConfigured: boolean): Standings {
  return {
    async read(names) {
      const db = tables(store.read);
      const projects = names.filter((name) => name.startsWith(PROJECT)).map((name) => name.slice(PROJECT.length));
      const secrets = await db
        .selectFrom('dashboard_secrets')
        .select(['project_id', 'hash'])
        .where(inList(store.dialect, 'project_id', projects))
        .execute();
      const operator = await db.selectFrom('dashboard_operator').select('hash').executeTakeFirst();
      const ends = await db
        .selectFrom('dashboard_session_ends')
        .selectAll()
        .where(inList(store.dialect, 'name', [...names, EVERYBODY]))
        .execute();
      const endsOf = (name: string): number => ends.find((row) => row.name === name)?.times ?? 0;
      const proofs = new Map(secrets.map(({ project_id, hash }) => [`${PROJECT}${project_id}`, hexOf(hash)]));
      if (isConfigured) proofs.set('operator', 'configured');
      else if (operator !== undefined) proofs.set('operator', hexOf(operator.hash));
      return new Map(
        names.flatMap((name) => {
          const proof = proofs.get(name);
          return proof === undefined ? [] : [[name, `${proof}.${endsOf(name)}.${endsOf(EVERYBODY)}`] as const];
        }),
      );
    },
    async endSessions(name) {
      await store.write((tx) =>
        tables(tx.db)
          .insertInto('dashboard_session_ends')
          .values({ name, times: 1 })
          .onConflict((on) => on.column('name').doUpdateSet({ times: sql<number>`dashboard_session_ends.times + 1` }))
          .execute(),
      );
    },
  };
}

const hexOf = (hash: Uint8Array): string => Buffer.from(hash).toString('hex');
