import { createHash, timingSafeEqual } from 'node:crypto';
import type { Clock, Random, Store } from '../../../src/plugin/plugin.ts';
import { tables } from './tables.ts';

/** What operators log in with where the configuration names no token. Stored as its hash. */
export interface OperatorToken {
  /** Makes the first one, however many processes start together; null when there is one. */
  ensure(): Promise<string | null>;
  isRight(token: string): Promise<boolean>;
}

const TOKEN_BYTES = 24;
/** There is one row. */
const ID = 1;

export function createOperatorToken(store: Store, clock: Clock, random: Random): OperatorToken {
  return {
    async ensure() {
      const token = makeToken(random);
      const made = await store.write((tx) =>
        tx.insertMany('dashboard_operator', ['id', 'hash', 'created_at'], [[ID, hashOf(token), clock.now()]], 'ignore'),
      );
      return made === 0 ? null : token;
    },
    async isRight(token) {
      const row = await tables(store.read).selectFrom('dashboard_operator').select('hash').executeTakeFirst();
      return timingSafeEqual(row?.hash ?? new Uint8Array(32), hashOf(token)) && row !== undefined;
    },
  };
}

/** A new token in place of any before; it is told this once. */
export async function renewOperatorToken(store: Store, clock: Clock, random: Random): Promise<string> {
  const token = makeToken(random);
  const row = { id: ID, hash: hashOf(token), created_at: clock.now() };
  await store.write((tx) =>
    tables(tx.db)
      .insertInto('dashboard_operator')
      .values(row)
      .onConflict((on) => on.column('id').doUpdateSet({ hash: row.hash, created_at: row.created_at }))
      .execute(),
  );
  return token;
}

const makeToken = (random: Random): string => `op_${Buffer.from(random.bytes(TOKEN_BYTES)).toString('base64url')}`;
const hashOf = (token: string): Uint8Array => createHash('sha256').update(token).digest();

/** What owners of projects log in with. */
export interface ProjectSecrets {
  /** Makes one in place of any before; it is told this once. */
  renew(projectId: string): Promise<string>;
  isRight(projectId: string, secret: string): Promise<boolean>;
}

const SECRET_BYTES = 24;

export function createProjectSecrets(store: Store, clock: Clock, random: Random): ProjectSecrets {
  return {
    async renew(projectId) {
      const secret = `ds_${Buffer.from(random.bytes(SECRET_BYTES)).toString('base64url')}`;
      const row = { project_id: projectId, hash: sha256(secret), created_at: clock.now() };
      await store.write((tx) =>
        tables(tx.db)
          .insertInto('dashboard_secrets')
          .values(row)
          .onConflict((on) => on.column('project_id').doUpdateSet({ hash: row.hash, created_at: row.created_at }))
          .execute(),
      );
      return secret;
    },
    async isRight(projectId, secret) {
      const row = await tables(store.read)
        .selectFrom('dashboard_secrets')
        .select('hash')
        .where('project_id', '=', projectId)
        .executeTakeFirst();
      // An unknown project takes as long as a wrong secret.
      return timingSafeEqual(row?.hash ?? new Uint8Array(32), sha256(secret)) && row !== undefined;
    },
  };
}

function sha256(text: string): Uint8Array {
  return createHash('sha256').update(text).digest();
}
