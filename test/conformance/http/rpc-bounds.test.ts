/** What no caller, plugin or upstream can make the JSON-RPC front do. */
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { Type } from '@sinclair/typebox';
import { createSystemClock } from '../../../src/adapters/clock.ts';
import { createRpcFront } from '../../../src/http/json-rpc/front.ts';
import { scanRpcBody } from '../../../src/http/json-rpc/scan.ts';
import type { Gate, RpcFallback } from '../../../src/plugin/host.ts';
import type { CallContext, RpcMethod } from '../../../src/plugin/plugin.ts';
import { OWN_WORK } from '../../../src/ports/access.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { GOOD_KEY, startFront, testCore } from '../../helpers/http-front.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';

const WAIT = { timeout: 20_000 };
const PIECE = Buffer.alloc(65_536, 0x20);
const PIECES = 500;

const open: Gate = {
  authenticate: async () => ({ projectId: 'p', keyId: 'k', plan: 'free', wallet: null }),
  admit: async () => ({ headers: {}, charge: () => 0 }),
};

/** Answers with a stream of many megabytes; `made` counts what was asked of it. */
function streaming() {
  let made = 0;
  const fallback: RpcFallback = {
    price: () => ({ product: 'rpc', credits: 1, groups: ['rpc'] }),
    forward: async () => {
      let left = PIECES;
      const body = new Readable({
        read() {
          made += 1;
          this.push(left-- > 0 ? PIECE : null);
        },
      });
      return { status: 200, headers: {}, body, answered: true };
    },
  };
  return { fallback, made: () => made };
}

function setUp(
  options: { gate?: Gate; fallback?: RpcFallback; methods?: RpcMethod[] } = {},
  rpc: Parameters<typeof testCore>[1] = {},
) {
  const log = createMemoryLog();
  const front = createRpcFront({
    methods: [],
    fallback: null,
    gate: open,
    log,
    clock: createSystemClock(),
    ...options,
    core: testCore({}, rpc),
    metrics: createMetricsRegistry().scope('rpc'),
  });
  const context: CallContext = {
    requestId: 'r',
    log,
    signal: new AbortController().signal,
    remoteAddress: '127.0.0.1',
    tenant: OWN_WORK,
    caller: { projectId: 'p', keyId: 'k', plan: 'free', wallet: null },
  };
  return { front, log, context };
}
const call = (method: string) => `{"jsonrpc":"2.0","id":1,"method":"${method}"}`;

test('an answer that has to be sent in one piece is held up to its limit only', WAIT, async () => {
  const { fallback, made } = streaming();
  const { front, context } = setUp({ fallback }, { maxUpstreamBytes: 1_000_000 });
  const answer = await front.dispatch(Buffer.from(call('getBlock')), context);
  assert.match(String(answer), /"code":-32603.*larger than 1000000 bytes.*"id":1\}$/);
  assert.ok(made() < 40, `${made()} pieces were read`);
});

test('an answer in a batch is held up to the limit of the batch only', WAIT, async () => {
  const { fallback, made } = streaming();
  const { front, context } = setUp({ fallback }, { maxBatchBytes: 1_000_000 });
  const { body } = await front.handleHttp(Buffer.from(`[${call('getBlock')}]`), context);
  assert.match(String(body), /batch answer too large/);
  assert.ok(made() < 40, `${made()} pieces were read`);
});

test('a gate that fails, at once or later, is an internal error of one call', WAIT, async () => {
  for (const admit of [
    () => Promise.reject(new TypeError('postgres://user:pass@host')),
    () => {
      throw new TypeError('postgres://user:pass@host');
    },
  ])
    for (const body of [call('getSlot'), `[${call('getSlot')}]`]) {
      const { fallback } = streaming();
      const { front, context, log } = setUp({ gate: { ...open, admit }, fallback });
      const answer = await front.handleHttp(Buffer.from(body), context);
      assert.match(String(answer.body), /"code":-32603/);
      assert.doesNotMatch(String(answer.body), /postgres/);
      assert.equal(log.lines.filter(({ level }) => level === 'error').length, 1);
    }
});

test('the signal of a method aborts when no caller waits for it', WAIT, async (t) => {
  let told: (reason: unknown) => void = () => undefined;
  const aborted = new Promise((resolve) => {
    told = resolve;
  });
  const hang: RpcMethod = {
    name: 'hang',
    summary: '',
    tag: '',
    auth: 'key',
    params: Type.Unknown(),
    result: Type.Unknown(),
    price: { product: 'rpc', credits: 1, groups: ['rpc'] },
    timeoutMs: 100,
    handler: ({ signal }) =>
      new Promise(() => signal.addEventListener('abort', () => told(signal.reason), { once: true })),
  };
  const { front, context } = setUp({ methods: [hang] });
  // The timers of the daemon keep nothing alive.
  const hold = setInterval(() => undefined, 1_000);
  t.after(() => clearInterval(hold));
  assert.match(String((await front.handleHttp(Buffer.from(call('hang')), context)).body), /"code":-32003/);
  assert.ok((await aborted) instanceof Error);
});

test('members without number are read in a time that grows with their number alone', { timeout: 30_000 }, () => {
  // Compared each with each they would take minutes.
  const members = Array.from({ length: 400_000 }, (_, i) => `"k${i}":1`).join(',');
  const scanned = scanRpcBody(Buffer.from(`{${members},"k7":2}`), { maxDepth: 64, maxItems: 10 });
  assert.equal(scanned.kind === 'single' && scanned.call.problem, 'the member "k7" is given twice');
});

test('a request is answered in time, although what answers it keeps no time of its own', WAIT, async () => {
  const fallback: RpcFallback = {
    price: () => ({ product: 'rpc', credits: 1, groups: ['rpc'] }),
    forward: () => new Promise(() => undefined),
  };
  const front = await startFront({ fallback, http: { handlerTimeoutMs: 100 }, rpc: { upstreamTimeoutMs: 100 } });
  for (const body of [call('getSlot'), `[${call('getSlot')}]`]) {
    const answer = await fetch(`${front.url}/?api-key=${GOOD_KEY}`, { method: 'POST', body });
    assert.equal(answer.status, 504);
    assert.match(await answer.text(), /"code":-32003/);
  }
  await front.stop();
});
