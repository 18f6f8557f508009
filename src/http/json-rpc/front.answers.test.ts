/** What an answer keeps in memory until its client has read it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { testCore } from '../../../test/helpers/http-front.ts';
import { createManualClock } from '../../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../../test/helpers/memory-log.ts';
import type { Gate } from '../../plugin/host.ts';
import { type CallContext, JsonBytes, JsonText, Type } from '../../plugin/plugin.ts';
import { OWN_WORK } from '../../ports/access.ts';
import { createMetricsRegistry } from '../../runtime/metrics.ts';
import { createRpcFront, type RpcAnswer } from './front.ts';

const MB = 1_000_000;
const ANSWER_BYTES = 8 * MB;

setFlagsFromString('--expose_gc');
const collect = runInNewContext('gc') as () => void;

async function buffersAfter(work: () => Promise<unknown>): Promise<number> {
  const measure = async () => {
    for (let i = 0; i < 2; i += 1) {
      collect();
      await new Promise((resolve) => setImmediate(resolve));
    }
    return process.memoryUsage().arrayBuffers;
  };
  const before = await measure();
  const kept = await work();
  const after = await measure();
  assert.ok(kept !== undefined);
  return after - before;
}

function createFront() {
  const log = createMemoryLog();
  const caller = { projectId: 'p', keyId: 'k', plan: 'free', wallet: null };
  const gate: Gate = { authenticate: () => caller, admit: () => ({ headers: {}, charge: () => 1 }) };
  const front = createRpcFront({
    fallback: null,
    gate,
    log,
    clock: createManualClock(),
    core: testCore(),
    metrics: createMetricsRegistry().scope('rpc'),
    methods: [
      {
        name: 'getBig',
        summary: '',
        tag: '',
        auth: 'key',
        price: { product: 'rpc', credits: 1, groups: ['rpc'] },
        params: Type.Array(Type.Unknown()),
        result: Type.Unknown(),
        handler: async () => new JsonBytes([Buffer.from(`"${'x'.repeat(ANSWER_BYTES)}"`)]),
      },
      {
        name: 'getPart',
        summary: '',
        tag: '',
        auth: 'key',
        price: { product: 'rpc', credits: 1, groups: ['rpc'] },
        params: Type.Array(Type.Unknown()),
        result: Type.Unknown(),
        handler: () => new JsonText('[]', undefined, { 'x-incomplete-trees': 'one' }),
      },
    ],
  });
  const context = {
    requestId: 'r',
    caller,
    log,
    tenant: OWN_WORK,
    signal: new AbortController().signal,
    remoteAddress: '',
  };
  const call = (id: number) => `{"jsonrpc":"2.0","id":${id},"method":"getBig"}`;
  return {
    call,
    ask: async (body: string) => await front.handleHttp(Buffer.from(body), context as unknown as CallContext),
  };
}

test('the answer to a batch is kept once, not beside the answers of its items', async () => {
  const { ask, call } = createFront();
  let answer: RpcAnswer | null = null;
  const grown = await buffersAfter(async () => {
    answer = await ask(`[${[1, 2, 3, 4].map(call).join()}]`);
    return answer;
  });
  const size = (answer!.body as Buffer).length;
  assert.ok(size > 4 * ANSWER_BYTES);
  assert.ok(grown < 1.2 * size, `${grown} bytes are kept of an answer of ${size}`);
});

test('the bill of an answer, which is kept until the client has read it, does not keep the answer', async () => {
  const { ask, call } = createFront();
  for (const body of [call(1), `[${call(1)},${call(2)}]`]) {
    const grown = await buffersAfter(async () => (await ask(body)).bill);
    assert.ok(grown < MB, `${grown} bytes`);
  }
});

test('headers of a result are those of the answer to a single call; a batch has none', async () => {
  const { ask } = createFront();
  const part = '{"jsonrpc":"2.0","id":1,"method":"getPart"}';
  assert.deepEqual({ ...(await ask(part)).headers }, { 'x-incomplete-trees': 'one' });
  assert.deepEqual({ ...(await ask(`[${part}]`)).headers }, {});
});
