import { INVOKE, readInvocation } from '../compression/instructions.ts';
import { LIGHT_SYSTEM_PROGRAM, LIGHT_TOKEN_PROGRAM } from '../programs.ts';
import { namedParser } from './named.ts';
import { discriminatorOf, type TransactionParser } from './parser.ts';

const source = 'UNKNOWN';

/** Compressed accounts moved without another program: mostly lamports. */
export const lightSystem: TransactionParser = {
  name: 'light-system',
  programs: [LIGHT_SYSTEM_PROGRAM],
  outcomes: ['DEPOSIT', 'WITHDRAW', 'TRANSFER', 'CREATE'].map((type) => ({ type, source })),
  parse({ outer }) {
    for (const { programId, data } of outer) {
      const type = programId === LIGHT_SYSTEM_PROGRAM ? typeOf(data) : null;
      if (type !== null) return { type, source };
    }
    return null;
  },
};

/** Lamports enter or leave the pool of the program; otherwise accounts are replaced or created. */
function typeOf(data: Uint8Array): string | null {
  const call = discriminatorOf(data) === INVOKE ? readInvocation(data) : null;
  if (call === null) return null;
  if (call.lamports > 0n) return call.isCompress ? 'DEPOSIT' : 'WITHDRAW';
  if (call.inputs > 0) return 'TRANSFER';
  return call.outputs > 0 ? 'CREATE' : null;
}

/** Tokens in compressed accounts. The instructions have published types, but no source. */
export const compressedToken = namedParser({
  name: 'compressed-token',
  program: LIGHT_TOKEN_PROGRAM,
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
