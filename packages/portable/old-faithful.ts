import { decode32, encode32 } from '../../src/lib/base58.ts';
import { parseExact } from '../../src/lib/json.ts';
import { lazy } from '../../src/lib/lazy.ts';
import { ProtobufWriter } from '../../src/lib/protobuf.ts';
import { zstdCompress, zstdDecompress } from '../../src/lib/zstd.ts';
import type { ChainBlock } from '../../src/ports/block.ts';
import {
  type FullMeta,
  metaText,
  type RpcReward,
  readMeta,
  readRewards,
  writeMeta,
  writeRewards,
} from '../../src/solana/stored-meta.ts';
import { CarError, CarLink, type CarReader, type CarWriter, type Node } from './car.ts';

/**
 * Old Faithful's format: a ledger as a tree of nodes, written children first. Each node is a list that begins with its kind.
 *
 *   Epoch [4, epoch, [Subset]]            Subset [3, first slot, last slot, [Block]]
 *   Block [2, slot, shredding, [Entry], [parent slot, block time, block height], Rewards]
 *   Entry [1, hashes, hash, [Transaction]]    Transaction [0, frame, frame of the meta, slot, index]
 *   Rewards [5, slot, frame]              DataFrame [6, CRC-64, index, total, bytes, [DataFrame]]
 *
 * The meta is a message of solana-storage.proto, compressed with zstd.
 */
const KIND = { transaction: 0, entry: 1, block: 2, subset: 3, epoch: 4, rewards: 5, frame: 6 };

/** On every public cluster. */
const EPOCH_SLOTS = 432_000;
/** Readers expect nodes below 1 MiB. */
const FRAME_BYTES = 900_000;
/** What a meta may unfold to; nodes answer `getBlock` with less than that for a whole block. */
const LARGEST_DATA_BYTES = 128 * 1_048_576;
/** Nodes that wait for their block. */
const LARGEST_BLOCK_BYTES = 512 * 1_048_576;

// ---------------------------------------------------------------------------------------------------------------- writing

/** What JSON-RPC says of a block, beyond what the decoder keeps. */
interface BlockAnswer {
  readonly transactions: readonly { readonly transaction: unknown; readonly meta: FullMeta }[];
  readonly rewards?: readonly RpcReward[] | null;
  readonly numRewardPartitions?: number | null;
}

const protobuf = lazy(() => new ProtobufWriter());

/**
 * Adds a block and returns its link. JSON-RPC has no entries of proof of history. Two stand for them: one without hashes and
 * transactions, whose hash is that of the parent block, and one with all transactions, whose hash is that of the block. Readers take the
 * hash of the last entry as the blockhash, which is right. Throws CarError when something of the block has no form in the file.
 */
export function addBlock(car: CarWriter, block: ChainBlock): CarLink {
  const { slot } = block;
  const answer = parseExact(block.answer!.text().toString()) as BlockAnswer;
  const keyBytes = new Uint8Array(block.keys.words.buffer, block.keys.words.byteOffset, block.keys.size * 32);
  const writer = protobuf();
  const transactions = block.transactions.map((transaction, index) => {
    const { meta } = answer.transactions[index]!;
    writeMeta(writer, transaction, meta, keyBytes);
    const stored = writer.take();
    if (meta.err !== null && readsOtherwise(stored, meta.err))
      throw new CarError(`the error of transaction ${index} has no stored form`);
    if (transaction.wire === null) throw new CarError(`the bytes of transaction ${index} are unknown`);
    return car.add([KIND.transaction, frameOf(car, transaction.wire), frameOf(car, zstdCompress(stored)), slot, index]);
  });
  const before = car.add([KIND.entry, 0, decodeHash(block.previousBlockhash), []]);
  const entry = car.add([KIND.entry, 0, decodeHash(block.blockhash), transactions]);
  let rewards = CarLink.none;
  if (answer.rewards !== undefined && answer.rewards !== null) {
    writeRewards(writer, answer.rewards, answer.numRewardPartitions ?? null);
    rewards = car.add([KIND.rewards, slot, frameOf(car, zstdCompress(writer.take()))]);
  }
  const meta = [block.parentSlot, block.blockTime ?? 0, block.blockHeight];
  return car.add([KIND.block, slot, [], [before, entry], meta, rewards]);
}

/** Unknown errors would come back as another one, or as none. */
function readsOtherwise(stored: Buffer, error: unknown): boolean {
  try {
    return JSON.stringify((readMeta(stored) as { readonly err: unknown }).err) !== JSON.stringify(error);
  } catch {
    return true;
  }
}

