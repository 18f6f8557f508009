import { createByteReader } from '../../byte-reader.ts';
import { attempt, type Decoded, undecoded } from '../decoded.ts';
import { optionalKey } from '../fields.ts';
import type { RawAccount } from '../raw-account.ts';
import { type Extension, readExtensions } from './extensions.ts';
import { hasForm } from './token-program.ts';

/** A mint of SPL Token or Token-2022. Keys are base58. */
export interface Mint {
  readonly program: string;
  readonly mintAuthority: string | null;
  /** Raw units. */
  readonly supply: bigint;
  readonly decimals: number;
  readonly freezeAuthority: string | null;
  /** Empty for SPL Token. */
  readonly extensions: readonly Extension[];
}

/** Reads a mint. One that was never initialised is no mint: `foreign`. */
export function decodeMint({ owner, data }: Pick<RawAccount, 'owner' | 'data'>): Decoded<Mint> {
  if (!hasForm('mint', owner, data)) return undecoded(data.length === 0 ? 'missing' : 'foreign');
  const read = attempt(() => {
    const reader = createByteReader(data);
    const mintAuthority = optionalKey(reader);
    const [supply, decimals, isInitialized] = [reader.u64(), reader.u8(), reader.bool()];
    return { program: owner, mintAuthority, supply, decimals, freezeAuthority: optionalKey(reader), isInitialized };
  });
  if (read.value === null) return read;
  const { isInitialized, ...mint } = read.value;
  return isInitialized ? { value: { ...mint, extensions: readExtensions(data) }, reason: null } : undecoded('foreign');
}
