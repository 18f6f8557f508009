import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';

/**
 * CAR files (version 1) of DAG-CBOR nodes: a header that names the root, then nodes, each behind its length and its CID. Only the subset
 * of CBOR that Old Faithful's nodes use: integers, bytes, lists, null and links.
 */

/** CID version 1, DAG-CBOR, SHA-256. */
const CID_HEAD = Buffer.of(0x01, 0x71, 0x12, 0x20);
const CID_BYTES = 36;
/** The placeholder for a node that does not exist: `raw`, with an empty hash. */
const NO_NODE = Buffer.of(0x01, 0x55, 0x00, 0x00);
/** Larger nodes are refused; those of Old Faithful are below 1 MiB, but for lists of blocks. */
const LARGEST_NODE_BYTES = 32 * 1_048_576;
const READ_BYTES = 1_048_576;
const LINK_TAG = 42;

/** The file is not of this format, or damaged. */
export class CarError extends Error {}

/** A link to a node: the CID as hexadecimal text, so that it can be the key of a map. */
export class CarLink {
  readonly cid: string;
  constructor(cid: string) {
    this.cid = cid;
  }
  static readonly none = new CarLink(NO_NODE.toString('hex'));
}

export type Node = number | bigint | null | Uint8Array | CarLink | readonly Node[];

// ------------------------------------------------------------------------------------------------------------------- CBOR

export function encodeNode(node: Node): Buffer {
  const parts: Uint8Array[] = [];
  write(node, parts);
  return Buffer.concat(parts);
}

function write(node: Node, parts: Uint8Array[]): void {
  if (node === null) parts.push(Buffer.of(0xf6));
  else if (typeof node === 'number' || typeof node === 'bigint')
    parts.push(node < 0 ? head(1, -1n - BigInt(node)) : head(0, node));
  else if (node instanceof Uint8Array) parts.push(head(2, node.length), node);
  else if (node instanceof CarLink) {
    const cid = Buffer.from(node.cid, 'hex');
    // The zero is the prefix of a binary CID.
    parts.push(head(6, LINK_TAG), head(2, cid.length + 1), Buffer.of(0), cid);
  } else {
    parts.push(head(4, node.length));
    for (const item of node) write(item, parts);
  }
}

/** Type and value in the fewest bytes. */
function head(type: number, value: number | bigint): Buffer {
  const high = type << 5;
  if (value < 24) return Buffer.of(high | Number(value));
  if (value < 0x100) return Buffer.of(high | 24, Number(value));
  const bytes = Buffer.alloc(9);
  if (value < 0x10000) bytes.writeUInt16BE(Number(value), 1);
  else if (value < 0x100000000) bytes.writeUInt32BE(Number(value), 1);
  else bytes.writeBigUInt64BE(BigInt(value), 1);
  const size = value < 0x10000 ? 2 : value < 0x100000000 ? 4 : 8;
  bytes[0] = high | (24 + Math.log2(size));
  return bytes.subarray(0, 1 + size);
}

/** Throws CarError. */
export function decodeNode(bytes: Buffer): Node {
  const reader = { bytes, at: 0 };
  const node = read(reader, 0);
  if (reader.at !== bytes.length) throw new CarError('bytes behind a node');
  return node;
}

const DEEPEST = 8;

function read(reader: { readonly bytes: Buffer; at: number }, depth: number): Node {
  const { bytes } = reader;
  const take = (count: number): number => {
    if (count > bytes.length - reader.at) throw new CarError('a node is cut off');
    reader.at += count;
    return reader.at - count;
  };
  const first = bytes[take(1)]!;
  if (first === 0xf6) return null;
  const [type, short] = [first >> 5, first & 31];
  let value: number | bigint = short;
  if (short >= 24) {
    if (short > 27) throw new CarError(`CBOR byte ${first} is not used by these files`);
    const size = 1 << (short - 24);
    const at = take(size);
    value = size === 8 ? bytes.readBigUInt64BE(at) : bytes.readUIntBE(at, size);
    if (value <= Number.MAX_SAFE_INTEGER) value = Number(value);
  }
  if (type === 0) return value;
  if (type === 1) return typeof value === 'number' ? -1 - value : -1n - value;
  const length = Number(value);
  if (type === 2) {
    const at = take(length);
    return bytes.subarray(at, at + length);
  }
  if (type === 4) {
    if (depth > DEEPEST || length > bytes.length - reader.at) throw new CarError('a list does not fit');
    const items: Node[] = [];
    for (let left = length; left > 0; left--) items.push(read(reader, depth + 1));
    return items;
  }
  const content = type === 6 && value === LINK_TAG && depth <= DEEPEST ? read(reader, depth + 1) : null;
  if (!(content instanceof Uint8Array)) throw new CarError(`CBOR byte ${first} is not used by these files`);
  return new CarLink(Buffer.from(content).toString('hex', 1));
}

