/** One update of a tree. Sequence numbers have no gaps; `slot` is that of the block. */
export type TreeUpdate = LeafUpdate | NullifyUpdate | IndexedUpdate | BatchUpdate;

interface Step {
  readonly seq: number;
  readonly slot: number;
}

/** V1: a leaf is appended. */
interface LeafUpdate extends Step {
  readonly kind: 'leaf';
  readonly index: number;
  readonly hash: Uint8Array;
}

/** V1: a leaf becomes zero. */
interface NullifyUpdate extends Step {
  readonly kind: 'nullify';
  readonly index: number;
}

/** V1: a leaf of an address tree is set. */
export interface IndexedUpdate extends Step {
  readonly kind: 'indexed';
  readonly index: number;
  readonly hash: Uint8Array;
  readonly value: Uint8Array;
  readonly nextIndex: number;
  readonly nextValue: Uint8Array;
}

/** V2: the part `[oldNextIndex, newNextIndex)` of a queue goes into the tree. */
export interface BatchUpdate extends Step {
  readonly kind: 'append' | 'batchNullify' | 'addressAppend';
  readonly oldNextIndex: number;
  readonly newNextIndex: number;
  readonly newRoot: Uint8Array;
}

/** A row of `compression_pending`. */
export interface PendingRow {
  tree: number;
  seq: number;
  kind: string;
  slot: number;
  body: string;
}

const BYTES = new Set(['hash', 'value', 'nextValue', 'newRoot']);

export function pendingRow(tree: number, { seq, slot, kind, ...rest }: TreeUpdate): PendingRow {
  const body = Object.fromEntries(
    Object.entries(rest).map(([name, value]) => [
      name,
      value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value,
    ]),
  );
  return { tree, seq, kind, slot, body: JSON.stringify(body) };
}

export function updateOf({ seq, kind, slot, body }: PendingRow): TreeUpdate {
  const fields = Object.entries(JSON.parse(body) as Record<string, unknown>).map(([name, value]) => [
    name,
    BYTES.has(name) ? new Uint8Array(Buffer.from(value as string, 'base64')) : value,
  ]);
  return { ...Object.fromEntries(fields), seq, slot, kind } as TreeUpdate;
}

/** A tree as described by its account, the configuration or the table of well-known trees. Keys are 32 bytes. */
export interface NewTree {
  readonly key: Uint8Array;
  /** `TREE_TYPE` of the Light programs, or `CONCURRENT_TREE`. */
  readonly type: number;
  /** The tree itself when it is its own queue; null when missing or unknown. */
  readonly queue: Uint8Array | null;
  readonly height: number;
  /** Null until the account was read. */
  readonly rootCapacity: number | null;
  readonly nextTree: Uint8Array | null;
}

/** A key in an event that is not our tree, with the reason. */
export interface ForeignTree {
  readonly foreign: string;
}

/** Looks up unknown trees before the transaction of a block starts. */
export interface TreeSource {
  /**
   * The tree with this key, or whose output queue has it, as the block at `slot` saw it or later. Errors: COMPRESSION_TREE_UNREADABLE after all attempts, COMPRESSION_TREE_UNDECLARED
   * without a chain to read from; the block then waits and is retried.
   */
  lookUp(key: Uint8Array, slot: number): Promise<NewTree | ForeignTree>;
}
