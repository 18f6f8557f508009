import { type ProtobufReader, ProtobufReader as Reader } from '../../../src/lib/protobuf.ts';

/** Requests of `geyser.Geyser`, as far as this server uses them. Throws ProtobufError for bytes that are no such message. */

export interface CuckooTable {
  readonly data: Buffer;
  readonly bucketCount: number;
  readonly entriesPerBucket: number;
  readonly fingerprintBits: number;
  readonly hashSeed: bigint;
  readonly hashAlgorithm: number;
}

export interface TransactionFilter {
  readonly vote: boolean | null;
  readonly failed: boolean | null;
  readonly signature: string | null;
  readonly accountInclude: readonly string[];
  readonly accountExclude: readonly string[];
  readonly accountRequired: readonly string[];
  readonly cuckoo: CuckooTable | null;
  /** The number as sent; it is checked with the filter. */
  readonly tokenAccounts: number | null;
}

export interface BlockFilter {
  readonly accountInclude: readonly string[];
  readonly includeTransactions: boolean | null;
  readonly includeAccounts: boolean;
  readonly includeEntries: boolean;
  readonly cuckoo: CuckooTable | null;
}

export interface SlotFilter {
  readonly filterByCommitment: boolean;
  readonly interslotUpdates: boolean;
}

/** Filters by label. */
export interface SubscribeRequest {
  readonly accounts: ReadonlySet<string>;
  readonly slots: ReadonlyMap<string, SlotFilter>;
  readonly transactions: ReadonlyMap<string, TransactionFilter>;
  readonly transactionsStatus: ReadonlyMap<string, TransactionFilter>;
  readonly blocks: ReadonlyMap<string, BlockFilter>;
  readonly blocksMeta: ReadonlySet<string>;
  readonly entries: ReadonlySet<string>;
  readonly blockFooters: ReadonlySet<string>;
  /** The number as sent; null: the default. */
  readonly commitment: number | null;
  readonly ping: number | null;
  readonly fromSlot: bigint | null;
}

/** What is kept of a request: one more than is allowed, for the refusal; the rest is skipped. */
export interface GrpcRequestLimits {
  /** Filters of each kind. */
  readonly maxFilters: number;
  /** Addresses in each list of a filter. */
  readonly maxAddresses: number;
}

export function readSubscribeRequest(bytes: Buffer, { maxFilters, maxAddresses }: GrpcRequestLimits): SubscribeRequest {
  const slots = new Map<string, SlotFilter>();
  const transactions = new Map<string, TransactionFilter>();
  const transactionsStatus = new Map<string, TransactionFilter>();
  const blocks = new Map<string, BlockFilter>();
  const [accounts, blocksMeta, entries] = [new Set<string>(), new Set<string>(), new Set<string>()];
  const blockFooters = new Set<string>();
  let commitment: number | null = null;
  let ping: number | null = null;
  let fromSlot: bigint | null = null;
  const reader = new Reader(bytes);
  const readTransactions = (of: ProtobufReader) => readTransactionFilter(of, maxAddresses);
  const readBlocks = (of: ProtobufReader) => readBlockFilter(of, maxAddresses);
  function addTo<T>(filters: Map<string, T>, read: (of: ProtobufReader) => T): void {
    if (filters.size > maxFilters) {
      reader.skip();
      return;
    }
    const { label, value } = readEntry(reader, read);
    filters.set(label, value);
  }
  function addLabel(labels: Set<string>): void {
    if (labels.size > maxFilters) reader.skip();
    else labels.add(readEntry(reader, skipAll).label);
  }
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) addLabel(accounts);
    else if (field === 2) addTo(slots, readSlotFilter);
    else if (field === 3) addTo(transactions, readTransactions);
    else if (field === 4) addTo(blocks, readBlocks);
    else if (field === 5) addLabel(blocksMeta);
    else if (field === 6) commitment = reader.int32();
    else if (field === 8) addLabel(entries);
    else if (field === 9) ping = readId(reader.message());
    else if (field === 10) addTo(transactionsStatus, readTransactions);
    else if (field === 11) fromSlot = reader.uint64();
    else if (field === 12) addLabel(blockFooters);
    else reader.skip();
  }
  const sets = { accounts, blocksMeta, entries, blockFooters };
  return { ...sets, slots, transactions, transactionsStatus, blocks, commitment, ping, fromSlot };
}

interface LabelEntry<T> {
  readonly label: string;
  readonly value: T;
}

