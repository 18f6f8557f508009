/** A tree as its account, the configuration or the table of well-known trees describes it. Keys are 32 bytes. */
export interface NewTree {
  readonly key: Uint8Array;
  /** `TREE_TYPE` of the Light programs, or `CONCURRENT_TREE`. */
  readonly type: number;
  /** The tree itself where it is its own queue, null where there is none or it is not known. */
  readonly queue: Uint8Array | null;
  readonly height: number;
  /** Null until the account was read. */
  readonly rootCapacity: number | null;
  readonly nextTree: Uint8Array | null;
}

/** A key that an event names and that is no tree of ours; says why. */
export interface ForeignTree {
  readonly foreign: string;
}

/** Where unknown trees are looked up before a block's transaction begins. */
export interface TreeSource {
  /**
   * The tree with this key, or whose output queue has it, as the block at `slot` saw it or later. Errors: COMPRESSION_TREE_UNREADABLE after all attempts, COMPRESSION_TREE_UNDECLARED
   * where there is no chain to read from; the block then waits and is tried again.
   */
  lookUp(key: Uint8Array, slot: number): Promise<NewTree | ForeignTree>;
}
