import type { Clock, Random, Store } from '../../../src/plugin/plugin.ts';
import { type AuditRow, tables } from './tables.ts';

export interface AuditEntry {
  readonly actor: string;
  readonly address: string;
  readonly action: string;
  readonly target: string;
}

export interface AuditLog {
  /** Writes that an action begins, does it, and writes how it ended. What cannot be written down is not done. */
  record<T>(entry: AuditEntry, work: () => Promise<T>): Promise<T>;
  /** The newest entries before one, or of all. */
  list(page: { readonly limit: number; readonly before: Position | null }): Promise<readonly AuditRow[]>;
  prune(olderThanMs: number): Promise<void>;
}

export interface Position {
  readonly at: number;
  readonly seq: number;
}

const MAX_TARGET = 500;

export function createAuditLog(store: Store, clock: Clock, random: Random): AuditLog {
  let seq = 0;
  const settle = (id: string, outcome: 'done' | 'failed') =>
    store.write((tx) => tables(tx.db).updateTable('dashboard_audit').set({ outcome }).where('id', '=', id).execute());
  return {
    async record(entry, work) {
      const id = random.uuid();
      seq = (seq + 1) % 1_000_000_000;
      const row: AuditRow = { id, seq, at: clock.now(), ...entry, outcome: 'begun' };
      const target = entry.target.slice(0, MAX_TARGET);
      await store.write((tx) =>
        tables(tx.db)
          .insertInto('dashboard_audit')
          .values({ ...row, target })
          .execute(),
      );
      try {
        const result = await work();
        await settle(id, 'done');
        return result;
      } catch (error) {
        await settle(id, 'failed').catch(() => undefined);
        throw error;
      }
    },
    async list({ limit, before }) {
      let query = tables(store.read).selectFrom('dashboard_audit').selectAll();
      if (before !== null)
        query = query.where((of) =>
          of.or([of('at', '<', before.at), of.and([of('at', '=', before.at), of('seq', '<', before.seq)])]),
        );
      return query.orderBy('at', 'desc').orderBy('seq', 'desc').limit(limit).execute();
    },
    async prune(olderThanMs) {
      await store.write((tx) => tables(tx.db).deleteFrom('dashboard_audit').where('at', '<', olderThanMs).execute());
    },
  };
}
