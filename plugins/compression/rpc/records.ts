import { type TSchema, Type } from '@sinclair/typebox';
import { encode32 } from '../../../src/lib/base58.ts';
import { equalBytes } from '../../../src/lib/bytes.ts';
import type { PackedRows } from '../../../src/ports/raw-query.ts';
import { LIGHT_STATE_QUEUE, LIGHT_STATE_TREE, SYSTEM_PROGRAM } from '../../../src/solana/programs.ts';
import { EXAMPLES, u64 as integerOf64, orNull } from '../../../src/solana/schemas.ts';
import {
  type CompressedAccountRow,
  type CompressionDb,
  type TokenAccountRow,
  u64Of,
  type ValueAtSlot,
} from '../store/tables.ts';

/** 1: methods without a suffix; 2: methods that end in V2. */
export type RecordVersion = 1 | 2;

interface DataSlice {
  readonly offset: number;
  readonly length: number;
}

/** Placeholder for a missing queue, nullifier or hash. */
export const NO_KEY = SYSTEM_PROGRAM;

/** Columns of an account record. */
export type RecordedAccount = Omit<FullAccount, 'nullifier' | 'tx_hash' | 'spent'>;

/** An account in the form of a version. */
export function accountRecord(row: RecordedAccount, version: RecordVersion, slice: DataSlice | null = null): object {
  const fixed = {
    hash: encode32(row.hash),
    address: keyOrNull(row.address),
    data: dataRecord(row, slice),
    owner: encode32(row.owner),
    lamports: u64Json(row.lamports),
  };
  const { seq } = row;
  if (version === 1) {
    const { leaf_index: leafIndex, slot_created: slotCreated } = row;
    return { ...fixed, tree: encode32(row.tree_key), leafIndex, seq, slotCreated };
  }
  return {
    ...fixed,
    leafIndex: row.leaf_index,
    seq,
    slotCreated: row.slot_created,
    proveByIndex: row.queued === 1,
    merkleContext: merkleContext(row),
  };
}

/** The position of an account's leaf, also of a future one. */
export function merkleContext(row: TreeOfAccount): object {
  const { next_tree: next } = row;
  return {
    ...treeContext(row.tree_type, row.tree_key, row.tree_queue),
    nextTreeContext: next === null ? null : treeContext(row.next_type ?? row.tree_type, next, row.next_queue),
  };
}

type TreeOfAccount = Pick<
  FullAccount,
  'tree_key' | 'tree_type' | 'tree_queue' | 'next_tree' | 'next_type' | 'next_queue'
>;

export function treeContext(treeType: number, tree: Uint8Array, queue: Uint8Array | null): object {
  return { treeType, tree: encode32(tree), queue: keyOrNull(queue) ?? NO_KEY, cpiContext: null };
}

function dataRecord({ discriminator, data, data_hash: hash }: RecordedAccount, slice: DataSlice | null): object | null {
  if (discriminator === null || data === null || hash === null) return null;
  const shown = slice === null ? data : data.subarray(slice.offset, slice.offset + slice.length);
  return { discriminator: discriminatorJson(discriminator), data: base64(shown), dataHash: encode32(hash) };
}

const keyOrNull = (key: Uint8Array | null) => (key === null ? null : encode32(key));

const base64 = (bytes: Uint8Array): string => bufferOf(bytes).toString('base64');

/** Columns of a token record. */
export type RecordedTokens = Pick<TokenAccountRow, 'mint' | 'owner' | 'amount' | 'delegate' | 'state' | 'tlv'>;

/** The tokens of an account. */
export function tokenRecord({ mint, owner, amount, delegate, state, tlv }: RecordedTokens): object {
  return {
    mint: encode32(mint),
    owner: encode32(owner),
    amount: u64Json(amount),
    delegate: delegate === null ? null : encode32(delegate),
    state: state === 1 ? 'frozen' : 'initialized',
    tlv: tlv === null ? null : Buffer.from(tlv).toString('base64'),
  };
}

/** An account with the known facts about its tree. */
export interface FullAccount
  extends Pick<
    CompressedAccountRow,
    | 'hash'
    | 'leaf_index'
    | 'owner'
    | 'lamports'
    | 'address'
    | 'discriminator'
    | 'data'
    | 'data_hash'
    | 'seq'
    | 'slot_created'
    | 'queued'
    | 'nullifier'
    | 'tx_hash'
    | 'spent'
  > {
  readonly tree_key: Uint8Array;
  readonly tree_type: number;
  readonly tree_queue: Uint8Array | null;
  readonly next_tree: Uint8Array | null;
  /** Null also when the next tree is unknown. */
  readonly next_type: number | null;
  readonly next_queue: Uint8Array | null;
}

