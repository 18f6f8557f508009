/**
 * The filters of one subscription, matched block by block. Addresses are looked up once per distinct key of the block, not once per
 * transaction that has it.
 */

import { decode, decode32Into } from '../../src/lib/base58.ts';
import type { ChainBlock, NormalTransaction, TokenBalance } from '../../src/ports/block.ts';
import type { BankLevel } from '../../src/ports/chain.ts';
import { type AddressIndex, createAddressIndex } from '../../src/solana/address-set.ts';
import { type CuckooFilter, createCuckooFilter } from './cuckoo.ts';
import { GrpcError } from './grpc-server.ts';
import type { BlockFilter, CuckooTable, SlotFilter, SubscribeRequest, TransactionFilter } from './wire/request.ts';
import { type BlockContent, SLOT_STATUS } from './wire/updates.ts';

const LEVELS: readonly BankLevel[] = ['processed', 'confirmed', 'finalized'];

export interface FilterLimits {
  /** Filters of each kind. */
  readonly maxFilters: number;
  /** Addresses in each list of a filter. */
  readonly maxAddresses: number;
  /** Size of a cuckoo filter. */
  readonly maxCuckooBytes: number;
  /** Whether a filter of transactions may have no condition at all. */
  readonly allowFullStream: boolean;
}

export interface FilterOptions {
  readonly limits: FilterLimits;
  /** Four secret random words. */
  readonly seed: Uint32Array;
  /** Whether there is a Yellowstone server that answers what only such a one has. */
  readonly passesOn?: () => boolean;
}

/** An update that a block gives, with the labels of its filters. */
export type FilterMatch =
  | { readonly kind: 'transaction' | 'transactionStatus'; readonly index: number; readonly labels: FilterLabels }
  | { readonly kind: 'block'; readonly content: BlockContent; readonly labels: FilterLabels }
  | { readonly kind: 'blockMeta'; readonly labels: FilterLabels };

/** Interned: the same array for the same combination of labels, so that it can be the key of a map. */
export type FilterLabels = readonly string[];

export interface Filters {
  readonly level: BankLevel;
  /** In the order in which they are sent: transactions, blocks, metas. */
  match(block: ChainBlock): FilterMatch[];
  /** Labels of the slot filters that take this status; null: none. */
  matchSlot(status: number): FilterLabels | null;
  /** Bytes that the addresses take. */
  readonly bytes: number;
}

const CUCKOO_WEIGHT = 16;
/** Labels are sent with each update. */
const MAX_LABEL_BYTES = 128;
/** Combinations of matching filters that are remembered. */
const MAX_COMBINATIONS = 1_000;

/** Number of filters: what they cost to compile, and with each block. A cuckoo filter hashes every key of the block and counts for many. */
export function weightOf({
  accounts,
  entries,
  blockFooters,
  slots,
  transactions,
  transactionsStatus,
  blocks,
  blocksMeta,
}: SubscribeRequest): number {
  const withAddresses = [...transactions.values(), ...transactionsStatus.values(), ...blocks.values()];
  return withAddresses.reduce(
    (sum, { cuckoo }) => sum + (cuckoo === null ? 1 : CUCKOO_WEIGHT),
    accounts.size + entries.size + blockFooters.size + slots.size + blocksMeta.size,
  );
}

