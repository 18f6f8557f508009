import { readFileSync } from 'node:fs';
import type { Keypair } from '@solana/web3.js';
import { EXIT } from '../../kernel/errors.ts';
import { CodedError } from '../../lib/coded-error.ts';

/** Reads a file of solana-keygen. Errors: SIGNUP_KEYPAIR, exit 64; never with what is in the file. */
export async function readWalletFile(path: string): Promise<Keypair> {
  const { Keypair: keypair } = await import('@solana/web3.js');
  try {
    return keypair.fromSecretKey(Uint8Array.from(JSON.parse(readFileSync(path, 'utf8')) as number[]));
  } catch {
    throw new CodedError('SIGNUP_KEYPAIR', `${path} cannot be read, or is no keypair of 64 numbers`, {
      exitCode: EXIT.usage,
    });
  }
}