/** All accounts with their trees. */
export function selectAccounts(db: CompressionDb) {
  return db
    .selectFrom('compression_accounts as a')
    .innerJoin('compression_trees as t', 't.id', 'a.tree')
    .leftJoin('compression_trees as n', 'n.key', 't.next_tree')
    .select([
      'a.hash',
      'a.leaf_index',
      'a.owner',
      'a.lamports',
      'a.address',
      'a.discriminator',
      'a.data',
      'a.data_hash',
      'a.seq',
      'a.slot_created',
      'a.queued',
      'a.nullifier',
      'a.tx_hash',
      'a.spent',
      't.key as tree_key',
      't.type as tree_type',
      't.queue as tree_queue',
      't.next_tree',
      'n.type as next_type',
      'n.queue as next_queue',
    ]);
}

/** An account with what its record says of its tree: `tree_key`, and from the second version on all others. */
export interface RecordRow
  extends Pick<
    CompressedAccountRow,
    | 'hash'
    | 'leaf_index'
    | 'owner'
    | 'lamports'
    | 'address'
    | 'discriminator'
    | 'data'
    | 'data_hash'
    | 'seq'
    | 'slot_created'
    | 'queued'
  > {
  readonly tree_key: Uint8Array;
  readonly tree_type?: number;
  readonly tree_queue?: Uint8Array | null;
  readonly next_tree?: Uint8Array | null;
  readonly next_type?: number | null;
  readonly next_queue?: Uint8Array | null;
}

/** The columns of a `RecordRow`, of an account with this alias and its joined trees. */
export const recordColumns = (version: RecordVersion, a = 'a') => ({
  numbers: {
    leaf_index: `${a}.leaf_index`,
    seq: `${a}.seq`,
    slot_created: `${a}.slot_created`,
    queued: `${a}.queued`,
    ...(version === 1 ? {} : { tree_type: 't.type', next_type: 'n.type' }),
  },
  bytes: {
    hash: `${a}.hash`,
    owner: `${a}.owner`,
    lamports: `${a}.lamports`,
    address: `${a}.address`,
    discriminator: `${a}.discriminator`,
    data: `${a}.data`,
    data_hash: `${a}.data_hash`,
    tree_key: 't.key',
    ...(version === 1 ? {} : { tree_queue: 't.queue', next_tree: 't.next_tree', next_queue: 'n.queue' }),
  },
});

/** The joins for these columns. */
export const recordTrees = (version: RecordVersion, a = 'a'): string =>
  `LEFT JOIN compression_trees t ON t.id = ${a}.tree${version === 1 ? '' : ' LEFT JOIN compression_trees n ON n.key = t.next_tree'}`;

/** A row of a statement that reads the head, and packed rows with it: one state of the store. */
export interface SeenRows {
  readonly slot: number;
  readonly rows: string | null;
}

/** No row: nothing is indexed. */
export function seenRows<Row>({ read }: PackedRows<Row>, [seen]: readonly SeenRows[]): ValueAtSlot<Row[]> {
  return { slot: seen?.slot ?? 0, value: read(seen?.rows ?? null) };
}

/**
 * JSON of accounts and tokens, as `accountRecord` and `tokenRecord` return them. Written as text: building values would cost several times
 * as much. Common parts of adjacent rows (owner, mint and tree) are encoded once.
 */
interface RecordTexts {
  account(row: RecordRow): string;
  tokens(row: RecordedTokens): string;
}

