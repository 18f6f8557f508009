import { createByteReader, LayoutError } from '../byte-reader.ts';

/** A change of a tree as its program tells it. */
export interface ChangeLog {
  readonly tree: Uint8Array;
  readonly height: number;
  readonly seq: number;
  readonly leafIndex: number;
  /** From the leaf up, without the root. */
  readonly path: readonly Uint8Array[];
  readonly root: Uint8Array;
}

const CHANGE_LOG = 0;
const APPLICATION_DATA = 1;
const NODE_BYTES = 32 + 4;
/** The programs allow no higher trees; indexes of nodes are 32 bits. */
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
  // Nodes are numbered as in a heap: the root is 1, the leaves begin at 2^height.
  nodes.forEach(({ index }, level) => {
    if (index !== Math.floor((2 ** height + leafIndex) / 2 ** level))
      throw new LayoutError(`node ${index} is not on the path of leaf ${leafIndex}`);
  });
  const path = nodes.map(({ hash }) => hash);
  const root = path.pop() as Uint8Array;
  return { tree, height, seq, leafIndex, path, root };
}

/** The bytes that a program gave to be logged; null when the noop is something else. Errors: LayoutError. */
export function readApplicationData(data: Uint8Array): Uint8Array | null {
  if (data[0] !== APPLICATION_DATA) return null;
  const reader = createByteReader(data, 1);
  requireVersion(reader.u8());
  return reader.blob();
}

function requireVersion(version: number): void {
  if (version !== 0) throw new LayoutError(`unknown version ${version}`, 1);
}
