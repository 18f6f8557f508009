/** What `/openrpc.json` and `/openapi.json` say of names, errors and prices is what the daemon does. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { coreConfig } from '../../../src/config/core.ts';
import { decode32, encode32 } from '../../../src/lib/base58.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';

interface Price {
  readonly credits: number;
  readonly chargedStatuses?: readonly number[];
}
interface Method {
  readonly name: string;
  readonly paramStructure: 'by-name' | 'by-position';
  readonly examples: readonly { readonly params: readonly { readonly name: string; readonly value: unknown }[] }[];
  readonly errors: readonly { readonly code: number; readonly message: string }[];
  readonly 'x-aliases'?: readonly string[];
  readonly 'x-forwarded'?: true;
  readonly 'x-price'?: Price;
}
interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly example?: unknown;
}
interface Operation {
  readonly operationId: string;
  readonly security: readonly object[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly example?: unknown }>> };
  readonly responses: Readonly<Record<string, unknown>>;
  readonly 'x-price'?: Price;
}
interface Answer {
  readonly status: number;
  readonly body: { readonly result?: unknown; readonly error?: { readonly code: number } };
}

const skip = (await chainMissing()) ?? false;
const NOT_FOUND = -32_000;
const INVALID_REQUEST = -32_600;
/** Without trees, an asset API or a prover behind it, this daemon comes to no record that could be missing. */
const FINDS_NOTHING_TO_MISS = new Set([
  'getGrouping',
  'getQueueElements',
  'getValidityProof',
  'getValidityProofV2',
  'getMultipleNewAddressProofs',
  'getMultipleNewAddressProofsV2',
]);

let chain: TestChain;
let daemon: DaemonInProcess;
let own: readonly Method[];
let operations: readonly (readonly [method: string, path: string, operation: Operation])[];

before(async () => {
  if (skip !== false) return;
  chain = await startChain({ slotMs: 0 });
  daemon = await startDaemon({
    chain: { rpcUrl: chain.rpcUrl, wsUrl: chain.wsUrl },
    config: { plugins: coreConfig.properties.plugins.default as readonly string[] },
  });
  const read = async <T>(path: string): Promise<T> => (await (await fetch(daemon.apiUrl + path)).json()) as T;
  own = (await read<{ methods: readonly Method[] }>('/openrpc.json')).methods.filter(
    (method) => method['x-forwarded'] === undefined,
  );
  const { paths } = await read<{ paths: Record<string, Record<string, Operation>> }>('/openapi.json');
  operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => [method, path, operation] as const),
  );
});
after(async () => {
  await daemon?.stop();
  await chain?.stop();
});

const exampleOf = ({ paramStructure, examples }: Method): unknown => {
  const given = examples[0]?.params ?? [];
  return paramStructure === 'by-name'
    ? Object.fromEntries(given.map((one) => [one.name, one.value]))
    : given.map(({ value }) => value);
};

async function call(method: string, params: unknown, key: string | null = daemon.key): Promise<Answer> {
  const response = await fetch(daemon.apiUrl, {
    method: 'POST',
    headers: key === null ? {} : { 'x-api-key': key },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  return { status: response.status, body: (await response.json()) as Answer['body'] };
}

/** The same value with other keys: nothing on this chain has them. */
function elsewhere(value: unknown): unknown {
  if (typeof value === 'string') return decode32(value) === null ? value : encode32(randomBytes(32));
  if (Array.isArray(value)) return value.map(elsewhere);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, elsewhere(member)]));
}

const wrongParams = (example: unknown): readonly unknown[] => [
  undefined,
  [],
  {},
  [null],
  ['not a key'],
  { unknown: 1 },
  [{ unknown: 1 }],
  ...(Array.isArray(example)
    ? [[...(example as unknown[]), 1, 2, 3], (example as unknown[]).map(() => ({}))]
    : [
        // A list that has to be complete, of which nothing is stored.
        { ...(example as object), options: { requireFullIndex: true } },
        ...Object.keys(example as object).flatMap((name) => [
          { ...(example as object), [name]: null },
          { ...(example as object), [name]: { a: [1] } },
        ]),
      ]),
];

test('another name of a method stands with it and gives the same answers', { skip }, async () => {
  const named = own.filter((method) => method['x-aliases'] !== undefined);
  assert.ok(named.length >= 10, String(named.length));
  const names = own.map(({ name }) => name);
  let compared = 0;
  for (const method of named)
    for (const alias of method['x-aliases'] ?? []) {
      assert.ok(!names.includes(alias), `${alias} stands as a method of its own`);
      for (const params of [exampleOf(method), {}, ['not a key']]) {
        const [one, other] = [await call(method.name, params), await call(alias, params)];
        assert.deepEqual(
          [other.status, other.body.error?.code, typeof other.body.result],
          [one.status, one.body.error?.code, typeof one.body.result],
          `${alias} ${JSON.stringify(params)}`,
        );
        compared += 1;
      }
    }
  assert.ok(compared >= 60, String(compared));
  // A name in snake case is another name of one in camel case, and nothing else.
  assert.deepEqual(
    names.filter((name) => name.includes('_')),
    [],
  );
});

