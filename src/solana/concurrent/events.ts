import type { LeafSchema } from './leaf-schema.ts';

/** What happened to a concurrent tree. */
export type ConcurrentEvent = ChangeEvent | CloseEvent;

/** A leaf was set. Keys and hashes are 32 bytes, views on the block's bytes. */
export interface ChangeEvent {
  /**
   * `start`: the tree was made and is empty; `prepared`: it was made with leaves that no event tells; `change`: one leaf was appended or
   * replaced.
   */
  readonly kind: 'start' | 'prepared' | 'change';
  readonly tree: Uint8Array;
  /** Levels below the root. */
  readonly height: number;
  /** Sequence number of the tree after it. */
  readonly seq: number;
  readonly leafIndex: number;
  /** The new nodes from the leaf up, without the root: `height` of them. */
  readonly path: readonly Uint8Array[];
  readonly root: Uint8Array;
  /** What Bubblegum keeps in this leaf; null when the leaf was emptied or belongs to another program. */
  readonly asset: LeafSchema | null;
}

/** The tree is no more. */
export interface CloseEvent {
  readonly kind: 'close';
  readonly tree: Uint8Array;
}

/** A call that must have told of a change, and did not in a way that can be read: its tree can no longer be trusted. */
export interface ConcurrentFault {
  readonly reason: string;
  /** 32 bytes; null where the call names no tree. */
  readonly tree: Uint8Array | null;
}
