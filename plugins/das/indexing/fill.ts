import { sql } from 'kysely';
import { encode32 } from '../../../src/lib/base58.ts';
import { inBytes } from '../../../src/lib/in-list.ts';
import { changeOf } from '../../../src/lib/transitions.ts';
import {
  type Clock,
  type JobKind,
  type Log,
  messageOf,
  type NewJob,
  type Store,
  type StoreTx,
} from '../../../src/plugin/plugin.ts';
import type { Outbox } from '../../../src/ports/outbox.ts';
import { backoffMs } from '../../../src/runtime/waiting.ts';
import { CORE_AUTHORITY, CORE_AUTHORITY_AT, CORE_KEY, CORE_OWNER_AT } from '../../../src/solana/accounts/core.ts';
import { METADATA_KEY } from '../../../src/solana/accounts/metaplex.ts';
import { decodeTokenAccount } from '../../../src/solana/accounts/token.ts';
import { metadataPlaces } from '../../../src/solana/addresses.ts';
import { CORE_PROGRAM, METADATA_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../../src/solana/programs.ts';
import { type AccountFilter, type AccountSource, placesOf } from '../source.ts';
import { closeOver, type FollowedSets, readFollowed } from './followed.ts';
import { createReadBook } from './read-book.ts';
import { createStoredSource } from './stored.ts';
import { accountRows, assetRows, bumpsOf, bytesOf, readIndexState } from './stored-rows.ts';
import {
  type AssetDb,
  type AssetRow,
  FILL,
  type FillState,
  FLAG,
  FOLLOW_KINDS,
  type FollowKind,
  hexOf,
  LIST,
  LISTS_OF,
  type ListedKind,
  listKey,
  listKeys,
  programName,
  readListed,
} from './tables.ts';
import { keepRechecks, noteChanges, ownerLists, removeAssets, writeReads } from './write.ts';

const JOB_KIND = 'das.fill';
const FILLED = changeOf(FILL.filled);
/** Assets that are read and written at once. */
const BATCH = 200;
const SWEPT_ACCOUNTS = 1_000;
/** Progress is stored: an attempt that takes longer goes on where it was. */
const TIMEOUT_MS = 3_600_000;
const LEASE_MS = 30_000;
/** Until the first block is indexed. */
const WAIT_MS = 500;
/** Longest wait for the block up to which accounts were read, and the poll interval. */
const REACH_MS = 5_000;
const REACH_EVERY_MS = 100;
const FIRST_PAUSE_MS = 1_000;
const MAX_PAUSE_MS = 300_000;

export interface FollowedKey {
  readonly kind: FollowKind;
  /** Base58. */
  readonly key: string;
}

/** Used in place of a key: removes assets that are no longer followed. */
const SWEEP = { kind: 'sweep', key: '' } as const;

export interface FillParts {
  readonly store: Pick<Store, 'read' | 'write' | 'dialect'>;
  readonly clock: Pick<Clock, 'now' | 'monotonic' | 'sleep'>;
  readonly log: Log;
  /** Reads accounts at or above a slot. */
  readonly source: (atLeast: number, signal: AbortSignal) => AccountSource;
  /** Followed blocks are never reverted. */
  readonly isFinal: boolean;
}

/**
 * Stores everything of one followed key: asks which assets there are, then reads them in batches. Each batch is first registered, so that blocks
 * that touch it from then on have it read again, then read at or above the registered slot, then written where nothing newer is stored.
 * What is stored already is not read again, so it can be stopped at any moment. `later`: no block was indexed yet.
 */
export async function fillFollowed(
  parts: FillParts,
  { kind, key }: FollowedKey,
  signal: AbortSignal,
): Promise<'done' | 'later'> {
  const { store } = parts;
  const db = store.read as AssetDb;
  const { slot, current_from } = await readIndexState(db);
  if (slot === null) return 'later';
  const row = await db
    .selectFrom('das_followed')
    .selectAll()
    .where('kind', '=', kind)
    .where('key', '=', bytesOf(key))
    .executeTakeFirst();
  if (row === undefined || !isUnfilled(row)) return 'done';
  const roots = await findRoots(parts, { kind, key }, row.parent !== null, slot, signal);
  const ids = [...new Set([...roots, ...(await listedIds(db, kind, key))])];
  if (kind === 'mint' || kind === 'owner') await fillBatch(parts, [], { kind, key }, current_from, signal);
  for (let at = 0; at < ids.length; at += BATCH) {
    signal.throwIfAborted();
    await fillBatch(parts, ids.slice(at, at + BATCH), null, current_from, signal);
  }
  await store.write(async (tx) => {
    const state = await lockState(tx);
    // Blocks were passed over meanwhile: what was read may be older than them.
    if (state.current_from !== current_from) return;
    await (tx.db as AssetDb)
      .updateTable('das_followed')
      .set({ state: FILLED.to })
      .where('kind', '=', kind)
      .where('key', '=', bytesOf(key))
      .where('state', 'in', FILLED.from)
      .execute();
  });
  const done = await db
    .selectFrom('das_followed')
    .select('state')
    .where('kind', '=', kind)
    .where('key', '=', bytesOf(key))
    .executeTakeFirst();
  return done !== undefined && isUnfilled(done) ? 'later' : 'done';
}

const isUnfilled = ({ state }: { readonly state: FillState }) => state in FILL.filled;

/** Locks the row, and lets the next block see that something was written besides blocks. */
async function lockState({ db }: StoreTx) {
  return await (db as AssetDb)
    .updateTable('das_state')
    .set((eb) => ({ version: eb('version', '+', 1) }))
    .where('id', '=', 1)
    .returningAll()
    .executeTakeFirstOrThrow();
}

/** What is listed by it may have left it in blocks that were passed over. */
async function listedIds(db: AssetDb, kind: FollowKind, key: string): Promise<string[]> {
  if (kind === 'mint' || kind === 'program') return [];
  const rows = await db
    .selectFrom('das_rows')
    .select('id')
    .where('kind', '=', LISTS_OF[kind])
    .where('key', '=', listKey(bytesOf(key)))
    .execute();
  return rows.map(({ id }) => encode32(id));
}

const MINT_OF_METADATA = { offset: 33, length: 32 } as const;
const MINT_BYTES = 82;
const ACCOUNT_TYPE_AT = 165;
const MINT_TYPE = 1;
const CREATORS_AT = 326;
const CREATOR_BYTES = 34;
const MAX_CREATORS = 5;
/** Offset of the byte after the creators, when the metadata has none. */
const NO_CREATORS_AT = 322;
/** Bytes between the creators and the key of the collection: with edition nonce and token standard, or without one or both. */
const TO_COLLECTION = [8, 7, 6] as const;

/** Ids of the assets, of the upstream. */
async function findRoots(
  { store, source: sourceAt }: FillParts,
  { kind, key }: FollowedKey,
  isCoreOnly: boolean,
  slot: number,
  signal: AbortSignal,
): Promise<string[]> {
  const source = sourceAt(slot, signal);
  const bytes = bytesOf(key);
  const metadata = async (filters: readonly AccountFilter[]): Promise<string[]> => {
    const isMetadata = { offset: 0, bytes: Uint8Array.of(METADATA_KEY) };
    const found = await source.ofProgram(METADATA_PROGRAM, [isMetadata, ...filters], MINT_OF_METADATA);
    return found.map(({ account }) => encode32(account.data));
  };
  const core = async (type: number, filters: readonly AccountFilter[]): Promise<string[]> => {
    const isOfType = { offset: 0, bytes: Uint8Array.of(type) };
    const found = await source.ofProgram(CORE_PROGRAM, [isOfType, ...filters], { offset: 0, length: 0 });
    return found.map(({ address }) => address);
  };
  const ofCollection = (collection: Uint8Array) => {
    const authority = Uint8Array.of(CORE_AUTHORITY.collection, ...collection);
    return core(CORE_KEY.asset, [{ offset: CORE_AUTHORITY_AT, bytes: authority }]);
  };
  const all = async (lists: readonly Promise<readonly string[]>[]) => (await Promise.all(lists)).flat();
  switch (kind) {
    case 'collection': {
      const places = Array.from({ length: MAX_CREATORS + 1 }, (_, count) => CREATORS_AT + count * CREATOR_BYTES);
      const offsets = [NO_CREATORS_AT, ...places].flatMap((at) => TO_COLLECTION.map((more) => at + more));
      return await all([
        Promise.resolve([key]),
        ofCollection(bytes),
        ...(isCoreOnly ? [] : offsets.map((offset) => metadata([{ offset, bytes }]))),
      ]);
    }
    case 'creator':
      return await all(
        Array.from({ length: MAX_CREATORS }, (_, at) =>
          metadata([{ offset: CREATORS_AT + at * CREATOR_BYTES, bytes }]),
        ),
      );
    case 'authority': {
      const own = Uint8Array.of(CORE_AUTHORITY.address, ...bytes);
      const collections = await core(CORE_KEY.collection, [{ offset: CORE_OWNER_AT, bytes }]);
      await followCollections(store, collections, bytes);
      return await all([
        Promise.resolve(collections),
        core(CORE_KEY.asset, [{ offset: CORE_AUTHORITY_AT, bytes: own }]),
        metadata([{ offset: 1, bytes }]),
        ...collections.map((collection) => ofCollection(bytesOf(collection))),
      ]);
    }
    case 'owner':
      return await all([
        core(CORE_KEY.asset, [{ offset: CORE_OWNER_AT, bytes }]),
        source.ofOwner(key).then((accounts) =>
          accounts.flatMap(({ account }) => {
            const held = decodeTokenAccount(account).value;
            return held === null || held.amount === 0n ? [] : [held.mint];
          }),
        ),
      ]);
    case 'mint':
      return [key];
    case 'program':
      if (key === METADATA_PROGRAM) return await metadata([]);
      if (key === CORE_PROGRAM) return await all([core(CORE_KEY.asset, []), core(CORE_KEY.collection, [])]);
      return (
        await Promise.all(
          [{ offset: ACCOUNT_TYPE_AT, bytes: Uint8Array.of(MINT_TYPE) }, { dataSize: MINT_BYTES }].map((filter) =>
            source.ofProgram(TOKEN_2022_PROGRAM, [filter], { offset: 0, length: 0 }),
          ),
        )
      )
        .flat()
        .map(({ address }) => address);
  }
}

/** From the next block on, new assets of these collections are found. Their assets are read here. */
async function followCollections(
  store: FillParts['store'],
  collections: readonly string[],
  parent: Uint8Array,
): Promise<void> {
  if (collections.length === 0) return;
  await store.write(async (tx) => {
    await lockState(tx);
    const rows = collections.map((key) => ['collection', bytesOf(key), FILL['follow with its authority'].none, parent]);
    await tx.insertMany('das_followed', ['kind', 'key', 'state', 'parent'], rows, 'ignore');
  });
}

async function fillBatch(
  parts: FillParts,
  given: readonly string[],
  holders: FollowedKey | null,
  from: number,
  signal: AbortSignal,
): Promise<void> {
  const { store, source: sourceAt, isFinal } = parts;
  const { dialect } = store;
  const db = store.read as AssetDb;
  const wanted = await unread(parts, given, from);
  if (wanted.length === 0 && holders === null) return;
  const slot = await register(parts, wanted);
  const source = sourceAt(slot, signal);
  const book = createReadBook();
  const kept = new Map<string, string | null>();
  if (holders !== null)
    for (const { address, account } of await holdersOf(source, holders)) {
      book.note(address, { account, slot: source.slotOf(address) });
      kept.set(address, decodeTokenAccount(account).value?.mint ?? null);
    }
  const ids = new Set(wanted);
  for (const [key, id] of await closeOver(ids, createStoredSource({ db, dialect, others: source, book })))
    kept.set(key, id);
  const newest = Math.max(slot, ...Array.from(book.reads.values(), (one) => one.slot));
  await reach(parts, newest, signal);
  await store.write(async (tx) => {
    const state = await lockState(tx);
    if (state.current_from !== from || state.slot === null) return;
    // Empty accounts stay until everything is filled: they show that an earlier read is outdated.
    await writeReads(tx, { slot: state.slot, book, kept, ids, isSpare: () => false });
    const stored = [...kept.keys()].filter((key) => book.reads.has(key));
    if (!isFinal) await keepRechecks(tx, { slot: newest, version: state.version }, stored);
  });
}

async function holdersOf(source: AccountSource, { kind, key }: FollowedKey) {
  if (kind === 'owner') return await source.ofOwner(key);
  const program = (await source.accounts([key])).get(key)?.owner;
  return program === TOKEN_PROGRAM || program === TOKEN_2022_PROGRAM ? await source.ofMint(key, program) : [];
}

/** The ids that are not stored, or were read before blocks were skipped. */
async function unread({ store }: FillParts, ids: readonly string[], from: number): Promise<readonly string[]> {
  const db = store.read as AssetDb;
  const assets = new Set(
    (await assetRows(db, store.dialect, ids)).flatMap((row) => (row.created > 0 ? encode32(row.id) : [])),
  );
  const rows = await accountRows(db, store.dialect, ids);
  const known = new Set(rows.flatMap((row) => (row.slot >= from ? encode32(row.address) : [])));
  return ids.filter((id) => !assets.has(id) || !known.has(id));
}

/** From the next block on, whatever touches these assets has them read again. Returns the newest indexed slot. */
async function register({ store }: FillParts, ids: readonly string[]): Promise<number> {
  const empty = new Uint8Array();
  return await store.write(async (tx) => {
    const { slot } = await lockState(tx);
    const places = ids.map((key) => {
      const found = placesOf(key);
      return { id: bytesOf(key), ...found, bumps: bumpsOf(key, found) };
    });
    const accounts = places.flatMap(({ id, metadata, edition }) =>
      [id, bytesOf(metadata), bytesOf(edition)].map((address) => [address, 0, id, 0, empty, null, null]),
    );
    await tx.insertMany(
      'das_accounts',
      ['address', 'slot', 'asset', 'program', 'data', 'token_owner', 'recheck'],
      accounts,
      'ignore',
    );
    await tx.insertMany(
      'das_assets',
      ['id', 'bumps', 'wants_holder', 'created', 'updated', 'listed'],
      places.map(({ id, bumps }) => [id, bumps, 1, 0, 0, empty]),
      'ignore',
    );
    return slot ?? 0;
  });
}

/** Waits for the block that accounts were read at, so that they need not be read again because of it. */
async function reach({ store, clock }: FillParts, slot: number, signal: AbortSignal): Promise<void> {
  const until = clock.monotonic() + REACH_MS;
  while (((await readIndexState(store.read as AssetDb)).slot ?? 0) < slot && clock.monotonic() < until)
    await clock.sleep(REACH_EVERY_MS, signal);
}

/**
 * Takes out the assets that nothing followed names any more, then the accounts of no asset, a batch in each transaction. A Core collection stays
 * while one of its assets does, so it may be removed only in the second pass. It can be stopped at any moment and starts again from the beginning.
 */
export async function sweep({ store }: Pick<FillParts, 'store'>, signal: AbortSignal): Promise<void> {
  for (const batch of [sweepAssets, sweepAssets, sweepAccounts]) {
    let above: Uint8Array | null = new Uint8Array();
    while (above !== null) {
      signal.throwIfAborted();
      const from: Uint8Array = above;
      above = await store.write((tx) => batch(tx, from));
    }
  }
}

/** Returns the last id that it looked at; null after all. */
async function sweepAssets(tx: StoreTx, above: Uint8Array): Promise<Uint8Array | null> {
  const db = tx.db as AssetDb;
  const { version } = await lockState(tx);
  const followed = await readFollowed(db, version);
  const rows = await db
    .selectFrom('das_assets')
    .selectAll()
    .where('id', '>', above)
    .orderBy('id')
    .limit(BATCH)
    .execute();
  const needed = await neededOf(tx, rows, followed);
  await removeAssets(
    tx,
    rows.filter(({ id }) => !needed.has(encode32(id))),
  );
  return rows.at(-1)?.id ?? null;
}

async function sweepAccounts(tx: StoreTx, above: Uint8Array): Promise<Uint8Array | null> {
  const db = tx.db as AssetDb;
  const { version } = await lockState(tx);
  const owners = listKeys((await readFollowed(db, version)).owner);
  const rows = await db
    .selectFrom('das_accounts')
    .select(['address', 'asset', 'token_owner'])
    .where('address', '>', above)
    .orderBy('address')
    .limit(SWEPT_ACCOUNTS)
    .execute();
  const ids = [...new Set(rows.flatMap(({ asset }) => (asset === null ? [] : encode32(asset))))];
  const known = new Set((await assetRows(db, tx.dialect, ids)).map(({ id }) => encode32(id)));
  // A Core group may have no account: it is known if a stored asset names it.
  for (const key of await coreGroupsOf(tx, ids.map(bytesOf))) known.add(encode32(key));
  // What is yet to be read has no asset either.
  const left = rows.filter(
    ({ asset, token_owner }) =>
      asset !== null && !known.has(encode32(asset)) && !(token_owner !== null && owners.has(hexOf(token_owner))),
  );
  await db
    .deleteFrom('das_accounts')
    .where(
      inBytes(
        tx.dialect,
        'address',
        left.map(({ address }) => address),
      ),
    )
    .execute();
  await noteChanges(
    tx,
    left.flatMap(({ asset }) => asset ?? []),
    ownerLists(...left),
  );
  return rows.at(-1)?.address ?? null;
}

async function neededOf(tx: StoreTx, rows: readonly AssetRow[], followed: FollowedSets): Promise<ReadonlySet<string>> {
  if (rows.length === 0) return new Set();
  const db = tx.db as AssetDb;
  const ids = rows.map(({ id }) => id);
  const lists = new Map<number, ReadonlyMap<string, string>>(
    Object.entries(LISTS_OF).map(([follow, kind]) => [kind, listKeys(followed[follow as ListedKind])]),
  );
  const isListed = (row: AssetRow) =>
    readListed(row.listed).some(({ kind, key }) => lists.get(kind)?.has(hexOf(key)) === true);
  const named = rows.filter((row) => {
    const id = encode32(row.id);
    return followed.mint.has(id) || followed.collection.has(id) || isListed(row);
  });
  const groups = await coreGroupsOf(tx, ids);
  const held =
    followed.owner.size === 0
      ? []
      : await db
          .selectFrom('das_accounts')
          .select(['asset', 'token_owner'])
          .where('token_owner', 'is not', null)
          .where(inBytes(tx.dialect, 'asset', ids))
          .execute();
  const places = rows.flatMap(({ id, bumps }) =>
    bumps === null ? [id] : [id, bytesOf(metadataPlaces(encode32(id), bumps).metadata)],
  );
  const accounts =
    followed.program.size === 0
      ? []
      : await db
          .selectFrom('das_accounts')
          .select(['asset', 'program'])
          .where(inBytes(tx.dialect, 'address', places))
          .execute();
  const needed = [
    ...named.map(({ id }) => id),
    ...groups,
    ...held.flatMap(({ asset, token_owner }) => (lists.get(LIST.owner)?.has(hexOf(token_owner!)) ? asset! : [])),
    ...accounts.flatMap(({ asset, program }) => (followed.program.has(programName(program) ?? '') ? asset! : [])),
  ];
  return new Set(needed.map((id) => encode32(id)));
}

/** The keys that are the group of a stored Core asset. */
async function coreGroupsOf(tx: StoreTx, keys: readonly Uint8Array[]): Promise<Uint8Array[]> {
  if (keys.length === 0) return [];
  const rows = await (tx.db as AssetDb)
    .selectFrom('das_rows')
    .select('key')
    .distinct()
    .where('kind', '=', LIST.group)
    .where(inBytes(tx.dialect, 'key', keys.map(listKey)))
    .where(sql<boolean>`flags & ${FLAG.core} <> 0`)
    .execute();
  const found = new Set(rows.map(({ key }) => hexOf(key)));
  return keys.filter((key) => found.has(hexOf(listKey(key))));
}

interface FillJobs {
  readonly kind: JobKind;
  /** Stores what the configuration names, and has it filled. */
  follow(named: Readonly<Partial<Record<FollowKind, readonly string[]>>>): Promise<void>;
  /** Has everything that is not stored yet filled after the transaction. */
  start(tx: StoreTx): Promise<void>;
}

export function createFillJobs(
  parts: FillParts,
  outbox: Pick<Outbox, 'requeue'>,
  enqueue: (tx: StoreTx, jobs: readonly NewJob[]) => Promise<number>,
): FillJobs {
  const { store, clock, log } = parts;

  async function start(tx: StoreTx): Promise<void> {
    const rows = await (tx.db as AssetDb)
      .selectFrom('das_followed')
      .selectAll()
      .where('state', 'in', FILLED.from)
      .execute();
    await startJobs(
      tx,
      rows.map(({ kind, key }) => ({ kind, key: encode32(key) })),
    );
  }

  async function startJobs(tx: StoreTx, payloads: readonly (FollowedKey | typeof SWEEP)[]): Promise<void> {
    const jobs = payloads.map((payload) => {
      return { kind: JOB_KIND, key: `${payload.kind} ${payload.key}`, group: 'das', payload };
    });
    await enqueue(tx, jobs);
    if (jobs.length > 0) await outbox.requeue(tx, { kind: JOB_KIND, keys: jobs.map(({ key }) => key) });
  }

  return {
    start,
    async follow(named) {
      const wanted = FOLLOW_KINDS.flatMap((kind) => (named[kind] ?? []).map((key) => ({ kind, key: bytesOf(key) })));
      await store.write(async (tx) => {
        const db = tx.db as AssetDb;
        await lockState(tx);
        const rows = await db.selectFrom('das_followed').selectAll().where('parent', 'is', null).execute();
        const isNamed = (one: { readonly kind: string; readonly key: Uint8Array }) =>
          wanted.some(({ kind, key }) => kind === one.kind && Buffer.compare(key, one.key) === 0);
        const left = rows.filter((one) => !isNamed(one));
        for (const row of left) {
          await db.deleteFrom('das_followed').where('kind', '=', row.kind).where('key', '=', row.key).execute();
          if (row.kind === 'authority') await db.deleteFrom('das_followed').where('parent', '=', row.key).execute();
        }
        // A collection may have been followed for the sake of its authority until now.
        const collections = wanted.filter(({ kind }) => kind === 'collection').map(({ key }) => key);
        await db
          .deleteFrom('das_followed')
          .where('parent', 'is not', null)
          .where(inBytes(tx.dialect, 'key', collections))
          .execute();
        // The index restarts with the first block of assets that are followed later.
        if (wanted.length === 0) {
          await db.updateTable('das_state').set({ slot: null }).where('id', '=', 1).execute();
          await db.deleteFrom('das_undo').execute();
        }
        const added = wanted.map(({ kind, key }) => [kind, key, FILL.follow.none, null]);
        await tx.insertMany('das_followed', ['kind', 'key', 'state', 'parent'], added, 'ignore');
        await start(tx);
        if (left.length > 0) await startJobs(tx, [SWEEP]);
      });
    },
    kind: {
      kind: JOB_KIND,
      summary:
        'reads the assets of what is followed from the upstream, and takes out those that are followed no longer',
      concurrency: 1,
      timeoutMs: TIMEOUT_MS,
      leaseMs: LEASE_MS,
      async run(job, _prepared, signal) {
        const followed = job.payload as FollowedKey | typeof SWEEP;
        try {
          if (followed.kind === 'sweep') {
            await sweep(parts, signal);
            return { kind: 'done' };
          }
          if ((await fillFollowed(parts, followed, signal)) === 'done') return { kind: 'done' };
          return { kind: 'retry', runAt: clock.now() + WAIT_MS, error: 'waits for a block', uncounted: true };
        } catch (error) {
          signal.throwIfAborted();
          const err = messageOf(error);
          log.warn({ ...followed, err }, 'the index of assets could not be filled');
          const pauseMs = backoffMs(job.attempts + 1, null, { firstMs: FIRST_PAUSE_MS, longestMs: MAX_PAUSE_MS });
          return { kind: 'retry', runAt: clock.now() + pauseMs, error: err };
        }
      },
    },
  };
}
