import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { type TestContext, test } from 'node:test';
import { decode32, encode32 } from '../../../src/lib/base58.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { startHttpServer } from '../../helpers/http-server.ts';
import { REPLY_FAULTS } from '../../helpers/reply-faults.ts';
import { startUpstream } from '../../helpers/upstream.ts';

const PROGRAM = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA';
/** A million with `npm run accounts:million`. */
const KEYS = Number(process.env['ACCOUNTS_KEYS'] ?? 30_000);
const MEBIBYTE = 1_048_576;
/** Beside 32 bytes for each key: what reading and sorting take for a while, and what the heap of this process has left to collect. */
const ROOM_BYTES = 250 * MEBIBYTE;

const keyOf = (index: number): string => encode32(createHash('sha256').update(`account ${index}`).digest());
const accountText = (data: string): string =>
  `{"data":["${data}","base64"],"executable":false,"lamports":2039280,"owner":"${PROGRAM}","rentEpoch":18446744073709551615,"space":0}`;

/** Streams a list of so many accounts, in another order each time, and answers for any of them. Counts its calls. */
async function startLargeNode(t: TestContext, keys: number) {
  const calls: Record<string, number> = {};
  const state = { gone: new Set<string>(), slot: 500 };
  const list = async (response: ServerResponse, id: unknown) => {
    const first = ((calls['getProgramAccounts'] ?? 0) * 7_919) % keys;
    response.write(`{"jsonrpc":"2.0","result":{"context":{"apiVersion":"4.2.1","slot":${state.slot}},"value":[`);
    for (let from = 0; from < keys; from += 500) {
      const some = Array.from({ length: Math.min(500, keys - from) }, (_, at) => from + at);
      const text = some.map(
        (at) => `${at === 0 ? '' : ','}{"account":${accountText('')},"pubkey":"${keyOf((first + at) % keys)}"}`,
      );
      if (!response.write(text.join(''))) await new Promise((resolve) => response.once('drain', resolve));
    }
    response.end(`]},"id":${JSON.stringify(id)}}`);
  };
  const server = await startHttpServer(async (body, _request, response) => {
    if (body.length === 0) return void response.writeHead(404).end();
    const { method, params, id } = JSON.parse(body.toString());
    calls[method] = (calls[method] ?? 0) + 1;
    const answer = (result: string) => response.end(`{"jsonrpc":"2.0","result":${result},"id":${JSON.stringify(id)}}`);
    if (method === 'getProgramAccounts') return await list(response, id);
    if (method !== 'getMultipleAccounts') return void answer(method === 'getSlot' ? String(state.slot) : '"ok"');
    assert.ok(params[0].length <= 100, 'more keys than a node takes');
    const value = params[0].map((key: string) => (state.gone.has(key) ? 'null' : accountText('')));
    answer(`{"context":{"apiVersion":"4.2.1","slot":${state.slot}},"value":[${value.join(',')}]}`);
  });
  t.after(() => server.close());
  return { url: server.url, calls, state };
}

interface Pager {
  (
    options: object,
  ): Promise<{ readonly status: number; readonly text: string; readonly body: ReturnType<JSON['parse']> }>;
  /** Credits that the project has used. */
  usage(): Promise<number>;
}

async function startPager(
  t: TestContext,
  url: string,
  accounts: Readonly<Record<string, unknown>> = {},
): Promise<Pager> {
  const daemon = await startDaemon({
    chain: { rpcUrl: url },
    config: { plugins: ['access', 'proxy', 'accounts'], follow: { enabled: false }, accounts },
  });
  t.after(() => daemon.stop());
  const usage = async () => {
    const url = `${daemon.apiUrl}/v0/admin/projects/${daemon.projectId}/usage?api-key=${daemon.key}`;
    return ((await (await fetch(url)).json()) as { creditsUsed: number }).creditsUsed;
  };
  const ask = async (options: object) => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getProgramAccountsV2', params: [PROGRAM, options] });
    const response = await fetch(`${daemon.apiUrl}/?api-key=${daemon.key}`, { method: 'POST', body });
    const text = await response.text();
    return { status: response.status, text, body: JSON.parse(text) };
  };
  return Object.assign(ask, { usage });
}

