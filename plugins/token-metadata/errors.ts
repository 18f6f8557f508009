/** Coded errors of this plugin. */
export const TOKEN_METADATA_ERRORS = {
  TOKEN_METADATA_TOO_MANY_MINTS: 'one look-up asks for more mints than may',
  TOKEN_METADATA_LIST_UNREADABLE: 'the token list that the configuration names cannot be read',
} as const;
