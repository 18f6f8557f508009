import { decode32, encode, encode32 } from '../lib/base58.ts';
import { createByteReader, LayoutError } from '../lib/bytes.ts';
import { isPlainObject, stringify } from '../lib/json.ts';
import { ProtobufReader, type ProtobufWriter } from '../lib/protobuf.ts';
import type { NormalInstruction, NormalTransaction } from '../ports/block.ts';
import { readableMeta } from './decode/meta.ts';
import { errorBytes, readError } from './error-bytes.ts';
import type { RpcMeta, RpcTokenBalance } from './rpc-json.ts';

/**
 * `meta` and rewards as validators store them: the messages of solana-storage.proto, and the older bincode. What is read comes out as
 * nodes print it, member by member in their order.
 */

/** What nodes send beyond what the follower needs. */
export interface FullMeta extends RpcMeta {
  readonly returnData?: { readonly programId: string; readonly data: readonly [string, string] } | null;
  readonly computeUnitsConsumed?: Quantity | null;
  readonly costUnits?: Quantity | null;
}

/** A reward as nodes print it. */
export interface RpcReward {
  readonly pubkey: string;
  readonly lamports: Quantity;
  readonly postBalance: Quantity;
  readonly rewardType?: string | null;
  /** Percent. */
  readonly commission?: number | null;
  /** Hundredths of a percent; nodes leave it out where they do not know it. */
  readonly commissionBps?: number | null;
}

/** A number as `parseExact` reads it. */
export type Quantity = number | bigint;

/** Begins a text that stands for a number as it is printed. Texts of nodes do not begin with it. */
const PRINTED = '\u0000#';
const PRINTED_IN_JSON = /"\\u0000#(-?[\d.]+(?:e-?\d+)?)"/g;

/** The JSON text of what the functions here read. */
export function metaText(value: unknown): string {
  return stringify(value).replace(PRINTED_IN_JSON, '$1');
}

export const bigOf = (value: Quantity): bigint => (typeof value === 'bigint' ? value : BigInt(Math.trunc(value)));

export const quantityOf = (value: bigint): Quantity => {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
};

/** A float as Rust prints it: with a fraction or an exponent. */
export function floatOf(value: number): string {
  const [digits = '0', exponentText = '0'] = value.toExponential().replace('.', '').split('e');
  const isNegative = digits.startsWith('-');
  const figures = isNegative ? digits.slice(1) : digits;
  const point = Number(exponentText) + 1;
  let text: string;
  if (point > 16 || point <= -5) {
    const tail = figures.length > 1 ? `.${figures.slice(1)}` : '';
    text = `${figures[0]}${tail}e${point - 1}`;
  } else if (point <= 0) text = `0.${'0'.repeat(-point)}${figures}`;
  else if (point >= figures.length) text = `${figures.padEnd(point, '0')}.0`;
  else text = `${figures.slice(0, point)}.${figures.slice(point)}`;
  return `${PRINTED}${isNegative ? '-' : ''}${text}`;
}

// ---------------------------------------------------------------------------------------------------------------- writing

export function writeInstruction(
  writer: ProtobufWriter,
  { programIndex, accounts, data }: Pick<NormalInstruction, 'programIndex' | 'accounts' | 'data'>,
): void {
  writer.uint(1, programIndex);
  if (accounts.length > 0) writer.raw(2, accounts);
  if (data.length > 0) writer.raw(3, data);
}

/** `keyBytes`: the bytes of the block's key table, 32 for each id. */
export function writeKeys(
  writer: ProtobufWriter,
  field: number,
  keys: Uint32Array,
  [from, to]: readonly [number, number],
  keyBytes: Uint8Array,
): void {
  for (let at = from; at < to; at++) {
    const place = keys[at]! * 32;
    writer.range(field, keyBytes, place, place + 32);
  }
}

