/** The commands of the plugin: the report with its threshold and forms, and the receiver of both services' webhooks. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, runCommand, startDaemon } from '../../helpers/daemon.ts';
import { freePort } from '../../helpers/free-port.ts';
import { answer, startReceiver } from '../../helpers/receiver.ts';
import { until } from '../../helpers/until.ts';
import { startUpstream } from '../../helpers/upstream.ts';

const skip = (await chainMissing()) ?? false;

test('the report fails above its threshold, and comes as a table, as Markdown and as JSON', async (t) => {
  const upstream = await startUpstream();
  upstream.on('getBlockTime', { result: '1700000000' });
  const receiver = await startReceiver();
  receiver.setFallback(answer(200, {}, '{"jsonrpc":"2.0","id":1,"result":1700000001}'));
  const daemon = await startDaemon({
    chain: { rpcUrl: upstream.url },
    config: {
      plugins: ['access', 'proxy', 'shadow'],
      follow: { enabled: false },
      shadow: { share: 1, recheckMs: 0, reference: { url: receiver.url, apiKey: 'key-of-the-reference' } },
    },
  });
  t.after(async () => {
    await daemon.stop();
    await receiver.close();
    await upstream.stop();
  });
  for (const slot of [1, 2, 3, 4]) {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getBlockTime', params: [slot] });
    await fetch(`${daemon.apiUrl}/?api-key=${daemon.key}`, { method: 'POST', body });
  }
  const report = (...options: string[]) => runCommand(['shadow', 'report', '--config', daemon.configFile, ...options]);
  await until(async () => /^4 answers compared/.test((await report()).out), 'the answers are compared');
  const table = await report('--threshold', '1');
  assert.equal(table.code, 0);
  assert.match(table.out, /^4 answers compared in 7 days: 0 equal, 0 different with an explanation, 4 without \(100/);
  assert.match(table.out, /getBlockTime +result +number +4 +-/);
  const failed = await report('--threshold', '0.5');
  assert.equal(failed.code, 1);
  assert.match(failed.err, /SHADOW_THRESHOLD: .*1 > 0\.5/);
  const markdown = await report('--markdown', '--threshold', '0.999');
  assert.equal(markdown.code, 1, 'the form does not matter');
  assert.match(markdown.out, /^# Answers compared with the reference\n\n4 answers compared/);
  assert.match(markdown.out, /^\| getBlockTime \| \w+ \| 4 \| 0 \| 0 \| 4 \| 0 \|$/m);
  const json = JSON.parse((await report('--json')).out) as { differentShare: number; groups: object[] };
  assert.equal(json.differentShare, 1);
  assert.equal(json.groups.length, 1);
  for (const wrong of ['-1', '2', 'x']) assert.equal((await report('--threshold', wrong)).code, 64, wrong);
});

test('webhooks of both services are received and compared', async (t) => {
  const daemon = await startDaemon({
    config: {
      plugins: ['access', 'proxy', 'shadow'],
      follow: { enabled: false },
      shadow: { reference: { url: 'http://127.0.0.1:9' } },
    },
  });
  t.after(() => daemon.stop());
  const port = await freePort();
  const listening = runCommand([
    'shadow',
    'listen',
    '--config',
    daemon.configFile,
    '--port',
    String(port),
    '--seconds',
    '4',
    '--wait',
    '1',
    '--json',
  ]);
  const post = async (path: string, body: unknown) =>
    (await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', body: JSON.stringify(body) })).status;
  const isListening = () =>
    post('/nothing', []).then(
      (status) => status === 404,
      () => false,
    );
  await until(isListening, 'it listens');
  const timestamp = Math.floor(Date.now() / 1_000);
  const event = (signature: string, fee = 5) => ({ signature, fee, timestamp });
  assert.equal(await post('/ours/payments', [event('a'), event('b'), event('c')]), 200);
  assert.equal(await post('/theirs/payments', [event('a'), event('b', 6)]), 200);
  assert.equal(await post('/theirs/payments', [event('a'), event('d')]), 200);
  assert.equal(await post('/ours/raw', [{ transaction: { signatures: ['a'] } }]), 200);
  const { code, out } = await listening;
  assert.equal(code, 0);
  const { webhooks, open } = JSON.parse(out) as { webhooks: Record<string, unknown>[]; open: number };
  const [payments, raw] = webhooks;
  const { matched, missingHere, missingThere, doubledHere, doubledThere, different, members } = payments!;
  assert.deepEqual(
    { matched, missingHere, missingThere, doubledHere, doubledThere, different, members },
    {
      matched: 2,
      missingHere: 1,
      missingThere: 1,
      doubledHere: 0,
      doubledThere: 1,
      different: 1,
      members: [{ path: 'fee', kind: 'number', count: 1 }],
    },
  );
  assert.deepEqual([raw!['webhook'], raw!['missingThere'], open], ['raw', 1, 0]);
});

test('deliveries of two daemons on one chain are the same, and what one of them lacks is missing', {
  skip,
}, async (t) => {
  const chain = await startChain({ slotMs: 200, time: { kind: 'wall' } });
  const config = {
    plugins: ['access', 'enhanced', 'proxy', 'shadow', 'webhooks'],
    shadow: { share: 0, reference: { url: chain.rpcUrl, products: ['rpc'] } },
    webhooks: { allowCidrs: ['127.0.0.0/8'], allowHttp: true, allowPorts: null },
  };
  const [ours, theirs] = [await startDaemon({ chain, config }), await startDaemon({ chain, config })];
  t.after(async () => {
    await ours.stop();
    await theirs.stop();
    await chain.stop();
  });
  const port = await freePort();
  const listening = runCommand([
    'shadow',
    'listen',
    '--config',
    ours.configFile,
    '--port',
    String(port),
    '--seconds',
    '25',
    '--wait',
    '8',
    '--later',
    '60000',
    '--json',
  ]);
  const wallet = 'So11111111111111111111111111111111111111112';
  const create = async ({ apiUrl, key }: DaemonInProcess, side: string, webhookType: string) => {
    const webhook = {
      webhookURL: `http://127.0.0.1:${port}/${side}/${webhookType}`,
      webhookType,
      accountAddresses: [wallet],
      transactionTypes: ['ANY'],
    };
    const response = await fetch(`${apiUrl}/v0/webhooks?api-key=${key}`, {
      method: 'POST',
      body: JSON.stringify(webhook),
    });
    return ((await response.json()) as { readonly webhookID: string }).webhookID;
  };
  await until(
    () =>
      fetch(`http://127.0.0.1:${port}/nothing`, { method: 'POST', body: '[]' }).then(
        ({ status }) => status === 404,
        () => false,
      ),
    'it listens',
  );
  const halted: string[] = [];
  for (const type of ['raw', 'enhanced']) {
    await create(ours, 'ours', type);
    halted.push(await create(theirs, 'theirs', type));
  }
  const arrived = (daemon: DaemonInProcess, count: number) =>
    until(async () => {
      const text = await (await fetch(`${daemon.adminUrl}/metrics`)).text();
      const lines = text.match(/^parhelion_webhooks_attempt_steps_total\{[^}]*next="done"[^}]*\} \d+$/gm) ?? [];
      return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0) >= count;
    }, `${count} deliveries`);
  const both = 6;
  for (let at = 0; at < both; at += 1) await chain.fund(wallet, 1_000_000 + at);
  for (const daemon of [ours, theirs]) await arrived(daemon, 2 * both);
  for (const id of halted)
    await fetch(`${theirs.apiUrl}/v0/webhooks/${id}?api-key=${theirs.key}`, { method: 'DELETE' });
  const alone = 3;
  for (let at = 0; at < alone; at += 1) await chain.fund(wallet, 2_000_000 + at);
  await arrived(ours, 2 * (both + alone));
  const { code, out } = await listening;
  assert.equal(code, 0);
  const { webhooks } = JSON.parse(out) as { webhooks: Record<string, unknown>[] };
  assert.equal(webhooks.length, 2);
  for (const one of webhooks) {
    const { matched, missingHere, missingThere, doubledHere, doubledThere, different, members } = one;
    assert.deepEqual(
      { matched, missingHere, missingThere, doubledHere, doubledThere, different, members },
      {
        matched: both,
        missingHere: 0,
        missingThere: alone,
        doubledHere: 0,
        doubledThere: 0,
        different: 0,
        members: [],
      },
      String(one['webhook']),
    );
  }
});
