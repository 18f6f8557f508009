import { encode32 } from '../../../src/lib/base58.ts';
import { inBytes } from '../../../src/lib/in-list.ts';
import { changeOf } from '../../../src/lib/transitions.ts';
import {
  type BlockProcessor,
  type ChainBlock,
  CodedError,
  messageOf,
  RpcError,
  type Store,
  type StoreTx,
} from '../../../src/plugin/plugin.ts';
import type { NormalTransaction } from '../../../src/ports/block.ts';
import { decodeCoreAsset, decodeCoreCollection } from '../../../src/solana/accounts/core.ts';
import type { RawAccount } from '../../../src/solana/accounts/decoded.ts';
import { decodeMetadata } from '../../../src/solana/accounts/metaplex.ts';
import { decodeMint, decodeTokenAccount } from '../../../src/solana/accounts/token.ts';
import { knownKey } from '../../../src/solana/addresses.ts';
import { isWritableAt } from '../../../src/solana/idl/parse-transaction.ts';
import {
  BUBBLEGUM_PROGRAM,
  CORE_PROGRAM,
  METADATA_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
} from '../../../src/solana/programs.ts';
import { findAccounts, groupOf } from '../read-assets.ts';
import type { AccountSource } from '../source.ts';
import { createReadBook, type ReadBook } from './read-book.ts';
import { createStoredSource } from './stored.ts';
import { accountRows, bytesOf, readIndexState } from './stored-rows.ts';
import { type AccountRow, type Db, FILL, FLAG, type FollowKind, hexOf, LIST, listKeys, readListed } from './tables.ts';
import { keepUndo, recheck, revertBlock, writeReads } from './write.ts';

const PASSED = changeOf(FILL['blocks passed over']);

/** What is followed, by kind, in base58. */
export type FollowedSets = Readonly<Record<FollowKind, ReadonlySet<string>>> & {
  readonly version: number;
  readonly isEmpty: boolean;
  /** Everything that is followed is stored. */
  readonly isFilled: boolean;
};

export async function readFollowed(db: Db, version: number): Promise<FollowedSets> {
  const rows = await db.selectFrom('das_followed').selectAll().execute();
  const of = (kind: FollowKind) => new Set(rows.filter((row) => row.kind === kind).map(({ key }) => encode32(key)));
  return {
    collection: of('collection'),
    creator: of('creator'),
    authority: of('authority'),
    owner: of('owner'),
    mint: of('mint'),
    program: of('program'),
    version,
    isEmpty: rows.length === 0,
    isFilled: rows.every(({ state }) => state === 'ready'),
  };
}

/** The asset that an account makes one of ours; null if it does not. */
function followedAsset(address: string, account: RawAccount, followed: FollowedSets): string | null {
  const { collection, creator, authority, owner, mint, program } = followed;
  const isAll = program.has(account.owner);
  switch (account.owner) {
    case METADATA_PROGRAM: {
      const metadata = decodeMetadata(account).value;
      if (metadata === null) return null;
      const isOurs =
        isAll ||
        authority.has(metadata.updateAuthority) ||
        (metadata.collection !== null && collection.has(metadata.collection.key)) ||
        (metadata.creators ?? []).some((one) => creator.has(one.address));
      return isOurs ? metadata.mint : null;
    }
    case CORE_PROGRAM: {
      const asset = decodeCoreAsset(account).value;
      const group = asset === null ? decodeCoreCollection(account).value : null;
      if (asset === null && group === null) return null;
      const by = asset?.updateAuthority;
      const isOurs =
        isAll ||
        (asset !== null && owner.has(asset.owner)) ||
        (by?.kind === 'address' && authority.has(by.address)) ||
        (by?.kind === 'collection' && collection.has(by.address)) ||
        (group !== null && (collection.has(address) || authority.has(group.updateAuthority)));
      return isOurs ? address : null;
    }
    case TOKEN_PROGRAM:
    case TOKEN_2022_PROGRAM:
      return (isAll || mint.has(address)) && decodeMint(account).value !== null ? address : null;
    default:
      return null;
  }
}

interface Touched {
  /** Accounts that the block may have changed. */
  readonly writable: ReadonlySet<string>;
  /** Accounts that the block created. */
  readonly created: ReadonlySet<string>;
  /** Accounts that may belong to assets which are not indexed yet. */
  readonly roots: ReadonlySet<string>;
  /** Token accounts among them: their mints and owners, before and after; empty where the node does not say. */
  readonly tokens: ReadonlyMap<string, { readonly mint: string; readonly owners: ReadonlySet<string> }>;
}

