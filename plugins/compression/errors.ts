/** Coded errors of this plugin. */
export const COMPRESSION_ERRORS = {
  COMPRESSION_TREE_UNREADABLE: 'the account of a tree that a block names cannot be read',
  COMPRESSION_TREE_UNDECLARED: 'a block names a tree that is neither declared nor can be read from a chain',
  COMPRESSION_USAGE: 'a command was called with options that do not fit together',
  COMPRESSION_SNAPSHOT_EMPTY: 'there is nothing that a snapshot could hold',
  COMPRESSION_SNAPSHOT_DAMAGED: 'a file is no snapshot, or not what was written',
  COMPRESSION_SNAPSHOT_FOREIGN: 'a snapshot is of another chain, program or schema',
  COMPRESSION_SNAPSHOT_WRONG: 'a tree of a snapshot contradicts itself or the chain',
  COMPRESSION_SNAPSHOT_IN_USE: 'a snapshot is to be loaded into a store that holds compressed accounts',
  COMPRESSION_SNAPSHOT_FETCH: 'a snapshot cannot be downloaded',
  COMPRESSION_SNAPSHOT_LISTEN: 'the address to offer snapshots on cannot be listened on',
  COMPRESSION_TREE_WRONG: 'trees do not fit their rows, or the chain',
} as const;