// ------------------------------------------------------------------------------------------------------------------- files

const cidOf = (bytes: Uint8Array): string =>
  Buffer.concat([CID_HEAD, createHash('sha256').update(bytes).digest()]).toString('hex');

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7f; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 0x80);
  bytes.push(rest);
  return Buffer.from(bytes);
}

/** `{roots: [root], version: 1}`, of a fixed length. */
function headerOf(root: string): Buffer {
  const [map, roots] = [Buffer.of(0xa2, 0x65), Buffer.from('roots')];
  const version = Buffer.concat([Buffer.of(0x67), Buffer.from('version'), Buffer.of(1)]);
  const bytes = Buffer.concat([map, roots, encodeNode([new CarLink(root)]), version]);
  return Buffer.concat([varint(bytes.length), bytes]);
}

export interface CarWriter {
  /** The link of the node, once it is in the file or about to be. */
  add(node: Node): CarLink;
  /** Drops what was added since the last flush. */
  forget(): void;
  /** Writes what was added. Errors: those of the file system. */
  flush(): Promise<void>;
  /** The root is known last: it stands in the header, which has a fixed length. */
  end(root: CarLink): Promise<void>;
}

/** Writes to a file from its start. */
export function createCarWriter(file: FileHandle): CarWriter {
  let pending: Uint8Array[] = [];
  // The header is written last.
  let place = headerOf(cidOf(new Uint8Array())).length;
  const writeAt = async (bytes: Buffer, at: number) => {
    for (let done = 0; done < bytes.length; )
      done += (await file.write(bytes, done, bytes.length - done, at + done)).bytesWritten;
  };
  const writer: CarWriter = {
    add(node) {
      const bytes = encodeNode(node);
      const cid = cidOf(bytes);
      pending.push(varint(CID_BYTES + bytes.length), Buffer.from(cid, 'hex'), bytes);
      return new CarLink(cid);
    },
    forget() {
      pending = [];
    },
    async flush() {
      const bytes = Buffer.concat(pending);
      pending = [];
      await writeAt(bytes, place);
      place += bytes.length;
    },
    async end(root) {
      await writer.flush();
      await writeAt(headerOf(root.cid), 0);
    },
  };
  return writer;
}

export interface CarNode {
  readonly cid: string;
  readonly node: Node;
  /** Bytes in the file. */
  readonly size: number;
}

export interface CarReader {
  readonly root: string;
  /** In the order of the file; each is compared with its CID. Errors: CarError, and those of the file system. */
  nodes(): AsyncGenerator<CarNode>;
}

export async function openCar(file: FileHandle): Promise<CarReader> {
  let bytes = Buffer.alloc(0);
  let place = 0;

  /** Makes at least `count` bytes available; fewer at the end of the file. */
  async function need(count: number): Promise<void> {
    while (bytes.length < count) {
      const more = Buffer.allocUnsafe(Math.max(READ_BYTES, count - bytes.length));
      const { bytesRead } = await file.read(more, 0, more.length, place);
      if (bytesRead === 0) return;
      place += bytesRead;
      bytes = Buffer.concat([bytes, more.subarray(0, bytesRead)]);
    }
  }

  /** The next length and what it is the length of; null at the end. */
  async function section(): Promise<Buffer | null> {
    await need(10);
    if (bytes.length === 0) return null;
    let [length, at, factor] = [0, 0, 1];
    for (; ; at++, factor *= 128) {
      const byte = bytes[at];
      if (byte === undefined || at > 5) throw new CarError('a length is damaged');
      length += (byte & 0x7f) * factor;
      if (byte < 0x80) break;
    }
    if (length > LARGEST_NODE_BYTES) throw new CarError(`a node of ${length} bytes`);
    const start = at + 1;
    await need(start + length);
    if (bytes.length < start + length) throw new CarError('the file is cut off');
    const taken = bytes.subarray(start, start + length);
    bytes = bytes.subarray(start + length);
    return taken;
  }

  const header = await section();
  // {roots: [CID], version: 1}; other orders and several roots are not written by anyone.
  const root = header === null || header.length !== 58 ? null : header.subarray(13, 13 + CID_BYTES).toString('hex');
  if (header === null || root === null || !header.equals(headerOf(root).subarray(1)))
    throw new CarError('the file is no CAR file with one root of DAG-CBOR');

  return {
    root,
    async *nodes() {
      for (let bytes = await section(); bytes !== null; bytes = await section()) {
        if (!bytes.subarray(0, CID_HEAD.length).equals(CID_HEAD)) throw new CarError('a node with another kind of CID');
        const [cid, content] = [bytes.toString('hex', 0, CID_BYTES), bytes.subarray(CID_BYTES)];
        if (cidOf(content) !== cid) throw new CarError(`node ${cid} is damaged`);
        yield { cid, node: decodeNode(content), size: content.length };
      }
    },
  };
}
