import { equalBytes } from '../../lib/equal-bytes.ts';
import { createByteReader, LayoutError } from '../byte-reader.ts';
import type { CompressedAccount } from './events.ts';

/** The data of a compressed token account. */
export interface TokenAccount {
  readonly mint: Uint8Array;
  readonly owner: Uint8Array;
  readonly amount: bigint;
  readonly delegate: Uint8Array | null;
  readonly state: 'initialized' | 'frozen';
  /** Extensions, unparsed; null without any. */
  readonly tlv: Uint8Array | null;
}

/** Discriminators of token accounts in hex. */
const TOKEN_ACCOUNTS = new Set(['0200000000000000', '0000000000000003', '0000000000000004']);

/** Whether an account of the compressed-token program holds tokens. `tokenProgram` is its 32 bytes. */
export function isTokenAccount(account: CompressedAccount, tokenProgram: Uint8Array): boolean {
  const { owner, data } = account;
  return (
    data !== null &&
    equalBytes(owner, tokenProgram) &&
    TOKEN_ACCOUNTS.has(Buffer.from(data.discriminator).toString('hex'))
  );
}

/**
 * Reads the data. Bytes after the known fields are kept as `tlv`: new extensions must not stop an indexer. Null when the
 * fixed part is incomplete.
 */
export function readTokenAccount(data: Uint8Array): TokenAccount | null {
  const reader = createByteReader(data);
  try {
    const fixed = {
      mint: reader.key(),
      owner: reader.key(),
      amount: reader.u64(),
      delegate: reader.option(reader.key),
    };
    const state = reader.u8();
    if (state > 1) return null;
    return { ...fixed, state: state === 1 ? 'frozen' : 'initialized', tlv: restOf(data, reader.offset) };
  } catch (error) {
    if (error instanceof LayoutError) return null;
    throw error;
  }
}

/** Empty or zero: null. A one precedes the rest; anything else belongs to an unknown extension. */
function restOf(data: Uint8Array, from: number): Uint8Array | null {
  const rest = data.subarray(from);
  if (rest.length === 0 || (rest.length === 1 && rest[0] === 0)) return null;
  const tlv = rest[0] === 1 ? rest.subarray(1) : rest;
  return tlv.length === 0 ? null : tlv;
}
