/** Coded errors of this plugin. */
export const COMPRESSION_ERRORS = {
  COMPRESSION_TREE_UNREADABLE: 'the account of a tree that a block references cannot be read',
  COMPRESSION_TREE_UNDECLARED: 'a block references a tree that is neither declared nor readable from a chain',
  COMPRESSION_USAGE: 'a command was called with options that do not fit together',
  COMPRESSION_SNAPSHOT_EMPTY: 'nothing is indexed yet',
  COMPRESSION_SNAPSHOT_DAMAGED: 'a file is not a snapshot, or is damaged',
  COMPRESSION_SNAPSHOT_FOREIGN: 'a snapshot is of another chain, program or schema',
  COMPRESSION_SNAPSHOT_WRONG: 'a tree of a snapshot contradicts itself or the chain',
  COMPRESSION_SNAPSHOT_IN_USE: 'the store already contains compressed accounts',
  COMPRESSION_SNAPSHOT_FETCH: 'a snapshot cannot be downloaded',
  COMPRESSION_SNAPSHOT_LISTEN: 'the address for serving snapshots cannot be listened on',
  COMPRESSION_TREE_WRONG: 'trees do not match their rows, or the chain',
} as const;