test(`${KEYS} accounts are paged in bounded memory: each one once, in one order, to the end`, async (t) => {
  const node = await startLargeNode(t, KEYS);
  const ask = await startPager(t, node.url);
  await ask({ limit: 1, paginationKey: 'x' });
  global.gc?.();
  const before = process.memoryUsage().rss;
  let largest = 0;
  const sum = createHash('sha256');
  let count = 0;
  let last = Buffer.alloc(32);
  const cursors = new Set<string>();
  for (let cursor: string | null = null; ; ) {
    const { text, body } = await ask({ limit: 10_000, ...(cursor === null ? {} : { paginationKey: cursor }) });
    largest = Math.max(largest, process.memoryUsage().rss - before);
    assert.equal(body.error, undefined, text.slice(0, 300));
    for (const { pubkey } of body.result.accounts) {
      const key = Buffer.from(decode32(pubkey)!);
      assert.ok(last.compare(key) < 0, 'keys ascend');
      last = key;
      count += 1;
    }
    if (count <= 10_000) {
      assert.match(text, /"rentEpoch":18446744073709551615,/);
      sum.update(text);
    }
    cursor = body.result.paginationKey;
    if (cursor === null) break;
    assert.match(cursor, /^[A-Za-z0-9_-]+$/);
    assert.ok(!cursors.has(cursor), 'a cursor comes twice');
    cursors.add(cursor);
  }
  assert.equal(count, KEYS);
  assert.equal(node.calls['getProgramAccounts'], 1);
  assert.equal(node.calls['getMultipleAccounts'], Math.ceil(KEYS / 100));
  const bound = ROOM_BYTES + 3 * 32 * KEYS;
  assert.ok(
    largest < bound,
    `${Math.round(largest / MEBIBYTE)} MiB more than before, ${Math.round(bound / MEBIBYTE)} allowed`,
  );
  t.diagnostic(`${Math.round(largest / MEBIBYTE)} MiB more than before for ${KEYS} keys`);
});

