/** Real sockets of clients, on a manual clock; everything behind them is simulated. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { WebSocket } from 'ws';
import { createRpcFront } from '../../../src/http/json-rpc/front.ts';
import type { Gate, RpcDispatch, SocketContext } from '../../../src/plugin/host.ts';
import { OWN_WORK } from '../../../src/ports/access.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { testCore } from '../../../test/helpers/http-front.ts';
import { createManualClock } from '../../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../../test/helpers/memory-log.ts';
import { until } from '../../../test/helpers/until.ts';
import { createSockets } from './handler.ts';
import type { SubscriptionHub } from './hub.ts';

const WAIT = { timeout: 20_000 };
const PING_MS = 30_000;
const CONFIG = {
  maxConnections: 3,
  maxMessageBytes: 100_000,
  maxSubscriptions: 2,
  maxParamsBytes: 3_500,
  maxInFlight: 4,
  maxQueuedBytes: 1_000_000,
  pingIntervalMs: PING_MS,
  upstreamSockets: 1,
  upstreamSubscriptions: 10,
  deduplicate: false,
  subscribeTimeoutMs: 1_000,
};

interface BedOptions {
  /** Default: the real front. */
  readonly dispatch?: RpcDispatch;
  readonly admit?: Gate['admit'];
  readonly denyMethods?: string[];
}