/** Programs of which new accounts are looked at for what is followed. */
function rootPrograms({ collection, creator, authority, owner, program }: FollowedSets): readonly string[] {
  const named = collection.size + authority.size > 0;
  return [
    ...(named || creator.size > 0 || program.has(METADATA_PROGRAM) ? [METADATA_PROGRAM] : []),
    ...(named || owner.size > 0 || program.has(CORE_PROGRAM) ? [CORE_PROGRAM] : []),
    ...(program.has(TOKEN_2022_PROGRAM) ? [TOKEN_2022_PROGRAM] : []),
  ];
}

const PROGRAMS = [TOKEN_PROGRAM, TOKEN_2022_PROGRAM, METADATA_PROGRAM, CORE_PROGRAM].map(knownKey);

/** An account changes only where its program is called, so other transactions are not looked at. */
function touchedBy(block: ChainBlock, followed: FollowedSets): Touched {
  const { keys } = block;
  const programs = new Set(PROGRAMS.map((program) => keys.find(program)));
  const rootIds = new Set(rootPrograms(followed).map((program) => keys.find(knownKey(program))));
  programs.delete(-1);
  rootIds.delete(-1);
  const [writable, created] = [new Set<string>(), new Set<string>()];
  const bubblegum = keys.find(knownKey(BUBBLEGUM_PROGRAM));
  const roots = new Set<string>();
  const tokens = new Map<string, { mint: string; owners: Set<string> }>();
  for (const tx of block.transactions) {
    if (tx.isVote || tx.error !== null || !tx.keys.some((key) => programs.has(key))) continue;
    // An asset that leaves its tree is older than its account.
    const isNew = !tx.keys.includes(bubblegum);
    for (const [at, key] of tx.keys.entries()) {
      if (!isWritableAt(tx, at)) continue;
      writable.add(keys.base58(key));
      if (isNew && tx.preBalances[at] === 0 && tx.postBalances[at] !== 0) created.add(keys.base58(key));
    }
    for (const { accountIndex, mintKey, ownerKey } of [...tx.preTokenBalances, ...tx.postTokenBalances]) {
      if (!isWritableAt(tx, accountIndex)) continue;
      const address = keys.base58(tx.keys[accountIndex] as number);
      const known = tokens.get(address) ?? { mint: keys.base58(mintKey), owners: new Set<string>() };
      known.owners.add(ownerKey < 0 ? '' : keys.base58(ownerKey));
      tokens.set(address, known);
    }
    if (tx.keys.some((key) => rootIds.has(key)))
      for (const at of calledWith(tx, rootIds)) if (isWritableAt(tx, at)) roots.add(keys.base58(tx.keys[at] as number));
  }
  for (const address of tokens.keys()) roots.delete(address);
  return { writable, created, roots, tokens };
}

/** Places of the accounts that calls of these programs name; all, where the calls are not known. */
function calledWith(tx: NormalTransaction, programs: ReadonlySet<number>): Iterable<number> {
  const calls = [...tx.instructions, ...tx.innerInstructions.flatMap(({ instructions }) => instructions)].filter(
    ({ programIndex }) => programs.has(tx.keys[programIndex] as number),
  );
  return calls.length === 0 ? tx.keys.keys() : new Set(calls.flatMap(({ accounts }) => [...accounts]));
}

interface Prepared {
  readonly version: number;
  readonly followed: FollowedSets;
  readonly book: ReadBook;
  readonly kept: ReadonlyMap<string, string | null>;
  readonly ids: ReadonlySet<string>;
  readonly created: ReadonlySet<string>;
}

/** Accounts that are read again with one block besides its own. */
const MAX_RECHECKS = 1_000;

interface ProcessorParts {
  readonly store: Pick<Store, 'read' | 'dialect'>;
  /** Reads accounts at or above a slot. */
  readonly source: (atLeast: number) => AccountSource;
  /** Starts the fill jobs of newly followed keys once the transaction has committed. */
  readonly fill: (tx: StoreTx) => Promise<void>;
}

/**
 * Keeps the assets of what is followed current: the accounts of a block that are ours are read again before its transaction, and written in it.
 * An answer may be of a later slot than the block; the blocks up to there change nothing then.
 */
