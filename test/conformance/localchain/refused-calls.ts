/** Calls that a chain refuses, and what it says. */
import { stringify } from '../../../src/lib/json.ts';
import { BAD_CALLS, type BadCall } from './bad-calls.ts';

export type Answer = { result?: unknown; error?: { code: number; message: string; data?: unknown } };

export async function post(url: string, body: string): Promise<string> {
  const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  return response.text();
}

export async function call(url: string, method: string, params?: unknown): Promise<Answer> {
  return JSON.parse(await post(url, stringify({ jsonrpc: '2.0', id: 1, method, params }))) as Answer;
}

/** What a node says, without what only this chain can know. */
export function refusal([method, params, code, message, data]: BadCall) {
  return { method, params, code, message, ...(data === undefined ? {} : { data }) };
}

export async function refusals(url: string) {
  const found: unknown[] = [];
  for (const [method, params, , , data] of BAD_CALLS) {
    const { error } = await call(url, method, params);
    found.push(
      refusal([method, params, error?.code ?? 0, error?.message ?? '', data === undefined ? undefined : error?.data]),
    );
  }
  return found;
}
