import { createHash } from 'node:crypto';
import { encode32 } from '../../../src/lib/base58.ts';

/** base58 of SHA-256("parhelion local chain" ‖ 0 ‖ seed). */
export function genesisHashOf(seed: string): string {
  return encode32(createHash('sha256').update(`parhelion local chain\0${seed}`).digest());
}
