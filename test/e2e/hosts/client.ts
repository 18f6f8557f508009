/** Calls of the API process that is there now; what was answered, and what it costs, goes into the book. */
import { BOOTSTRAP_KEY } from '../../helpers/built-daemon.ts';
import type { CallKind, CallsBook } from './calls-book.ts';

export interface Answer {
  readonly status: number;
  readonly body: unknown;
}

export interface Client {
  /** A REST call; null without an answer. */
  get(kind: CallKind, path: string): Promise<Answer | null>;
  /** The result of a JSON-RPC call; null where it was refused or not answered. */
  rpc<T>(kind: CallKind, method: string, params: unknown): Promise<T | null>;
  /** Notes a call that somebody else makes; gives its status, 0 without an answer. */
  note(kind: CallKind, call: Promise<number>): Promise<number>;
}

/** Nobody was there to take the call. */
const UNHEARD: readonly unknown[] = ['ECONNREFUSED'];

/** A wallet without history is answered with 404, which costs as much. */
const isCharged = (kind: CallKind, status: number) => status === 200 || (kind === 'wallet' && status === 404);

export function createClient(api: () => string, book: CallsBook): Client {
  async function send(kind: CallKind, path: string, init: RequestInit): Promise<Answer | null> {
    try {
      const response = await fetch(`${api()}${path}${path.includes('?') ? '&' : '?'}api-key=${BOOTSTRAP_KEY}`, init);
      const text = await response.text();
      return { status: response.status, body: text === '' ? null : JSON.parse(text) };
    } catch (error) {
      lost(kind, error);
      return null;
    }
  }

  function lost(kind: CallKind, error: unknown): void {
    const { code } = ((error as Error).cause ?? {}) as { readonly code?: unknown };
    if (!UNHEARD.includes(code)) book.unknown(kind);
  }

  return {
    async get(kind, path) {
      const answer = await send(kind, path, {});
      if (answer !== null && isCharged(kind, answer.status)) book.answered(kind);
      return answer;
    },
    async rpc<T>(kind: CallKind, method: string, params: unknown) {
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
      const headers = { 'content-type': 'application/json' };
      const answer = await send(kind, '/', { method: 'POST', body, headers });
      const result = (answer?.body as { readonly result?: T } | null | undefined)?.result;
      if (answer?.status !== 200 || result === undefined) return null;
      book.answered(kind);
      return result;
    },
    async note(kind, call) {
      try {
        const status = await call;
        if (isCharged(kind, status)) book.answered(kind);
        return status;
      } catch (error) {
        lost(kind, error);
        return 0;
      }
    },
  };
}
