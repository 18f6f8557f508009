import { LIGHT_SYSTEM } from '../compression/programs.ts';
import { INVOKE, readInvocation } from '../compression/system-instruction.ts';
import { namedParser } from './named.ts';
import { discriminatorOf, type TransactionParser } from './parser.ts';

const source = 'UNKNOWN';

/** Compressed accounts that somebody moves without a program of their own: lamports, for the most part. */
export const lightSystem: TransactionParser = {
  name: 'light-system',
  programs: [LIGHT_SYSTEM],
  outcomes: ['DEPOSIT', 'WITHDRAW', 'TRANSFER', 'CREATE'].map((type) => ({ type, source })),
  parse({ outer }) {
    for (const { programId, data } of outer) {
      const type = programId === LIGHT_SYSTEM ? typeOf(data) : null;
      if (type !== null) return { type, source };
    }
    return null;
  },
};

/** Lamports go into the pool of the program or come out of it; else accounts take the places of others, or are new. */
function typeOf(data: Uint8Array): string | null {
  const call = discriminatorOf(data) === INVOKE ? readInvocation(data) : null;
  if (call === null) return null;
  if (call.lamports > 0n) return call.isCompress ? 'DEPOSIT' : 'WITHDRAW';
  if (call.inputs > 0) return 'TRANSFER';
  return call.outputs > 0 ? 'CREATE' : null;
}

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