function decodeHash(text: string): Uint8Array {
  const bytes = decode32(text);
  if (bytes === null) throw new CarError(`${text} is no hash`);
  return bytes;
}

/** Data in as many frames as it needs: the first is part of its node, and names the others. */
function frameOf(car: CarWriter, data: Uint8Array): Node {
  const hash = BigInt.asIntN(64, crc64(data));
  const total = Math.max(1, Math.ceil(data.length / FRAME_BYTES));
  const frame = (index: number, next: Node): Node => [
    KIND.frame,
    hash,
    index,
    total,
    data.subarray(index * FRAME_BYTES, (index + 1) * FRAME_BYTES),
    next,
  ];
  const next: CarLink[] = [];
  for (let index = 1; index < total; index++) next.push(car.add(frame(index, null)));
  return frame(0, next.length === 0 ? null : next);
}

/** Adds the nodes above the blocks, and returns the root. */
export function addEpoch(car: CarWriter, from: number, to: number, blocks: readonly CarLink[]): CarLink {
  const subset = car.add([KIND.subset, from, to, blocks]);
  return car.add([KIND.epoch, Math.floor(from / EPOCH_SLOTS), [subset]]);
}

// ---------------------------------------------------------------------------------------------------------------- reading

/** A block of a file. */
export interface CarBlock {
  readonly slot: number;
  readonly parentSlot: number;
  readonly blockhash: string;
  /** That of the parent. Null where the file does not have it: files of others name it only by the parent's own entries. */
  readonly previousBlockhash: string | null;
  /** The text of `getBlock`, given the hash of the parent. Throws CarError, LayoutError or ProtobufError. */
  text(previousBlockhash: string): Buffer;
}

/** The blocks in the order of the file. Errors: CarError when it is damaged or incomplete, and those of the file system. */
export async function* readBlocks(car: CarReader): AsyncGenerator<CarBlock> {
  let nodes = new Map<string, readonly Node[]>();
  let bytes = 0;
  let isComplete = false;
  for await (const { cid, node, size } of car.nodes()) {
    const fields = nodeList(node);
    isComplete = cid === car.root;
    if (fields[0] === KIND.block) {
      yield blockOf(fields, nodes);
      nodes = new Map();
      bytes = 0;
    } else if (fields[0] !== KIND.subset && fields[0] !== KIND.epoch) {
      nodes.set(cid, fields);
      bytes += size;
      if (bytes > LARGEST_BLOCK_BYTES) throw new CarError('too many nodes without a block');
    }
  }
  if (!isComplete) throw new CarError('the file ends before its root: it is incomplete');
}

type Nodes = ReadonlyMap<string, readonly Node[]>;

function blockOf(fields: readonly Node[], nodes: Nodes): CarBlock {
  const slot = numberOf(fields[1]);
  const entries = nodeList(fields[3]).map((link) => nodeAt(nodes, link, KIND.entry));
  const last = entries.at(-1);
  if (last === undefined) throw new CarError(`block ${slot} has no entries`);
  const [parent, time, height] = nodeList(fields[4]);
  const first = entries[0]!;
  // An entry without hashes and transactions has the hash of the one before it, which is the last one of the parent.
  const isParents = entries.length > 1 && first[1] === 0 && nodeList(first[3]).length === 0;
  const blockhash = encode32(bytesOf(last[2]));
  const parentSlot = numberOf(parent);
  const text = (previousBlockhash: string) => {
    const links = entries.flatMap((entry) => nodeList(entry[3]));
    const transactions = links.map((link) => entryOf(nodeAt(nodes, link, KIND.transaction), nodes));
    const answer = {
      previousBlockhash,
      blockhash,
      parentSlot,
      transactions,
      ...rewardsOf(fields[5], nodes),
      // Nodes print null for a block without a time, which stands as 0 here.
      blockTime: time === 0 || time === undefined ? null : numberOf(time),
      blockHeight: height === null || height === undefined ? null : numberOf(height),
    };
    return Buffer.from(metaText(answer));
  };
  return { slot, parentSlot, blockhash, previousBlockhash: isParents ? encode32(bytesOf(first[2])) : null, text };
}

