/** One step in the life of a tree. Steps of a tree count up without holes; `slot` is that of the block that told it. */
export type TreeUpdate = LeafUpdate | NullifyUpdate | IndexedUpdate | BatchUpdate;

interface Step {
  readonly seq: number;
  readonly slot: number;
}

/** V1: a leaf is appended. */
export interface LeafUpdate extends Step {
  readonly kind: 'leaf';
  readonly index: number;
  readonly hash: Uint8Array;
}

/** V1: a leaf becomes zero. */
export interface NullifyUpdate extends Step {
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
