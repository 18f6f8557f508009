import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Ajv } from 'ajv';
import fc from 'fast-check';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';
import { near, oddText, type Schema, webhookBody, wild } from './values.ts';

/** At least so many requests: `npm run fuzz -- --requests 50000`. `FUZZ_SEED` repeats a run. */
const REQUESTS = Number(process.env['FUZZ_REQUESTS'] ?? 1_600);
/** A run of each test below is at least one request, one of the operations two. */
const RUNS = Math.ceil(REQUESTS / 4);
/** What may be held after as many requests again: caches that are not full yet, and code that was compiled better. */
const ROOM_BYTES = 24_000_000;
const seed = process.env['FUZZ_SEED'] === undefined ? {} : { seed: Number(process.env['FUZZ_SEED']) };
const PATIENCE_MS = 20_000;

interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query';
  readonly schema: Schema;
}
interface Operation {
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: { readonly 'application/json': { readonly schema: Schema } } };
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema: object }>> }>
  >;
}
interface ApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, object>> };
  readonly 'x-rpc': Readonly<Record<string, { readonly params?: Schema }>>;
}

let daemon: DaemonInProcess;
let upstream: TestUpstream;
let api: ApiDocument;
const ajv = new Ajv({ strict: false, validateFormats: false });

before(async () => {
  upstream = await startUpstream();
  daemon = await startDaemon({
    chain: { rpcUrl: upstream.url },
    config: { follow: { enabled: false }, log: { level: 'silent' } },
  });
  api = (await (await fetch(`${daemon.apiUrl}/openapi.json`)).json()) as ApiDocument;
  ajv.addSchema({ $id: 'api:', components: api.components });
});
after(async () => {
  await daemon?.stop();
  await upstream?.stop();
});

interface Call {
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
  readonly target: string;
  readonly body: string | undefined;
  readonly withKey: boolean;
}

/** Targets and bodies of one documented operation. */
function callsOf(path: string, method: string, operation: Operation): fc.Arbitrary<Call> {
  const parameters = operation.parameters ?? [];
  const schema = operation.requestBody?.content['application/json'].schema;
  const bodies =
    schema === undefined
      ? fc.constant(undefined)
      : fc.oneof(near(schema), wild, path.includes('webhooks') ? webhookBody : wild);
  return fc
    .record({
      values: fc.tuple(...parameters.map((one) => fc.option(near(one.schema), { nil: undefined }))),
      body: fc.oneof(
        { weight: 6, arbitrary: bodies.map((value) => (value === undefined ? undefined : JSON.stringify(value))) },
        { weight: 1, arbitrary: oddText },
      ),
      extra: fc.option(fc.tuple(oddText, oddText), { nil: undefined }),
      withKey: fc.integer({ min: 0, max: 4 }).map((dice) => dice > 0),
    })
    .map(({ values, body, extra, withKey }) => {
      const query: string[] = [];
      let filled = path;
      parameters.forEach((one, i) => {
        const text = encode(values[i]);
        if (one.in === 'path') filled = filled.replace(`{${one.name}}`, text === '' ? 'x' : text);
        else if (values[i] !== undefined) query.push(`${one.name}=${text}`);
      });
      if (extra !== undefined) query.push(`${encode(extra[0])}=${encode(extra[1])}`);
      return { method: method.toUpperCase(), path, operation, target: `${filled}?${query.join('&')}`, body, withKey };
    });
}

function encode(value: unknown): string {
  const text = value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value);
  return encodeURIComponent(text.slice(0, 3_000).replace(/\p{Cs}/gu, '?')).replaceAll('.', '%2E');
}

let requests = 0;

