import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../address/known-programs.ts';

/** Bytes of a mint and of a token account without extensions, and of an account of several signers. */
const MINT_BYTES = 82;
const TOKEN_ACCOUNT_BYTES = 165;
const MULTISIG_BYTES = 355;
/** Behind the longer of the two stands which one it is; then the extensions. */
export const ACCOUNT_TYPE_OFFSET = 165;
const ACCOUNT_TYPE = { mint: 1, account: 2 } as const;

/** Whether a program keeps tokens in the layout of SPL Token. */
function isTokenProgram(program: string): boolean {
  return program === TOKEN_PROGRAM || program === TOKEN_2022_PROGRAM;
}

/** Whether the bytes have the form of a mint or of a token account of this program. Says nothing of their content. */
export function hasForm(kind: 'mint' | 'account', program: string, data: Uint8Array): boolean {
  const baseBytes = kind === 'mint' ? MINT_BYTES : TOKEN_ACCOUNT_BYTES;
  if (!isTokenProgram(program)) return false;
  if (data.length === baseBytes) return true;
  if (program !== TOKEN_2022_PROGRAM || data.length <= ACCOUNT_TYPE_OFFSET || data.length === MULTISIG_BYTES)
    return false;
  if (data[ACCOUNT_TYPE_OFFSET] !== ACCOUNT_TYPE[kind]) return false;
  // A shorter base is filled up, so that both kinds have their type at one place.
  return data.subarray(baseBytes, ACCOUNT_TYPE_OFFSET).every((byte) => byte === 0);
}
