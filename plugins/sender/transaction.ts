import { RpcError } from '../../src/kernel/plugin.ts';
import { decode } from '../../src/lib/base58.ts';
import { isPlainObject } from '../../src/lib/plain-object.ts';
import { peekWire, type WirePeek } from '../../src/solana/decode/peek-wire.ts';

/** A signed transaction, checked as far as that goes without the chain. */
export interface SignedTransaction {
  readonly wire: Buffer;
  readonly peek: WirePeek;
}

export interface SendCall extends SignedTransaction {
  /** Options that are passed on; `encoding` says how `wire` is written. */
  readonly options: Readonly<Record<string, unknown>>;
}

/** What fits into one packet of the cluster. */
const MAX_WIRE_BYTES = 1_232;
const MAX_BUNDLE = 5;
/** Options of a node that may pass. */
const PASSED_OPTIONS = ['skipPreflight', 'preflightCommitment', 'maxRetries', 'minContextSlot'];

/** `[transaction, {encoding, skipPreflight, maxRetries, ...}]`. Throws -32602. */
export function readSendParams(params: unknown): SendCall {
  const [text, given] = Array.isArray(params) ? (params as unknown[]) : [];
  if (typeof text !== 'string') throw invalid('params[0] has to be the transaction as a string');
  if (given !== undefined && given !== null && !isPlainObject(given)) throw invalid('params[1] has to be an object');
  const options = given ?? {};
  const encoding = options['encoding'] ?? 'base58';
  if (encoding !== 'base58' && encoding !== 'base64') throw invalid('encoding has to be base58 or base64');
  const passed = PASSED_OPTIONS.filter((name) => name in options).map((name) => [name, options[name]]);
  return { ...readTransaction(text, encoding, 'params[0]'), options: Object.fromEntries(passed) };
}

/** `[[transaction, ...], {encoding: "base64"}]`. Throws -32602. */
export function readBundleParams(params: unknown): readonly SignedTransaction[] {
  const [list, options] = Array.isArray(params) ? (params as unknown[]) : [];
  if (!Array.isArray(list) || list.length === 0 || list.length > MAX_BUNDLE) {
    throw invalid(`params[0] has to be a list of 1 to ${MAX_BUNDLE} transactions`);
  }
  if (!isPlainObject(options) || options['encoding'] !== 'base64') throw invalid('encoding has to be base64');
  return list.map((text: unknown, index) => {
    const name = `params[0][${index}]`;
    if (typeof text !== 'string') throw invalid(`${name} has to be a string`);
    return readTransaction(text, 'base64', name);
  });
}

function readTransaction(text: string, encoding: 'base58' | 'base64', name: string): SignedTransaction {
  // Longer text cannot be a transaction, and decoding base58 takes quadratic time.
  if (text.length > MAX_WIRE_BYTES * 2) throw invalid(`${name} is larger than ${MAX_WIRE_BYTES} bytes`);
  const wire = encoding === 'base64' ? fromBase64(text) : fromBase58(text);
  if (wire === null) throw invalid(`${name} is not ${encoding}`);
  if (wire.length > MAX_WIRE_BYTES) throw invalid(`${name} is larger than ${MAX_WIRE_BYTES} bytes`);
  let peek: WirePeek;
  try {
    peek = peekWire(wire);
  } catch {
    throw invalid(`${name} is not a transaction`);
  }
  if (peek.signatureCount < 1 || peek.isUnsigned) throw invalid(`${name} is not signed`);
  return { wire, peek };
}

function fromBase64(text: string): Buffer | null {
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64').replace(/=+$/, '') === text.replace(/=+$/, '') ? bytes : null;
}

function fromBase58(text: string): Buffer | null {
  const bytes = decode(text);
  return bytes === null ? null : Buffer.from(bytes);
}

const invalid = (details: string) => new RpcError('invalidParams', { details });