test('each method answers with errors that its description lists', { skip }, async () => {
  const faults: string[] = [];
  const seen = new Map<string, Set<number>>();
  for (const method of own) {
    const { name, errors } = method;
    const listed = new Set(errors.map(({ code }) => code));
    const met = new Set<number>();
    seen.set(name, met);
    const example = exampleOf(method);
    const answers: [unknown, Answer][] = [
      ['no key', await call(name, example, null)],
      ['a wrong key', await call(name, example, 'not-a-key')],
    ];
    for (const params of [example, elsewhere(example), ...wrongParams(example)])
      answers.push([params, await call(name, params)]);
    for (const [what, { status, body }] of answers) {
      const code = body.error?.code;
      if (code === undefined) continue;
      met.add(code);
      // Params that are neither a list nor an object make no call of any method.
      if (!listed.has(code) && code !== INVALID_REQUEST)
        faults.push(`${name} ${JSON.stringify(what)}: ${status} ${JSON.stringify(body.error)}`);
    }
  }
  assert.deepEqual(faults, []);
  // And what is listed for a method alone does happen.
  const claimed = own.filter(({ errors }) => errors.some(({ code }) => code === NOT_FOUND)).map(({ name }) => name);
  assert.ok(claimed.length >= 10, String(claimed.length));
  const unseen = claimed.filter((name) => seen.get(name)?.has(NOT_FOUND) !== true && !FINDS_NOTHING_TO_MISS.has(name));
  assert.deepEqual(unseen, []);
  for (const { name, errors } of own)
    assert.equal(new Set(errors.map(({ code }) => code)).size, errors.length, `${name} lists a code twice`);
});

const ID = '5e1a3c1e-4f0b-4b6f-9d55-0c8a2f6f7d11';

/** Sends the example of an operation; `change` replaces the values of its path. */
async function send(
  [method, path, { parameters = [], requestBody }]: (typeof operations)[number],
  options: { readonly key?: string | null; readonly change?: (value: string) => string; readonly body?: string } = {},
): Promise<number> {
  const { key = daemon.key, change = (value) => value } = options;
  const target = path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(change(String(parameters.find((one) => one.in === 'path' && one.name === name)?.example ?? ID))),
  );
  const query = parameters
    .filter((one) => one.in === 'query' && one.required === true && one.example !== undefined)
    .map(({ name, example }) => `${name}=${encodeURIComponent(String(example))}`);
  const example = requestBody?.content['application/json']?.example;
  const body = options.body ?? (example === undefined ? undefined : JSON.stringify(example));
  const response = await fetch(`${daemon.apiUrl}${target}${query.length === 0 ? '' : `?${query.join('&')}`}`, {
    method: method.toUpperCase(),
    redirect: 'manual',
    headers: { 'content-type': 'application/json', ...(key === null ? {} : { 'x-api-key': key }) },
    ...(body === undefined ? {} : { body }),
  });
  await response.arrayBuffer();
  return response.status;
}

test('each route answers with a status that its description lists', { skip }, async () => {
  const faults: string[] = [];
  let sent = 0;
  for (const one of operations) {
    const [method, path, { requestBody, responses }] = one;
    const tries = [
      {},
      { key: null },
      { key: 'not-a-key' },
      { change: () => 'x' },
      { change: () => encode32(randomBytes(32)) },
      ...(requestBody === undefined ? [] : [{ body: '{' }, { body: '{}' }, { body: '[]' }, { body: '"x"' }]),
    ];
    for (const options of tries) {
      const status = await send(one, options);
      sent += 1;
      if (responses[String(status)] === undefined)
        faults.push(`${method} ${path} ${JSON.stringify(options)}: ${status}`);
    }
  }
  assert.ok(sent > 200, String(sent));
  assert.deepEqual(faults, []);
});

test('an answer costs what its description says, and a refused call nothing', { skip }, async () => {
  const used = async (): Promise<number> => {
    for (;;) {
      const response = await fetch(`${daemon.apiUrl}/v0/admin/projects/${daemon.projectId}/usage`, {
        headers: { 'x-api-key': daemon.key },
      });
      const body = (await response.json()) as { creditsUsed: number };
      if (response.status === 200) return body.creditsUsed;
      assert.equal(response.status, 429, JSON.stringify(body));
      await sleep(1_000 * Number(response.headers.get('retry-after')));
    }
  };
  const faults: string[] = [];
  let paid = 0;
  let before = await used();
  const compare = async (what: string, wanted: number): Promise<void> => {
    const after = await used();
    if (after - before !== wanted) faults.push(`${what}: ${after - before} credits, not ${wanted}`);
    if (wanted > 0) paid += 1;
    before = after;
  };
  for (const method of own) {
    const price = method['x-price'];
    assert.ok(price !== undefined, `${method.name} has no price`);
    const { body } = await call(method.name, exampleOf(method));
    await compare(method.name, body.error === undefined ? price.credits : 0);
  }
  for (const one of operations) {
    const [method, path, { 'x-price': price, security }] = one;
    if (path === '/' || path === '/fast' || security.length === 0) continue;
    assert.ok(price !== undefined, `${method} ${path} has no price`);
    const status = await send(one);
    const isCharged = (status >= 200 && status < 300) || price.chargedStatuses?.includes(status) === true;
    await compare(`${method} ${path} ${status}`, isCharged ? price.credits : 0);
  }
  assert.deepEqual(faults, []);
  assert.ok(paid >= 20, String(paid));
});

test('the names of operations are words that a client can have as methods', { skip }, () => {
  const ids = operations.map(([, , { operationId }]) => operationId);
  assert.equal(new Set(ids).size, ids.length);
  for (const id of ids) assert.match(id, /^(get|post|put|patch|delete|call)[A-Z][A-Za-z0-9]*$/);
  for (const id of [
    'callRpc',
    'getWalletBalances',
    'getWebhook',
    'getWebhooks',
    'getWebhookDelivery',
    'postTokenMetadata',
  ])
    assert.ok(ids.includes(id), `${id} of ${ids.join(', ')}`);
});