export function recordTexts(version: RecordVersion, slice: DataSlice | null = null): RecordTexts {
  const [owner, holder, mint] = [lastKey(), lastKey(), lastKey()];
  const home = lastText<RecordRow>(({ tree_key: key }) => key, version === 1 ? treeText : contextText);
  return {
    account(row) {
      const start = `{"hash":"${encode32(row.hash)}","address":${keyText(row.address)},"data":${dataText(row, slice)}`;
      const middle = `,"owner":"${owner(row.owner)}","lamports":${bigEndian(row.lamports)}`;
      const place = `"leafIndex":${row.leaf_index},"seq":${row.seq},"slotCreated":${row.slot_created}`;
      return version === 1
        ? `${start}${middle},${home(row)},${place}}`
        : `${start}${middle},${place},"proveByIndex":${row.queued === 1},${home(row)}}`;
    },
    tokens({ mint: of, owner: by, amount, delegate, state, tlv }) {
      const tail = `"state":"${state === 1 ? 'frozen' : 'initialized'}","tlv":${tlv === null ? null : `"${base64(tlv)}"`}}`;
      return `{"mint":"${mint(of)}","owner":"${holder(by)}","amount":${bigEndian(amount)},"delegate":${keyText(delegate)},${tail}`;
    },
  };
}

const treeText = ({ tree_key: tree }: RecordRow): string => `"tree":"${encode32(tree)}"`;

function contextText(row: RecordRow): string {
  const { tree_key, tree_type = 0, tree_queue = null, next_tree = null, next_type = null, next_queue = null } = row;
  const context = merkleContext({ tree_key, tree_type, tree_queue, next_tree, next_type, next_queue });
  return `"merkleContext":${JSON.stringify(context)}`;
}

/** The text of a value, cached for consecutive ones with equal keys. */
function lastText<T>(keyOf: (value: T) => Uint8Array, textOf: (value: T) => string): (value: T) => string {
  let last: Uint8Array | null = null;
  let text = '';
  return (value) => {
    const key = keyOf(value);
    if (last === null || !equalBytes(last, key)) {
      last = key;
      text = textOf(value);
    }
    return text;
  };
}

const lastKey = () => lastText<Uint8Array>((key) => key, encode32);

const keyText = (key: Uint8Array | null): string => (key === null ? 'null' : `"${encode32(key)}"`);

function dataText({ discriminator, data, data_hash: hash }: RecordRow, slice: DataSlice | null): string {
  if (discriminator === null || data === null || hash === null) return 'null';
  const shown = slice === null ? data : data.subarray(slice.offset, slice.offset + slice.length);
  return `{"discriminator":${littleEndian(discriminator)},"data":"${base64(shown)}","dataHash":"${encode32(hash)}"}`;
}
const bufferOf = (bytes: Uint8Array): Buffer =>
  bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);

const bigEndian = (bytes: Uint8Array): string =>
  digits(bufferOf(bytes).readUInt32BE(0), bufferOf(bytes).readUInt32BE(4));
const littleEndian = (bytes: Uint8Array): string =>
  digits(bufferOf(bytes).readUInt32LE(4), bufferOf(bytes).readUInt32LE(0));

/** Most amounts fit a number exactly, which is faster than a bigint. */
function digits(high: number, low: number): string {
  return high < 2 ** 21 ? String(high * 2 ** 32 + low) : String((BigInt(high) << 32n) | BigInt(low));
}

/** Schemas of the records. Functions, because nothing is built while modules are loaded. */
export const key = (description: string): TSchema =>
  Type.String({ description: `${description}, base58`, examples: [exampleKey(description)] });
const exampleKey = (description: string): string => {
  if (/signature/.test(description)) return EXAMPLES.signature;
  if (/hash|root|sibling|leaf|node|nullifier/.test(description)) return EXAMPLES.hash;
  if (/queue/.test(description)) return LIGHT_STATE_QUEUE;
  if (/tree/i.test(description)) return LIGHT_STATE_TREE;
  return description === 'mint' ? EXAMPLES.mint : EXAMPLES.address;
};
export const u64 = (description: string): TSchema => integerOf64(`${description}; up to 2^64 - 1, bare digits`);
const slot = (description: string): TSchema => Type.Integer({ minimum: 0, description, examples: [381_204_511] });

const treeContextSchema = () => ({
  treeType: Type.Integer({ examples: [1], description: '1 state V1, 2 address V1, 3 state V2, 4 address V2' }),
  tree: key('Merkle tree'),
  queue: key('its queue; 32 ones when unknown'),
  cpiContext: Type.Null({ description: 'always null' }),
});

export const treeSchema = (): TSchema =>
  Type.Object(treeContextSchema(), { title: 'TreeContext', description: 'a tree and its queue' });

export const merkleContextSchema = (): TSchema =>
  Type.Object(
    { ...treeContextSchema(), nextTreeContext: orNull(treeSchema()) },
    { title: 'MerkleContext', description: 'the tree, its queue, and the tree that follows it' },
  );

