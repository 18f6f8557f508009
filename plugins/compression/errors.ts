/** Coded errors of this plugin. */
export const COMPRESSION_ERRORS = {
  COMPRESSION_TREE_UNREADABLE: 'the account of a tree that a block names cannot be read',
  COMPRESSION_TREE_UNDECLARED: 'a block names a tree that is neither declared nor can be read from a chain',
} as const;
