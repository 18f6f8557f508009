import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { Type } from '@sinclair/typebox';
import type { RpcFallback, RpcForward } from '../../../src/plugin/host.ts';
import { CodedError, JsonBytes, JsonText, type Price, RpcError, type RpcMethod } from '../../../src/plugin/plugin.ts';

const price: Price = { product: 'photon', credits: 10, groups: ['photon'] };

/** Methods that a plugin answers, one of each kind of outcome. */
export function sampleMethods(): RpcMethod[] {
  const method = (
    name: string,
    params: RpcMethod['params'],
    handler: RpcMethod['handler'],
    more: Partial<RpcMethod> = {},
  ): RpcMethod => ({
    name,
    summary: name,
    tag: 'Sample',
    auth: 'key',
    price,
    params,
    result: Type.Unknown(),
    handler,
    ...more,
  });
  const none = Type.Union([Type.Array(Type.Unknown()), Type.Object({})]);
  return [
    method(
      'getCompressedAccountProof',
      Type.Object({ hash: Type.String({ minLength: 32, maxLength: 44 }) }),
      (call) => ({
        context: { slot: 7 },
        value: { hash: call.params.hash },
      }),
    ),
    method('bigNumber', none, () => ({ lamports: 18446744073709551615n })),
    method('readyText', none, () => new JsonText('{"a": 1 , "b":18446744073709551615}')),
    method('readyBytes', none, () => new JsonBytes(['{"a": 1 ,', '"b":"é🦊"}'].map((text) => Buffer.from(text)))),
    method('wait', Type.Tuple([Type.Integer({ minimum: 0, maximum: 1_000 })]), async (call) => {
      await sleep(call.params[0]);
      return call.params[0];
    }),
    method('hang', none, (call) => new Promise((resolve) => call.signal.addEventListener('abort', resolve)), {
      timeoutMs: 200,
    }),
    method('unknownHash', none, () => {
      throw new RpcError('notFound', { message: 'Record Not Found: hash abc' });
    }),
    method('bug', none, () => {
      throw new Error('postgres://user:pass@host');
    }),
    method('storeDown', none, () => {
      throw new CodedError('STORE_UNREACHABLE', 'postgres://user:pass@host');
    }),
    // Its clients read the body of a 200 only, whatever happens.
    method('ownWords', Type.Array(Type.Integer()), (call) => outcomeOf(call.params), {
      checksParams: true,
      errorStatus: 200,
      timeoutMs: 200,
    }),
    method('getIndexerHealth', none, () => 'ok', { auth: 'none', price: { ...price, credits: 0 } }),
  ];
}

/** `{"fail": "bug" | "store" | "words"}` throws, `{"fail": "hang"}` never ends, everything else comes back. */
function outcomeOf(params: unknown): unknown {
  const fail = (params as { fail?: string }).fail;
  if (fail === 'bug') throw new Error('postgres://user:pass@host');
  if (fail === 'store') throw new CodedError('STORE_UNREACHABLE', 'postgres://user:pass@host');
  if (fail === 'words') throw new RpcError('invalidParams', { details: 'own words' });
  return fail === 'hang' ? new Promise(() => undefined) : params;
}

export interface SampleFallback extends RpcFallback {
  readonly seen: RpcForward[];
}

/**
 * Answers like an upstream whose params say what to do: `{"text": …}` sends that text as the result, `{"ms": n}` waits, `{"stream":
 * true}` sends it in pieces, `{"error": n}` is an error object of the node, `{"fail": name}` throws.
 */
export function sampleFallback(): SampleFallback {
  const seen: RpcForward[] = [];
  return {
    seen,
    price: (name) => ({ product: 'rpc', credits: name === 'getProgramAccounts' ? 10 : 1, groups: ['rpc'] }),
    forward: async (call) => {
      seen.push(call);
      const raw = call.params === null ? '{}' : call.body.toString('utf8', call.params.start, call.params.end);
      const first = ([] as unknown[]).concat(JSON.parse(raw))[0] ?? {};
      const sample = first as {
        text?: string;
        ms?: number;
        stream?: boolean;
        error?: number;
        fail?: string;
        bytes?: number;
      };
      if (sample.ms !== undefined) await sleep(sample.ms);
      if (sample.fail === 'unavailable') throw new RpcError('unavailable', { retryAfterS: 7 });
      if (sample.fail === 'timeout') throw new RpcError('timeout');
      if (sample.fail !== undefined) throw new Error('https://node.example/?token=secret');
      const id = call.id ?? 'null';
      const result = sample.bytes === undefined ? (sample.text ?? '1') : JSON.stringify('x'.repeat(sample.bytes));
      const text =
        sample.error === undefined
          ? `{"jsonrpc":"2.0", "result" : ${result},"id":${id}}`
          : `{"jsonrpc":"2.0","error":{"code":${sample.error},"message":"from the node"},"id":${id}}`;
      const half = Math.floor(text.length / 2);
      const body = sample.stream
        ? Readable.from([Buffer.from(text.slice(0, half)), Buffer.from(text.slice(half))])
        : Buffer.from(text);
      return { status: 200, headers: { 'X-Cache': 'MISS' }, body, answered: true };
    },
  };
}
