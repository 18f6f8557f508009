import { defineRoute, type Route, Type } from '../../../src/kernel/plugin.ts';
import { json, RequestError } from '../../../src/kernel/request.ts';
import { isPlainObject } from '../../../src/lib/plain-object.ts';
import { commitmentQuery, enhancedSchema, MARGIN_MS, REFUSALS, type RouteParts } from './parts.ts';
import { signatureOf } from './signature-of.ts';

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
    async handler({ body, query, signal }) {
      const signatures = readBody(body);
      const distinct = [...new Set(signatures)];
      const found = await transactions.fetch(distinct, query.commitment ?? 'confirmed', signal);
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
