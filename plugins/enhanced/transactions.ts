import { decode, encode64 } from '../../src/lib/base58.ts';
import { isPlainObject } from '../../src/lib/json.ts';
import { defineRoute, type Route, Type } from '../../src/plugin/plugin.ts';
import { json, RequestError } from '../../src/plugin/request.ts';
import { peekWire } from '../../src/solana/decode/walk-wire.ts';
import { MAX_VERSION_1_BYTES } from '../../src/solana/decode/wire-layout.ts';
import { commitmentQuery, enhancedSchema, MARGIN_MS, REFUSALS, type RouteParts } from './parts.ts';

const MAX_TRANSACTIONS = 100;

/** `POST /v0/transactions`: up to 100 transactions by signature. Those that the chain does not have are left out. */
export function transactionsRoute({ transactions, elements, config }: RouteParts): Route {
  const rounds = Math.ceil(MAX_TRANSACTIONS / config.concurrency);
  return defineRoute({
    method: 'POST',
    path: '/v0/transactions',
    summary: 'What up to 100 transactions did',
    tag: 'Enhanced transactions',
    auth: 'key',
    errors: 'plain',
    price: { product: 'enhancedApi', credits: config.credits, groups: ['das'] },
    timeoutMs: Math.min(rounds * config.upstreamTimeoutMs, 120_000) + config.namesTimeoutMs + MARGIN_MS,
    query: Type.Object({ commitment: commitmentQuery }),
    body: Type.Union([
      Type.Object({
        transactions: Type.Array(Type.String(), {
          maxItems: MAX_TRANSACTIONS,
          description: 'signatures in base58, or signed transactions in base64',
        }),
      }),
      // The handler checks in its own words.
      Type.Unknown(),
    ]),
    replies: { 200: Type.Array(enhancedSchema), ...REFUSALS },
    async handler({ body, query, signal, tenant }) {
      const signatures = readBody(body);
      const distinct = [...new Set(signatures)];
      const found = await transactions.fetch(distinct, query.commitment ?? 'confirmed', { signal, tenant });
      const bySignature = new Map(distinct.map((signature, at) => [signature, found[at] ?? null]));
      const read = signatures.flatMap((signature) => {
        const fetched = bySignature.get(signature) ?? null;
        return fetched === null ? [] : [elements.read(fetched)];
      });
      return json(await elements.write(read));
    },
  });
}

function readBody(body: unknown): readonly string[] {
  const given = isPlainObject(body) ? body['transactions'] : undefined;
  if (!Array.isArray(given) || given.some((item) => typeof item !== 'string'))
    throw new RequestError(400, `transactions must be an array of at most ${MAX_TRANSACTIONS} strings`);
  if (given.length > MAX_TRANSACTIONS)
    throw new RequestError(400, `at most ${MAX_TRANSACTIONS} transactions per request, got ${given.length}`);
  return given.map((text: string, at) => {
    const signature = signatureOf(text);
    if (signature === null)
      throw new RequestError(400, `transactions[${at}] is neither a signature nor a signed transaction in base64`);
    return signature;
  });
}

const SIGNATURE_BYTES = 64;
const MAX_SIGNATURE_CHARS = 88;
const MAX_TRANSACTION_CHARS = Math.ceil(MAX_VERSION_1_BYTES / 3) * 4;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

/** The signature that a text is, or the first one of the signed transaction in it; null for anything else. */
function signatureOf(text: string): string | null {
  if (text.length <= MAX_SIGNATURE_CHARS) return decode(text)?.length === SIGNATURE_BYTES ? text : null;
  if (text.length > MAX_TRANSACTION_CHARS || !BASE64.test(text)) return null;
  const bytes = Buffer.from(text, 'base64');
  const [count = 0] = bytes;
  // From version 1 on the signatures come last, and only what comes before them says where they begin.
  if (count > 0x80) return version1Signature(bytes);
  const isOne = count >= 1 && count <= 19 && bytes.length > 1 + count * SIGNATURE_BYTES;
  return isOne ? encode64(bytes, 1) : null;
}

function version1Signature(bytes: Uint8Array): string | null {
  try {
    return peekWire(bytes).signature;
  } catch {
    return null;
  }
}