/** Throws GrpcError for filters that are not allowed. */
export function compileFilters(request: SubscribeRequest, { limits, seed, passesOn }: FilterOptions): Filters {
  if (passesOn?.() !== true) refuseUnavailable(request);
  const { accounts, entries, blockFooters, slots, blocksMeta } = request;
  for (const { size } of [
    accounts,
    entries,
    blockFooters,
    slots,
    request.transactions,
    request.transactionsStatus,
    request.blocks,
    blocksMeta,
  ])
    if (size > limits.maxFilters) throw tooMany(limits.maxFilters);
  for (const one of [
    accounts,
    entries,
    blockFooters,
    slots,
    request.transactions,
    request.transactionsStatus,
    request.blocks,
    blocksMeta,
  ])
    for (const label of one.keys()) demandShort(label);
  const level = levelOf(request.commitment);
  const compile = ([label, filter]: readonly [string, TransactionFilter]) =>
    compileTransactions(label, filter, limits, seed);
  const transactions = [...request.transactions].map(compile);
  const statuses = [...request.transactionsStatus].map(compile);
  const blocks = [...request.blocks].map(([label, filter]) => compileBlocks(label, filter, limits, seed));
  const metas: FilterLabels = [...blocksMeta];
  const slotLabels = new Map(
    [0, 1, 2, 3, 4, 5, 6].map((status) => [status, labelsOfSlot(slots, status, LEVELS.indexOf(level))]),
  );
  const combinations = new Map<string, FilterLabels>();
  const sets = [...transactions, ...statuses, ...blocks].flatMap((one) => [one.include, one.exclude, one.required]);

  /** One list for each combination of filters. */
  function combine(filters: readonly CompiledTransactions[], matching: readonly number[]): FilterLabels {
    const key = `${filters === transactions} ${matching.join()}`;
    let labels = combinations.get(key);
    if (labels === undefined) {
      if (combinations.size >= MAX_COMBINATIONS) combinations.clear();
      labels = matching.map((at) => filters[at]!.label);
      combinations.set(key, labels);
    }
    return labels;
  }

  function matchTransactions(
    kind: 'transaction' | 'transactionStatus',
    filters: readonly CompiledTransactions[],
    looks: readonly BlockMarks[],
    transaction: NormalTransaction,
    into: FilterMatch[],
  ): void {
    let matching: number[] | null = null;
    for (let at = 0; at < filters.length; at++)
      if (matches(filters[at]!, looks[at]!, transaction)) {
        matching ??= [];
        matching.push(at);
      }
    if (matching !== null) into.push({ kind, index: transaction.index, labels: combine(filters, matching) });
  }

  return {
    level,
    bytes: sets.reduce((sum, set) => sum + (set?.bytes ?? 0), 0),
    match(block) {
      const found: FilterMatch[] = [];
      if (transactions.length + statuses.length > 0) {
        const looks = transactions.map((filter) => lookInto(block, filter));
        const statusLooks = statuses.map((filter) => lookInto(block, filter));
        for (const transaction of block.transactions) {
          matchTransactions('transaction', transactions, looks, transaction, found);
          matchTransactions('transactionStatus', statuses, statusLooks, transaction, found);
        }
      }
      for (const filter of blocks)
        found.push({ kind: 'block', content: contentOf(block, filter), labels: filter.labels });
      if (metas.length > 0) found.push({ kind: 'blockMeta', labels: metas });
      return found;
    },
    matchSlot: (status) => slotLabels.get(status) ?? null,
  };
}

/** Whether the request asks for something that blocks of an RPC upstream do not have. */
export const needsYellowstone = ({ accounts, entries, blockFooters, blocks }: SubscribeRequest): boolean =>
  accounts.size + entries.size + blockFooters.size > 0 ||
  [...blocks.values()].some(({ includeAccounts, includeEntries }) => includeAccounts || includeEntries);

/** What cannot be given is refused by name, never silently left out. */
function refuseUnavailable({ accounts, entries, blockFooters, blocks }: SubscribeRequest): void {
  const refuse = (what: string): never => {
    throw new GrpcError('invalidArgument', `${what} are not available from this server`);
  };
  if (accounts.size > 0) refuse('updates of accounts (accounts)');
  if (entries.size > 0) refuse('updates of entries (entry)');
  if (blockFooters.size > 0) refuse('footers of blocks (block_footer)');
  for (const { includeAccounts, includeEntries } of blocks.values()) {
    if (includeAccounts) refuse('blocks with accounts (include_accounts)');
    if (includeEntries) refuse('blocks with entries (include_entries)');
  }
}

function levelOf(commitment: number | null): BankLevel {
  const level = LEVELS[commitment ?? 0];
  if (level === undefined)
    throw new GrpcError('invalidArgument', `failed to create CommitmentLevel from ${commitment}`);
  return level;
}

const tooMany = (max: number) =>
  new GrpcError('invalidArgument', `Max amount of filters/data_slices reached, only ${max} allowed`);

function demandShort(label: string): void {
  const size = Buffer.byteLength(label);
  if (size > MAX_LABEL_BYTES)
    throw new GrpcError(
      'invalidArgument',
      `oversized filter name (max allowed size ${MAX_LABEL_BYTES}), found ${size}`,
    );
}

/** `filter_by_commitment`: only the status of the subscription's own level. `interslot_updates`: also the others than the levels. */
function labelsOfSlot(slots: ReadonlyMap<string, SlotFilter>, status: number, level: number): FilterLabels | null {
  const labels = [...slots]
    .filter(
      ([, { filterByCommitment, interslotUpdates }]) =>
        (!filterByCommitment || status === level) && (interslotUpdates || status <= SLOT_STATUS.finalized),
    )
    .map(([label]) => label);
  return labels.length === 0 ? null : labels;
}

// -------------------------------------------------------------------------------------------------------- transactions

export interface TransactionMatcher {
  /** Bytes that its addresses take. */
  readonly bytes: number;
  matching(block: ChainBlock): readonly NormalTransaction[];
}

