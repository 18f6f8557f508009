/** The example of every documented method is a call that the daemon accepts: what /docs sends first, and what a generated client shows. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';

interface Method {
  readonly name: string;
  readonly paramStructure: 'by-name' | 'by-position';
  readonly examples: readonly { readonly params: readonly { readonly name: string; readonly value: unknown }[] }[];
  readonly 'x-forwarded'?: true;
  readonly 'x-transport'?: 'websocket';
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
    const params =
      paramStructure === 'by-name'
        ? Object.fromEntries(given.map((one) => [one.name, one.value]))
        : given.map(({ value }) => value);
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
