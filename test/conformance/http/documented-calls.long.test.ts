/** The example of every documented method is a call that the daemon accepts: what /docs sends first, and what a generated client shows. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { WebSocket } from 'ws';
import { decode32 } from '../../../src/lib/base58.ts';
import { TOKEN_PROGRAM } from '../../../src/solana/programs.ts';
import { EXAMPLES } from '../../../src/solana/schemas.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { startUpstream } from '../../helpers/upstream.ts';
import { writeMint } from '../../helpers/write-mint.ts';

interface Method {
  readonly name: string;
  readonly paramStructure: 'by-name' | 'by-position';
  readonly examples: readonly { readonly params: readonly { readonly name: string; readonly value: unknown }[] }[];
  readonly 'x-forwarded'?: true;
  readonly 'x-transport'?: 'websocket';
}

const paramsOf = (structure: Method['paramStructure'], given: Method['examples'][number]['params']) =>
  structure === 'by-name'
    ? Object.fromEntries(given.map((one) => [one.name, one.value]))
    : given.map(({ value }) => value);

interface Answer {
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string };
}

/** Params that are wrong, a method that is not there, a call that is malformed. */
const REFUSALS = [-32_600, -32_601, -32_602];
/** The real accounts of the examples are not on the local chain. */
const ABSENT = /is not a mint|account hashes exist or are available/;

test('the example of every method of the service is accepted', { skip: (await chainMissing()) ?? false }, async (t) => {
  const chain = await startChain({ slotMs: 0 });
  const daemon = await startDaemon({
    chain: { rpcUrl: chain.rpcUrl, wsUrl: chain.wsUrl },
    config: {
      plugins: ['access', 'accounts', 'compression', 'das', 'fees', 'history', 'parsed', 'prices', 'proxy', 'wallet'],
    },
  });
  t.after(async () => {
    await daemon.stop();
    await chain.stop();
  });
  const { methods } = (await (await fetch(`${daemon.apiUrl}/openrpc.json`)).json()) as { methods: readonly Method[] };
  const own = methods.filter((method) => method['x-forwarded'] === undefined && method['x-transport'] === undefined);
  assert.ok(own.length > 50, String(own.length));
  const faults: string[] = [];
  for (const { name, examples } of own) assert.ok(examples.length > 0, `${name} has no example`);
  const calls = own.flatMap(({ examples, ...method }) => examples.map(({ params }) => ({ ...method, given: params })));
  for (const { name, paramStructure, given } of calls) {
    const params = paramsOf(paramStructure, given);
    const response = await fetch(`${daemon.apiUrl}/?api-key=${daemon.key}`, {
      method: 'POST',
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: name, ...(given.length === 0 ? {} : { params }) }),
    });
    const { error } = (await response.json()) as { error?: { code: number; message: string; data?: unknown } };
    if (error !== undefined && REFUSALS.includes(error.code) && !ABSENT.test(JSON.stringify(error)))
      faults.push(`${name} ${JSON.stringify(params)}: ${JSON.stringify(error)}`);
  }
  assert.deepEqual(faults, []);
});

/** What depends on the node behind: it knows leaders of its own epochs only, and two methods are of nodes with an option or a newer version. */
const OF_THE_NODE = /leader schedule for epoch \d+ is unavailable/;
const NOT_EVERY_NODE = new Set(['getRankMap', 'blockSubscribe']);

test('the example of every method of a node, of bundles and of subscriptions is accepted', {
  skip: (await chainMissing()) ?? false,
}, async (t) => {
  const chain = await startChain({ slotMs: 0 });
  const taker = await startUpstream();
  for (const method of ['sendBundle', 'getBundleStatuses', 'simulateBundle']) taker.on(method, { result: 'null' });
  const daemon = await startDaemon({
    chain: { rpcUrl: chain.rpcUrl, wsUrl: chain.wsUrl },
    config: {
      plugins: ['access', 'history', 'parsed', 'proxy', 'sender', 'streams', 'wallet'],
      sender: { bundleUrls: [taker.url], rebroadcast: { enabled: false } },
    },
  });
  t.after(async () => {
    await daemon.stop();
    await chain.stop();
    await taker.stop();
  });
  // The accounts that the examples name.
  const account = { owner: TOKEN_PROGRAM, lamports: 2_039_280 };
  await chain.setAccount(EXAMPLES.mint, { ...account, data: writeMint({ decimals: 6 }) });
  const held = Buffer.alloc(165);
  held.set(decode32(EXAMPLES.mint)!, 0);
  held.set(decode32(EXAMPLES.address)!, 32);
  held.writeUInt8(1, 108);
  await chain.setAccount(EXAMPLES.address, { ...account, data: held });

  const { methods } = (await (await fetch(`${daemon.apiUrl}/openrpc.json`)).json()) as { methods: readonly Method[] };
  const forwarded = methods.filter((method) => method['x-forwarded'] !== undefined);
  assert.ok(forwarded.length > 60, String(forwarded.length));
  for (const { name, examples } of forwarded) assert.ok(examples.length > 0, `${name} has no example`);
  const socket = new WebSocket(`${daemon.wsUrl}/?api-key=${daemon.key}`);
  t.after(() => socket.terminate());
  await once(socket, 'open');
  const waiting = new Map<unknown, (answer: Answer) => void>();
  socket.on('message', (data) => {
    const answer = JSON.parse(String(data)) as Answer & { id?: unknown };
    waiting.get(answer.id)?.(answer);
  });
  const overHttp = async (body: string): Promise<Answer> => {
    const response = await fetch(`${daemon.apiUrl}/?api-key=${daemon.key}`, { method: 'POST', body });
    return (await response.json()) as Answer;
  };
  const overSocket = (id: number, body: string) =>
    new Promise<Answer>((resolve) => {
      waiting.set(id, resolve);
      socket.send(body);
    });

  const faults: string[] = [];
  const made = new Map<string, unknown>();
  let [id, sent] = [0, 0];
  for (const { name, paramStructure, examples, ...facts } of forwarded)
    for (const { params: given } of examples) {
      id += 1;
      const ended = /^(.*)Unsubscribe$/.exec(name)?.[1];
      const example = paramsOf(paramStructure, given);
      // The example of an end is the number of a subscription: of the one that the example of its beginning made.
      if (ended !== undefined) {
        assert.deepEqual(Array.isArray(example) && example.map((value: unknown) => typeof value), ['number'], name);
        if (!made.has(ended)) continue;
      }
      const params = ended === undefined ? example : [made.get(ended)];
      const body = JSON.stringify({ jsonrpc: '2.0', id, method: name, ...(given.length === 0 ? {} : { params }) });
      const isOnSocket = facts['x-transport'] === 'websocket';
      const { result, error } = await (isOnSocket ? overSocket(id, body) : overHttp(body));
      sent += 1;
      if (name.endsWith('Subscribe') && error === undefined) made.set(name.replace(/Subscribe$/, ''), result);
      if (ended !== undefined) assert.equal(result, true, body);
      if (error === undefined || !REFUSALS.includes(error.code) || OF_THE_NODE.test(error.message)) continue;
      if (error.code === -32_601 && NOT_EVERY_NODE.has(name)) continue;
      faults.push(`${body}: ${JSON.stringify(error)}`);
    }
  assert.deepEqual(faults, []);
  assert.ok(made.size >= 8, `${[...made.keys()]}`);
  assert.ok(sent > 65, String(sent));
});
