import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { ProtobufWriter } from '../../../src/lib/protobuf.ts';
import { type FuzzBed, type Listener, startFuzz } from './harness.ts';
import { callsOf, createShapes, type Hints } from './operations.ts';
import { operatorHints } from './operator-hints.ts';
import { near, oddText, webhookBody, wild } from './values.ts';

/** At least so many requests: `npm run fuzz -- --requests 50000`. `FUZZ_SEED` repeats a run. */
const REQUESTS = Number(process.env['FUZZ_REQUESTS'] ?? 1_600);
/** A run of each test below is at least one request. */
const RUNS = Math.ceil(REQUESTS / 6);
/** What may be held after as many requests again: caches that are not full yet, and code that was compiled better. */
const ROOM_BYTES = 24_000_000;
const seed = process.env['FUZZ_SEED'] === undefined ? {} : { seed: Number(process.env['FUZZ_SEED']) };

let bed: FuzzBed;

before(async () => {
  bed = await startFuzz();
});
after(() => bed?.stop());

const send = (method: string, target: string, body: string | undefined, isKnown: boolean) =>
  bed.api.send({ method, target, body, isKnown });

const webhookHints: Hints = { bodies: { '/webhooks': webhookBody, '/{webhookID}': webhookBody } };

/** Sends so many requests of documented operations; returns the statuses that were answered. */
async function fuzzOperations({ document, send }: Listener, hints: Hints, runs: number): Promise<ReadonlySet<number>> {
  const assertShape = createShapes(document);
  const statuses = new Set<number>();
  await fc.assert(
    fc.asyncProperty(callsOf(document, hints), async (call) => {
      const answer = await send(call);
      statuses.add(answer.status);
      assertShape(call.operation, answer, `${call.method} ${call.path}`);
    }),
    { numRuns: runs, ...seed },
  );
  return statuses;
}

test('every documented operation answers in its documented shape, whatever it is sent', async () => {
  const statuses = await fuzzOperations(bed.api, webhookHints, RUNS);
  for (const status of [200, 400, 401]) assert.ok(statuses.has(status), `nothing was answered ${status}`);
});

test('so does every operation of the admin listener', async () => {
  const { document } = bed.admin;
  for (const path of ['/healthz', '/readyz', '/metrics', '/v0/admin/wallets', '/v0/admin/compression/trees'])
    assert.ok(document.paths[path], path);
  const statuses = await fuzzOperations(bed.admin, operatorHints(bed), RUNS);
  for (const status of [200, 201, 400, 401, 403, 404])
    assert.ok(statuses.has(status), `nothing was answered ${status}`);
});

/** Calls, and what is nearly one. */
function rpcCalls(more: readonly string[]): fc.Arbitrary<unknown> {
  const names = [
    'getBalance',
    'getAccountInfo',
    'getBlock',
    'getTransaction',
    'getSlot',
    'getSignaturesForAddress',
    'sendTransaction',
    'accountSubscribe',
    ...more,
    ...Object.keys(bed.api.document['x-rpc']),
  ];
  // Params as the document has them lead further into a method than others.
  const documented = Object.entries(bed.api.document['x-rpc']).map(([method, { params }]) =>
    fc.record({
      jsonrpc: fc.constant('2.0'),
      id: fc.integer(),
      method: fc.constant(method),
      params: params === undefined ? wild : near(params),
    }),
  );
  return fc.oneof(
    { weight: 1, arbitrary: wild },
    { weight: 3, arbitrary: fc.oneof(...documented) },
    {
      weight: 6,
      arbitrary: fc.record(
        {
          jsonrpc: fc.oneof({ weight: 9, arbitrary: fc.constant('2.0') }, { weight: 1, arbitrary: wild }),
          method: fc.oneof({ weight: 6, arbitrary: fc.constantFrom(...names) }, { weight: 1, arbitrary: wild }),
          id: fc.oneof({ weight: 6, arbitrary: fc.oneof(fc.integer(), oddText) }, { weight: 1, arbitrary: wild }),
          params: wild,
          extra: wild,
        },
        { requiredKeys: ['method'] },
      ),
    },
  );
}

test('JSON-RPC answers have the form of JSON-RPC, whatever is called', async () => {
  const calls = rpcCalls([]);
  const bodies = fc.oneof({ weight: 4, arbitrary: calls }, { weight: 2, arbitrary: fc.array(calls, { maxLength: 6 }) });
  await fc.assert(
    fc.asyncProperty(bodies, fc.integer({ min: 0, max: 4 }), async (value, dice) => {
      const text = JSON.stringify(value);
      const answer = await send('POST', '/', text, dice > 0);
      assert.ok([200, 204, 401, 503].includes(answer.status), `${answer.status} ${answer.text}`);
      if (answer.status === 204) return;
      assert.ok(answer.type.startsWith('application/json'));
      const parsed = JSON.parse(answer.text) as unknown;
      const items = Array.isArray(parsed) ? parsed : [parsed];
      for (const item of items as Record<string, unknown>[]) {
        assert.equal(item['jsonrpc'], '2.0');
        assert.equal('result' in item, !('error' in item));
        assert.ok('id' in item);
        assert.notEqual((item['error'] as { code?: number } | undefined)?.code, -32603, answer.text);
      }
      const given = value as { id?: unknown; jsonrpc?: unknown } | null;
      // Without a key not all of a long body is read to find its id.
      const idIsRead = dice > 0 || text.length < 16_000;
      if (idIsRead && !Array.isArray(value) && typeof given?.id === 'string' && Object.hasOwn(given, 'id'))
        assert.equal((items[0] as { id: unknown }).id, given.id);
    }),
    { numRuns: RUNS, ...seed },
  );
});

