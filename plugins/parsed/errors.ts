/** Coded errors of this plugin. */
export const PARSED_ERRORS = {
  PARSED_NOT_FOUND: 'the upstreams do not have the transaction that a command asks for',
  PARSED_UNAVAILABLE: 'a command needs something of the upstreams that they do not answer now',
  PARSED_UNREADABLE: 'the transaction cannot be decoded',
  PARSED_USAGE: 'a command was called with values that make no sense',
} as const;
