import { decode } from '../../lib/base58.ts';

/** The runtime allows 10 KiB of data, which is 14,000 characters; decoding cost grows with the square of the length. */
const MAX_CHARACTERS = 32_768;

/** The bytes of an instruction's base58 data, or null when it is none or too long. */
export function instructionData(text: unknown): Uint8Array | null {
  return typeof text === 'string' && text.length <= MAX_CHARACTERS ? decode(text) : null;
}