/** A single filter. Throws GrpcError when it is not allowed. */
export function compileTransactionFilter(
  filter: TransactionFilter,
  { limits, seed }: FilterOptions,
): TransactionMatcher {
  const compiled = compileTransactions('', filter, limits, seed);
  const { include, exclude, required } = compiled;
  return {
    bytes: [include, exclude, required].reduce((sum, set) => sum + (set?.bytes ?? 0), 0),
    matching(block) {
      const look = lookInto(block, compiled);
      return block.transactions.filter((transaction) => matches(compiled, look, transaction));
    },
  };
}

interface CompiledTransactions {
  readonly label: string;
  readonly vote: boolean | null;
  readonly failed: boolean | null;
  readonly signature: Uint8Array | null;
  readonly include: AddressSet | null;
  readonly exclude: AddressSet | null;
  readonly required: AddressSet | null;
  readonly owners: 'none' | 'all' | 'changed';
}

const TOKEN_ACCOUNTS = ['all', 'changed'] as const;

function compileTransactions(
  label: string,
  filter: TransactionFilter,
  limits: FilterLimits,
  seed: Uint32Array,
): CompiledTransactions {
  const { vote, failed, accountInclude, accountExclude, accountRequired, cuckoo, tokenAccounts } = filter;
  const lists = [accountInclude, accountExclude, accountRequired];
  const hasCondition =
    [vote, failed, cuckoo, tokenAccounts, filter.signature].some((one) => one !== null) ||
    lists.some(({ length }) => length > 0);
  if (!hasCondition && !limits.allowFullStream)
    throw new GrpcError(
      'invalidArgument',
      'Subscribe on full stream with `any` is not allowed, at least one filter required',
    );
  const owners = tokenAccounts === null ? 'none' : TOKEN_ACCOUNTS[tokenAccounts];
  if (owners === undefined)
    throw new GrpcError(
      'invalidArgument',
      `invalid token_accounts mode value ${tokenAccounts}; expected ALL (0) or BALANCE_CHANGED (1)`,
    );
  const signature = filter.signature === null ? null : signatureOf(filter.signature);
  const [include, exclude, required] = lists.map((list, at) =>
    compileSet(list, at === 0 ? cuckoo : null, limits, seed),
  );
  return { label, vote, failed, signature, include: include!, exclude: exclude!, required: required!, owners };
}

/** 64 bytes in base58 have at most this many characters; a much longer text would take long to decode. */
const MAX_SIGNATURE_CHARACTERS = 88;

function signatureOf(text: string): Uint8Array {
  const signature = text.length > MAX_SIGNATURE_CHARACTERS ? null : decode(text);
  if (signature?.length !== 64)
    throw new GrpcError('invalidArgument', 'a signature of the filters is not 64 bytes in base58');
  return signature;
}

function compileBlocks(label: string, filter: BlockFilter, limits: FilterLimits, seed: Uint32Array): CompiledBlocks {
  const include = compileSet(filter.accountInclude, filter.cuckoo, limits, seed);
  const none = { vote: null, failed: null, signature: null, exclude: null, required: null, owners: 'none' } as const;
  return { ...none, label, labels: [label], include, hasTransactions: filter.includeTransactions !== false };
}

interface CompiledBlocks extends CompiledTransactions {
  readonly labels: FilterLabels;
  readonly hasTransactions: boolean;
}

/** A block is sent in any case; `account_include` chooses its transactions. */
function contentOf(block: ChainBlock, filter: CompiledBlocks): BlockContent {
  if (!filter.hasTransactions) return 'none';
  if (filter.include === null) return null;
  const look = lookInto(block, filter);
  return block.transactions.filter((one) => matches(filter, look, one)).map(({ index }) => index);
}

/** Which keys of one block are in the sets of a filter. */
interface BlockMarks {
  /** By id of a key; null: no such condition. */
  readonly include: Uint8Array | null;
  readonly exclude: Uint8Array | null;
  /** Ids; null: one of the addresses is not in the block at all. */
  readonly required: readonly number[] | null;
}

function lookInto(block: ChainBlock, { include, exclude, required }: CompiledTransactions): BlockMarks {
  const ids = required?.idsIn(block) ?? [];
  return {
    include: include?.marksIn(block) ?? null,
    exclude: exclude?.marksIn(block) ?? null,
    required: ids.includes(-1) ? null : ids,
  };
}

function matches(filter: CompiledTransactions, look: BlockMarks, transaction: NormalTransaction): boolean {
  if (filter.vote !== null && filter.vote !== transaction.isVote) return false;
  if (look.required === null) return false;
  if (filter.failed !== null && filter.failed !== (transaction.error !== null)) return false;
  if (filter.signature !== null && Buffer.compare(filter.signature, transaction.signatures[0]!) !== 0) return false;
  const { include, exclude, required } = look;
  if (include === null && exclude === null && required.length === 0) return true;
  const { keys } = transaction;
  const owners =
    filter.owners === 'none'
      ? NO_OWNERS
      : filter.owners === 'all'
        ? transaction.tokenOwners
        : changedOwners(transaction);
  for (const id of required) if (!keys.includes(id) && !owners.includes(id)) return false;
  if (include !== null && !hasMark(keys, include) && !hasMark(owners, include)) return false;
  return exclude === null || !(hasMark(keys, exclude) || hasMark(owners, exclude));
}

