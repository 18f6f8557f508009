import { inList } from '../../../src/lib/in-list.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { Log } from '../../../src/ports/log.ts';
import type { Store, StoreTx } from '../../../src/ports/store.ts';
import type { MintFacts, MintTransferFee } from '../../../src/ports/token-facts.ts';
import type { Db } from './tables.ts';
import { createWriteBehind } from './write-behind.ts';

/** Facts of a mint, the accounts that they come from, and when. */
export interface KeptFacts {
  readonly mint: string;
  /** Null: there was no mint. */
  readonly facts: MintFacts | null;
  readonly keys: readonly string[];
  /** The oldest slot of what was read. */
  readonly slot: number;
  /** Unix milliseconds. */
  readonly readAtMs: number;
}

/** Facts that all threads and processes share; the block processor watches their accounts. */
export interface MintStore {
  /** Those read after a time. A store that cannot be read has none. */
  load(mints: readonly string[], afterMs: number): Promise<readonly KeptFacts[]>;
  /** Written a little later, unless the chain has moved on. */
  save(kept: KeptFacts): void;
  prune(beforeMs: number): Promise<void>;
  flush(): Promise<void>;
  stop(): Promise<void>;
}

interface MintStoreParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly maxMints: number;
}

export function createMintStore({ store, clock, log, maxMints }: MintStoreParts): MintStore {
  const behind = createWriteBehind<KeptFacts>({ store, clock, log, what: 'facts of mints', write: writeRows });
  return {
    async load(mints, afterMs) {
      try {
        const rows = await (store.read as Db)
          .selectFrom('token_metadata_mints')
          .selectAll()
          .where(inList(store.dialect, 'mint', mints))
          .where('read_at', '>', afterMs)
          .execute();
        return rows.map(({ mint, facts, keys, slot, read_at }) => ({
          mint,
          facts: readFacts(facts),
          keys: JSON.parse(keys) as string[],
          slot,
          readAtMs: read_at,
        }));
      } catch (error) {
        log.warn({ err: error }, 'facts of mints cannot be looked up');
        return [];
      }
    },
    save: (kept) => behind.add(kept.mint, kept),
    prune: (beforeMs) => store.write((tx) => prune(tx, beforeMs, maxMints)),
    flush: behind.flush,
    stop: behind.stop,
  };
}

async function writeRows(tx: StoreTx, given: readonly KeptFacts[]): Promise<void> {
  const db = tx.db as Db;
  const mints = given.map(({ mint }) => mint);
  const changes = await db
    .selectFrom('token_metadata_changes')
    .select(['mint', 'slot'])
    .where(inList(tx.dialect, 'mint', mints))
    .execute();
  const changedAt = new Map<string, number>();
  for (const { mint, slot } of changes) changedAt.set(mint, Math.max(slot, changedAt.get(mint) ?? 0));
  const current = given.filter(({ mint, slot }) => slot >= (changedAt.get(mint) ?? 0));
  await db
    .deleteFrom('token_metadata_mints')
    .where(inList(tx.dialect, 'mint', mints))
    .execute();
  await tx.insertMany(
    'token_metadata_mints',
    ['mint', 'facts', 'keys', 'slot', 'read_at'],
    current.map(({ mint, facts, keys, slot, readAtMs }) => [
      mint,
      writeFacts(facts),
      JSON.stringify(keys),
      slot,
      Math.floor(readAtMs),
    ]),
    'ignore',
  );
}

async function prune(tx: StoreTx, beforeMs: number, maxMints: number): Promise<void> {
  const db = tx.db as Db;
  await db.deleteFrom('token_metadata_mints').where('read_at', '<', beforeMs).execute();
  const newest = db.selectFrom('token_metadata_mints').select('read_at').orderBy('read_at', 'desc');
  const oldest = await newest.offset(maxMints).limit(1).executeTakeFirst();
  if (oldest === undefined) return;
  await db.deleteFrom('token_metadata_mints').where('read_at', '<=', oldest.read_at).execute();
}

/** Facts as JSON text: large numbers are texts in it. */
function writeFacts(facts: MintFacts | null): string {
  return JSON.stringify(facts, (_name, value: unknown) => (typeof value === 'bigint' ? value.toString() : value));
}

/** Reads what `writeFacts` wrote. */
function readFacts(text: string): MintFacts | null {
  const facts = JSON.parse(text) as MintFacts | null;
  if (facts === null) return null;
  const fee = (given: MintTransferFee['newer']): MintTransferFee['newer'] => ({
    ...given,
    epoch: BigInt(given.epoch),
    maximum: BigInt(given.maximum),
  });
  const { transferFee } = facts;
  return {
    ...facts,
    supply: BigInt(facts.supply),
    transferFee: transferFee && { older: fee(transferFee.older), newer: fee(transferFee.newer) },
  };
}
