import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fingerprintOf, planHelius } from '../../../src/cli/move/hosted.ts';
import { cliArguments, runCommand, startDaemon } from '../../helpers/daemon.ts';
import { startReceiver } from '../../helpers/receiver.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { until } from '../../helpers/until.ts';
import { startUpstream } from '../../helpers/upstream.ts';
import { HOSTED_KEY, type HostedWebhook, startHosted, webhooksOf } from './hosted-server.ts';

async function startBed(t: TestContext, webhooks: readonly HostedWebhook[]) {
  const hosted = await startHosted(webhooks);
  const node = await startUpstream();
  const daemon = await startDaemon({
    chain: { rpcUrl: node.url },
    config: {
      upstream: { urls: [node.url], devnet: { urls: [node.url] } },
      plugins: ['access', 'webhooks'],
      follow: { enabled: false },
      webhooks: { maxPerProject: 2_000, allowHttp: true, allowPorts: null, allowCidrs: ['127.0.0.0/8'] },
    },
  });
  const folder = mkdtempSync(join(tmpdir(), 'move-'));
  t.after(async () => {
    await daemon.stop();
    await hosted.stop();
    await node.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  const keys = { from: join(folder, 'hosted.key'), to: join(folder, 'own.key'), state: join(folder, 'move.json') };
  writeFileSync(keys.from, `${HOSTED_KEY}\n`);
  writeFileSync(keys.to, daemon.key);
  const source = ['--from', 'helius', '--from-url', hosted.url, '--from-key-file', keys.from];
  const target = ['--url', daemon.apiUrl, '--key-file', keys.to, '--state', keys.state];
  const own = async () => {
    const list = await (await fetch(`${daemon.apiUrl}/v0/webhooks?api-key=${daemon.key}`)).json();
    const whole = (list as { webhookID: string }[]).map(async ({ webhookID }) =>
      (await fetch(`${daemon.apiUrl}/v0/webhooks/${webhookID}?api-key=${daemon.key}`)).json(),
    );
    return (await Promise.all(whole)) as HostedWebhook[];
  };
  const move = async (what: string, ...more: string[]) =>
    await runCommand(['move', what, ...source, ...(what === 'plan' ? [] : target), ...more]);
  return { hosted, daemon, folder, keys, source, own, move };
}

/** What a webhook delivers, where and whether, and what people call it. */
const contentOf = (webhook: HostedWebhook) => {
  const label = JSON.stringify([webhook['name'] ?? null, webhook['description'] ?? null]);
  return `${fingerprintOf(planHelius(webhook).wanted!)} ${webhook.active === false ? 'off' : 'on'} ${label}`;
};
const contentsOf = (webhooks: readonly HostedWebhook[]) => webhooks.map(contentOf).sort();

test('webhooks of every kind come along one to one, each once, and what changes there is mirrored', async (t) => {
  const theirs = webhooksOf(createSfc32(11), 24);
  const bed = await startBed(t, theirs);
  const plan = await bed.move('plan');
  assert.match(plan.out, /^24 come along one to one, 0 with changes, 0 cannot$/m);
  assert.deepEqual(await bed.own(), [], 'a plan changes nothing');
  bed.hosted.faults.push({ status: 429, headers: { 'retry-after': '0' } }, { status: 502 });
  const secrets = join(bed.folder, 'secrets');
  const first = await bed.move('run', '--secrets', secrets);
  assert.equal(first.code, 0, first.err);
  assert.match(first.out, /^24 created$/m);
  assert.deepEqual(contentsOf(await bed.own()), contentsOf(theirs));
  assert.equal(readFileSync(secrets, 'utf8').trim().split('\n').length, 24);
  assert.equal(statSync(bed.keys.state).mode & 0o077, 0);
  const again = await bed.move('run', '--secrets', secrets);
  assert.match(again.out, /^24 same$/m);
  assert.equal((await bed.own()).length, 24);

  const [edited, toggled, removed] = theirs as [HostedWebhook, HostedWebhook, HostedWebhook];
  edited['webhookURL'] = 'http://127.0.0.1:9/another';
  toggled.active = toggled.active === false;
  bed.hosted.webhooks.delete(removed.webhookID);
  const renamed = theirs[4]!;
  renamed['name'] = 'Renamed there';
  const gone = await bed.move('run');
  assert.match(gone.out, /^3 changed, 20 same, 1 gone$/m);
  const contents = contentsOf(await bed.own());
  for (const one of [edited, toggled, renamed]) assert.ok(contents.includes(contentOf(one)));
  const ours = JSON.parse(readFileSync(bed.keys.state, 'utf8')) as { entries: Record<string, { ours: string }> };
  assert.ok((await bed.own()).some(({ webhookID }) => webhookID === ours.entries[removed.webhookID]!.ours));

  // The file is lost: all are found again by their content.
  rmSync(bed.keys.state);
  const found = await bed.move('run');
  assert.match(found.out, /^23 found$/m);
  assert.equal((await bed.own()).length, 24);
  for (const { out, err } of [plan, first, again, gone, found])
    for (const secret of [HOSTED_KEY, bed.daemon.key, 'secret-']) assert.equal((out + err).includes(secret), false);
  const written = readFileSync(bed.keys.state, 'utf8') + readFileSync(secrets, 'utf8');
  for (const secret of [HOSTED_KEY, bed.daemon.key]) assert.equal(written.includes(secret), false);
  assert.deepEqual(
    [...new Set(bed.hosted.asked.map((line) => line.split(' ')[0]))],
    ['GET'],
    'nothing is written there',
  );
});

test('names and descriptions come along as far as they fit, and stay where the service has none', async (t) => {
  const hook = { webhookURL: 'http://127.0.0.1:9/a', webhookType: 'raw', accountAddresses: [] };
  const bed = await startBed(t, [
    { ...hook, webhookID: 'one', name: 'n'.repeat(101), description: 'a\u0007b\nc' },
    { ...hook, webhookID: 'two', webhookURL: 'http://127.0.0.1:9/b' },
  ]);
  assert.match((await bed.move('plan')).out, /^one +changed .*its name is cut at 100 characters/m);
  assert.equal((await bed.move('run')).code, 0);
  const find = async (url: string) => (await bed.own()).find(({ webhookURL }) => webhookURL === url)!;
  const one = await find('http://127.0.0.1:9/a');
  assert.deepEqual([one['name'], one['description']], ['n'.repeat(100), 'a b\nc']);
  const { webhookID } = await find('http://127.0.0.1:9/b');
  await fetch(`${bed.daemon.apiUrl}/v0/webhooks/${webhookID}?api-key=${bed.daemon.key}`, {
    method: 'PUT',
    body: JSON.stringify({ name: 'Named here' }),
  });
  bed.hosted.webhooks.get('two')!['webhookType'] = 'enhanced';
  assert.match((await bed.move('run')).out, /^1 changed, 1 same$/m);
  const two = await find('http://127.0.0.1:9/b');
  assert.deepEqual([two['webhookType'], two['name'], two['description']], ['enhanced', 'Named here', undefined]);
});

test('ours stay off until the switch, and are verified by their deliveries', async (t) => {
  const receiver = await startReceiver();
  t.after(() => receiver.close());
  const theirs = webhooksOf(createSfc32(12), 3).map((webhook) => ({ ...webhook, webhookURL: `${receiver.url}/hook` }));
  theirs[0]!.active = false;
  delete theirs[1]!.active;
  delete theirs[2]!.active;
  const bed = await startBed(t, theirs);
  await bed.move('run', '--inactive');
  assert.ok((await bed.own()).every(({ active }) => active === false));
  const before = await bed.move('verify', '--test');
  assert.match(before.out, /^0 deliver, 0 are silent, 3 are off, 0 fail$/m);
  const switched = await bed.move('run', '--switch');
  assert.match(switched.out, /^2 webhooks are on\./m);
  const silent = await bed.move('verify');
  assert.match(silent.out, /^0 deliver, 2 are silent, 1 are off, 0 fail$/m);
  const tested = await bed.move('verify', '--test');
  assert.equal(tested.code, 0);
  assert.match(tested.out, /^2 deliver, 0 are silent, 1 are off, 0 fail$/m);
  await receiver.close();
  const failing = await bed.move('verify', '--test');
  assert.equal(failing.code, 1);
  assert.match(failing.out, /^0 deliver, 0 are silent, 1 are off, 2 fail$/m);
  // Turned off there after the switch: ours must not follow.
  for (const webhook of bed.hosted.webhooks.values()) webhook.active = false;
  const late = await bed.move('run');
  assert.equal(late.code, 64);
  assert.match(late.err, /this move has been switched/);
  assert.equal((await bed.own()).filter(({ active }) => active === true).length, 2);
});

test('a mirror follows what is changed, added and deleted there, goes on over failures, and ends with the switch', async (t) => {
  const theirs = webhooksOf(createSfc32(14), 6).map((webhook) => ({ ...webhook, active: true }));
  const bed = await startBed(t, theirs.slice(0, 5));
  const mirror = spawn(
    process.execPath,
    [
      ...cliArguments,
      'move',
      'run',
      ...bed.source,
      '--url',
      bed.daemon.apiUrl,
      '--key-file',
      bed.keys.to,
      '--state',
      bed.keys.state,
      '--mirror',
      '--interval',
      '1',
      '--inactive',
    ],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  const said: string[] = [];
  for (const stream of [mirror.stdout, mirror.stderr]) stream.on('data', (chunk: Buffer) => said.push(String(chunk)));
  t.after(() => mirror.kill('SIGKILL'));
  /** Ours are off until the switch. */
  const isLike = async (wanted: readonly HostedWebhook[]) => {
    const own = await bed.own();
    // One may be deleted between the list and its own answer.
    if (!own.every((one) => 'webhookType' in one)) return false;
    return contentsOf(own).join() === contentsOf(wanted.map((one) => ({ ...one, active: false }))).join();
  };
  await until(() => isLike(theirs.slice(0, 5)), 'all came along');
  const [edited, removed, , , , added] = theirs as HostedWebhook[];
  edited!['webhookURL'] = 'http://127.0.0.1:9/edited';
  bed.hosted.webhooks.delete(removed!.webhookID);
  bed.hosted.webhooks.set(added!.webhookID, added!);
  bed.hosted.faults.push(...Array.from({ length: 12 }, () => ({ status: 503, headers: { 'retry-after': '0' } })));
  const now = theirs.filter((one) => one !== removed);
  await until(() => isLike(now), 'what changed is followed');
  // A round is told at its end.
  await until(() => /1 deleted/.test(said.join('')), 'the round is told');
  const gone = once(mirror, 'exit');
  mirror.kill('SIGINT');
  await gone;
  assert.match((await bed.move('run', '--switch')).out, /^5 webhooks are on\./m);
  assert.deepEqual(contentsOf(await bed.own()), contentsOf(now));
  assert.equal((await bed.move('run', '--mirror')).code, 64, 'after the switch nothing is followed');
  for (const secret of [HOSTED_KEY, bed.daemon.key]) assert.equal(said.join('').includes(secret), false);
});

test('a plan says what changes and what cannot come along', async (t) => {
  const bed = await startBed(t, [
    { webhookID: 'one', webhookURL: 'https://example.org/h', webhookType: 'raw', accountAddresses: [], retries: 5 },
    { webhookID: 'two', webhookURL: 'https://example.org/h', webhookType: 'account', accountAddresses: ['nonsense'] },
  ]);
  const helius = await bed.move('plan');
  assert.match(helius.out, /one +changed .*the member retries is not known here/);
  assert.match(helius.out, /two +impossible .*the type "account" is not offered; "nonsense" is not an address/);
  const WALLET = '9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin';
  const target = { url: 'https://example.org/q?token=abc', security_token: 'hidden', compression: 'gzip' };
  const wallets = {
    id: 'w',
    network: 'solana-devnet',
    templateId: 'solanaWalletFilter',
    templateArgs: { accounts: [WALLET] },
    name: 'Treasury',
  };
  bed.hosted.quicknode = {
    webhooks: [
      { ...wallets, status: 'active', destination_attributes: target },
      { id: 'f', network: 'solana-mainnet', status: 'active', destination_attributes: target },
      { ...wallets, id: 'e', network: 'ethereum-mainnet', status: 'paused', destination_attributes: target },
      ...Array.from({ length: 150 }, (_, index) => ({
        ...wallets,
        id: `m${index}`,
        status: 'active',
        destination_attributes: target,
      })),
    ],
    streams: [
      { id: 's', network: 'solana-mainnet', dataset: 'block', destination: 's3', status: 'active' },
      { id: 't', network: 'solana-mainnet', dataset: 'block', destination: 'webhook', status: 'active' },
    ],
  };
  const source = ['--from', 'quicknode', '--from-url', bed.hosted.url, '--from-key-file', bed.keys.from];
  const { code, out } = await runCommand(['move', 'plan', ...source, '--json']);
  assert.equal(code, 0);
  const rows = JSON.parse(out) as { id: string; kind: string; reasons: string[] }[];
  assert.equal(rows.length, 155);
  const kinds = Object.fromEntries(rows.map(({ id, kind }) => [id, kind]));
  assert.deepEqual(
    ['w', 'f', 'e', 's', 't', 'm149'].map((id) => kinds[id]),
    ['changed', 'impossible', 'impossible', 'impossible', 'impossible', 'changed'],
  );
  assert.match(rows.find(({ id }) => id === 's')!.reasons[0]!, /use the plugin sinks/);
  assert.equal(/abc|hidden/.test(out), false, 'no secret of a receiver');
  const state = join(bed.folder, 'of-the-lists.json');
  const create = ['move', 'run', ...source, '--url', bed.daemon.apiUrl, '--key-file', bed.keys.to, '--state', state];
  const brought = await runCommand(create);
  assert.equal(brought.code, 0, brought.err);
  assert.match(brought.out, /^151 created, 4 impossible$/m);
  assert.match((await runCommand(create)).out, /^151 same, 4 impossible$/m, 'twice is once');
  assert.equal((await bed.own()).length, 151);
  for (const { webhookID } of await bed.own())
    await fetch(`${bed.daemon.apiUrl}/v0/webhooks/${webhookID}?api-key=${bed.daemon.key}`, { method: 'DELETE' });
  const saved = join(bed.folder, 'saved.json');
  writeFileSync(saved, JSON.stringify({ data: bed.hosted.quicknode.webhooks.slice(0, 1) }));
  const made = await runCommand([
    'move',
    'run',
    '--from',
    'file',
    '--file',
    saved,
    '--url',
    bed.daemon.apiUrl,
    '--key-file',
    bed.keys.to,
    '--state',
    bed.keys.state,
  ]);
  assert.equal(made.code, 0, made.err);
  const [ours] = await bed.own();
  assert.deepEqual(
    [ours!['webhookType'], ours!['accountAddresses'], ours!['name']],
    ['rawDevnet', [WALLET], 'Treasury'],
  );
});

test('wrong keys, another move, a second run and a service that is away are errors by name', async (t) => {
  const bed = await startBed(t, webhooksOf(createSfc32(13), 2));
  writeFileSync(bed.keys.from, 'another-key');
  const denied = await bed.move('run');
  assert.equal(denied.code, 64);
  assert.match(denied.err, /MOVE_REFUSED.*refuses: 401/);
  assert.equal(denied.err.includes('another-key'), false, 'the key that the service repeats is masked');
  writeFileSync(bed.keys.from, HOSTED_KEY);
  writeFileSync(`${bed.keys.state}.lock`, String(process.pid));
  const locked = await bed.move('run');
  assert.equal(locked.code, 75);
  assert.match(locked.err, /MOVE_STATE: another move uses/);
  writeFileSync(`${bed.keys.state}.lock`, '999999999');
  assert.equal((await bed.move('run')).code, 0, 'the lock of a process that is gone does not count');
  writeFileSync(bed.keys.state, JSON.stringify({ from: 'helius elsewhere', to: 'x', switched: false, entries: {} }));
  assert.match((await bed.move('run')).err, /is of a move from helius elsewhere to x/);
  const open = ['--from', 'helius', '--from-url', 'http://example.org', '--from-key-file', bed.keys.from];
  assert.match((await runCommand(['move', 'plan', ...open])).err, /must begin with https/);
  assert.match((await runCommand(['move', 'plan', '--from', 'helius'])).err, /PARHELION_MOVE_FROM_KEY is needed/);
});

test('the calculator shares their bill by product and adds what runs here', async (t) => {
  const bed = await startBed(t, []);
  bed.hosted.usage = {
    credits: { rpc: 6_000_000, das: 5_000_000, webhooks: 1_000_000 },
    requests: { rpc: 6_000_000, das: 500_000, webhooks: 1_000_000 },
    dataTransfer: {},
  };
  const from = ['--from-url', bed.hosted.url, '--from-key-file', bed.keys.from];
  const plain = await runCommand(['move', 'cost', '--project', 'p', ...from]);
  assert.equal(plain.code, 0, plain.err);
  // 12 million credits: 49 $ with 10 million, and two more million at 5 $.
  assert.match(plain.out, /^there: \$59\.00 a month, plan developer \(helius, prices of \d{4}-\d\d-\d\d, /m);
  assert.match(plain.out, /^das +5,000,000 +500000 +\$24\.58 +0 +\$0\.00$/m);
  assert.match(plain.out, /the costs of your machine and upstreams are not known/);
  const prices = join(bed.folder, 'prices.json');
  writeFileSync(prices, JSON.stringify({ own: { machineUsdPerMonth: 20, upstreamUsdPerMillionCalls: 1 } }));
  const usage = join(bed.folder, 'usage.json');
  writeFileSync(usage, JSON.stringify(bed.hosted.usage));
  const own = await runCommand(['move', 'cost', '--usage', usage, '--prices', prices]);
  // Machine 20 $, a call for each of 6,480,000 slots, 6 million forwarded calls.
  assert.match(
    own.out,
    /^here: \$32\.48 a month: machine \$20\.00, following the chain \$6\.48 \(6480000 calls\), forwarded calls \$6\.00$/m,
  );
  writeFileSync(prices, JSON.stringify({ hosted: { plans: [] } }));
  assert.match(
    (await runCommand(['move', 'cost', '--usage', usage, '--prices', prices])).err,
    /MOVE_USAGE: hosted\.plans/,
  );
});
