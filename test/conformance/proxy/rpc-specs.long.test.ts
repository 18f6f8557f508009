/**
 * The tests that the method files of the standard of the Solana JSON-RPC declare. PARHELION_RPC_SPECS names a checkout of solana-rpc/specs; without
 * it only the runner is tried, on a standard of two tests.
 */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { TOKEN_PROGRAM } from '../../../src/solana/programs.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { readSpecTests } from '../../helpers/rpc-specs.ts';
import { until } from '../../helpers/until.ts';
import { createEconomy } from '../../helpers/wallet-economy.ts';

const folder = process.env['PARHELION_RPC_SPECS'] ?? null;
if (folder === null)
  console.error('SKIPPED: the declared tests of solana-rpc/specs: set PARHELION_RPC_SPECS to a checkout');

type Json = Readonly<Record<string, unknown>>;

async function ask(url: string, method: string, params: readonly unknown[]): Promise<Json> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  const response = await fetch(url, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
  return (await response.json()) as Json;
}

test('the declared tests of the standard, on the local chain and from the ledger', {
  skip: folder === null ? 'PARHELION_RPC_SPECS is not set' : ((await chainMissing()) ?? false),
}, async (t) => {
  const chain = await startChain();
  t.after(() => chain.stop());
  const daemon = await startDaemon({
    chain,
    config: { plugins: ['access', 'proxy', 'wallet', 'history'], ledger: { retain: { hours: 1 } } },
  });
  t.after(() => daemon.stop());
  await until(() => daemon.daemon.load().chains[0]?.cursorSlot != null, 'the daemon follows the chain');
  const economy = await createEconomy(chain, 45);
  await economy.run(40);
  await chain.seal(40);
  const node = async (method: string, ...params: unknown[]) => (await ask(chain.rpcUrl, method, params))['result'];
  const [address] = economy.wallets as [string];
  const [row] = (await node('getSignaturesForAddress', address)) as [{ signature: string; slot: number }];
  const accounts = (await node('getProgramAccounts', TOKEN_PROGRAM, {
    encoding: 'jsonParsed',
    filters: [{ dataSize: 165 }],
  })) as {
    account: { data: { parsed: { info: { owner: string; mint: string } } } };
  }[];
  const held = accounts[0]?.account.data.parsed.info;
  const fixtures = {
    address,
    signature: row.signature,
    slot: row.slot,
    tip: await node('getSlot'),
    ...(held === undefined ? {} : { tokenOwner: held.owner, tokenMint: held.mint }),
  };
  await until(() => (daemon.daemon.load().chains[0]?.cursorSlot ?? 0) >= row.slot, 'the ledger has the transaction');
  const tests = readSpecTests(folder!, fixtures);
  assert.ok(tests.length > 0, `no declared tests in ${folder}`);
  for (const [name, url] of [
    ['local chain', chain.rpcUrl],
    ['daemon with a ledger', `${daemon.apiUrl}/?api-key=${daemon.key}`],
  ] as const) {
    const counts = { pass: 0, skipped: 0, inconclusive: 0, fail: 0 };
    const failed: string[] = [];
    for (const one of tests) {
      const verdict = await one.run((method, params) => ask(url, method, params));
      counts[verdict.kind] += 1;
      if (verdict.kind === 'fail') failed.push(`${one.name}: ${verdict.reason}`);
    }
    t.diagnostic(`${name}: ${JSON.stringify(counts)}`);
    assert.deepEqual(failed, [], name);
  }
});

test('the runner tells a kept promise from a broken one', async (t) => {
  const made = mkdtempSync(join(tmpdir(), 'specs-'));
  t.after(() => rmSync(made, { recursive: true, force: true }));
  for (const part of ['methods/http', 'schemas', 'errors']) mkdirSync(join(made, part), { recursive: true });
  writeFileSync(join(made, 'schemas/Slot.yaml'), 'type: integer\nminimum: 0\n');
  writeFileSync(join(made, 'errors/codes.yaml'), 'InvalidParams: { code: -32602 }\n');
  writeFileSync(join(made, 'compatibility.yaml'), 'fixtures:\n  base: { value: 7 }\n  gone: {}\n');
  writeFileSync(
    join(made, 'methods/http/getSlots.yaml'),
    [
      'name: getSlots',
      "result: { schema: { type: array, items: { $ref: '#/components/schemas/Slot' } } }",
      'tests:',
      '  - name: order',
      '    matrix: { level: [a, b] }',
      '    params: [{ $fixture: base, offset: 3 }, { $matrix: level }]',
      "    expect: { available: { minItems: 2 }, assertions: [{ path: '', orderBy: '', direction: descending }] }",
      '  - { name: refused, params: [], expect: { error: InvalidParams } }',
      '  - { name: gone, params: [{ $fixture: gone }] }',
    ].join('\n'),
  );
  const verdicts = async (answer: (params: readonly unknown[]) => Json) => {
    const asked: unknown[] = [];
    const kinds: string[] = [];
    for (const one of readSpecTests(made, {})) {
      const verdict = await one.run(async (_method, params) => {
        asked.push(params);
        return answer(params);
      });
      kinds.push(verdict.kind);
    }
    return { asked, kinds };
  };
  const refused = { error: { code: -32602, message: 'no' } };
  const right = await verdicts((params) => (params.length === 0 ? refused : { result: [9, 5] }));
  assert.deepEqual(right.kinds, ['pass', 'pass', 'pass', 'skipped']);
  assert.deepEqual(right.asked, [[10, 'a'], [10, 'b'], []]);
  for (const [result, kind] of [
    [[5, 9], 'fail'],
    [[9, -5], 'fail'],
    ['x', 'fail'],
    [[9], 'inconclusive'],
  ] as const)
    assert.deepEqual(
      (await verdicts(() => ({ result }))).kinds,
      [kind, kind, 'fail', 'skipped'],
      JSON.stringify(result),
    );
});
