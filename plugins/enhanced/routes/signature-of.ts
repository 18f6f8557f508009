import { decode, encode64 } from '../../../src/lib/base58.ts';

const SIGNATURE_BYTES = 64;
const MAX_SIGNATURE_CHARS = 88;
/** A transaction takes no more. */
const MAX_TRANSACTION_BYTES = 1_232;
const MAX_TRANSACTION_CHARS = Math.ceil(MAX_TRANSACTION_BYTES / 3) * 4;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

/** The signature that a text is, or that the signed transaction in it begins with; null for anything else. */
export function signatureOf(text: string): string | null {
  if (text.length <= MAX_SIGNATURE_CHARS) return decode(text)?.length === SIGNATURE_BYTES ? text : null;
  if (text.length > MAX_TRANSACTION_CHARS || !BASE64.test(text)) return null;
  const bytes = Buffer.from(text, 'base64');
  const [count = 0] = bytes;
  const isOne = count >= 1 && count <= 19 && bytes.length > 1 + count * SIGNATURE_BYTES;
  return isOne ? encode64(bytes, 1) : null;
}
