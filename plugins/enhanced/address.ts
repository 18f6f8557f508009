import { decode, decode32 } from '../../src/lib/base58.ts';
import { defineRoute, type Route, Type } from '../../src/plugin/plugin.ts';
import { json, RequestError } from '../../src/plugin/request.ts';
import type { Commitment } from '../../src/ports/chain.ts';
import type { ReadTransaction } from '../../src/solana/parsers/enhance.ts';
import { addressQuery, MAX_LIMIT, windowOf } from './address-query.ts';
import type { Asker, SignatureRow } from './fetch.ts';
import { type HistoryQuestion, newestFirst, oldestFirst } from './history.ts';
import { enhancedSchema, MARGIN_MS, NOT_FOUND, REFUSALS, type RouteParts } from './parts.ts';

const MAX_PAGE = 1_000;
const SIGNATURE_BYTES = 64;
const MAX_TIMEOUT_MS = 120_000;

interface Wanted {
  readonly question: HistoryQuestion;
  readonly limit: number;
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
    params: Type.Object({ address: Type.String() }),
    documented: {
      params: { address: Type.String({ pattern: '^[1-9A-HJ-NP-Za-km-z]{32,44}$', description: 'base58' }) },
    },
    query: addressQuery,
    replies: { 200: Type.Array(enhancedSchema), ...NOT_FOUND, ...REFUSALS },
    async handler({ params, query, signal, tenant }) {
      if (decode32(params.address) === null) throw new RequestError(400, 'address is not a valid Solana address');
      const [type, source] = [query.type?.toUpperCase(), query.source?.toUpperCase()];
      const accepts = (one: ReadTransaction): boolean =>
        (type === undefined || type === 'ANY' || one.type === type) && (source === undefined || one.source === source);
      const window = windowOf(query);
      const limit = query.limit ?? MAX_LIMIT;
      const isAscending = query['sort-order'] === 'asc';
      const question: HistoryQuestion = {
        ...{ address: params.address, window, commitment: query.commitment ?? 'confirmed' },
        before: signatureParam('before', query.before ?? query['before-signature']),
        until: signatureParam('until', query.until ?? query['after-signature']),
        // What is skipped is only listed and not read.
        pageSize: isAscending || window.toSlot !== null || window.toTime !== null ? MAX_PAGE : limit,
      };
      const wanted: Wanted = { question, limit, accepts };
      const found = await (isAscending
        ? fromOldest(parts, wanted, { signal, tenant })
        : fromNewest(parts, wanted, { signal, tenant }));
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
async function fromNewest(
  { transactions, elements, config }: RouteParts,
  { question, limit, accepts }: Wanted,
  asker: Asker,
): Promise<readonly ReadTransaction[]> {
  const reader = createReader({ transactions, elements, commitment: question.commitment, asker });
  const found: ReadTransaction[] = [];
  let looked = 0;
  for await (const { rows, last } of newestFirst(transactions, question, asker)) {
    for (let at = 0; at < rows.length && found.length < limit; at += limit) {
      const read = await reader(rows.slice(at, at + limit));
      found.push(...read.filter(accepts).slice(0, limit - found.length));
      looked += read.length;
    }
    if (found.length >= limit) return found;
    if (looked < Math.max(config.scanLimit, limit)) continue;
    if (found.length > 0) return found;
    throw new RequestError(
      404,
      `No such transaction among those that were looked through. To search on, set \`before\` to ${last}`,
    );
  }
  return found;
}

async function fromOldest(
  { transactions, elements, config }: RouteParts,
  { question, limit, accepts }: Wanted,
  asker: Asker,
): Promise<readonly ReadTransaction[]> {
  const reader = createReader({ transactions, elements, commitment: question.commitment, asker });
  const rows = await oldestFirst(transactions, question, config.sortLimit, asker);
  const found: ReadTransaction[] = [];
  for (let at = 0; at < Math.min(rows.length, Math.max(config.scanLimit, limit)) && found.length < limit; at += limit)
    found.push(...(await reader(rows.slice(at, at + limit))).filter(accepts).slice(0, limit - found.length));
  return found;
}

interface ReaderParts extends Pick<RouteParts, 'transactions' | 'elements'> {
  readonly commitment: Commitment;
  readonly asker: Asker;
}

function createReader({ transactions, elements, commitment, asker }: ReaderParts) {
  return async (rows: readonly SignatureRow[]): Promise<readonly ReadTransaction[]> => {
    const signatures = rows.map(({ signature }) => signature);
    const fetched = await transactions.fetch(signatures, commitment, asker);
    return fetched.map((one) => {
      if (one !== null) return elements.read(one);
      // A node that lists a transaction and does not have it has lost it: an answer without it would be wrong.
      throw new RequestError(503, 'Incomplete history: the upstream lacks a transaction that it lists');
    });
  };
}
