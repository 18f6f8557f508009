import { createHmac } from 'node:crypto';
import { type Static, Type } from '@sinclair/typebox';
import { decode32 } from '../../../src/lib/base58.ts';
import { isPlainObject, parseVerbatim } from '../../../src/lib/json.ts';
import { type RpcErrorObject, rpcReplyOf } from '../../../src/lib/json-rpc.ts';
import { defineRoute, type Random, type Route } from '../../../src/plugin/plugin.ts';
import { json, RequestError } from '../../../src/plugin/request.ts';
import type { InjectedCall } from '../../../src/ports/daemon-view.ts';
import type { OffChainDocuments } from '../../../src/ports/tokens.ts';
import { createKeccakPairs } from '../../../src/solana/concurrent/tree.ts';
import { address, orNull, signature } from '../../../src/solana/schemas.ts';
import { demandOwnProject, identityName, sameText } from '../sessions.ts';
import { API, missing, PAGE_ROUTE, type PageContext, projectParams, REFUSALS, sessionCallerOf } from './common.ts';

export interface LookUpParts {
  readonly documents: OffChainDocuments | undefined;
  readonly random: Random;
}

/**
 * Wallets and assets by their address, and transactions by their signature: calls of the API on behalf of a project, at its credits and rates, and the pictures that their
 * answers name. A picture is fetched only with the proof that an answer named it, so the daemon is no proxy for any address.
 */
export function lookUpRoutes(context: PageContext, { documents, random }: LookUpParts): readonly Route[] {
  const key = random.bytes(32);
  const proofOf = (uri: string): string => createHmac('sha256', key).update(uri).digest('base64url');
  return [callRoute(context, proofOf), pictureRoute(context, documents, proofOf)];
}

type ProofOf = (uri: string) => string;

const page = Type.Integer({ minimum: 1, maximum: 1_000_000, description: 'Page, from 1' });
const what = <const T extends string>(name: T) => Type.Literal(name, { description: 'What is looked up' });

/** One call: what its members mean is in `requestOf`. */
const lookUpBody = Type.Union([
  Type.Object({ what: what('asset'), address: address() }),
  Type.Object({ what: what('proof'), address: address() }),
  Type.Object({ what: what('balances'), address: address(), page }),
  Type.Object({ what: what('nfts'), address: address(), page }),
  Type.Object({ what: what('members'), address: address(), page }),
  Type.Object({
    what: what('transactions'),
    address: address(),
    isCompressed: Type.Boolean({ description: 'Whether the address is a compressed asset' }),
  }),
  Type.Object({ what: what('transaction'), signature: signature() }),
  Type.Object({
    what: what('words'),
    address: address(),
    after: orNull(Type.String({ maxLength: 64, description: 'Where the page before ended; null: the first page' })),
  }),
  Type.Object({ what: what('changes'), address: address() }),
  Type.Object({ what: what('lamports'), address: address() }),
  Type.Object({ what: what('holders'), address: address() }),
  Type.Object({
    what: what('accounts'),
    addresses: Type.Array(address(), { minItems: 1, maxItems: 20, description: 'The accounts' }),
  }),
]);
type LookUp = Static<typeof lookUpBody>;

/** Assets of a page, and transactions. */
const PAGE_SIZE = 48;
const TRANSACTIONS = 10;
/** Transactions whose changes of balance are plotted: one page of a history. */
const CHANGES = 100;
/** The commitment of all look-ups: parts of a page fit each other. */
const NEW = { commitment: 'confirmed' } as const;

const rpc = (method: string, params: unknown) => ({
  method: 'POST',
  path: '/',
  body: { jsonrpc: '2.0', id: 1, method, params },
});