export function createDasProcessor({ store, source: sourceAt, fill }: ProcessorParts): BlockProcessor {
  /** Null: nothing was followed. */
  const prepared = new WeakMap<ChainBlock, Prepared | null>();
  let latest: FollowedSets | null = null;

  async function followedAt(db: Db, version: number): Promise<FollowedSets> {
    if (latest?.version !== version) latest = await readFollowed(db, version);
    return latest;
  }

  async function heldMints(db: Db, { tokens }: Touched, { mint }: FollowedSets): Promise<Set<string>> {
    const mints = [...new Set([...tokens.values()].map((one) => one.mint))];
    if (mints.length === 0) return new Set();
    const rows = await db
      .selectFrom('das_assets')
      .select('id')
      .where('wants_holder', '=', 1)
      .where(inBytes(store.dialect, 'id', mints.map(bytesOf)))
      .execute();
    return new Set([...rows.map(({ id }) => encode32(id)), ...mints.filter((one) => mint.has(one))]);
  }

  /** Accounts of the block that are to be read, of those that are not known. */
  function wanted(touched: Touched, { owner }: FollowedSets, mints: ReadonlySet<string>): string[] {
    const isOurs = ({ mint, owners }: { readonly mint: string; readonly owners: ReadonlySet<string> }) =>
      mints.has(mint) || (owner.size > 0 && [...owners].some((one) => one === '' || owner.has(one)));
    return [...touched.roots, ...[...touched.tokens].filter(([, one]) => isOurs(one)).map(([address]) => address)];
  }

  async function prepareBlock(block: ChainBlock): Promise<Prepared | null> {
    const { slot } = block;
    const { dialect } = store;
    const read = store.read as Db;
    const { version } = await readIndexState(read);
    const followed = await followedAt(read, version);
    if (followed.isEmpty) return null;
    const touched = touchedBy(block, followed);
    const known = await accountRows(read, dialect, [...touched.writable]);
    const again = await read
      .selectFrom('das_accounts')
      .selectAll()
      .where('recheck', '<=', slot)
      .orderBy('recheck')
      .limit(MAX_RECHECKS)
      .execute();
    const rows = new Map([...known, ...again].map((row) => [encode32(row.address), row]));
    const mints = await heldMints(read, touched, followed);
    const keys = new Set([
      ...known.filter((row) => row.slot < slot).map(({ address }) => encode32(address)),
      ...again.map(({ address }) => encode32(address)),
      ...wanted(touched, followed, mints).filter((key) => !rows.has(key)),
    ]);
    const source = sourceAt(slot);
    const book = createReadBook();
    for (const [key, account] of await source.accounts([...keys]))
      book.note(key, { account, slot: source.slotOf(key) });

    const ids = new Set<string>();
    const kept = new Map<string, string | null>();
    for (const key of keys) {
      const asset = rows.get(key)?.asset ?? null;
      if (rows.has(key)) kept.set(key, asset === null ? null : encode32(asset));
      if (asset !== null) ids.add(encode32(asset));
      const account = book.reads.get(key)?.account ?? null;
      const token = touched.tokens.get(key);
      // While something is being filled, a closed account says that what was read earlier is old.
      if (account === null && token !== undefined && !followed.isFilled) kept.set(key, token.mint);
      if (account === null) continue;
      const held = decodeTokenAccount(account).value;
      const id =
        held === null
          ? followedAsset(key, account, followed)
          : mints.has(held.mint) || followed.mint.has(held.mint) || followed.owner.has(held.owner)
            ? held.mint
            : null;
      if (id === null) continue;
      kept.set(key, id);
      // An owner's empty account makes no asset.
      if (held === null || held.amount > 0n) ids.add(id);
    }
    const stored = createStoredSource({ db: read, dialect, others: source, book });
    for (const [key, id] of await closeOver(ids, stored)) kept.set(key, id);
    return { version, followed, book, kept, ids, created: touched.created };
  }

  /** What was stored or followed since the block was looked at may have changed in it: that is read with the next one. */
  async function noteLate(tx: StoreTx, block: ChainBlock, before: Prepared | null, followed: FollowedSets) {
    const db = tx.db as Db;
    const touched = touchedBy(block, followed);
    const isRead = (key: string) => before?.book.reads.has(key) === true;
    const known = await accountRows(db, tx.dialect, [...touched.writable]);
    const names = new Set(known.map(({ address }) => encode32(address)));
    const old = known.filter(({ slot, address }) => slot < block.slot && !isRead(encode32(address)));
    await recheck(
      tx,
      old.map(({ address }) => encode32(address)),
      block.slot,
    );
    const mints = await heldMints(db, touched, followed);
    const fresh = wanted(touched, followed, mints).filter((key) => !names.has(key) && !isRead(key));
    const empty = new Uint8Array();
    await tx.insertMany(
      'das_accounts',
      ['address', 'slot', 'asset', 'program', 'data', 'token_owner', 'recheck'],
      fresh.map((key) => [bytesOf(key), 0, null, 0, empty, null, block.slot]),
      'ignore',
    );
  }

  /** Core collections of followed authorities: their assets have these authorities too. */
  async function followCollections(tx: StoreTx, ids: readonly Uint8Array[], { authority }: FollowedSets) {
    if (authority.size === 0 || ids.length === 0) return false;
    const db = tx.db as Db;
    const rows = await db
      .selectFrom('das_assets')
      .select(['id', 'listed'])
      .where(inBytes(tx.dialect, 'id', ids))
      .execute();
    const authorities = listKeys(authority);
    const added: [string, Uint8Array, string, Uint8Array][] = [];
    for (const { id, listed } of rows)
      for (const { kind, key, flags } of readListed(listed)) {
        const parent = authorities.get(hexOf(key));
        if (kind === LIST.authority && (flags & FLAG.coreCollection) !== 0 && parent !== undefined)
          added.push(['collection', id, FILL['follow for its authority'].none, bytesOf(parent)]);
      }
    return (await tx.insertMany('das_followed', ['kind', 'key', 'state', 'parent'], added, 'ignore')) > 0;
  }

  return {
    name: 'das',
    version: 1,
    chains: ['main'],
    // What was passed over is read from the upstream like everything before the first block.
    wantsGaps: false,
    async prepare(block) {
      prepared.set(block, await unwrapped(() => prepareBlock(block)));
    },
    async apply(tx, block, _chain, how) {
      // What is followed from now on starts with the next block.
      if (prepared.get(block) === null) return;
      const db = tx.db as Db;
      // Locks the row, as those do who write between blocks.
      const state = await db
        .updateTable('das_state')
        .set(({ ref }) => ({ version: ref('version') }))
        .where('id', '=', 1)
        .returningAll()
        .executeTakeFirstOrThrow();
      const before = prepared.get(block) ?? null;
      const followed = await followedAt(db, state.version);
      if (followed.isEmpty) return;
      if (before?.version !== state.version) await noteLate(tx, block, before, followed);
      let version = state.version;
      const isCut = state.slot === null || block.parentSlot > state.slot;
      const written =
        before === null
          ? { accounts: [], assets: [] }
          : await writeReads(tx, {
              slot: block.slot,
              book: before.book,
              kept: before.kept,
              ids: before.ids,
              isSpare: (address, old) => followed.isFilled && isSpare(before, address, old),
              created: { keys: before.created, time: block.blockTime },
            });
      const hasMore = await followCollections(
        tx,
        written.assets.map(([id]) => id),
        followed,
      );
      if (isCut)
        await db.updateTable('das_followed').set({ state: PASSED.to }).where('state', 'in', PASSED.from).execute();
      if (isCut || hasMore) {
        version += 1;
        await fill(tx);
      }
      await db
        .updateTable('das_state')
        .set(({ eb }) => ({
          slot: block.slot,
          version,
          // A revision of its own: nothing of those before is valid, though nothing may have changed since the last.
          ...(isCut ? { current_from: block.slot, revision: eb('revision', '+', 1) } : {}),
        }))
        .where('id', '=', 1)
        .execute();
      if (how?.isFinal !== true) await keepUndo(tx, { slot: block.slot, version }, written);
    },
    async revert(tx, { slot, parentSlot }) {
      const { slot: newest, version } = await readIndexState(tx.db as Db);
      if (newest === null) return;
      await revertBlock(tx, slot, parentSlot, version);
      await (tx.db as Db).updateTable('das_state').set({ slot: parentSlot }).where('id', '=', 1).execute();
    },
    async finalized(tx, slot) {
      if (latest?.isEmpty !== false) return;
      await (tx.db as Db).deleteFrom('das_undo').where('slot', '<=', slot).execute();
    },
  };
}

