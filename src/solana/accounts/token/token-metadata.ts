import { createByteReader } from '../../byte-reader.ts';
import { attempt, type Decoded } from '../decoded.ts';
import { keyText, nullableKey, text } from '../fields.ts';

/** Metadata in an extension of Token-2022. Keys are base58. */
export interface TokenMetadata {
  readonly updateAuthority: string | null;
  readonly mint: string;
  readonly name: string;
  readonly symbol: string;
  readonly uri: string;
  readonly additional: readonly (readonly [key: string, value: string])[];
}

/** The least that a pair of texts takes: two lengths. */
const PAIR_BYTES = 8;

/** Reads the value of the extension `TokenMetadata`. */
export function decodeTokenMetadata(value: Uint8Array): Decoded<TokenMetadata> {
  return attempt(() => {
    const reader = createByteReader(value);
    const updateAuthority = nullableKey(reader);
    const [mint, name, symbol, uri] = [keyText(reader), text(reader), text(reader), text(reader)];
    const additional = reader.list(() => [text(reader), text(reader)] as const, PAIR_BYTES);
    return { updateAuthority, mint, name, symbol, uri, additional };
  });
}
