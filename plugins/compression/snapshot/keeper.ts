import { type ChainReader, type Clock, codeOf, type Log, messageOf, type Store } from '../../../src/plugin/plugin.ts';
import { createRepeats } from '../chain/repeat.ts';
import type { CompressionConfig } from '../config.ts';
import { migrations } from '../store/migrations.ts';
import { NOTES, readNote, writeNote } from '../store/notes.ts';
import type { Db } from '../store/tables.ts';
import { listSnapshots, type SavedSnapshot, saveSnapshot } from './save.ts';

export interface KeeperParts {
  readonly store: Store;
  readonly config: Pick<CompressionConfig, 'programId' | 'snapshotDir' | 'snapshotEverySlots'>;
  readonly chain: ChainReader | null;
  readonly genesisHash: () => Promise<string | null>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Writes a snapshot every so many slots, and at the end. */
export interface SnapshotKeeper {
  start(): void;
  /** With a signal a last snapshot is written until that aborts. */
  stop(signal: AbortSignal | null): Promise<void>;
}

const LOOK_MS = 10_000;
const RETRY_MS = 60_000;

/** Steps of the tables' schema. */
export const snapshotSchema = (): number => migrations.at(-1)?.version ?? 0;

export function createSnapshotKeeper(parts: KeeperParts): SnapshotKeeper {
  const { store, config, clock, log } = parts;
  const { snapshotDir: folder, snapshotEverySlots } = config;
  const repeats = createRepeats(clock, log);
  let lastSlot: number | null = null;

  async function save(signal: AbortSignal, dueAfter: number): Promise<void> {
    if (folder === null) return;
    const head = await headSlot(store.read as Db);
    if (lastSlot === null) lastSlot = (await listSnapshots(folder))[0]?.slot ?? 0;
    if (head < lastSlot + dueAfter) return;
    const saved = await saveNow(parts, folder, signal);
    if (saved === null) return;
    lastSlot = saved.slot;
    log.info({ ...saved }, 'a snapshot of compressed accounts was written');
  }

  return {
    start() {
      repeats.add('learning the genesis hash', 0, RETRY_MS, async () => {
        await noteGenesis(parts);
        return NEVER_MS;
      });
      if (folder === null) return;
      repeats.add('writing a snapshot', LOOK_MS, RETRY_MS, async (signal) => {
        await save(signal, snapshotEverySlots);
        return LOOK_MS;
      });
    },
    async stop(signal) {
      await repeats.stop();
      if (signal === null) return;
      await save(signal, 1).catch((error: unknown) => {
        log.warn({ code: codeOf(error), error: messageOf(error) }, 'no last snapshot could be written');
      });
    },
  };
}

const NEVER_MS = 2_000_000_000;

const headSlot = async (db: Db): Promise<number> =>
  (await db.selectFrom('compression_head').select('slot').executeTakeFirst())?.slot ?? 0;

/** A stopped daemon has to know which chain its rows are of. */
async function noteGenesis({ store, genesisHash }: Pick<KeeperParts, 'store' | 'genesisHash'>): Promise<void> {
  const hash = await genesisHash();
  if (hash === null || (await readNote(store.read as Db, NOTES.genesisHash)) === hash) return;
  await store.write((tx) => writeNote(tx, NOTES.genesisHash, hash));
}

/** Null when nothing is indexed, or it is not known of which chain. Errors: as `saveSnapshot`. */
export async function saveNow(
  { store, config, chain }: Pick<KeeperParts, 'store' | 'chain'> & { readonly config: { readonly programId: string } },
  folder: string,
  signal: AbortSignal,
): Promise<SavedSnapshot | null> {
  const genesisHash = await readNote(store.read as Db, NOTES.genesisHash);
  if (genesisHash === null) return null;
  const blockhash = async (slot: number): Promise<string | null> => {
    const params = [slot, { transactionDetails: 'none', rewards: false, maxSupportedTransactionVersion: 1 }];
    // It is for people who compare snapshots, and no reason to be without one.
    const block = await chain
      ?.call<{ blockhash?: string } | null>('getBlock', params, { timeoutMs: 2_000 })
      .catch(() => null);
    return block?.blockhash ?? null;
  };
  return await saveSnapshot(
    { store, blockhash, signal, header: { genesisHash, programId: config.programId, schema: snapshotSchema() } },
    folder,
  );
}