/** TransactionStatusMeta. Instructions and loaded keys come from the decoded transaction, all else from `meta`. */
export function writeMeta(
  writer: ProtobufWriter,
  transaction: NormalTransaction,
  given: FullMeta,
  keyBytes: Uint8Array,
): void {
  const meta = writableMeta(transaction, given);
  writeError(writer, 1, meta.err);
  writer.uint(2, meta.fee);
  writer.packed(3, meta.preBalances);
  writer.packed(4, meta.postBalances);
  for (const { index, instructions } of transaction.innerInstructions) {
    const group = writer.begin(5);
    writer.uint(1, index);
    for (const instruction of instructions) {
      const start = writer.begin(2);
      writeInstruction(writer, instruction);
      if (instruction.stackHeight !== null) writer.always(4, instruction.stackHeight);
      writer.end(start);
    }
    writer.end(group);
  }
  for (const line of meta.logMessages ?? []) writer.element(6, line);
  for (const balance of meta.preTokenBalances ?? []) writeTokenBalance(writer, 7, balance);
  for (const balance of meta.postTokenBalances ?? []) writeTokenBalance(writer, 8, balance);
  for (const reward of meta.rewards ?? []) writeReward(writer, 9, reward as RpcReward);
  writer.bool(10, isAbsent(meta.innerInstructions));
  writer.bool(11, isAbsent(meta.logMessages));
  const { keys, staticKeyCount, loadedWritableCount } = transaction;
  const readonlyFrom = staticKeyCount + loadedWritableCount;
  writeKeys(writer, 12, keys, [staticKeyCount, readonlyFrom], keyBytes);
  writeKeys(writer, 13, keys, [readonlyFrom, keys.length], keyBytes);
  const program = isAbsent(meta.returnData) ? null : decode32(meta.returnData.programId);
  if (isAbsent(meta.returnData) || program === null) writer.bool(15, true);
  else {
    const start = writer.begin(14);
    writer.raw(1, program);
    writer.raw(2, Buffer.from(meta.returnData.data[0], 'base64'));
    writer.end(start);
  }
  if (!isAbsent(meta.computeUnitsConsumed)) writer.always(16, meta.computeUnitsConsumed);
  if (!isAbsent(meta.costUnits)) writer.always(17, meta.costUnits);
}

/** Members in another form have no place in the message, and are left out. */
function writableMeta({ fault, keys, instructions }: NormalTransaction, given: FullMeta): FullMeta {
  const { returnData, computeUnitsConsumed, costUnits, rewards } = given;
  return {
    ...(fault === null ? given : readableMeta(given, keys.length, instructions.length).meta),
    returnData: isReturnData(returnData) ? returnData : null,
    computeUnitsConsumed: isQuantity(computeUnitsConsumed) ? computeUnitsConsumed : null,
    costUnits: isQuantity(costUnits) ? costUnits : null,
    rewards: Array.isArray(rewards) ? rewards.filter(isReward) : [],
  };
}

const isQuantity = (value: unknown): value is Quantity => typeof value === 'bigint' || Number.isInteger(value);

function isReturnData(value: unknown): value is NonNullable<FullMeta['returnData']> {
  if (!isPlainObject(value)) return false;
  const { programId, data } = value;
  return typeof programId === 'string' && Array.isArray(data) && typeof data[0] === 'string';
}

const isReward = (value: unknown): boolean =>
  isPlainObject(value) &&
  typeof value['pubkey'] === 'string' &&
  isQuantity(value['lamports']) &&
  isQuantity(value['postBalance']);

function writeTokenBalance(writer: ProtobufWriter, field: number, balance: RpcTokenBalance): void {
  const { amount, decimals, uiAmount, uiAmountString } = balance.uiTokenAmount;
  const start = writer.begin(field);
  writer.uint(1, balance.accountIndex);
  writer.text(2, balance.mint);
  const units = writer.begin(3);
  writer.double(1, typeof uiAmount === 'number' ? uiAmount : 0);
  writer.uint(2, decimals);
  writer.text(3, amount);
  writer.text(4, typeof uiAmountString === 'string' ? uiAmountString : '');
  writer.end(units);
  writer.text(4, balance.owner ?? '');
  writer.text(5, balance.programId ?? '');
  writer.end(start);
}