test('a list that is gone is made again at its price, and pages go on where they were', async (t) => {
  const node = await startLargeNode(t, 1_000);
  const ask = await startPager(t, node.url, { keepMs: 1, projectListBytes: 200_000 });
  const seen: string[] = [];
  for (let cursor: string | undefined; ; ) {
    const { body } = await ask({ limit: 300, paginationKey: cursor ?? null });
    seen.push(...body.result.accounts.map(({ pubkey }: { pubkey: string }) => pubkey));
    if (body.result.paginationKey === null) break;
    cursor = body.result.paginationKey;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  assert.equal(new Set(seen).size, 1_000);
  assert.equal(seen.length, 1_000);
  assert.equal(node.calls['getProgramAccounts'], 4);
  assert.equal(await ask.usage(), 40);
});

test('a page for which a node lists the keys has the price of the list, a page of a kept list that of a page', async (t) => {
  const node = await startLargeNode(t, 1_000);
  const ask = await startPager(t, node.url);
  const next = async (paginationKey: string | null) =>
    (await ask({ limit: 300, paginationKey })).body.result.paginationKey as string;
  const second = await next(null);
  assert.equal(await ask.usage(), 10);
  await next(second);
  assert.equal(await ask.usage(), 11);
  assert.equal(node.calls['getProgramAccounts'], 1);
});

test('accounts that were closed meanwhile are left out; an empty page has a cursor until the end', async (t) => {
  const node = await startLargeNode(t, 30);
  const ask = await startPager(t, node.url);
  const first = await ask({ limit: 10, withContext: true });
  assert.deepEqual(Object.keys(first.body.result), ['context', 'value']);
  assert.deepEqual(first.body.result.context, { apiVersion: '4.2.1', slot: 500 });
  for (let index = 0; index < 30; index++) node.state.gone.add(keyOf(index));
  const second = await ask({ limit: 10, paginationKey: first.body.result.value.paginationKey });
  assert.deepEqual(second.body.result.accounts, []);
  const third = await ask({ limit: 10, paginationKey: second.body.result.paginationKey });
  assert.deepEqual([third.body.result.accounts, third.body.result.paginationKey], [[], null]);
});

test('lists that are too large, and lists without room, are refused with a reason', async (t) => {
  const node = await startLargeNode(t, 1_000);
  for (const [config, status, code, details] of [
    [{ maxKeys: 999 }, 200, -32602, /more than 999 accounts/],
    [{ projectListBytes: 1_000 }, 503, -32002, /too many accounts are listed/],
    [{ totalListBytes: 1_000 }, 503, -32002, /too many accounts are listed/],
    [{ maxListAnswerBytes: 10_000 }, 200, -32603, /larger than 10000 bytes/],
  ] as const) {
    const ask = await startPager(t, node.url, config);
    const answer = await ask({ limit: 10 });
    assert.deepEqual([answer.status, answer.body.error.code], [status, code], answer.text);
    assert.match(answer.body.error.data.details, details);
  }
});

test('a list that is not the whole answer to the call is asked of the next node: a part is no shorter list', async (t) => {
  const keys = Array.from({ length: 1_000 }, (_, at) => keyOf(at));
  const value = keys.map((pubkey) => `{"pubkey":"${pubkey}","account":${accountText('')}}`);
  const whole = Buffer.from(`{"jsonrpc":"2.0","result":{"context":{"slot":500},"value":[${value.join(',')}]},"id":1}`);
  const faults = {
    ...REPLY_FAULTS,
    'cut behind an account': (body: Buffer) => body.subarray(0, body.indexOf(keys[500]!) - '{"pubkey":"'.length - 1),
    'with a long error': () =>
      Buffer.from(`{"jsonrpc":"2.0","error":{"code":-32000,"message":"${'x'.repeat(70_000)}"},"id":1}`),
  };
  const nodes = [await startUpstream(), await startUpstream()] as const;
  let fault = (body: Buffer): Buffer => body;
  for (const [at, node] of nodes.entries())
    node.on('getProgramAccounts', ({ id }) => {
      const asked = Buffer.from(whole.toString().replace(/"id":1}$/, `"id":${String(id)}}`));
      return { chunks: [(at === 0 ? fault(asked) : asked).toString()] };
    });
  // It stays the first choice, however often it fails.
  const upstream = { urls: nodes.map(({ url }) => ({ url })), healthIntervalMs: 3_600_000, coolDownMs: 1 };
  const daemon = await startDaemon({
    chain: { rpcUrl: nodes[0].url },
    config: { plugins: ['access', 'proxy', 'accounts'], follow: { enabled: false }, upstream },
  });
  t.after(async () => {
    await daemon.stop();
    await Promise.all(nodes.map((node) => node.stop()));
  });
  for (const [at, [name, made]] of Object.entries(faults).entries()) {
    fault = made;
    const asked = nodes.map((node) => node.callsOf('getProgramAccounts').length);
    // Lists are kept by program.
    const params = [keyOf(5_000 + at), { encoding: 'base64', limit: 1_000 }];
    const response = await fetch(`${daemon.apiUrl}/?api-key=${daemon.key}`, {
      method: 'POST',
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getProgramAccountsV2', params }),
    });
    const text = await response.text();
    const more = nodes.map((node, of) => node.callsOf('getProgramAccounts').length - asked[of]!);
    assert.deepEqual(more, [1, 1], `${name}: ${text.slice(0, 200)}`);
  }
});