function entryOf(fields: readonly Node[], nodes: Nodes): object {
  const wire = dataOf(fields[1], nodes);
  const stored = dataOf(fields[2], nodes);
  if (stored.length === 0) throw new CarError('a transaction has no meta');
  return {
    transaction: [wire.toString('base64'), 'base64'],
    meta: readMeta(zstdDecompress(stored, LARGEST_DATA_BYTES)),
    version: versionOf(wire),
  };
}

/** Version 1 begins with its version, the others with the count of their signatures. */
function versionOf(wire: Buffer): 'legacy' | number {
  const first = wire[0] ?? 0;
  if (first >= 0x80) return first & 0x7f;
  const message = wire[1 + first * 64] ?? 0;
  return message >= 0x80 ? message & 0x7f : 'legacy';
}

function rewardsOf(link: Node | undefined, nodes: Nodes): object {
  if (link instanceof CarLink && link.cid === CarLink.none.cid) return {};
  const stored = dataOf(nodeAt(nodes, link, KIND.rewards)[2], nodes);
  if (stored.length === 0) return { rewards: [] };
  const { rewards, partitions } = readRewards(zstdDecompress(stored, LARGEST_DATA_BYTES));
  return { rewards, ...(partitions === null ? {} : { numRewardPartitions: partitions }) };
}

function dataOf(frame: Node | undefined, nodes: Nodes): Buffer {
  const fields = nodeList(frame);
  if (fields[0] !== KIND.frame) throw new CarError('a frame is of another kind');
  const frames = [fields];
  // Later frames may name others behind them.
  for (let at = 0; at < frames.length; at++) {
    const next = frames[at]![5];
    if (next === null || next === undefined) continue;
    for (const link of nodeList(next)) frames.push(nodeAt(nodes, link, KIND.frame));
    if (frames.length > LARGEST_DATA_BYTES / 1_024) throw new CarError('too many frames');
  }
  frames.sort((a, b) => Number(a[2] ?? 0) - Number(b[2] ?? 0));
  const [total, hash] = [fields[3], fields[1]];
  if (typeof total === 'number' && total !== frames.length) throw new CarError('frames are missing');
  const data = Buffer.concat(frames.map((each) => bytesOf(each[4])));
  if (hash === null || hash === undefined) return data;
  const wanted = BigInt.asUintN(64, BigInt(hash as number | bigint));
  // The first files have another checksum.
  if (crc64(data) !== wanted && fnv64(data) !== wanted) throw new CarError('data does not fit its checksum');
  return data;
}

function nodeAt(nodes: Nodes, link: Node | undefined, kind: number): readonly Node[] {
  const fields = link instanceof CarLink ? nodes.get(link.cid) : undefined;
  if (fields === undefined || fields[0] !== kind) throw new CarError('a node is missing, or of another kind');
  return fields;
}

function nodeList(node: Node | undefined): readonly Node[] {
  if (!Array.isArray(node)) throw new CarError('a list is missing');
  return node as readonly Node[];
}

function bytesOf(node: Node | undefined): Uint8Array {
  if (!(node instanceof Uint8Array)) throw new CarError('bytes are missing');
  return node;
}

function numberOf(node: Node | undefined): number {
  if (typeof node !== 'number' || node < 0) throw new CarError('a number is missing');
  return node;
}

// -------------------------------------------------------------------------------------------------------------- checksums

/** CRC-64 of ISO 3309, reflected: the table in two halves of 32 bits. */
const crcTable = lazy(() => {
  const [high, low] = [new Uint32Array(256), new Uint32Array(256)];
  for (let byte = 0; byte < 256; byte++) {
    let value = BigInt(byte);
    for (let bit = 0; bit < 8; bit++) value = (value & 1n) === 1n ? (value >> 1n) ^ 0xd800000000000000n : value >> 1n;
    high[byte] = Number(value >> 32n);
    low[byte] = Number(value & 0xffffffffn);
  }
  return { high, low };
});

export function crc64(bytes: Uint8Array): bigint {
  const table = crcTable();
  let [high, low] = [0xffffffff, 0xffffffff];
  for (const byte of bytes) {
    const at = (low ^ byte) & 0xff;
    low = (((low >>> 8) | (high << 24)) ^ table.low[at]!) >>> 0;
    high = ((high >>> 8) ^ table.high[at]!) >>> 0;
  }
  return (BigInt(~high >>> 0) << 32n) | BigInt(~low >>> 0);
}

function fnv64(bytes: Uint8Array): bigint {
  let hash = 0xcbf29ce484222325n;
  for (const byte of bytes) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  return hash;
}