async function startBed(t: TestContext, options: BedOptions = {}) {
  const clock = createManualClock();
  const log = createMemoryLog();
  const held = new Set<string>();
  const hub: SubscriptionHub = {
    subscribe(call, subscriber) {
      const key = `${call.method} ${call.paramsText}`;
      held.add(key);
      setImmediate(() => subscriber.accepted());
      return () => void held.delete(key);
    },
    close() {},
  };
  const sockets = createSockets({
    http: { bodyLimitBytes: 100_000, requestTimeoutMs: 30_000 },
    followed: null,
    hub: () => hub,
    config: CONFIG,
    clock,
    metrics: createMetricsRegistry().scope('proxy'),
    price: () => ({ product: 'rpc', credits: 1, groups: ['rpc'] }),
    credits: { websocketOpened: 0, websocketData: 0 },
    charges: null,
  });
  const settled: boolean[] = [];
  const admit: Gate['admit'] =
    options.admit ??
    (async () => ({ headers: {}, charge: (outcomes) => settled.push(...outcomes.map((one) => one.charged)) }));
  const caller = { projectId: 'p', keyId: 'k', plan: 'free', wallet: null };
  const { signal: revoked } = new AbortController();
  const context = {
    requestId: 'r',
    log,
    remoteAddress: '127.0.0.1',
    caller,
    revoked,
    tenant: OWN_WORK,
    onPlan: () => undefined,
  } as unknown as SocketContext;
  const front = createRpcFront({
    methods: [],
    fallback: null,
    gate: { authenticate: () => caller, admit },
    log,
    clock,
    core: testCore({}, { denyMethods: options.denyMethods ?? [] }),
    metrics: createMetricsRegistry().scope('rpc'),
  });
  const dispatch = options.dispatch ?? front.dispatch;
  const server = createServer();
  server.on('upgrade', (request, socket, head) => {
    socket.on('error', () => socket.destroy());
    sockets.upgrade(request, socket, head, context, dispatch);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
  t.after(() => {
    sockets.stop();
    server.close();
    server.closeAllConnections();
  });
  /** An open socket, or the status of its refusal. */
  const connect = (autoPong = true) =>
    new Promise<WebSocket | number>((resolve) => {
      const socket = new WebSocket(url, { autoPong });
      socket.on('open', () => resolve(socket));
      socket.on('error', () => undefined);
      socket.on('unexpected-response', (_, response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      });
    });
  const open = async (autoPong = true) => {
    const socket = await connect(autoPong);
    assert.ok(socket instanceof WebSocket);
    return socket;
  };
  return { clock, log, held, sockets, settled, connect, open };
}

const echo: RpcDispatch = async (message) => message;
const ask = async (socket: WebSocket, text: string): Promise<string> => {
  const answer = once(socket, 'message');
  socket.send(text);
  return String((await answer)[0]);
};
const subscribe = (id: number, params = id) =>
  `{"jsonrpc":"2.0","id":${id},"method":"logsSubscribe","params":[${params}]}`;

test('a client that is silent when the next ping is due is cut, and its timers end', WAIT, async (t) => {
  const { clock, open, sockets } = await startBed(t);
  const silent = await open(false);
  const pinged = once(silent, 'ping');
  await clock.advance(PING_MS);
  await pinged;
  assert.equal(silent.readyState, WebSocket.OPEN);
  const closed = once(silent, 'close');
  await clock.advance(PING_MS);
  assert.equal((await closed)[0], 1006);
  await until(() => sockets.connections() === 0, 'it is forgotten');
  assert.equal(clock.pending, 0);
});

test('a pong keeps a client, and so does a message', WAIT, async (t) => {
  const { clock, open } = await startBed(t, { dispatch: echo });
  const pongs = await open();
  const talks = await open(false);
  for (let round = 0; round < 4; round += 1) {
    const pinged = Promise.all([once(pongs, 'ping'), once(talks, 'ping')]);
    await clock.advance(PING_MS);
    await pinged;
    // The answer to our ping follows our pong.
    const answered = once(pongs, 'pong');
    pongs.ping();
    await answered;
    assert.equal(await ask(talks, '{"x":1}'), '{"x":1}');
  }
  assert.deepEqual([pongs.readyState, talks.readyState], [WebSocket.OPEN, WebSocket.OPEN]);
});

test('a client with too much in flight is not read until a call finishes', WAIT, async (t) => {
  const waiting: (() => void)[] = [];
  let most = 0;
  const { open } = await startBed(t, {
    dispatch: (message) =>
      new Promise((resolve) => {
        waiting.push(() => resolve(message));
        most = Math.max(most, waiting.length);
      }),
  });
  const socket = await open();
  let answered = 0;
  socket.on('message', () => {
    answered += 1;
  });
  for (let i = 0; i < 100; i += 1) socket.send(Buffer.alloc(50_000, 0x20));
  await until(() => waiting.length >= CONFIG.maxInFlight, 'some are in flight');
  await new Promise((resolve) => setTimeout(resolve, 200));
  // Messages received in one chunk are still handled.
  assert.ok(most <= CONFIG.maxInFlight + 4, `${most} at once`);
  while (answered < 100) {
    for (const done of waiting.splice(0)) done();
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
});

test('the number of clients is limited; the place of a closed client is free again', WAIT, async (t) => {
  const { connect, open, sockets } = await startBed(t);
  const first = await open();
  await open();
  await open();
  assert.equal(await connect(), 503);
  first.close();
  await until(() => sockets.connections() === 2, 'one has left');
  await open();
});

test('a drain refuses new clients and asks others to leave; the stop cuts the remaining ones', WAIT, async (t) => {
  const { connect, open, sockets, clock } = await startBed(t);
  const polite = await open();
  const deaf = await open();
  deaf.pause();
  const said = once(polite, 'close');
  sockets.drain();
  assert.equal((await said)[0], 1001);
  assert.equal(await connect(), 503);
  assert.equal(sockets.connections(), 1);
  sockets.stop();
  await until(() => sockets.connections() === 0, 'the other one is cut');
  assert.equal(clock.pending, 0);
});

test('a message above the limit ends only its client; nothing is ever compressed', WAIT, async (t) => {
  const { open } = await startBed(t, { dispatch: echo });
  const socket = await open();
  assert.equal(socket.extensions, '');
  const other = await open();
  const closed = once(socket, 'close');
  socket.send(Buffer.alloc(CONFIG.maxMessageBytes + 1, 0x20));
  assert.equal((await closed)[0], 1009);
  assert.equal(await ask(other, '{}'), '{}');
});

test('calls of a client end with it, without a log line', WAIT, async (t) => {
  let signal: AbortSignal | null = null;
  const { open, held, log, sockets } = await startBed(t, {
    dispatch: (message, context, calls) => {
      if (message.includes('logsSubscribe'))
        return calls!
          .run({ method: 'logsSubscribe', params: [], paramsText: null })
          .then((outcome) => Buffer.from(JSON.stringify(outcome)));
      signal = context.signal;
      return new Promise((_, reject) => context.signal.addEventListener('abort', () => reject(new Error('gone'))));
    },
  });
  const socket = await open();
  assert.match(await ask(socket, subscribe(1)), /"resultText":"1"/);
  assert.equal(held.size, 1);
  socket.send('{"jsonrpc":"2.0","id":2,"method":"getSlot"}');
  await until(() => signal !== null, 'the call runs');
  socket.terminate();
  await until(() => sockets.connections() === 0 && held.size === 0, 'nothing is left');
  assert.ok((signal as AbortSignal | null)?.aborted);
  assert.deepEqual(log.lines, []);
});

test('a call that fails while its client is connected closes it with 1011 and is logged', WAIT, async (t) => {
  const { open, log } = await startBed(t, { dispatch: () => Promise.reject(new Error('broken')) });
  const socket = await open();
  const closed = once(socket, 'close');
  socket.send('{}');
  assert.equal((await closed)[0], 1011);
  assert.equal(log.lines.filter(({ level }) => level === 'error').length, 1);
});

test(
  'subscriptions: limited in number, only known methods, and any kind of unsubscribe ends any of them',
  WAIT,
  async (t) => {
    const { open, held } = await startBed(t, { denyMethods: ['voteSubscribe', 'logsUnsubscribe'] });
    const socket = await open();
    assert.match(await ask(socket, subscribe(1)), /"result":1/);
    assert.match(await ask(socket, subscribe(2)), /"result":2/);
    assert.match(await ask(socket, subscribe(3)), /"code":-32005/);
    assert.match(await ask(socket, '{"jsonrpc":"2.0","id":4,"method":"voteSubscribe"}'), /"code":-32601/);
    const end = (method: string) => ask(socket, `{"jsonrpc":"2.0","id":5,"method":"${method}","params":[1]}`);
    assert.match(await end('accountUnsubscribe'), /"result":true/);
    assert.equal(held.size, 1);
    const unknown = '{"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid subscription id."},"id":5}';
    assert.equal(await end('logsUnsubscribe'), unknown);
    const last = '{"jsonrpc":"2.0","id":18446744073709551615,"method":"logsUnsubscribe","params":[2]}';
    assert.equal(await ask(socket, last), '{"jsonrpc":"2.0","result":true,"id":18446744073709551615}');
    assert.equal(held.size, 0);
  },
);

test('a subscription admitted after its client has gone is neither made nor charged', WAIT, async (t) => {
  let letIn: () => void = () => undefined;
  const settled: boolean[] = [];
  const { open, held, sockets } = await startBed(t, {
    admit: () =>
      new Promise((resolve) => {
        letIn = () =>
          resolve({ headers: {}, charge: (outcomes) => settled.push(...outcomes.map((one) => one.charged)) });
      }),
  });
  const socket = await open();
  const before = letIn;
  socket.send(subscribe(1));
  await until(() => letIn !== before, 'the gate is asked');
  socket.terminate();
  await until(() => sockets.connections() === 0, 'it has gone');
  letIn();
  await until(() => settled.length === 1, 'it is settled');
  assert.deepEqual([settled, held.size], [[false], 0]);
});

test('a call with duplicate members is not a subscription', WAIT, async (t) => {
  const { open, held } = await startBed(t);
  const socket = await open();
  const twins = '{"jsonrpc":"2.0","id":1,"method":"getSlot","method":"slotSubscribe"}';
  assert.match(await ask(socket, twins), /"code":-32600/);
  assert.equal(held.size, 0);
});
