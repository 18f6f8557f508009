import { Type } from '@sinclair/typebox';
import { decode, decode32 } from '../../src/lib/base58.ts';
import { type ChainReader, codeOf, type Log, type Price, type Route } from '../../src/plugin/plugin.ts';
import { RequestError } from '../../src/plugin/request.ts';
import { type Tenant, tenantOf } from '../../src/ports/access.ts';
import type { MintFacts, TokenFacts } from '../../src/ports/tokens.ts';
import { address, flag, orNull, signature } from '../../src/solana/schemas.ts';
import type { WalletView } from './tracking/view.ts';

/** All wallet calls have the same price; a 404 is charged too. */
const WALLET_PRICE: Price = { product: 'walletApi', credits: 100, groups: ['das'], chargedStatuses: [404] };

/** Common members of all routes of this plugin. */
export const WALLET_ROUTE = {
  tag: { name: 'Wallet', description: 'Balances, history, transfers and identity of wallets' },
  auth: 'key',
  errors: 'wallet',
  price: WALLET_PRICE,
  documented: { params: { wallet: address('Address of the wallet, base58') } },
} as const satisfies Partial<Route>;

const refusal = Type.Object({ error: Type.String(), code: Type.Integer(), details: Type.Optional(Type.String()) });

export const WALLET_REFUSALS = { 400: refusal, 401: refusal, 403: refusal, 429: refusal, 503: refusal } as const;
export const NOT_FOUND = { 404: refusal } as const;

export const pagination = Type.Object(
  {
    hasMore: flag('Whether there is another page'),
    nextCursor: orNull(signature('Where the next page begins')),
  },
  { title: 'WalletPage', description: 'Where the list continues' },
);

export const walletParams = Type.Object({ wallet: Type.String({ description: 'Address, base58' }) });

const SHOWN = 64;

/** A 400 for a text that is not an address; `where` names the item of a list. */
export function notAnAddress(text: string, where?: string): RequestError {
  const prefix = where === undefined ? '' : `${where}: `;
  return new RequestError(400, 'Invalid wallet address', {
    details: `${prefix}'${text.slice(0, SHOWN)}' is not a valid Solana address`,
  });
}

/** The 32 bytes of the `wallet` in a path. Throws the 400 of all wallet routes for anything else. */
export function walletKey(text: string): Uint8Array {
  const key = text.length < 32 || text.length > 44 ? null : decode32(text);
  if (key === null) throw notAnAddress(text);
  return key;
}

const SIGNATURE_BYTES = 64;
const LONGEST = 88;

const invalid = (details?: string) => new RequestError(400, 'Invalid cursor', details === undefined ? {} : { details });

/** Position of a signature on the chain, for pages of older or newer transactions. Errors: 400 for a malformed or unknown cursor. */
export async function positionOfCursor(
  view: Pick<WalletView, 'locate'>,
  signature: string,
  wanted: 'older' | 'newer',
): Promise<number> {
  if (!isSignature(signature)) throw invalid('a cursor is a transaction signature');
  const n = await view.locate(signature, wanted);
  if (n === null) throw invalid('signature not found');
  return n;
}

/** Refuses malformed cursors before any read. */
export function checkSignatures(texts: readonly (string | undefined)[]): void {
  for (const text of texts)
    if (text !== undefined && !isSignature(text)) throw invalid('a cursor is a transaction signature');
}

/** A block without a time has that of the nearest earlier one, which nobody knows. Errors: 503, always. */
export function unknownTime(slot: number): never {
  throw new RequestError(503, 'Service unavailable', { details: `The time of slot ${slot} is unknown` });
}

export const isSignature = (text: string): boolean =>
  text.length <= LONGEST && decode(text)?.length === SIGNATURE_BYTES;

/** Calls whose answer is required: a refusal of the upstream becomes a 503, because nothing is known then. */
export interface ChainCall {
  call<T>(method: string, params: readonly unknown[], tenant: Tenant): Promise<T>;
  /** Like `call`, with the result as JSON text, for numbers beyond 2^53. */
  text(method: string, params: readonly unknown[], tenant: Tenant): Promise<string>;
}

/** `chain` null: all calls are refused. */
export function createChainCall(chain: ChainReader | null): ChainCall {
  const refused = () =>
    Promise.reject(new RequestError(503, 'Service unavailable', { details: 'No Solana upstream is configured' }));
  if (chain === null) return { call: refused, text: refused };
  return {
    call: <T>(method: string, params: readonly unknown[], tenant: Tenant) =>
      refusedAs503(method, chain.call<T>(method, params, { tenant })),
    text: (method, params, tenant) => refusedAs503(method, chain.callText(method, params, { tenant })),
  };
}

/** The answer of an upstream; an error that means there is no answer becomes a 503 with a reason. */
export async function refusedAs503<T>(method: string, answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    const details = refusalOf(codeOf(error), method);
    throw details === null ? error : new RequestError(503, 'Service unavailable', { details, cause: error });
  }
}

/** Error details for the caller; null for errors that the error mapper handles. */
function refusalOf(code: string | undefined, method: string): string | null {
  if (code === 'CHAIN_RPC_ERROR') return `The Solana upstream refused ${method}`;
  if (code === 'CHAIN_BAD_RESPONSE') return `The Solana upstream gave a wrong answer to ${method}`;
  if (code === 'WALLET_BEHIND') return 'The Solana upstream is behind the requested slot';
  if (code === 'WALLET_NO_TRANSACTION') return 'The Solana upstreams do not agree about a transaction';
  if (code === 'UPSTREAM_TOO_LARGE') return `The answer of the Solana upstream to ${method} is too large`;
  return null;
}

/** Facts of mints, for responses that are correct without them: unavailable facts are omitted. */
export interface MintFactsReader {
  /** By mint (base58); an unknown mint has no entry. Never fails. */
  known(mints: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, MintFacts>>;
  /** Like `known`, for facts on which an amount depends. Errors: 503 when one cannot be read. */
  needed(mints: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, MintFacts>>;
  /** Changes whenever facts may have changed. */
  revision(): number;
}

const MAX_AT_ONCE = 500;
const TIMEOUT_MS = 3_000;

export function createMintFactsReader(facts: TokenFacts | null, log: Log): MintFactsReader {
  async function lookUp(mints: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, MintFacts>> {
    const found = new Map<string, MintFacts>();
    const distinct = [...new Set(mints)];
    for (let at = 0; facts !== null && at < distinct.length; at += MAX_AT_ONCE) {
      const part = await facts.lookUp(distinct.slice(at, at + MAX_AT_ONCE), {
        signal,
        tenant: tenantOf(signal),
        timeoutMs: TIMEOUT_MS,
      });
      for (const [mint, one] of part) if (one !== null) found.set(mint, one);
    }
    return found;
  }

  return {
    revision: () => facts?.revision() ?? 0,
    async known(mints, signal) {
      try {
        return await lookUp(mints, signal);
      } catch (error) {
        signal.throwIfAborted();
        log.debug({ code: codeOf(error) }, 'token names are not available now');
        return new Map(
          mints.flatMap((mint) => {
            const one = facts?.peek(mint);
            return one === null || one === undefined ? [] : [[mint, one] as const];
          }),
        );
      }
    },
    async needed(mints, signal) {
      try {
        return await lookUp(mints, signal);
      } catch (error) {
        signal.throwIfAborted();
        throw new RequestError(503, 'Service unavailable', {
          details: 'The Solana upstream does not report how amounts of a token are shown',
          cause: error,
        });
      }
    },
  };
}
