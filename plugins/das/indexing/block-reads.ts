import { encode32 } from '../../../src/lib/base58.ts';
import { inBytes } from '../../../src/lib/in-list.ts';
import type { ChainBlock, Store, StoreTx } from '../../../src/plugin/plugin.ts';
import { decodeTokenAccount } from '../../../src/solana/accounts/token.ts';
import type { AccountSource } from '../source.ts';
import { closeOver, type FollowedSets, followedAsset, readFollowed } from './followed.ts';
import { createReadBook, type ReadBook } from './read-book.ts';
import { createStoredSource } from './stored.ts';
import { accountRows, bytesOf, readIndexState } from './stored-rows.ts';
import type { AssetDb } from './tables.ts';
import { type Touched, touchedBy } from './touched.ts';
import { recheck } from './write.ts';

/** What was read for a block before its transaction. */
export interface BlockRead {
  readonly version: number;
  readonly followed: FollowedSets;
  readonly book: ReadBook;
  readonly kept: ReadonlyMap<string, string | null>;
  readonly ids: ReadonlySet<string>;
  readonly created: ReadonlySet<string>;
}

interface BlockReadsParts {
  readonly store: Pick<Store, 'read' | 'dialect'>;
  /** Reads accounts at or above a slot. */
  readonly source: (atLeast: number) => AccountSource;
}

/** Accounts that are read again with one block besides its own. */
const MAX_RECHECKS = 1_000;

/** Reads the accounts that blocks may have changed, of what is followed. */
export class BlockReads {
  private readonly parts: BlockReadsParts;
  private latest: FollowedSets | null = null;

  constructor(parts: BlockReadsParts) {
    this.parts = parts;
  }

  /** Whether nothing was followed when that was read last; true before. */
  get isEmpty(): boolean {
    return this.latest?.isEmpty !== false;
  }

  async followedAt(db: AssetDb, version: number): Promise<FollowedSets> {
    if (this.latest?.version !== version) this.latest = await readFollowed(db, version);
    return this.latest;
  }

  /** Reads what a block may have changed; null: nothing is followed. */
  async read(block: ChainBlock): Promise<BlockRead | null> {
    const { store } = this.parts;
    const { slot } = block;
    const { dialect } = store;
    const read = store.read as AssetDb;
    const { version } = await readIndexState(read);
    const followed = await this.followedAt(read, version);
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
    const mints = await this.heldMints(read, touched, followed);
    const keys = new Set([
      ...known.filter((row) => row.slot < slot).map(({ address }) => encode32(address)),
      ...again.map(({ address }) => encode32(address)),
      ...wanted(touched, followed, mints).filter((key) => !rows.has(key)),
    ]);
    const source = this.parts.source(slot);
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
  async noteLate(tx: StoreTx, block: ChainBlock, before: BlockRead | null, followed: FollowedSets): Promise<void> {
    const db = tx.db as AssetDb;
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
    const mints = await this.heldMints(db, touched, followed);
    const fresh = wanted(touched, followed, mints).filter((key) => !names.has(key) && !isRead(key));
    const empty = new Uint8Array();
    await tx.insertMany(
      'das_accounts',
      ['address', 'slot', 'asset', 'program', 'data', 'token_owner', 'recheck'],
      fresh.map((key) => [bytesOf(key), 0, null, 0, empty, null, block.slot]),
      'ignore',
    );
  }

  private async heldMints(db: AssetDb, { tokens }: Touched, { mint }: FollowedSets): Promise<Set<string>> {
    const mints = [...new Set([...tokens.values()].map((one) => one.mint))];
    if (mints.length === 0) return new Set();
    const rows = await db
      .selectFrom('das_assets')
      .select('id')
      .where('wants_holder', '=', 1)
      .where(inBytes(this.parts.store.dialect, 'id', mints.map(bytesOf)))
      .execute();
    return new Set([...rows.map(({ id }) => encode32(id)), ...mints.filter((one) => mint.has(one))]);
  }
}

/** Accounts of the block that are to be read, of those that are not known. */
function wanted(touched: Touched, { owner }: FollowedSets, mints: ReadonlySet<string>): string[] {
  const isOurs = ({ mint, owners }: { readonly mint: string; readonly owners: ReadonlySet<string> }) =>
    mints.has(mint) || (owner.size > 0 && [...owners].some((one) => one === '' || owner.has(one)));
  const tokens = [...touched.tokens].filter(([, one]) => isOurs(one));
  return [...touched.roots, ...tokens.map(([address]) => address)];
}
