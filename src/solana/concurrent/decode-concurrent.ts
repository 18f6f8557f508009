import { keccak_256 } from '@noble/hashes/sha3.js';
import { type ByteReader, createByteReader, equalBytes, LayoutError } from '../../lib/bytes.ts';
import type { KeyTable, NormalTransaction } from '../../ports/block.ts';
import { type InstructionGroup, instructionGroups, type Step } from '../compression/instructions.ts';
import { metadataAfter, operationOf } from './leaf-metadata.ts';
import { type ConcurrentIds, treeAuthority } from './tree.ts';

export interface ConcurrentDecoded {
  /** In order of execution. */
  readonly events: readonly ConcurrentEvent[];
  readonly faults: readonly ConcurrentFault[];
}

/** Discriminators of calls that change a tree; each calls the noop and nothing else. Other calls emit no change. */
const CHANGES: Readonly<Record<string, ChangeEvent['kind']>> = {
  bf0b7707b46bdc6e: 'start',
  daf8c0375bcd7a0a: 'prepared',
  '957812deece158cb': 'change',
  cca54c6449930080: 'change',
  '062a32be336db2a8': 'change',
};
const CLOSE = '320edb6b4e671067';
const NOTHING: ConcurrentDecoded = { events: [], faults: [] };

/**
 * The changes of concurrent trees in a transaction. Any program may call the noop with any data, so only a noop that follows a call that
 * always emits a change, for the tree of that call, is trusted. Never throws: unreadable data is a fault.
 */
export function decodeConcurrent(
  transaction: NormalTransaction,
  table: KeyTable,
  ids: ConcurrentIds,
): ConcurrentDecoded {
  if (transaction.error !== null || !ids.some(({ program }) => transaction.keys.includes(program))) return NOTHING;
  const events: ConcurrentEvent[] = [];
  const faults: ConcurrentFault[] = [];
  for (const group of instructionGroups(transaction)) {
    group.forEach((step, at) => {
      const pair = ids.find(({ program }) => program === step.program);
      if (pair === undefined) return;
      const found = readCall(step, group[at + 1], pair.noop, table);
      if (found === null) return;
      if ('reason' in found) faults.push(found);
      else if (found.kind === 'close') events.push(found);
      else events.push({ ...found, ...leafOf(found, group, at, pair, table) });
    });
  }
  return { events, faults };
}

function readCall(
  { accounts, data }: Step,
  next: Step | undefined,
  noop: number,
  table: KeyTable,
): (ChangeLog & Pick<ChangeEvent, 'kind'>) | Extract<ConcurrentEvent, { kind: 'close' }> | ConcurrentFault | null {
  const name = Buffer.from(data.buffer, data.byteOffset, Math.min(8, data.length)).toString('hex');
  const kind = CHANGES[name];
  if (kind === undefined && name !== CLOSE) return null;
  const [account = -1] = accounts;
  const tree = account < 0 ? null : table.bytes(account);
  if (tree === null) return { reason: 'the call names no tree', tree };
  if (kind === undefined) return { kind: 'close', tree };
  try {
    if (next === undefined || next.program !== noop || noop < 0) throw new LayoutError('no change follows the call');
    const change = readChangeLog(next.data);
    if (!equalBytes(change.tree, tree)) throw new LayoutError('the change is of another tree than the call');
    return { kind, ...change };
  } catch (error) {
    if (!(error instanceof LayoutError)) throw error;
    return { reason: error.message, tree };
  }
}

/**
 * What Bubblegum says of the leaf. It signs for its trees with an account of its own, so no other program can set a leaf of them; leaves of
 * other trees are no assets, whatever they claim.
 */