async function send(method: string, target: string, body: string | undefined, withKey: boolean) {
  requests += 1;
  const response = await fetch(`${daemon.apiUrl}${target}`, {
    method,
    headers: withKey ? { 'x-api-key': daemon.key } : {},
    ...(body === undefined || method === 'GET' ? {} : { body }),
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
  return { status: response.status, type: response.headers.get('content-type') ?? '', text: await response.text() };
}

type Sent = Awaited<ReturnType<typeof send>>;

const compiled = new Map<object, ReturnType<Ajv['compile']>>();
function checkOf(schema: object): ReturnType<Ajv['compile']> {
  const known = compiled.get(schema);
  if (known !== undefined) return known;
  const check = ajv.compile(JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"api:#/')) as object);
  compiled.set(schema, check);
  return check;
}

/** The documented shape of an answer with this status. */
function assertShape(operation: Operation, answer: Sent, what: string): void {
  assert.notEqual(answer.status, 500, `${what}: ${answer.text}`);
  const { content } = operation.responses[answer.status] ?? operation.responses['default'] ?? {};
  const [[type, { schema }] = ['', { schema: {} }]] = Object.entries(content ?? {});
  if (answer.text === '') return;
  assert.ok(answer.type.startsWith(type), `${what}: ${answer.type} instead of ${type}`);
  if (!type.startsWith('application/json')) return;
  const check = checkOf(schema);
  assert.ok(
    check(JSON.parse(answer.text)),
    `${what}: ${answer.status} ${answer.text.slice(0, 300)} ${ajv.errorsText(check.errors ?? null)}`,
  );
}

/** Sends so many requests of documented operations; returns the statuses that were answered. */
async function fuzzOperations(runs: number): Promise<ReadonlySet<number>> {
  const all = Object.entries(api.paths)
    .filter(([path]) => path !== '/')
    .flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => callsOf(path, method, operation)),
    );
  assert.ok(all.length > 10);
  const statuses = new Set<number>();
  await fc.assert(
    fc.asyncProperty(fc.oneof(...all), async ({ method, path, operation, target, body, withKey }) => {
      const answer = await send(method, target, body, withKey);
      statuses.add(answer.status);
      assertShape(operation, answer, `${method} ${path}`);
    }),
    { numRuns: runs, ...seed },
  );
  return statuses;
}

test('every documented operation answers in its documented shape, whatever it is sent', async () => {
  const statuses = await fuzzOperations(RUNS * 2);
  for (const status of [200, 400, 401]) assert.ok(statuses.has(status), `nothing was answered ${status}`);
});

test('JSON-RPC answers have the form of JSON-RPC, whatever is called', async () => {
  const names = [
    'getBalance',
    'getAccountInfo',
    'getBlock',
    'getTransaction',
    'getSlot',
    'getSignaturesForAddress',
    'sendTransaction',
    'accountSubscribe',
    ...Object.keys(api['x-rpc']),
  ];
  const calls = fc.oneof(
    { weight: 1, arbitrary: wild },
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

test('nothing is left of it: no request under way, no memory', async (t) => {
  const held = await heldBytes();
  await fuzzOperations(RUNS);
  const grown = (await heldBytes()) - held;
  const inFlight = await untilNoneIsHandled();
  t.diagnostic(`${requests} requests; ${(grown / 1e6).toFixed(1)} MB more after the last ${RUNS}`);
  assert.equal(inFlight, 0);
  assert.ok(requests >= REQUESTS, String(requests));
  assert.ok(globalThis.gc === undefined || grown < ROOM_BYTES, `${grown} bytes more`);
});

async function heldBytes(): Promise<number> {
  // The upstream of the tests remembers all that it was asked.
  (upstream.calls as unknown[]).length = 0;
  for (let round = 0; round < 3; round += 1) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    globalThis.gc?.();
  }
  return process.memoryUsage().heapUsed;
}

async function untilNoneIsHandled(): Promise<number> {
  let inFlight = -1;
  for (let round = 0; round < 600 && inFlight !== 0; round += 1) {
    const text = await (await fetch(`${daemon.adminUrl}/metrics`)).text();
    inFlight = Number(/^parhelion_http_requests_in_flight (\d+)$/m.exec(text)?.[1] ?? -1);
    if (inFlight !== 0) await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return inFlight;
}