function requestOf(wanted: LookUp): Pick<InjectedCall, 'method' | 'path' | 'body'> {
  if (wanted.what === 'transaction')
    return {
      method: 'POST',
      path: '/v1/parsed-events/transactions',
      body: { transactions: [wanted.signature], rawTransaction: 'json' },
    };
  if (wanted.what === 'accounts')
    return rpc('getMultipleAccounts', [wanted.addresses, { ...NEW, encoding: 'jsonParsed' }]);
  const { address } = wanted;
  switch (wanted.what) {
    case 'balances':
      return { method: 'GET', path: `/v1/wallet/${address}/balances?page=${wanted.page}` };
    case 'changes':
      return { method: 'GET', path: `/v1/wallet/${address}/history?limit=${CHANGES}` };
    case 'words':
      return {
        method: 'POST',
        path: '/v1/parsed-events/transaction-history',
        body: {
          address,
          limit: TRANSACTIONS,
          status: 'any',
          ...(wanted.after === null ? {} : { paginationToken: wanted.after }),
        },
      };
    case 'lamports':
      return rpc('getBalance', [address, NEW]);
    case 'holders':
      return rpc('getTokenLargestAccounts', [address, NEW]);
    case 'asset':
      return rpc('getAsset', { id: address, options: { showFungible: true, showUnverifiedCollections: true } });
    case 'proof':
      return rpc('getAssetProof', { id: address });
    case 'nfts':
      return rpc('getAssetsByOwner', { ownerAddress: address, page: wanted.page, limit: PAGE_SIZE });
    case 'members':
      return rpc('getAssetsByGroup', {
        groupKey: 'collection',
        groupValue: address,
        page: wanted.page,
        limit: PAGE_SIZE,
      });
    case 'transactions':
      return wanted.isCompressed
        ? rpc('getSignaturesForAsset', { id: address, page: 1, limit: TRANSACTIONS })
        : rpc('getSignaturesForAddress', [address, { limit: TRANSACTIONS }]);
  }
}

function callRoute(context: PageContext, proofOf: ProofOf): Route {
  const { daemon, guard } = context;
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'POST',
    path: `${API}/projects/:project/look-up`,
    summary: 'Look up a wallet, an asset or a transaction on behalf of a project',
    params: projectParams,
    body: lookUpBody,
    replies: {
      200: Type.Object({ result: Type.Unknown(), pictures: Type.Record(Type.String(), Type.String()) }),
      ...REFUSALS,
      409: REFUSALS[400],
      429: REFUSALS[400],
      501: REFUSALS[400],
      502: REFUSALS[400],
      503: REFUSALS[400],
      504: REFUSALS[400],
    },
    async handler(request) {
      const session = guard.confirm(request);
      const { project } = request.params;
      demandOwnProject(session, project);
      const { caller, isDisabled } = await sessionCallerOf(context, project);
      if (isDisabled) throw new RequestError(409, 'the project is disabled: enable it first');
      const { body: wanted, requestId, log, signal, remoteAddress } = request;
      const call = { ...requestOf(wanted), caller, isCharged: true, requestId, log, signal, remoteAddress };
      const result = call.path === '/' ? resultOf(await callText(call)) : parseVerbatim(await callText(call));
      const proofs = Object.fromEntries(picturesOf(result).map((uri) => [uri, proofOf(uri)]));
      return json({ result: wanted.what === 'proof' ? checked(result) : result, pictures: proofs });
    },
  });

  async function callText(call: InjectedCall): Promise<string> {
    try {
      return (await daemon.call(call)).text;
    } catch (error) {
      const plugin = call.path.startsWith('/v1/wallet/') ? 'wallet' : 'parsed';
      if (error instanceof RequestError && error.status === 404) throw missing(`the plugin ${plugin} is not loaded`);
      throw error;
    }
  }
}

/** Statuses of JSON-RPC errors. None is 401: the session is not what was refused. */
const STATUSES: Readonly<Record<number, number>> = {
  [-32000]: 404,
  [-32001]: 409,
  [-32002]: 503,
  [-32003]: 504,
  [-32005]: 429,
  [-32403]: 403,
  [-32600]: 400,
  [-32602]: 400,
};