export function writeError(writer: ProtobufWriter, field: number, error: unknown): void {
  if (isAbsent(error)) return;
  const start = writer.begin(field);
  writer.raw(1, errorBytes(error));
  writer.end(start);
}

/** The variants of RewardType, from 1 on (solana-storage.proto of Agave 4.5). */
const REWARD_TYPES = ['Fee', 'Rent', 'Staking', 'Voting', 'DeactivatedStake', 'VATDebit', 'BlockRevenueSharing'];

/** A member of our own beside those of solana-storage.proto: the name of a type that has no number there. Other readers skip it. */
const TYPE_NAME_FIELD = 1_000;

/** The name of a variant of RewardType; null: unspecified. One that is unknown here is named by its number. */
export function rewardTypeName(variant: number): string | null {
  return variant <= 0 ? null : (REWARD_TYPES[variant - 1] ?? String(variant));
}

function variantOf(name: string): number {
  return /^[1-9]\d{0,8}$/.test(name) ? Number(name) : REWARD_TYPES.indexOf(name) + 1;
}

function writeReward(writer: ProtobufWriter, field: number, reward: RpcReward): void {
  const start = writer.begin(field);
  writer.text(1, reward.pubkey);
  writer.uint(2, bigOf(reward.lamports));
  writer.uint(3, bigOf(reward.postBalance));
  const { rewardType } = reward;
  const name = isAbsent(rewardType) || typeof rewardType === 'object' ? '' : String(rewardType);
  const variant = variantOf(name);
  writer.uint(4, variant);
  writer.text(5, isAbsent(reward.commission) ? '' : String(reward.commission));
  writer.text(6, isAbsent(reward.commissionBps) ? '' : String(reward.commissionBps));
  if (variant === 0) writer.text(TYPE_NAME_FIELD, name);
  writer.end(start);
}

/** Rewards: those of a block. `partitions`: null when the node does not report them. */
export function writeRewards(
  writer: ProtobufWriter,
  rewards: readonly RpcReward[],
  partitions: number | bigint | null,
): void {
  for (const reward of Array.isArray(rewards) ? rewards.filter(isReward) : []) writeReward(writer, 1, reward);
  if (partitions === null) return;
  const start = writer.begin(2);
  writer.uint(1, bigOf(partitions));
  writer.end(start);
}

function isAbsent<T>(value: T | null | undefined): value is null | undefined {
  return value === null || value === undefined;
}

// ---------------------------------------------------------------------------------------------------------------- reading

/** `meta` as a node prints it, for `stringifyExact`. Throws LayoutError or ProtobufError when the bytes are not of a known form. */
export function readMeta(bytes: Buffer): object {
  return isBincode(bytes) ? readOldMeta(bytes) : readProtobufMeta(bytes);
}

/** A message begins with the number of a member, which is not 0; bincode with the variant of the status: 0 or 1, in four bytes. */
const isBincode = (bytes: Buffer) => bytes.length >= 4 && bytes.readUInt32LE(0) <= 1;

interface ReadMeta {
  err: unknown;
  fee: bigint;
  readonly preBalances: bigint[];
  readonly postBalances: bigint[];
  innerInstructions: object[] | null;
  logMessages: string[] | null;
  preTokenBalances: object[] | null;
  postTokenBalances: object[] | null;
  rewards: object[] | null;
  readonly writable: string[];
  readonly readonly: string[];
  returnData: object | null;
  units: bigint | null;
  cost: bigint | null;
}

const emptyMeta = (): ReadMeta => ({
  err: null,
  fee: 0n,
  preBalances: [],
  postBalances: [],
  innerInstructions: [],
  logMessages: [],
  preTokenBalances: [],
  postTokenBalances: [],
  rewards: [],
  writable: [],
  readonly: [],
  returnData: null,
  units: null,
  cost: null,
});