function leafOf(
  { tree, path }: ChangeLog,
  group: InstructionGroup,
  call: number,
  { noop, bubblegum }: ConcurrentIds[number],
  table: KeyTable,
): Pick<ChangeEvent, 'asset' | 'operation' | 'metadata'> {
  const { accounts } = group[call] as Step;
  if (!equalBytes(keyAt(accounts, AUTHORITY_AT, table), treeAuthority(tree)))
    return { asset: null, operation: null, metadata: null };
  const asset = assetOf(path[0] as Uint8Array, group, call, noop);
  // Its instruction is the last one before the call that names the tree.
  const [named = -1] = accounts;
  let at = call - 1;
  while (at >= 0 && !(group[at]?.program === bubblegum && group[at]?.accounts.includes(named))) at -= 1;
  const step = bubblegum < 0 ? undefined : group[at];
  if (step === undefined) return { asset, operation: '', metadata: null };
  const { data } = step;
  const account = (position: number): Uint8Array => keyAt(step.accounts, position, table);
  const metadata = asset === null ? null : metadataAfter({ data, account }, asset);
  return { asset, operation: operationOf(data) ?? '', metadata };
}

const AUTHORITY_AT = 1;

function keyAt(accounts: readonly number[], position: number, table: KeyTable): Uint8Array {
  const id = accounts[position] ?? -1;
  return id < 0 ? new Uint8Array(0) : table.bytes(id);
}

/** A schema emitted before the call whose hash is this leaf. The emitting program is then irrelevant. */
function assetOf(leaf: Uint8Array, group: InstructionGroup, call: number, noop: number): LeafSchema | null {
  if (leaf.every((byte) => byte === 0)) return null;
  for (let at = call - 1; at >= 0; at -= 1) {
    const { program, data } = group[at] as Step;
    if (program !== noop) continue;
    const schema = tryRead(data);
    if (schema !== null && equalBytes(hashLeaf(schema), leaf)) return schema;
  }
  return null;
}

/** Application data of other programs can have any form. */
function tryRead(data: Uint8Array): LeafSchema | null {
  try {
    const application = readApplicationData(data);
    return application === null ? null : readLeafEvent(application);
  } catch (error) {
    if (error instanceof LayoutError) return null;
    throw error;
  }
}

/** A change of a tree as emitted by its program. */
export interface ChangeLog {
  readonly tree: Uint8Array;
  /** Levels below the root. */
  readonly height: number;
  /** Sequence number of the tree after it. */
  readonly seq: number;
  readonly leafIndex: number;
  /** The new nodes from the leaf up, without the root: `height` of them. */
  readonly path: readonly Uint8Array[];
  readonly root: Uint8Array;
}

const CHANGE_LOG = 0;
const APPLICATION_DATA = 1;
const NODE_BYTES = 32 + 4;
/** Limit of the programs; node indexes are 32 bits. */
const MAX_HEIGHT = 30;

/** Reads a change from the data of a noop. Errors: LayoutError, also when the nodes are not the path of the leaf. */
export function readChangeLog(data: Uint8Array): ChangeLog {
  const reader = createByteReader(data);
  const kind = reader.u8();
  if (kind !== CHANGE_LOG) throw new LayoutError(`event ${kind} is no change`, 0);
  requireVersion(reader.u8());
  const tree = reader.key();
  const nodes = reader.list(() => ({ hash: reader.key(), index: reader.u32() }), NODE_BYTES);
  const seq = reader.count();
  const leafIndex = reader.u32();
  if (reader.left > 0) throw new LayoutError(`${reader.left} bytes are left`, reader.offset);
  const height = nodes.length - 1;
  if (height < 1 || height > MAX_HEIGHT) throw new LayoutError(`a path of ${nodes.length} nodes`, 34);
  if (leafIndex >= 2 ** height) throw new LayoutError(`there is no leaf ${leafIndex} in a tree of height ${height}`);
  // Nodes are numbered as in a heap: the root is 1, the leaves start at 2^height.
  nodes.forEach(({ index }, level) => {
    if (index !== Math.floor((2 ** height + leafIndex) / 2 ** level))
      throw new LayoutError(`node ${index} is not on the path of leaf ${leafIndex}`);
  });
  const path = nodes.map(({ hash }) => hash);
  const root = path.pop() as Uint8Array;
  return { tree, height, seq, leafIndex, path, root };
}