/** What a message over a websocket may close it with: data that is no text, too large, no rights, too slow or too much. */
const CLOSE_CODES = new Set([1003, 1007, 1008, 1009, 1013]);

test('over websockets too, whatever messages come', async () => {
  const kinds = ['account', 'program', 'logs', 'signature', 'slot', 'root', 'block', 'vote', 'slotsUpdates'];
  const names = kinds.flatMap((kind) => [`${kind}Subscribe`, `${kind}Unsubscribe`]);
  const calls = rpcCalls(names);
  const messages = fc.oneof(
    { weight: 6, arbitrary: calls.map((call) => JSON.stringify(call)) },
    { weight: 2, arbitrary: fc.array(calls, { maxLength: 6 }).map((batch) => JSON.stringify(batch)) },
    { weight: 1, arbitrary: oddText },
    { weight: 1, arbitrary: fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes)) },
  );
  await fc.assert(
    fc.asyncProperty(messages, fc.integer({ min: 0, max: 19 }), async (message, dice) => {
      for (const text of await bed.sockets.send(message, dice > 0)) {
        const parsed = JSON.parse(text) as unknown;
        for (const item of (Array.isArray(parsed) ? parsed : [parsed]) as Record<string, unknown>[]) {
          assert.equal(item['jsonrpc'], '2.0');
          if ('method' in item) continue;
          assert.equal('result' in item, !('error' in item), text);
          assert.notEqual((item['error'] as { code?: number } | undefined)?.code, -32603, text);
        }
      }
      for (const code of bed.sockets.closed) assert.ok(CLOSE_CODES.has(code), `closed with ${code}`);
    }),
    { numRuns: RUNS, ...seed },
  );
});

test('compressed bodies are refused, whatever they unpack to, and messages that never end hold nothing', async () => {
  const bodies = fc.record({
    call: rpcCalls([]),
    encoding: fc.constantFrom('gzip', 'deflate', 'br', 'zstd', 'x'),
    cut: fc.nat({ max: 40 }),
    dice: fc.nat({ max: 4 }),
  });
  await fc.assert(
    fc.asyncProperty(bodies, async ({ call, encoding, cut, dice }) => {
      const body = gzipSync(JSON.stringify(call));
      // Of nothing there is nothing to unpack.
      const part = body.subarray(0, Math.max(1, body.length - cut));
      const sending = { method: 'POST', target: '/', body: part, encoding };
      const { status, text } = await bed.api.send({ ...sending, isKnown: dice > 0 });
      assert.ok(status === 415 || (dice === 0 && status === 401), `${status} ${text}`);
    }),
    { numRuns: RUNS, ...seed },
  );
  const parts = fc.array(fc.uint8Array({ maxLength: 4_000 }), { minLength: 1, maxLength: 6 });
  await fc.assert(
    fc.asyncProperty(parts, async (list) => {
      await bed.sockets.leaveUnfinished(list.map((bytes) => Buffer.from(bytes)));
      for (const code of bed.sockets.closed) assert.ok(CLOSE_CODES.has(code) || code === 1006, `closed with ${code}`);
    }),
    { numRuns: Math.ceil(RUNS / 10), ...seed },
  );
});

/** A member of a protobuf message: nested ones, texts and numbers, where a subscription has them and elsewhere. */
const member: fc.Memo<(to: ProtobufWriter) => void> = fc.memo((depth) => {
  const field = fc.integer({ min: 1, max: 12 });
  const leaf = fc.oneof(
    fc.tuple(field, fc.oneof(oddText, fc.constant('1'.repeat(32)))).map(
      ([at, text]) =>
        (to: ProtobufWriter) =>
          to.text(at, text),
    ),
    fc.tuple(field, fc.oneof(fc.integer(), fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }))).map(
      ([at, value]) =>
        (to: ProtobufWriter) =>
          to.always(at, value),
    ),
    fc.tuple(field, fc.uint8Array({ maxLength: 40 })).map(
      ([at, bytes]) =>
        (to: ProtobufWriter) =>
          to.raw(at, bytes),
    ),
  );
  if (depth <= 1) return leaf;
  const nested = fc
    .tuple(field, fc.array(member(depth - 1), { maxLength: 4 }))
    .map(([at, inner]) => (to: ProtobufWriter) => {
      const start = to.begin(at);
      for (const write of inner) write(to);
      to.end(start);
    });
  return fc.oneof({ weight: 1, arbitrary: leaf }, { weight: 2, arbitrary: nested });
});

