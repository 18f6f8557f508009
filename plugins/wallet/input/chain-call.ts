import { type ChainReader, codeOf } from '../../../src/kernel/plugin.ts';
import { RequestError } from '../../../src/kernel/request.ts';

/** Calls of which an answer is needed: what the upstream refuses is a 503, because then nothing is known. */
export interface ChainCall {
  call<T>(method: string, params: readonly unknown[]): Promise<T>;
  /** The same as text, for numbers beyond 2^53. */
  text(method: string, params: readonly unknown[]): Promise<string>;
}

/** `chain` null: all calls are refused. */
export function createChainCall(chain: ChainReader | null): ChainCall {
  const refused = () =>
    Promise.reject(new RequestError(503, 'Service unavailable', { details: 'No Solana upstream is configured' }));
  if (chain === null) return { call: refused, text: refused };
  return {
    call: <T>(method: string, params: readonly unknown[]) => refusedAs503(method, chain.call<T>(method, params)),
    text: (method, params) => refusedAs503(method, chain.callText(method, params)),
  };
}

/** The answer of an upstream; an error that means that it has none becomes a 503 that says so. */
export async function refusedAs503<T>(method: string, answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    const details = refusalOf(codeOf(error), method);
    throw details === null ? error : new RequestError(503, 'Service unavailable', { details, cause: error });
  }
}

/** What a caller may know of it; null for what the error mapper knows by itself. */
function refusalOf(code: string | undefined, method: string): string | null {
  if (code === 'CHAIN_RPC_ERROR') return `The Solana upstream refused ${method}`;
  if (code === 'CHAIN_BAD_RESPONSE') return `The Solana upstream gave a wrong answer to ${method}`;
  if (code === 'WALLET_NO_TRANSACTION') return 'The Solana upstreams do not agree about a transaction';
  if (code === 'UPSTREAM_TOO_LARGE') return `The answer of the Solana upstream to ${method} is too large`;
  return null;
}
