import { createHash } from 'node:crypto';
import { Keypair } from '@solana/web3.js';
import { decode, decode32, encode32 } from '../../lib/base58.ts';

/** base58 of SHA-256("parhelion local chain" ‖ 0 ‖ seed). */
export function genesisHashOf(seed: string): string {
  return encode32(createHash('sha256').update(`parhelion local chain\0${seed}`).digest());
}

/** The one key pair that everybody knows: its lamports are worth nothing by design. */
export function faucetKeypair(): Keypair {
  return Keypair.fromSeed(createHash('sha256').update('parhelion local faucet').digest());
}

/**
 * SHA-256(previous hash ‖ slot u64 LE ‖ branch u32 LE ‖ first signatures in order). The branch number keeps two branches
 * from ever sharing a hash.
 */
export function blockhashOf(previous: string, slot: number, branch: number, signatures: readonly string[]): string {
  const head = Buffer.alloc(12);
  head.writeBigUInt64LE(BigInt(slot), 0);
  head.writeUInt32LE(branch, 8);
  const hash = createHash('sha256').update(decode32(previous)!).update(head);
  for (const signature of signatures) hash.update(decode(signature)!);
  return encode32(hash.digest());
}