/** Place of a leaf. */
export const index = (): TSchema =>
  Type.Integer({ minimum: 0, description: 'index of the leaf in its tree', examples: [120] });

export function accountSchema(version: RecordVersion): TSchema {
  const data = Type.Object(
    {
      discriminator: u64('first 8 bytes, little-endian'),
      data: Type.String({ description: 'base64', examples: ['AQIDBA=='] }),
      dataHash: key('hash of the data'),
    },
    { description: 'data of the account; null when it has none' },
  );
  const place = {
    leafIndex: index(),
    seq: orNull(Type.Integer({ description: 'sequence number of the tree', examples: [121] })),
    slotCreated: slot('slot that created it'),
  };
  return Type.Object(
    {
      hash: key('hash of the account: its leaf'),
      address: orNull(key('address that stays through changes')),
      data: orNull(data),
      owner: key('program or wallet'),
      lamports: u64('lamports'),
      ...(version === 1 ? { tree: key('Merkle tree') } : {}),
      ...place,
      ...(version === 1
        ? {}
        : {
            proveByIndex: Type.Boolean({ description: 'still waits in the output queue' }),
            merkleContext: merkleContextSchema(),
          }),
    },
    { title: version === 1 ? 'CompressedAccount' : 'CompressedAccountV2', description: 'a compressed account' },
  );
}

export function tokenSchema(): TSchema {
  return Type.Object(
    {
      mint: key('mint'),
      owner: key('owner of the tokens'),
      amount: u64('raw units'),
      delegate: orNull(key('delegate')),
      state: Type.Union([Type.Literal('initialized'), Type.Literal('frozen')], { description: 'state of the account' }),
      tlv: orNull(Type.String({ description: 'extensions, base64', examples: ['AQ=='] })),
    },
    { title: 'CompressedTokens', description: 'the tokens of the account' },
  );
}

export const tokenAccountSchema = (version: RecordVersion): TSchema =>
  Type.Object(
    { account: accountSchema(version), tokenData: tokenSchema() },
    {
      title: version === 1 ? 'CompressedTokenAccount' : 'CompressedTokenAccountV2',
      description: 'a compressed account with its tokens',
    },
  );

export function signatureSchema(withError = false): TSchema {
  return Type.Object({
    signature: key('signature'),
    slot: slot('slot'),
    blockTime: Type.Integer({ description: 'Unix seconds; 0 when the chain gives none', examples: [1_763_923_200] }),
    ...(withError
      ? {
          error: orNull(
            Type.String({ description: 'JSON of the error', examples: ['{"InstructionError":[0,{"Custom":1}]}'] }),
          ),
        }
      : {}),
  });
}

/** A list, with the cursor of the next page if there is one. */
export const pageSchema = (item: TSchema, items = 'items'): TSchema =>
  Type.Object({
    [items]: Type.Array(item, { description: 'the rows of the page' }),
    cursor: orNull(
      Type.String({ description: '`cursor` of the next page; null at the end', examples: ['2UZHQ9eJ1Rd8x'] }),
    ),
  });

/** Rows by a key of bytes. */
export interface ByBytes<T> {
  get(key: Uint8Array): T | undefined;
}

export function indexByBytes<T>(rows: readonly T[], keyOf: (row: T) => Uint8Array): ByBytes<T> {
  const map = new Map(rows.map((row) => [latin1Key(keyOf(row)), row]));
  return { get: (key) => map.get(latin1Key(key)) };
}

/** Distinct keys, in order of first appearance. */
export function distinctBytes(keys: readonly Uint8Array[]): Uint8Array[] {
  return [...new Map(keys.map((key) => [latin1Key(key), key])).values()];
}

const latin1Key = (key: Uint8Array) => Buffer.from(key.buffer, key.byteOffset, key.length).toString('latin1');

/** A u64 in JSON: bare digits. Numbers when exact, because they are faster to write than bigints. */
export function u64Json(bytes: Uint8Array): number | bigint {
  return numberJson(u64Of(bytes));
}

export function numberJson(value: bigint): number | bigint {
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value;
}

/** The eight bytes of a discriminator, which clients read as a little-endian number. */
function discriminatorJson(bytes: Uint8Array): number | bigint {
  return numberJson(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).readBigUInt64LE());
}