function resultOf(text: string): unknown {
  const reply = rpcReplyOf(parseVerbatim(text));
  if (reply === null) throw new RequestError(502, 'The upstream gave a wrong answer');
  if ('result' in reply) return reply.result;
  const { code, message, data } = reply.error as RpcErrorObject;
  if (code === -32601) throw missing('no plugin and no upstream has this method');
  const details = isPlainObject(data) && typeof data['details'] === 'string' ? data['details'] : undefined;
  throw new RequestError(
    STATUSES[code] ?? 502,
    message,
    details === undefined || details === message ? {} : { details },
  );
}

/** The members of answers that name pictures. */
const NAMES: ReadonlySet<string> = new Set(['image', 'imageUri', 'logoUri', 'uri']);
/** Pictures of one answer, and characters of a URI, which becomes part of a path. */
const MAX_PICTURES = 500;
const LONGEST_URI = 2_048;
/** Levels of JSON that are searched: a file of an asset in a list is a few less. */
const DEEPEST = 10;

function picturesOf(answer: unknown): readonly string[] {
  const found = new Set<string>();
  const look = (value: unknown, depth: number): void => {
    if (depth > DEEPEST) return;
    if (Array.isArray(value)) for (const item of value) look(item, depth + 1);
    else if (isPlainObject(value))
      for (const [name, member] of Object.entries(value)) {
        if (typeof member !== 'string') look(member, depth + 1);
        else if (NAMES.has(name) && member !== '' && member.length <= LONGEST_URI && found.size < MAX_PICTURES)
          found.add(member);
      }
  };
  look(answer, 0);
  return [...found];
}

const pairs = createKeccakPairs();

/** A proof with whether its hashes lead from its leaf to its root. */
function checked(proof: unknown): unknown {
  if (!isPlainObject(proof)) return proof;
  const { leaf, root, node_index: node } = proof;
  const path = Array.isArray(proof['proof']) ? (proof['proof'] as readonly unknown[]) : null;
  const hashes = [leaf, root, ...(path ?? [])].map((text) => (typeof text === 'string' ? decode32(text) : null));
  const isReadable = path !== null && typeof node === 'number' && hashes.every((hash) => hash !== null);
  return { leaf, root, isProven: isReadable && leadsToRoot(hashes as readonly Uint8Array[], node) };
}

function leadsToRoot([leaf, root, ...siblings]: readonly Uint8Array[], node: number): boolean {
  let hash = leaf as Uint8Array;
  let at = node;
  for (const sibling of siblings) {
    const pair = Buffer.concat(at % 2 === 0 ? [hash, sibling] : [sibling, hash]);
    hash = new Uint8Array(32);
    pairs.hashPairs(pair, 0, hash, 0, 1);
    at = Math.floor(at / 2);
  }
  return Buffer.compare(hash, root as Uint8Array) === 0;
}

/**
 * A stranger chose these bytes. Their kind is one of few that are no documents; if somebody opens them by themselves, they are saved, and
 * nothing in them could run or load.
 */
const PICTURE_HEADERS = {
  'Content-Security-Policy': "default-src 'none'; sandbox",
  'Content-Disposition': 'attachment',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'private, max-age=3600',
} as const;

/** Browsers of users connect to no host but this one. */
function pictureRoute(
  { guard, picturePace }: PageContext,
  documents: OffChainDocuments | undefined,
  proofOf: ProofOf,
): Route {
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: `${API}/picture`,
    summary: 'The picture behind a URI that an answer named',
    query: Type.Object({
      uri: Type.String({ minLength: 1, maxLength: LONGEST_URI }),
      proof: Type.String({ maxLength: 64, description: 'From `pictures` of the answer' }),
    }),
    replies: { 200: Type.String({ contentMediaType: 'image/*' }), ...REFUSALS, 429: REFUSALS[400] },
    async handler(request) {
      const { identity } = guard.enter(request);
      const { uri, proof } = request.query;
      if (!sameText(proof, proofOf(uri))) throw new RequestError(403, 'No answer named this picture');
      picturePace(identity);
      const options = { group: identityName(identity), signal: request.signal };
      const picture = (await documents?.picture(uri, options)) ?? null;
      if (picture === null) throw new RequestError(404, 'There is no picture');
      return { status: 200, ...picture, headers: PICTURE_HEADERS };
    },
  });
}
