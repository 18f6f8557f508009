import { defineRoute, type Route, Type } from '../../../src/kernel/plugin.ts';
import { json, RequestError } from '../../../src/kernel/request.ts';
import { decode, decode32 } from '../../../src/lib/base58.ts';
import type { Commitment } from '../../../src/ports/chain.ts';
import type { ReadTransaction } from '../../../src/solana/parsers/enhance.ts';
import { commitmentQuery, enhancedSchema, MARGIN_MS, NOT_FOUND, REFUSALS, type RouteParts } from './parts.ts';

const MAX_LIMIT = 100;
const SIGNATURE_BYTES = 64;
const MAX_TIMEOUT_MS = 120_000;

interface Wanted {
  readonly address: string;
  readonly limit: number;
  readonly until: string | null;
  readonly commitment: Commitment;
  readonly accepts: (transaction: ReadTransaction) => boolean;
}

/** `GET /v0/addresses/{address}/transactions`: the newest transactions of an address, newest first. */
export function addressRoute(parts: RouteParts): Route {
  const { config } = parts;
  return defineRoute({
    method: 'GET',
    path: '/v0/addresses/:address/transactions',
    summary: 'What the newest transactions of an address did',
    tag: 'Enhanced transactions',
    auth: 'key',
    errors: 'plain',
    price: { product: 'enhancedApi', credits: config.credits, groups: ['das'], chargedStatuses: [404] },
    timeoutMs: MAX_TIMEOUT_MS + MARGIN_MS,
    params: Type.Object({ address: Type.String({ description: 'base58' }) }),
    query: Type.Object({
      before: Type.Optional(Type.String({ description: 'signature; older ones than this' })),
      until: Type.Optional(Type.String({ description: 'signature; newer ones than this' })),
      'before-signature': Type.Optional(Type.String({ description: 'the same as before' })),
      'after-signature': Type.Optional(Type.String({ description: 'the same as until' })),
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_LIMIT, description: 'default 100' })),
      type: Type.Optional(Type.String({ description: 'only transactions of this type' })),
      source: Type.Optional(Type.String({ description: 'only transactions of this source' })),
      commitment: commitmentQuery,
    }),
    replies: { 200: Type.Array(enhancedSchema), ...NOT_FOUND, ...REFUSALS },
    async handler({ params, query, signal }) {
      if (decode32(params.address) === null) throw new RequestError(400, 'address is not a valid Solana address');
      const before = signatureParam('before', query.before ?? query['before-signature']);
      const until = signatureParam('until', query.until ?? query['after-signature']);
      const [type, source] = [query.type?.toUpperCase(), query.source?.toUpperCase()];
      const wanted: Wanted = {
        ...{ address: params.address, limit: query.limit ?? MAX_LIMIT, until },
        commitment: query.commitment ?? 'confirmed',
        accepts: (one) =>
          (type === undefined || type === 'ANY' || one.type === type) &&
          (source === undefined || one.source === source),
      };
      const found = await search(parts, wanted, before, signal);
      return json(await parts.elements.write(found));
    },
  });
}

function signatureParam(name: string, text: string | undefined): string | null {
  if (text === undefined || text === '') return null;
  if (text.length <= 88 && decode(text)?.length === SIGNATURE_BYTES) return text;
  throw new RequestError(400, `${name} is not a transaction signature`);
}

/** Reads on until there are enough that fit, the address has no more, or the bound is reached. */
async function search(
  { transactions, elements, config }: RouteParts,
  { address, limit, until, commitment, accepts }: Wanted,
  from: string | null,
  signal: AbortSignal,
): Promise<readonly ReadTransaction[]> {
  const found: ReadTransaction[] = [];
  let before = from;
  for (let scanned = 0; scanned < Math.max(config.scanLimit, limit); ) {
    const rows = await transactions.page(address, { before, until, limit, commitment }, signal);
    const fetched = await transactions.fetch(
      rows.map(({ signature }) => signature),
      commitment,
      signal,
    );
    for (const one of fetched) {
      // A node that lists a transaction and does not have it has lost it: an answer without it would be wrong.
      if (one === null)
        throw new RequestError(503, 'Incomplete history: the upstream lacks a transaction that it lists');
      const read = elements.read(one);
      if (accepts(read) && found.length < limit) found.push(read);
    }
    if (found.length >= limit || rows.length < limit) return found;
    scanned += rows.length;
    before = rows.at(-1)?.signature ?? before;
  }
  if (found.length > 0) return found;
  throw new RequestError(
    404,
    `No such transaction among those that were looked through. To search on, set \`before\` to ${before}`,
  );
}
