import { namedParser } from '../named/named-parser.ts';

/** Tokens in compressed accounts. Its instructions have published types, and no source. */
export const compressedToken = namedParser({
  name: 'compressed-token',
  program: 'cTokenmWW8bLPjZEBAUgYy3zKxQZW6VKi7bqNFEVv3m',
  source: 'UNKNOWN',
  types: {
    create_token_pool: 'CREATE_TOKEN_POOL',
    mint_to: 'MINT_TO',
    transfer: 'TRANSFER',
    approve: 'APPROVE',
    revoke: 'REVOKE',
    freeze: 'FREEZE',
    thaw: 'THAW',
    burn: 'BURN',
  },
});
