import { sql } from 'kysely';
import { encode32 } from '../../../src/lib/base58.ts';
import { byBytes, inBytes } from '../../../src/lib/in-list.ts';
import { CodedError, RpcError } from '../../../src/plugin/plugin.ts';
import type { Dialect } from '../../../src/ports/store.ts';
import type { RawAccount } from '../../../src/solana/accounts/decoded.ts';
import { decodeTokenAccount } from '../../../src/solana/accounts/token.ts';
import { metadataPlaces } from '../../../src/solana/addresses.ts';
import {
  type AccountFilter,
  type AccountSource,
  type AssetPlaces,
  type KeyedAccount,
  mostHeld,
  placesOf,
} from '../source.ts';
import type { ReadBook } from './read-book.ts';
import { accountOf, bytesOf, readIndexState } from './stored-rows.ts';
import { type AccountRow, type AssetDb, type AssetRow, type AssetTables, type FollowKind, listKey } from './tables.ts';

export interface StoredSource extends AccountSource {
  /** Accounts that are not known, and mints whose holder is not, where there is nobody to ask. */
  readonly lacking: ReadonlySet<string>;
}

interface StoredParts {
  readonly db: AssetDb;
  readonly dialect: Dialect;
  /** Source of accounts that are not stored; null: they are not asked for. */
  readonly others: AccountSource | null;
  /** What was read newer than it is stored; what `others` answers is added. */
  readonly book?: ReadBook;
  readonly isReady?: (kind: FollowKind, key: string) => Promise<boolean>;
  /** Where it is known that nothing was written since; otherwise it is read. */
  readonly state?: IndexState | null;
}

type IndexState = Pick<AssetTables['das_state'], 'slot' | 'current_from'>;

/** An account, and the members of its asset if it is the account of one. `place`: of its key in the question. */
interface StoredRow extends Pick<AccountRow, 'program' | 'data'>, Pick<AssetRow, 'bumps' | 'created_time'> {
  readonly place: number;
  readonly wants_holder: AssetRow['wants_holder'] | null;
}

/** The accounts of the index, as one of the chain answers them. */
export const createStoredSource = (parts: StoredParts): StoredSource => new StoredAccounts(parts);

class StoredAccounts implements StoredSource {
  readonly lacking = new Set<string>();
  private readonly parts: StoredParts;
  /** Accounts and mints of which something came from `others`. */
  private readonly foreign = new Set<string>();
  private readonly assets = new Map<string, Pick<AssetRow, 'bumps' | 'created_time' | 'wants_holder'>>();
  private readonly knownPlaces = new Map<string, AssetPlaces>();
  /** Amounts of the stored accounts of mints. */
  private readonly holders = new Map<string, Map<string, bigint>>();
  /** The accounts of `holders`: the one with the largest amount is read next. */
  private readonly holderAccounts = new Map<string, RawAccount | null>();
  /** Mints whose holders are read together, in the next turn of the promises. */
  private holding: { readonly mints: Set<string>; readonly read: Promise<void> } | null = null;
  private state: Promise<IndexState> | null;
  /** The oldest slot of what the index answered; 0: nothing yet. */
  private oldest = 0;
  private isAlone = true;

  constructor(parts: StoredParts) {
    this.parts = parts;
    this.state = parts.state == null ? null : Promise.resolve(parts.state);
  }

  get isOfIndex(): boolean {
    return this.isAlone;
  }

  get slot(): number {
    const other = this.parts.others?.slot ?? 0;
    return this.oldest === 0 || other === 0 ? Math.max(this.oldest, other) : Math.min(this.oldest, other);
  }

  slotOf(address: string): number {
    const { book, others } = this.parts;
    return book?.reads.get(address)?.slot ?? others?.slotOf(address) ?? 0;
  }

  isStored(address: string): boolean {
    return !this.foreign.has(address);
  }

  createdTime(id: string): number | null {
    return this.assets.get(id)?.created_time ?? null;
  }

  places(mint: string): AssetPlaces {
    let found = this.knownPlaces.get(mint);
    if (found !== undefined) return found;
    const bumps = this.assets.get(mint)?.bumps ?? null;
    found = bumps === null ? placesOf(mint) : metadataPlaces(mint, bumps);
    this.knownPlaces.set(mint, found);
    return found;
  }