/** Token accounts are stored for who holds an NFT, unless their owner or mint is followed. */
function isSpare({ followed, book }: Prepared, address: string, old: AccountRow | null): boolean {
  const account = book.reads.get(address)?.account ?? null;
  const held = account === null ? null : decodeTokenAccount(account).value;
  if (held === null) return old?.token_owner != null;
  return !followed.owner.has(held.owner) && !followed.mint.has(held.mint);
}

/** Reads all accounts of assets; `ids` grows by the collections of Core assets. Returns which account is of which asset. */
export async function closeOver(ids: Set<string>, source: AccountSource): Promise<ReadonlyMap<string, string>> {
  const kept = new Map<string, string>();
  const found = [...(await findAccounts([...ids], source))];
  const groups = new Set(found.flatMap((one) => groupOf(one) ?? []).filter((key) => !ids.has(key)));
  for (const key of groups) ids.add(key);
  if (groups.size > 0) found.push(...(await findAccounts([...groups], source)));
  for (const id of ids) kept.set(id, id);
  for (const one of found) {
    if (one.kind !== 'mint') continue;
    const { id, holder } = one.accounts;
    const { metadata, edition } = source.places(id);
    kept.set(metadata, id).set(edition, id);
    if (holder !== null) kept.set(holder.address, id);
  }
  return kept;
}

/** Errors of the upstream as they are: the follower knows them. What cannot be read now is read again later. */
async function unwrapped<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof RpcError)) throw error;
    if (error.cause instanceof CodedError) throw error.cause;
    throw new CodedError('CHAIN_RPC_ERROR', messageOf(error), { cause: error, retryable: true });
  }
}
