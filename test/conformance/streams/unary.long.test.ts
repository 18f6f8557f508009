/** Unary methods of gRPC, which ask the upstreams: refusals of an upstream, and the budget of calls of the project. */
import assert from 'node:assert/strict';
import { type ClientHttp2Session, connect } from 'node:http2';
import { type TestContext, test } from 'node:test';
import { freePort } from '../../helpers/free-port.ts';
import { until } from '../../helpers/until.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';
import { startAccessDaemon } from '../access/harness.ts';
import { OF_THE_NODE } from '../proxy/refusal-rows.ts';

const SLOT = 777;
const BLOCKHASH = '4'.repeat(43);
const context = `"context":{"slot":${SLOT}}`;
const ANSWERS: Readonly<Record<string, string>> = {
  getSlot: String(SLOT),
  getBlockHeight: String(SLOT),
  getLatestBlockhash: `{${context},"value":{"blockhash":"${BLOCKHASH}","lastValidBlockHeight":900}}`,
  isBlockhashValid: `{${context},"value":true}`,
};
/** `IsBlockhashValidRequest { blockhash: 1 }`; the others have nothing that has to be sent. */
const CALLS: Readonly<Record<string, { readonly request: Buffer; readonly reads: string }>> = {
  GetSlot: { request: Buffer.alloc(0), reads: 'getSlot' },
  GetBlockHeight: { request: Buffer.alloc(0), reads: 'getBlockHeight' },
  GetLatestBlockhash: { request: Buffer.alloc(0), reads: 'getLatestBlockhash' },
  IsBlockhashValid: {
    request: Buffer.concat([Buffer.from([10, BLOCKHASH.length]), Buffer.from(BLOCKHASH)]),
    reads: 'isBlockhashValid',
  },
};

async function startBed(t: TestContext, count: number) {
  const port = await freePort();
  const upstreams: TestUpstream[] = [];
  while (upstreams.length < count) upstreams.push(await startUpstream());
  for (const upstream of upstreams)
    for (const [method, result] of Object.entries(ANSWERS)) upstream.on(method, { result });
  const bed = await startAccessDaemon({
    plugins: ['access', 'streams'],
    streams: { grpc: { port } },
    upstream: {
      urls: upstreams.map(({ url }) => ({ url, maxConcurrent: 8 })),
      healthIntervalMs: 3_600_000,
      coolDownMs: 1,
    },
  });
  // A connection has few places.
  const sessions = Array.from({ length: 8 }, (): ClientHttp2Session => {
    const session = connect(`http://127.0.0.1:${port}`);
    session.on('error', () => undefined);
    return session;
  });
  let calls = 0;
  t.after(async () => {
    for (const session of sessions) session.destroy();
    await bed.stop();
    for (const upstream of upstreams) await upstream.stop();
  });
  /** Status of the call, and the bytes of its message. */
  const call = (key: string, method: string): Promise<{ readonly status: string; readonly text: string }> =>
    new Promise((resolve, reject) => {
      calls += 1;
      const stream = sessions[calls % sessions.length]!.request({
        ':method': 'POST',
        ':path': `/geyser.Geyser/${method}`,
        'content-type': 'application/grpc',
        te: 'trailers',
        'x-token': key,
      });
      let status = '';
      let message = '';
      let text = '';
      const tell = (headers: Readonly<Record<string, unknown>>) => {
        if (headers['grpc-status'] === undefined) return;
        status = String(headers['grpc-status']);
        message = decodeURIComponent(String(headers['grpc-message'] ?? ''));
      };
      stream.on('response', tell).on('trailers', tell).on('error', reject);
      stream.on('data', (chunk: Buffer) => {
        text += chunk.toString('latin1');
      });
      stream.on('close', () => resolve({ status: message === '' ? status : `${status} ${message}`, text }));
      const { request } = CALLS[method]!;
      const head = Buffer.alloc(5);
      head.writeUInt32BE(request.length, 1);
      stream.end(Buffer.concat([head, request]));
    });
  return { bed, upstreams, call };
}

test('every unary method, every refusal of the first upstream: the second one answers', async (t) => {
  const { bed, upstreams, call } = await startBed(t, 2);
  const [first, second] = upstreams;
  const { key } = await bed.makeKey();
  for (const [method, { reads }] of Object.entries(CALLS)) {
    const usual = await call(key, method);
    assert.equal(usual.status, '0', method);
    for (const [code, message] of OF_THE_NODE) {
      first!.on(reads, ({ id }) => ({
        chunks: [JSON.stringify({ jsonrpc: '2.0', id, error: { code, message } })],
      }));
      const before = second!.callsOf(reads).length;
      assert.deepEqual(await call(key, method), usual, `${method} ${code} ${message}`);
      assert.equal(second!.callsOf(reads).length, before + 1, `${method} ${code} ${message}`);
    }
    second!.on(reads, ({ id }) => ({
      chunks: [JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: 'Method not found' } })],
    }));
    first!.on(reads, ({ id }) => ({
      chunks: [JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32005, message: 'Node is behind by 9 slots' } })],
    }));
    // Without a better one: the client is to try again, and sees no text of an upstream.
    assert.match((await call(key, method)).status, /^14 no upstream has answered/, method);
  }
});

test('a project whose calls to the upstreams are used up gets resourceExhausted, and another one its answer', async (t) => {
  const { bed, upstreams, call } = await startBed(t, 1);
  const open: (() => void)[] = [];
  for (const upstream of upstreams)
    upstream.on('getSlot', async () => {
      await new Promise<void>((resolve) => open.push(resolve));
      return { result: ANSWERS['getSlot']! };
    });
  const busy = await bed.makeKey({ override: { budgets: { upstreamCalls: 1 } } });
  const other = await bed.makeKey();
  const statuses: string[] = [];
  // One is asked, 64 wait, the others are refused.
  const calls = Array.from({ length: 1 + 64 + 5 }, async () => {
    const { status } = await call(busy.key, 'GetSlot');
    statuses.push(status);
  });
  await until(() => statuses.length === 5, 'too many are refused');
  for (const status of statuses) assert.match(status, /^8 The plan allows at most 1 calls in flight/);
  for (const method of ['GetBlockHeight', 'GetLatestBlockhash', 'IsBlockhashValid']) {
    assert.match((await call(busy.key, method)).status, /^8 /, method);
    assert.equal((await call(other.key, method)).status, '0', method);
  }
  const whole = Promise.all(calls);
  let isDone = false;
  void whole.then(() => {
    isDone = true;
  });
  await until(() => {
    for (const answer of open.splice(0)) answer();
    return isDone;
  }, 'all are answered');
  assert.equal(statuses.filter((status) => status === '0').length, 65);
});