  async accounts(keys: readonly string[]): Promise<Map<string, RawAccount | null>> {
    const { book, others } = this.parts;
    const found = new Map<string, RawAccount | null>();
    for (const key of keys) {
      const read = book?.reads.get(key);
      const account = read === undefined ? this.holderAccounts.get(key) : read.account;
      if (account !== undefined) found.set(key, account);
    }
    const absent = [...new Set(keys)].filter((key) => !found.has(key));
    if (absent.length === 0) return found;
    for (const [key, account] of await this.stored(absent)) found.set(key, account);
    const missing = absent.filter((key) => !found.has(key));
    if (missing.length === 0) return found;
    if (others === null) for (const key of missing) this.lacking.add(key);
    else
      for (const [key, account] of await this.ask().accounts(missing)) {
        found.set(key, account);
        this.foreign.add(key);
        book?.note(key, { account, slot: others.slotOf(key) });
      }
    return found;
  }

  /** Accounts of burnt assets as they were; those that the index still has as living may have gone in a block that it has not read. */
  async lastAccounts(ids: readonly string[]): Promise<Map<string, readonly KeyedAccount[]>> {
    const { db, dialect } = this.parts;
    const owners = new Map<string, string>();
    for (const id of ids) for (const address of [id, ...Object.values(this.places(id))]) owners.set(address, id);
    const assetIds = ids.map(bytesOf);
    const rows = await db
      .selectFrom('das_accounts')
      .select(['address', 'slot', 'asset', 'program', 'data', 'last_program', 'last_data'])
      .where(({ or, and, eb }) =>
        or([
          sql<boolean>`${inBytes(dialect, 'address', [...owners.keys()].map(bytesOf))}`,
          and([sql<boolean>`${inBytes(dialect, 'asset', assetIds)}`, eb('last_data', 'is not', null)]),
          and([sql<boolean>`${inBytes(dialect, 'asset', assetIds)}`, eb('token_owner', 'is not', null)]),
        ]),
      )
      .orderBy('slot')
      .execute();
    if (rows.length > 0) await this.used();
    const found = new Map<string, KeyedAccount[]>();
    for (const { address: bytes, asset, program, data, last_program, last_data } of rows) {
      const account = accountOf(
        last_data === null ? { program, data } : { program: last_program ?? 0, data: last_data },
      );
      const address = encode32(bytes);
      const id = owners.get(address) ?? (asset === null ? null : encode32(asset));
      if (account === null || id === null) continue;
      found.set(id, [...(found.get(id) ?? []), { address, account }]);
    }
    return found;
  }

  async largest(mint: string, supply: bigint): Promise<string | null> {
    const { book, others } = this.parts;
    if (!this.holders.has(mint)) await this.loadHolders(mint);
    const amounts = this.amountsOf(mint);
    // What a request is answered from is complete: blocks and fills asked where they had to.
    const isWhole = others !== null && book === undefined && this.assets.get(mint)?.wants_holder === 1;
    if (isSettled(amounts, supply) || (isWhole && amounts.size > 0)) return mostHeld(amounts);
    if (others === null) {
      this.lacking.add(mint);
      return mostHeld(amounts);
    }
    const address = await this.ask()
      .largest(mint, supply)
      .catch((error: unknown) => {
        // The block is older than the chain, on which the mint may be closed.
        if (book === undefined || !isNoMint(error)) throw error;
        return null;
      });
    this.foreign.add(mint);
    book?.asked.add(mint);
    // What is stored of it may be older than the answer.
    if (address !== null && book !== undefined)
      for (const [key, account] of await this.ask().accounts([address]))
        book.note(key, { account, slot: others.slotOf(key) });
    return address;
  }

  async ofOwner(owner: string): Promise<readonly KeyedAccount[]> {
    const { others, isReady } = this.parts;
    if (others === null || (await isReady?.('owner', owner)) === true) return await this.listed('token_owner', owner);
    const held = await this.ask().ofOwner(owner);
    for (const { address } of held) this.foreign.add(address);
    return held;
  }

  async ofMint(mint: string, program: string): Promise<readonly KeyedAccount[]> {
    const { others, isReady } = this.parts;
    if (others === null || (await isReady?.('mint', mint)) === true) return await this.listed('asset', mint);
    return await this.ask().ofMint(mint, program);
  }

  ofProgram(program: string, filters: readonly AccountFilter[]): Promise<readonly KeyedAccount[]> {
    return this.ask().ofProgram(program, filters);
  }

  lamports(owner: string): Promise<number> {
    return this.ask().lamports(owner);
  }

  firstTransaction(address: string): Promise<readonly string[]> {
    return this.ask().firstTransaction(address);
  }

  assetsElsewhere(ids: readonly string[], options: object): Promise<ReadonlyMap<string, unknown>> {
    return this.ask().assetsElsewhere(ids, options);
  }

  passOn(method: string, params: unknown): Promise<unknown> {
    return this.ask().passOn(method, params);
  }

  private ask(): AccountSource {
    const { others } = this.parts;
    if (others === null) throw new Error('the index has no such question');
    this.isAlone = false;
    return others;
  }