const frame = fc
  .record({
    writes: fc.array(member(4), { maxLength: 5 }),
    junk: fc.uint8Array({ maxLength: 12 }),
    isJunk: fc.nat({ max: 9 }),
    packing: fc.nat({ max: 9 }),
    cut: fc.nat({ max: 30 }),
  })
  .map(({ writes, junk, isJunk, packing, cut }) => {
    const writer = new ProtobufWriter();
    for (const write of writes) write(writer);
    const whole = writer.take();
    const message =
      isJunk === 0 ? Buffer.from(junk) : cut < 3 ? whole.subarray(0, Math.floor(whole.length / 2)) : whole;
    const bytes = packing === 0 ? gzipSync(message) : message;
    const head = Buffer.alloc(5);
    head[0] = packing < 2 ? 1 : 0;
    head.writeUInt32BE(cut === 3 ? 0xffffffff : bytes.length, 1);
    return Buffer.concat([head, bytes]);
  });

test('over gRPC too, whatever bytes come', async () => {
  const methods = [
    'Subscribe',
    'Subscribe',
    'Subscribe',
    'GetSlot',
    'GetVersion',
    'IsBlockhashValid',
    'Ping',
    'SubscribeDeshred',
  ];
  const calls = fc.record({
    method: fc.constantFrom(...methods),
    frames: fc.array(frame, { maxLength: 3 }),
    encoding: fc.constantFrom('gzip', 'zstd', 'identity', 'x'),
    dice: fc.nat({ max: 9 }),
  });
  const codes = new Set<number>();
  await fc.assert(
    fc.asyncProperty(calls, async ({ method, frames, encoding, dice }) => {
      const headers = { 'grpc-encoding': encoding, 'grpc-accept-encoding': encoding };
      const end = await bed.streams.send({ method, headers, bytes: Buffer.concat(frames), isKnown: dice > 0 });
      if (end === null) return;
      codes.add(end[0]);
      assert.ok(end[0] >= 0 && end[1] !== 'internal error', `${method}: ${end.join(' ')}`);
    }),
    { numRuns: RUNS, ...seed },
  );
  for (const code of [3, 12, 16]) assert.ok(codes.has(code), `nothing ended with ${code}`);
  assert.equal(await bed.streams.held(), 0);
});

test('a webhook is always what its last accepted request said', async () => {
  let made = 0;
  await fc.assert(
    fc.asyncProperty(webhookBody, fc.array(fc.oneof(webhookBody, wild), { maxLength: 3 }), async (first, edits) => {
      const created = await send('POST', '/v0/webhooks', JSON.stringify(first), true);
      assert.ok([200, 400].includes(created.status), created.text);
      if (created.status !== 200) return;
      made += 1;
      const { signingSecret, ...shown } = JSON.parse(created.text) as Record<string, unknown>;
      assert.equal(typeof signingSecret, 'string');
      const path = `/v0/webhooks/${String(shown['webhookID'])}`;
      let expected: unknown = shown;
      for (const edit of edits) {
        const edited = await send('PUT', path, JSON.stringify(edit), true);
        assert.ok([200, 400].includes(edited.status), edited.text);
        if (edited.status === 200) expected = JSON.parse(edited.text);
        const read = await send('GET', path, undefined, true);
        assert.deepEqual(JSON.parse(read.text), expected);
      }
      const listed = JSON.parse((await send('GET', '/v0/webhooks', undefined, true)).text) as { webhookID: string }[];
      assert.deepEqual(
        listed.find(({ webhookID }) => webhookID === shown['webhookID']),
        expected,
      );
      assert.equal((await send('DELETE', path, undefined, true)).status, 200);
      assert.equal((await send('GET', path, undefined, true)).status, 404);
    }),
    { numRuns: RUNS, ...seed },
  );
  assert.ok(made > 0, 'some were made');
});

test('all the while another project had each of its answers and notifications', async (t) => {
  const { answers, notifications } = await bed.victim.stop();
  t.diagnostic(`${answers} answers, ${notifications} notifications`);
  assert.ok(answers > 10 && notifications > 10);
});

test('it leaves nothing behind: no running request, no memory', async (t) => {
  const held = await bed.heldBytes();
  await fuzzOperations(bed.api, webhookHints, RUNS);
  await fuzzOperations(bed.admin, operatorHints(bed), Math.ceil(RUNS / 4));
  const grown = (await bed.heldBytes()) - held;
  const inFlight = await bed.inFlight();
  const requests = bed.requests();
  t.diagnostic(
    `${requests} requests; ${(grown / 1e6).toFixed(1)} MB more after the last ${RUNS + Math.ceil(RUNS / 4)}`,
  );
  assert.equal(inFlight, 0);
  assert.ok(requests >= REQUESTS, String(requests));
  assert.ok(globalThis.gc === undefined || grown < ROOM_BYTES, `${grown} bytes more`);
});