function printed(meta: ReadMeta): object {
  return {
    err: meta.err,
    status: meta.err === null ? { Ok: null } : { Err: meta.err },
    fee: quantityOf(meta.fee),
    preBalances: meta.preBalances.map(quantityOf),
    postBalances: meta.postBalances.map(quantityOf),
    innerInstructions: meta.innerInstructions,
    logMessages: meta.logMessages,
    preTokenBalances: meta.preTokenBalances,
    postTokenBalances: meta.postTokenBalances,
    rewards: meta.rewards,
    loadedAddresses: { writable: meta.writable, readonly: meta.readonly },
    ...(meta.returnData === null ? {} : { returnData: meta.returnData }),
    ...(meta.units === null ? {} : { computeUnitsConsumed: quantityOf(meta.units) }),
    ...(meta.cost === null ? {} : { costUnits: quantityOf(meta.cost) }),
  };
}

function readProtobufMeta(bytes: Buffer): object {
  const meta = emptyMeta();
  const reader = new ProtobufReader(bytes);
  let hasReturnData = true;
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) meta.err = readError(bytesMember(reader.message()));
    else if (field === 2) meta.fee = reader.uint64();
    else if (field === 3) reader.uints(meta.preBalances);
    else if (field === 4) reader.uints(meta.postBalances);
    else if (field === 5) meta.innerInstructions?.push(readInner(reader.message()));
    else if (field === 6) meta.logMessages?.push(reader.text());
    else if (field === 7) meta.preTokenBalances?.push(readTokenBalance(reader.message()));
    else if (field === 8) meta.postTokenBalances?.push(readTokenBalance(reader.message()));
    else if (field === 9) meta.rewards?.push(readReward(reader.message()));
    else if (field === 10 && reader.bool()) meta.innerInstructions = null;
    else if (field === 11 && reader.bool()) meta.logMessages = null;
    else if (field === 12) meta.writable.push(encode32(reader.view()));
    else if (field === 13) meta.readonly.push(encode32(reader.view()));
    else if (field === 14) meta.returnData = readReturnData(reader.message());
    else if (field === 15) hasReturnData = !reader.bool();
    else if (field === 16) meta.units = reader.uint64();
    else if (field === 17) meta.cost = reader.uint64();
    else if (field > 17) reader.skip();
  }
  if (!hasReturnData) meta.returnData = null;
  return printed(meta);
}

function bytesMember(reader: ProtobufReader): Buffer {
  let found: Buffer = Buffer.alloc(0);
  for (let field = reader.next(); field !== 0; field = reader.next())
    if (field === 1) found = reader.view();
    else reader.skip();
  return found;
}

function readInner(reader: ProtobufReader): object {
  let index = 0;
  const instructions: object[] = [];
  for (let field = reader.next(); field !== 0; field = reader.next())
    if (field === 1) index = reader.int32();
    else if (field === 2) instructions.push(readInstruction(reader.message()));
    else reader.skip();
  return { index, instructions };
}

function readInstruction(reader: ProtobufReader): object {
  let programIdIndex = 0;
  let accounts: number[] = [];
  let data = '';
  let stackHeight: number | null = null;
  for (let field = reader.next(); field !== 0; field = reader.next())
    if (field === 1) programIdIndex = reader.int32();
    else if (field === 2) accounts = [...reader.view()];
    else if (field === 3) data = encode(reader.view());
    else if (field === 4) stackHeight = reader.int32();
    else reader.skip();
  return { programIdIndex, accounts, data, stackHeight };
}

function readTokenBalance(reader: ProtobufReader): object {
  const balance = { accountIndex: 0, mint: '', owner: '', programId: '', float: 0, decimals: 0, amount: '', text: '' };
  for (let field = reader.next(); field !== 0; field = reader.next())
    if (field === 1) balance.accountIndex = reader.int32();
    else if (field === 2) balance.mint = reader.text();
    else if (field === 3) readAmount(reader.message(), balance);
    else if (field === 4) balance.owner = reader.text();
    else if (field === 5) balance.programId = reader.text();
    else reader.skip();
  return printedBalance(balance);
}

interface ReadBalance {
  readonly accountIndex: number;
  readonly mint: string;
  /** Empty when it was not stored. */
  readonly owner: string;
  readonly programId: string;
  float: number;
  decimals: number;
  amount: string;
  text: string;
}