  /** The slot below which nothing stored is valid. */
  private async validFrom(): Promise<number> {
    this.state ??= readIndexState(this.parts.db);
    const { slot, current_from } = await this.state;
    return slot === null ? Number.MAX_SAFE_INTEGER : current_from;
  }

  /** An answer is as old as the index, whenever its accounts were read. */
  private async used(): Promise<void> {
    const slot = (await this.state)?.slot ?? 0;
    this.oldest = this.oldest === 0 ? slot : Math.min(this.oldest, slot);
  }

  private async stored(keys: readonly string[]): Promise<Map<string, RawAccount | null>> {
    const { db, dialect } = this.parts;
    const from = await this.validFrom();
    const table = byBytes(dialect, { table: 'das_accounts', column: 'address' }, keys.map(bytesOf));
    const { rows } = await sql<StoredRow>`
      select k.place, t.program, t.data, a.bumps, a.created_time, a.wants_holder from ${table}
      left join das_assets as a on a.id = case when t.asset = t.address then t.address end
      where t.slot >= ${from}`.execute(db);
    if (rows.length > 0) await this.used();
    const accounts = new Map<string, RawAccount | null>();
    for (const { place, program, data, bumps, created_time, wants_holder } of rows) {
      const key = keys[place] as string;
      accounts.set(key, accountOf({ program, data }));
      if (wants_holder !== null) this.assets.set(key, { bumps, created_time, wants_holder });
    }
    return accounts;
  }

  private async listed(column: 'token_owner' | 'asset', key: string): Promise<KeyedAccount[]> {
    const from = await this.validFrom();
    await this.used();
    const rows = await this.parts.db
      .selectFrom('das_accounts')
      .select(['address', 'program', 'data'])
      .where('token_owner', 'is not', null)
      .where(column, '=', column === 'asset' ? bytesOf(key) : listKey(bytesOf(key)))
      .where('slot', '>=', from)
      .execute();
    return rows.flatMap((row) => {
      const account = accountOf(row);
      return account === null ? [] : [{ address: encode32(row.address), account }];
    });
  }

  private loadHolders(mint: string): Promise<void> {
    if (this.holding === null) {
      const mints = new Set<string>();
      const read = Promise.resolve().then(() => {
        this.holding = null;
        return this.readHolders([...mints]);
      });
      this.holding = { mints, read };
    }
    this.holding.mints.add(mint);
    return this.holding.read;
  }

  private async readHolders(mints: readonly string[]): Promise<void> {
    const { db, dialect } = this.parts;
    const from = await this.validFrom();
    const table = byBytes(dialect, { table: 'das_accounts', column: 'asset' }, mints.map(bytesOf));
    const { rows } = await sql<Pick<AccountRow, 'address' | 'program' | 'data'> & { place: number }>`
      select k.place, t.address, t.program, t.data from ${table}
        where t.token_owner is not null and t.slot >= ${from}`.execute(db);
    const found = mints.map(() => new Map<string, bigint>());
    for (const row of rows) {
      const account = accountOf(row);
      const amount = account === null ? 0n : (decodeTokenAccount(account).value?.amount ?? 0n);
      const address = encode32(row.address);
      found[row.place]!.set(address, amount);
      this.holderAccounts.set(address, account);
    }
    for (const [at, mint] of mints.entries()) this.holders.set(mint, found[at]!);
  }

  /** Accounts of a mint that hold something, as far as they are known. */
  private amountsOf(mint: string): Map<string, bigint> {
    const { book } = this.parts;
    const amounts = new Map(this.holders.get(mint) ?? []);
    for (const address of [...amounts.keys(), ...(book?.ofMint(mint) ?? [])]) {
      const read = book?.reads.get(address);
      if (read === undefined) continue;
      const held = read.account === null ? null : decodeTokenAccount(read.account).value;
      // It may be closed, or an account of another mint by now.
      amounts.set(address, held?.mint === mint ? held.amount : 0n);
    }
    for (const [address, amount] of amounts) if (amount === 0n) amounts.delete(address);
    return amounts;
  }
}

const INVALID_PARAMS = -32_602;

const isNoMint = (error: unknown): boolean =>
  error instanceof RpcError && error.cause instanceof CodedError && error.cause.facts['rpcCode'] === INVALID_PARAMS;

/** Whether no other account can hold more than the largest of these. */
function isSettled(amounts: ReadonlyMap<string, bigint>, supply: bigint): boolean {
  let [sum, most] = [0n, 0n];
  for (const amount of amounts.values()) {
    sum += amount;
    if (amount > most) most = amount;
  }
  return most > 0n && most > supply - sum;
}