/** The bytes that a program logged; null when the noop has another purpose. Errors: LayoutError. */
export function readApplicationData(data: Uint8Array): Uint8Array | null {
  if (data[0] !== APPLICATION_DATA) return null;
  const reader = createByteReader(data, 1);
  requireVersion(reader.u8());
  return reader.blob();
}

function requireVersion(version: number): void {
  if (version !== 0) throw new LayoutError(`unknown version ${version}`, 1);
}

/** An event of a concurrent tree. */
export type ConcurrentEvent = ChangeEvent | CloseEvent;

/** A leaf was set. Keys and hashes are 32 bytes, views of the block's bytes. */
export interface ChangeEvent extends ChangeLog {
  /**
   * `start`: the tree was created empty; `prepared`: it was created with leaves that no event contains; `change`: one leaf was appended or
   * replaced.
   */
  readonly kind: 'start' | 'prepared' | 'change';
  /** The asset that Bubblegum stores in this leaf; null when the leaf was emptied or belongs to another program. */
  readonly asset: LeafSchema | null;
  /** Name of the instruction of Bubblegum that made the change; empty when it is unknown, null when another program made it. */
  readonly operation: string | null;
  /** The metadata of the asset (`writeLeafMetadata`), if the instruction has it and the leaf its hashes. */
  readonly metadata: Uint8Array | null;
}

/** The tree was closed. */
interface CloseEvent {
  readonly kind: 'close';
  readonly tree: Uint8Array;
}

/** A call that must have emitted a readable change and did not: its tree can no longer be trusted. */
interface ConcurrentFault {
  readonly reason: string;
  /** 32 bytes; null when the call names no tree. */
  readonly tree: Uint8Array | null;
}

/** Content of a leaf of a Bubblegum tree. Keys and hashes are 32 bytes. */
export interface LeafSchema {
  readonly version: 1 | 2;
  readonly id: Uint8Array;
  readonly owner: Uint8Array;
  readonly delegate: Uint8Array;
  readonly nonce: bigint;
  readonly dataHash: Uint8Array;
  readonly creatorHash: Uint8Array;
  /** Version 2 only. */
  readonly more: {
    readonly collectionHash: Uint8Array;
    readonly assetDataHash: Uint8Array;
    readonly flags: number;
  } | null;
}

const LEAF_EVENT = 1;

/**
 * Reads Bubblegum's event from application data; null when it is of another program. Any program may log such data: a schema is valid only if
 * its `hashLeaf` is the leaf of a tree. Errors: LayoutError.
 */
export function readLeafEvent(data: Uint8Array): LeafSchema | null {
  if (data[0] !== LEAF_EVENT) return null;
  // Kind and version of the event; only the version of the schema matters.
  const reader = createByteReader(data, 2);
  const variant = reader.u8();
  if (variant > 1) throw new LayoutError(`unknown leaf schema ${variant}`, 2);
  const schema = readSchema(reader, variant === 1 ? 2 : 1);
  reader.key();
  if (reader.left > 0) throw new LayoutError(`${reader.left} bytes are left`, reader.offset);
  return schema;
}

function readSchema(reader: ByteReader, version: 1 | 2): LeafSchema {
  return {
    version,
    id: reader.key(),
    owner: reader.key(),
    delegate: reader.key(),
    nonce: reader.u64(),
    dataHash: reader.key(),
    creatorHash: reader.key(),
    more: version === 1 ? null : { collectionHash: reader.key(), assetDataHash: reader.key(), flags: reader.u8() },
  };
}

/** The leaf of a schema. */
export function hashLeaf({ version, nonce, more, ...schema }: LeafSchema): Uint8Array {
  const number = new Uint8Array(8);
  new DataView(number.buffer).setBigUint64(0, nonce, true);
  const hash = keccak_256.create();
  hash.update(Uint8Array.of(version));
  for (const part of [schema.id, schema.owner, schema.delegate, number, schema.dataHash, schema.creatorHash])
    hash.update(part);
  if (more !== null) hash.update(more.collectionHash).update(more.assetDataHash).update(Uint8Array.of(more.flags));
  return hash.digest();
}