function readAmount(reader: ProtobufReader, balance: ReadBalance): void {
  for (let field = reader.next(); field !== 0; field = reader.next())
    if (field === 1) balance.float = reader.double();
    else if (field === 2) balance.decimals = reader.int32();
    else if (field === 3) balance.amount = reader.text();
    else if (field === 4) balance.text = reader.text();
    else reader.skip();
}

/** Values that nodes leave out or print as null. */
function printedBalance({ accountIndex, mint, owner, programId, float, decimals, amount, text }: ReadBalance): object {
  const uiAmount = Math.abs(float) > Number.EPSILON ? floatOf(float) : null;
  return {
    accountIndex,
    mint,
    uiTokenAmount: { uiAmount, decimals, amount, uiAmountString: text === '' ? decimalText(amount, decimals) : text },
    ...(owner === '' ? {} : { owner }),
    ...(programId === '' ? {} : { programId }),
  };
}

/** Raw units with a decimal point, without zeros at the end. */
function decimalText(amount: string, decimals: number): string {
  if (decimals === 0) return amount;
  const padded = amount.padStart(decimals + 1, '0');
  return `${padded.slice(0, -decimals)}.${padded.slice(-decimals)}`.replace(/\.?0+$/, '');
}

function readReturnData(reader: ProtobufReader): object {
  let programId = '';
  let data: Buffer = Buffer.alloc(0);
  for (let field = reader.next(); field !== 0; field = reader.next())
    if (field === 1) programId = encode32(reader.view());
    else if (field === 2) data = reader.view();
    else reader.skip();
  return { programId, data: [data.toString('base64'), 'base64'] };
}

function readReward(reader: ProtobufReader): object {
  const reward = { pubkey: '', lamports: 0n, postBalance: 0n, type: 0, commission: '', commissionBps: '', name: '' };
  for (let field = reader.next(); field !== 0; field = reader.next())
    if (field === 1) reward.pubkey = reader.text();
    else if (field === 2) reward.lamports = BigInt.asIntN(64, reader.uint64());
    else if (field === 3) reward.postBalance = reader.uint64();
    else if (field === 4) reward.type = reader.int32();
    else if (field === 5) reward.commission = reader.text();
    else if (field === 6) reward.commissionBps = reader.text();
    else if (field === TYPE_NAME_FIELD) reward.name = reader.text();
    else reader.skip();
  const bps = percentOf(reward.commissionBps);
  return {
    pubkey: reward.pubkey,
    lamports: quantityOf(reward.lamports),
    postBalance: quantityOf(reward.postBalance),
    rewardType: reward.name === '' ? rewardTypeName(reward.type) : reward.name,
    commission: percentOf(reward.commission),
    ...(bps === null ? {} : { commissionBps: bps }),
  };
}

/** A share that is stored as text; null: absent. */
const percentOf = (text: string): number | null => (/^\d+$/.test(text) ? Number(text) : null);

/** The rewards of a block. Errors: as `readMeta`. */
export function readRewards(bytes: Buffer): { readonly rewards: object[]; readonly partitions: number | null } {
  // A list of bincode begins with its count in eight bytes; a message has the length of a reward in the second.
  if (bytes.length >= 8 && bytes.readUIntLE(1, 6) === 0) return { rewards: readOldRewards(bytes), partitions: null };
  const rewards: object[] = [];
  let partitions: number | null = null;
  const reader = new ProtobufReader(bytes);
  for (let field = reader.next(); field !== 0; field = reader.next())
    if (field === 1) rewards.push(readReward(reader.message()));
    else if (field === 2) {
      const counts = reader.message();
      partitions = counts.next() === 1 ? Number(counts.uint64()) : 0;
    } else reader.skip();
  return { rewards, partitions };
}

// ---------------------------------------------------------------------------------------------------------------- bincode

type Bytes = ReturnType<typeof createByteReader>;

