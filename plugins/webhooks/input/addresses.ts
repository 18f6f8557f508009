import { RequestError } from '../../../src/kernel/request.ts';
import { decode32 } from '../../../src/lib/base58.ts';

const SHOWN_CHARS = 64;

/**
 * The 32-byte keys of a list of base58 addresses, each once, in the order of their first appearance.
 * Throws 400 with the position of the first entry that is none. `what` names the field.
 */
export function parseAddresses(value: unknown, what = 'accountAddresses'): Uint8Array[] {
  if (!Array.isArray(value)) throw new RequestError(400, `${what} must be an array of strings`);
  const seen = new Set<string>();
  const keys: Uint8Array[] = [];
  for (let at = 0; at < value.length; at += 1) {
    const text: unknown = value[at];
    if (typeof text === 'string' && seen.has(text)) continue;
    const key = typeof text === 'string' ? decode32(text) : null;
    if (key === null) {
      throw new RequestError(400, `${what}[${at}]: '${shown(text)}' is not a valid Solana address`);
    }
    // Each key has one base58 spelling only, so equal texts are the only duplicates.
    seen.add(text as string);
    keys.push(key);
  }
  return keys;
}

export function refuseTooMany(count: number, max: number): void {
  if (count > max) {
    throw new RequestError(400, `accountAddresses: at most ${max} addresses per webhook, got ${count}`);
  }
}

function shown(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value));
  return text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}…` : text;
}
