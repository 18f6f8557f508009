import type { ChainId } from '../../src/ports/chain.ts';
import type { Random } from '../../src/ports/clock.ts';
import type { ParsedBoard, ParsedTransactions } from '../../src/ports/parsed-transactions.ts';
import type { Store, StoreTx } from '../../src/ports/store.ts';
import { type AddressIndex, createAddressIndex } from '../../src/solana/address-set.ts';
import { chainOf, takesEvents, type Webhook } from './model.ts';
import { changesSince, currentVersion, type IndexChange, lockChanges } from './store/changes.ts';
import { allHooks, hooksByNumber, readAddresses } from './store/hooks.ts';
import type { WebhookDb } from './store/tables.ts';

/** Keeps a hook index equal to the store, whichever process writes. */
export interface HookSync {
  /** The current index; reads the version, and changes only when it moved. */
  current(tx: StoreTx): Promise<HookIndex>;
  /** Like `current`, outside of a transaction. Contains at least everything committed before the call. */
  committed(store: Store): Promise<HookIndex>;
}

interface Loaded {
  readonly version: number;
  readonly index: HookIndex;
}

/**
 * `create` makes an empty index. The state changes by replacing a single field, so that a transaction that fails between two
 * reads leaves the old state intact.
 */
export function createHookSync(create: () => HookIndex): HookSync {
  let loaded: Loaded | null = null;

  async function current(tx: StoreTx): Promise<HookIndex> {
    const db = tx.db as WebhookDb;
    const known = loaded;
    if (known !== null) {
      const version = await currentVersion(db);
      if (version === known.version) return known.index;
      const changes = await changesSince(db, known.version, version);
      if (changes !== null) {
        const hooks = await changedHooks(db, changes);
        // From here on nothing waits or fails: the index and its version change together.
        replay(known.index, changes, hooks);
        loaded = { version, index: known.index };
        return known.index;
      }
    }
    loaded = await load(tx, create());
    return loaded.index;
  }

  return {
    current,
    async committed(store) {
      const known = loaded;
      if (known !== null && known.version === (await currentVersion(store.read as WebhookDb))) return known.index;
      // Changes are read in one state of the store.
      return await store.write(current);
    },
  };
}

async function changedHooks(db: WebhookDb, changes: readonly IndexChange[]): Promise<ReadonlyMap<number, Webhook>> {
  const numbers = [...new Set(changes.map((change) => change.number))];
  const rows = await hooksByNumber(db, numbers);
  return new Map(rows.map((hook) => [hook.number, hook]));
}

function replay(index: HookIndex, changes: readonly IndexChange[], hooks: ReadonlyMap<number, Webhook>): void {
  // The row is the state after the last change. A webhook that changed its chain carries the new chain in all its changes,
  // so its addresses are first removed from the old index and finally added to the new one.
  for (const [number, own] of byNumber(changes)) {
    const removed = new Map<string, Uint8Array>();
    const added = new Map<string, Uint8Array>();
    for (const change of own) {
      for (const key of change.removed) {
        added.delete(latin1Key(key));
        removed.set(latin1Key(key), key);
      }
      for (const key of change.added) added.set(latin1Key(key), key);
    }
    index.apply(number, hooks.get(number) ?? null, [...removed.values()], [...added.values()]);
  }
}

function byNumber(changes: readonly IndexChange[]): ReadonlyMap<number, IndexChange[]> {
  const groups = new Map<number, IndexChange[]>();
  for (const change of changes) {
    const group = groups.get(change.number);
    if (group === undefined) groups.set(change.number, [change]);
    else group.push(change);
  }
  return groups;
}

const latin1Key = (key: Uint8Array): string =>
  Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString('latin1');

async function load(tx: StoreTx, index: HookIndex): Promise<Loaded> {
  const version = await lockChanges(tx);
  const db = tx.db as WebhookDb;
  for (const hook of await allHooks(db)) {
    index.apply(hook.number, hook, [], await readAddresses(db, hook.number));
  }
  return { version, index };
}

/** The webhooks in memory, with one address index per chain. */
export interface HookIndex {
  /** The webhook with this number; undefined when it was deleted. */
  hook(number: number): Webhook | undefined;
  addresses(chain: ChainId): AddressIndex;
  /** Filters of the parsed webhooks that take events, by their numbers; null when transactions cannot be parsed. */
  readonly filters: ParsedBoard<number> | null;
  /** Stores the new state of a webhook (null: deleted) and moves its addresses. */
  apply(number: number, hook: Webhook | null, removed: readonly Uint8Array[], added: readonly Uint8Array[]): void;
  /** Number of webhooks. */
  size(): number;
}

const SEED_BYTES = 32;

export function createHookIndex(random: Random, parsed: ParsedTransactions | null = null): HookIndex {
  const hooks = new Map<number, Webhook>();
  const newIndex = () => {
    const bytes = Uint8Array.from(random.bytes(SEED_BYTES));
    return createAddressIndex({ seed: new Uint32Array(bytes.buffer) });
  };
  const indexes: Readonly<Record<ChainId, AddressIndex>> = { main: newIndex(), devnet: newIndex() };
  const filters = parsed?.openBoard<number>() ?? null;

  return {
    hook: (number) => hooks.get(number),
    addresses: (chain) => indexes[chain],
    filters,
    size: () => hooks.size,
    apply(number, hook, removed, added) {
      const before = hooks.get(number);
      if (before !== undefined) for (const key of removed) indexes[chainOf(before.type)].remove(key, number);
      const selection = hook !== null && takesEvents(hook) ? hook.parsed : null;
      if (selection === null) filters?.remove(number);
      else filters?.set(number, { filter: selection.filter, project: hook!.projectId });
      if (hook === null) {
        hooks.delete(number);
        return;
      }
      hooks.set(number, hook);
      for (const key of added) indexes[chainOf(hook.type)].add(key, number);
    },
  };
}