/** An entry of a map from labels to filters. */
function readEntry<T>(outer: ProtobufReader, read: (reader: ProtobufReader) => T): LabelEntry<T> {
  const reader = outer.message();
  let label = '';
  let value: T | null = null;
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) label = reader.text();
    else if (field === 2) value = read(reader.message());
    else reader.skip();
  }
  return { label, value: value ?? read(new Reader(Buffer.alloc(0))) };
}

function skipAll(reader: ProtobufReader): null {
  while (reader.next() !== 0) reader.skip();
  return null;
}

function readSlotFilter(reader: ProtobufReader): SlotFilter {
  let filterByCommitment = false;
  let interslotUpdates = false;
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) filterByCommitment = reader.bool();
    else if (field === 2) interslotUpdates = reader.bool();
    else reader.skip();
  }
  return { filterByCommitment, interslotUpdates };
}

/** Some copies of the definition give the cuckoo filter of transactions this number instead of 7. */
const OTHER_CUCKOO_FIELD = 31;

function readTransactionFilter(reader: ProtobufReader, maxAddresses: number): TransactionFilter {
  let vote: boolean | null = null;
  let failed: boolean | null = null;
  let signature: string | null = null;
  const accountInclude: string[] = [];
  const accountExclude: string[] = [];
  const accountRequired: string[] = [];
  let cuckoo: CuckooTable | null = null;
  let tokenAccounts: number | null = null;
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) vote = reader.bool();
    else if (field === 2) failed = reader.bool();
    else if (field === 3) addAddress(accountInclude, reader, maxAddresses);
    else if (field === 4) addAddress(accountExclude, reader, maxAddresses);
    else if (field === 5) signature = reader.text();
    else if (field === 6) addAddress(accountRequired, reader, maxAddresses);
    else if (field === 7 || field === OTHER_CUCKOO_FIELD) cuckoo = readCuckoo(reader.message());
    else if (field === 30) tokenAccounts = reader.int32();
    else reader.skip();
  }
  return { vote, failed, signature, accountInclude, accountExclude, accountRequired, cuckoo, tokenAccounts };
}

function readBlockFilter(reader: ProtobufReader, maxAddresses: number): BlockFilter {
  const accountInclude: string[] = [];
  let includeTransactions: boolean | null = null;
  let includeAccounts = false;
  let includeEntries = false;
  let cuckoo: CuckooTable | null = null;
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) addAddress(accountInclude, reader, maxAddresses);
    else if (field === 2) includeTransactions = reader.bool();
    else if (field === 3) includeAccounts = reader.bool();
    else if (field === 4) includeEntries = reader.bool();
    else if (field === 5) cuckoo = readCuckoo(reader.message());
    else reader.skip();
  }
  return { accountInclude, includeTransactions, includeAccounts, includeEntries, cuckoo };
}

function addAddress(to: string[], reader: ProtobufReader, maxAddresses: number): void {
  if (to.length > maxAddresses) reader.skip();
  else to.push(reader.text());
}

function readCuckoo(reader: ProtobufReader): CuckooTable {
  let data: Buffer = Buffer.alloc(0);
  let bucketCount = 0;
  let entriesPerBucket = 0;
  let fingerprintBits = 0;
  let hashSeed = 0n;
  let hashAlgorithm = 0;
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) data = reader.view();
    else if (field === 2) bucketCount = reader.int32();
    else if (field === 3) entriesPerBucket = reader.int32();
    else if (field === 4) fingerprintBits = reader.int32();
    else if (field === 5) hashSeed = reader.uint64();
    else if (field === 6) hashAlgorithm = reader.int32();
    else reader.skip();
  }
  return { data, bucketCount, entriesPerBucket, fingerprintBits, hashSeed, hashAlgorithm };
}

/** A message whose member 1 is a number: a ping. */
function readId(reader: ProtobufReader): number {
  let id = 0;
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) id = reader.int32();
    else reader.skip();
  }
  return id;
}

export function readPing(bytes: Buffer): number {
  return readId(new Reader(bytes));
}

/** The requests of GetSlot, GetBlockHeight and GetLatestBlockhash: only a commitment. */
export function readCommitmentField(bytes: Buffer): number | null {
  const reader = new Reader(bytes);
  let commitment: number | null = null;
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) commitment = reader.int32();
    else reader.skip();
  }
  return commitment;
}

export function readBlockhashRequest(bytes: Buffer): {
  readonly blockhash: string;
  readonly commitment: number | null;
} {
  const reader = new Reader(bytes);
  let blockhash = '';
  let commitment: number | null = null;
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) blockhash = reader.text();
    else if (field === 2) commitment = reader.int32();
    else reader.skip();
  }
  return { blockhash, commitment };
}