const NO_OWNERS = new Uint32Array(0);

function hasMark(ids: Uint32Array | readonly number[], marks: Uint8Array): boolean {
  for (let at = 0; at < ids.length; at++) if (marks[ids[at]!] === 1) return true;
  return false;
}

const changedByTransaction = new WeakMap<NormalTransaction, readonly number[]>();

/** Owners of token accounts whose balance differs before and after, or that exist only at one of the two times. */
function changedOwners(transaction: NormalTransaction): readonly number[] {
  let changed = changedByTransaction.get(transaction);
  if (changed === undefined) {
    const before = new Map(transaction.preTokenBalances.map((balance) => [balance.accountIndex, balance]));
    const after = new Map(transaction.postTokenBalances.map((balance) => [balance.accountIndex, balance]));
    const differs = (one: TokenBalance, others: ReadonlyMap<number, TokenBalance>) =>
      one.ownerKey >= 0 && others.get(one.accountIndex)?.amount !== one.amount;
    changed = [
      ...[...after.values()].filter((one) => differs(one, before)),
      ...[...before.values()].filter((one) => one.ownerKey >= 0 && !after.has(one.accountIndex)),
    ].map(({ ownerKey }) => ownerKey);
    changedByTransaction.set(transaction, changed);
  }
  return changed;
}

// ----------------------------------------------------------------------------------------------------------- addresses

interface AddressSet {
  readonly bytes: number;
  /** 1 at the id of each key of the block that the set contains. */
  marksIn(block: ChainBlock): Uint8Array;
  /** The id of each address of the set, -1 for one that is not in the block. Not of cuckoo filters. */
  idsIn(block: ChainBlock): readonly number[];
}

const KEY_BYTES = 32;
const KEY_WORDS = 8;
/** Below this many keys of the block per address of the set, all keys are looked up instead. */
const KEYS_PER_LOOK_UP = 4;

/** Null: no condition. Throws GrpcError. */
function compileSet(
  texts: readonly string[],
  table: CuckooTable | null,
  { maxAddresses, maxCuckooBytes }: FilterLimits,
  seed: Uint32Array,
): AddressSet | null {
  if (texts.length === 0 && table === null) return null;
  if (texts.length > maxAddresses)
    throw new GrpcError('invalidArgument', `Max amount of Pubkeys reached, only ${maxAddresses} allowed`);
  if (table !== null && table.data.length > maxCuckooBytes) throw tooMany(maxCuckooBytes);
  const packed = new Uint8Array(texts.length * KEY_BYTES);
  const keyAt = (at: number) => packed.subarray(at * KEY_BYTES, (at + 1) * KEY_BYTES);
  const index = createAddressIndex({ seed });
  texts.forEach((text, at) => {
    if (!decode32Into(text, packed, at * KEY_BYTES))
      throw new GrpcError('invalidArgument', 'an address of the filters is not 32 bytes in base58');
    index.add(keyAt(at), 0);
  });
  const count = texts.length;
  const cuckoo = table === null ? null : cuckooOf(table);
  return {
    bytes: packed.length + index.bytesUsed() + (cuckoo?.bytes ?? 0),
    marksIn(block) {
      const { size, words } = block.keys;
      const marks = new Uint8Array(size);
      if (count * KEYS_PER_LOOK_UP < size) {
        for (let at = 0; at < count; at++) {
          const id = block.keys.find(keyAt(at));
          if (id >= 0) marks[id] = 1;
        }
      } else markAll(index, words, size, marks);
      if (cuckoo !== null)
        for (let id = 0; id < size; id++) if (marks[id] === 0 && cuckoo.has(words, id * KEY_WORDS)) marks[id] = 1;
      return marks;
    },
    idsIn: (block) => Array.from({ length: count }, (_, at) => block.keys.find(keyAt(at))),
  };
}

function markAll(index: AddressIndex, words: Uint32Array, size: number, marks: Uint8Array): void {
  const found = new Uint32Array(size);
  index.findAll(words, size, found);
  for (let id = 0; id < size; id++) if (found[id] !== 0) marks[id] = 1;
}

function cuckooOf(table: CuckooTable): CuckooFilter {
  const made = createCuckooFilter(table);
  if ('problem' in made)
    throw new GrpcError('invalidArgument', `failed to create filter: cuckoo filter: ${made.problem}`);
  return made;
}