/** StoredTransactionStatusMeta, which grew: what the bytes end before is what its version did not have. */
function readOldMeta(bytes: Buffer): object {
  const reader = createByteReader(bytes);
  const meta = emptyMeta();
  if (reader.u32() === 1) {
    const left = Buffer.from(reader.bytes(reader.left));
    const { error, size } = sizedError(left);
    meta.err = error;
    return readOldRest(createByteReader(left, size), meta);
  }
  return readOldRest(reader, meta);
}

function sizedError(bytes: Buffer): { readonly error: unknown; readonly size: number } {
  // The error has no length of its own: its form is the shortest whose text leads back to the bytes.
  for (const size of [4, 5, 9, 13])
    if (bytes.length >= size) {
      try {
        return { error: readError(bytes.subarray(0, size)), size };
      } catch {
        // Longer, or not of this form.
      }
    }
  throw new LayoutError('an unknown error of a transaction');
}

function readOldRest(reader: Bytes, meta: ReadMeta): object {
  const u64s = (into: bigint[]) => {
    for (let left = listLength(reader, 8); left > 0; left--) into.push(reader.u64());
  };
  meta.fee = reader.u64();
  u64s(meta.preBalances);
  u64s(meta.postBalances);
  meta.innerInstructions = lastOption(reader, () => list(reader, 9, () => readOldInner(reader)));
  meta.logMessages = lastOption(reader, () => list(reader, 8, () => text(reader)));
  meta.preTokenBalances = lastOption(reader, () => list(reader, 33, () => readOldBalance(reader)));
  meta.postTokenBalances = lastOption(reader, () => list(reader, 33, () => readOldBalance(reader)));
  meta.rewards = lastOption(reader, () => list(reader, 24, () => readOldReward(reader)));
  if (reader.left > 0) throw new LayoutError('an old form of a meta that is not known here', reader.offset);
  return printed(meta);
}

const listLength = (reader: Bytes, leastBytes: number): number => {
  const length = reader.count();
  if (length * leastBytes > reader.left) throw new LayoutError(`a list of ${length} does not fit`, reader.offset);
  return length;
};
const list = <T>(reader: Bytes, leastBytes: number, read: () => T): T[] =>
  Array.from({ length: listLength(reader, leastBytes) }, read);
const lastOption = <T>(reader: Bytes, read: () => T): T | null => (reader.left === 0 ? null : reader.option(read));
const text = (reader: Bytes): string => Buffer.from(reader.bytes(listLength(reader, 1))).toString();

function shortBytes(reader: Bytes): Uint8Array {
  let length = 0;
  for (let shift = 0; ; shift += 7) {
    const byte = reader.u8();
    length |= (byte & 0x7f) << shift;
    if (byte < 0x80) break;
    if (shift >= 14) throw new LayoutError('a length of more than three bytes', reader.offset);
  }
  return reader.bytes(length);
}

function readOldInner(reader: Bytes): object {
  const index = reader.u8();
  const instructions = list(reader, 3, () => ({
    programIdIndex: reader.u8(),
    accounts: [...shortBytes(reader)],
    data: encode(shortBytes(reader)),
    stackHeight: null,
  }));
  return { index, instructions };
}

function readOldBalance(reader: Bytes): object {
  const accountIndex = reader.u8();
  const mint = text(reader);
  const float = Buffer.from(reader.bytes(8)).readDoubleLE(0);
  const decimals = reader.u8();
  return printedBalance({
    accountIndex,
    mint,
    owner: '',
    programId: '',
    float,
    decimals,
    amount: text(reader),
    text: '',
  });
}

function readOldReward(reader: Bytes): object {
  const pubkey = text(reader);
  const lamports = BigInt.asIntN(64, reader.u64());
  const postBalance = reader.left >= 8 ? reader.u64() : 0n;
  const type = lastOption(reader, () => reader.u32());
  const commission = lastOption(reader, () => reader.u8());
  return {
    pubkey,
    lamports: quantityOf(lamports),
    postBalance: quantityOf(postBalance),
    rewardType: type === null ? null : (REWARD_TYPES[type] ?? null),
    commission,
  };
}

const readOldRewards = (bytes: Buffer): object[] => {
  const reader = createByteReader(bytes);
  return list(reader, 24, () => readOldReward(reader));
};
