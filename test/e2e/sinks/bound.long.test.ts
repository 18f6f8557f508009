/**
 * A sink is paused while more rows of deliveries are made than the store keeps. The sink that goes on has all of them; the paused one has a hole, which
 * the commands, the metrics and the log name, before it is resumed and for ever after.
 */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Keypair } from '@solana/web3.js';
import { ALL_TABLES } from '../../../plugins/sinks/rows/tables.ts';
import { ndjsonKind } from '../../../plugins/sinks/targets/ndjson.ts';
import { apiOf } from '../../conformance/webhooks/daemon.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { runCommand, startDaemonProcess } from '../../helpers/daemon.ts';
import { startReceiver } from '../../helpers/receiver.ts';
import { openSink } from '../../helpers/sinks.ts';
import { until } from '../../helpers/until.ts';

const KEY = '5a0dd4a1-4f1c-4f0c-9a51-0a4f6d1f7a13';
const HOOKS = 10;
const KEPT_BYTES = 65_536;
const WAIT_MS = 120_000;

interface Listed {
  readonly name: string;
  readonly state: string;
  readonly lastSlot: number | null;
  readonly holes: readonly { readonly table: string; readonly from: number; readonly to: number }[];
}

test('rows beyond the bound are a hole of the sink that was paused, named everywhere, and of no other', {
  skip: (await chainMissing()) ?? false,
}, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-sinks-'));
  mkdirSync(join(folder, 'data'));
  const chain = await startChain({ slotMs: 400, finalityDepth: 4, time: { kind: 'wall' } });
  const receiver = await startReceiver();
  const tables = ['blocks', 'deliveries'];
  const quick = { kind: 'ndjson', tables, batchSlots: 8, batchSeconds: 0 };
  const config = {
    plugins: ['access', 'proxy', 'webhooks', 'sinks'],
    webhooks: { allowCidrs: ['127.0.0.0/8'], allowHttp: true },
    ledger: { retain: { hours: 24 } },
    follow: { pollMs: 50, auditIntervalMs: 100 },
    sinks: {
      keptBytes: KEPT_BYTES,
      targets: [
        { name: 'steady', target: join(folder, 'steady'), ...quick },
        { name: 'away', target: join(folder, 'away'), ...quick },
        { name: 'blocks', target: join(folder, 'blocks'), ...quick, tables: ['blocks'] },
      ],
    },
  };
  const daemon = await startDaemonProcess({ chain, dataDir: join(folder, 'data'), key: KEY, config });
  t.after(async () => {
    await daemon.kill();
    await receiver.close();
    await chain.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  const run = (...args: string[]) => runCommand(['sinks', ...args, '--config', daemon.configFile]);
  const listed = async () => {
    const sinks = JSON.parse((await run('list', '--json')).out) as readonly Listed[];
    return Object.fromEntries(sinks.map((sink) => [sink.name, sink])) as Record<string, Listed>;
  };
  const metric = async (name: string, label = ''): Promise<number> => {
    const text = await (await fetch(`${daemon.adminUrl}/metrics`)).text();
    const line = text.split('\n').find((one) => one.startsWith(`parhelion_sinks_${name}{`) && one.includes(label));
    return Number(line?.split(' ').at(-1) ?? Number.NaN);
  };
  const wallet = Keypair.generate().publicKey.toBase58();
  for (let at = 0; at < HOOKS; at++) {
    const hook = { webhookURL: `${receiver.url}/${at}`, webhookType: 'raw', accountAddresses: [wallet] };
    const { status, body } = await apiOf(daemon.apiUrl, KEY)('POST', '/v0/webhooks', hook);
    assert.equal(status, 200, JSON.stringify(body));
  }
  await until(
    async () => Object.values(await listed()).every(({ lastSlot }) => lastSlot !== null),
    'each sink has a slot',
  );
  assert.equal((await run('pause', '--sink', 'away')).code, 0);

  let lamports = 1_000_000_000;
  await until(
    async () => {
      await chain.fund(wallet, lamports++);
      return (await metric('dropped_rows_total', 'table="deliveries"')) > 20;
    },
    `rows are dropped\n${daemon.output().slice(-3_000)}`,
    WAIT_MS,
  );
  const before = await listed();
  assert.deepEqual([before['steady']!.holes, before['blocks']!.holes], [[], []]);
  assert.equal(before['away']!.state, 'paused');
  const [early, ...none] = before['away']!.holes;
  assert.deepEqual(none, []);
  assert.equal(early!.table, 'deliveries');
  assert.ok(early!.from > before['away']!.lastSlot!, JSON.stringify(before));
  await until(() => /rows were dropped that sinks have not taken/.test(daemon.output()), 'the log says so');
  assert.match(daemon.output(), /"sinks":\["away"\]/);
  await until(async () => (await metric('missing_slots', 'sink="away"')) > 0, 'the metric names the sink');
  assert.equal(await metric('missing_slots', 'sink="steady"'), 0);
  assert.ok((await metric('kept_ratio')) > 0);
  // Nobody writes it, and still its lag is known: all that was final when it was listed, and what was dropped.
  const known = Math.max(before['steady']!.lastSlot!, early!.from) - before['away']!.lastSlot!;
  await until(async () => (await metric('lag_slots', 'sink="away"')) >= known, `the lag is at least ${known} slots`);

  assert.equal((await run('resume', '--sink', 'away')).code, 0);
  const end = (await listed())['steady']!.lastSlot!;
  await until(
    async () => Object.values(await listed()).every(({ lastSlot }) => lastSlot !== null && lastSlot >= end),
    'the sink that was away has caught up',
    WAIT_MS,
  );
  const { holes } = (await listed())['away']!;
  assert.ok(holes.length > 0 && holes.every(({ table }) => table === 'deliveries'));
  const rowsOf = async (name: string) => {
    const target = await ndjsonKind.open(
      openSink(join(folder, name), { tables: ALL_TABLES.filter((one) => tables.includes(one.name)) }),
    );
    return await target.read!('deliveries', 0, end);
  };
  const [all, some] = [await rowsOf('steady'), await rowsOf('away')];
  const isInHole = (slot: unknown) => holes.some(({ from, to }) => (slot as number) >= from && (slot as number) <= to);
  assert.deepEqual(
    some,
    all.filter(([slot]) => !isInHole(slot)),
  );
  assert.ok(all.length > some.length && some.length > 0, `${all.length} and ${some.length} rows`);

  assert.match(
    (await run('list')).out,
    new RegExp(`away: hole in deliveries, slots ${holes[0]!.from} to ${holes[0]!.to}`),
  );
  const whole = await run('verify', '--sink', 'steady', '--to', String(end));
  assert.equal(whole.code, 0, whole.out + whole.err);
  const lacking = await run('verify', '--sink', 'away', '--to', String(end));
  assert.equal(lacking.code, 70, lacking.out + lacking.err);
  assert.match(lacking.out, /deliveries has a hole in slots/);
});
