/** A whole daemon whose upstreams become another chain, come back, or do not answer: readiness, proxied calls, and what is stored. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Keypair } from '@solana/web3.js';
import { legacy, transfer } from '../../conformance/sender/transactions.ts';
import { startDaemon, startDaemonProcess } from '../../helpers/daemon.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';

const OURS = '11111111111111111111111111111112';
const OTHER = '11111111111111111111111111111113';
const serve = (upstream: TestUpstream, genesisHash: string, balance: number) => {
  upstream.on('getGenesisHash', { result: JSON.stringify(genesisHash) });
  upstream.on('getBalance', { result: `{"context":{"slot":1},"value":${balance}}` });
};

async function bed(t: TestContext, count: number) {
  const upstreams: TestUpstream[] = [];
  for (let made = 0; made < count; made += 1) upstreams.push(await startUpstream({ genesisHash: OURS }));
  for (const upstream of upstreams) serve(upstream, OURS, 7);
  const daemon = await startDaemon({
    config: {
      upstream: { urls: upstreams.map(({ url }) => url), healthIntervalMs: 300 },
    },
  });
  t.after(async () => {
    await daemon.stop();
    for (const upstream of upstreams) await upstream.stop();
  });
  return {
    upstreams,
    async balance() {
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getBalance', params: [OURS] });
      const headers = { 'content-type': 'application/json' };
      const answer = await fetch(`${daemon.apiUrl}/?api-key=${daemon.key}`, { method: 'POST', headers, body });
      return ((await answer.json()) as { result?: { value: number } }).result?.value ?? null;
    },
    async ready() {
      const answer = await fetch(`${daemon.adminUrl}/readyz`);
      return { status: answer.status, text: await answer.text() };
    },
  };
}

async function until(check: () => Promise<boolean>): Promise<void> {
  for (let tried = 0; tried < 600 && !(await check()); tried += 1) await sleep(50);
  assert.ok(await check());
}

test('the only upstream goes and is another chain: no answer of it, 503 with the reason, and back', async (t) => {
  const { upstreams, balance, ready } = await bed(t, 1);
  const upstream = upstreams[0]!;
  await until(async () => (await balance()) === 7);
  await upstream.down();
  serve(upstream, OTHER, 13);
  let down = 0;
  const up = sleep(700).then(() => upstream.up());
  for (; down < 40; down += 1) assert.equal(await balance(), null, 'never the answer of the other chain');
  await up;
  for (let asked = 0; asked < 10; asked += 1) {
    assert.equal(await balance(), null);
    await sleep(100);
  }
  await until(async () => (await ready()).text.includes('UPSTREAM_OTHER_CHAIN'));
  const { status, text } = await ready();
  assert.equal(status, 503);
  assert.match(text, new RegExp(`${OURS}.*${OTHER}`));
  serve(upstream, OURS, 8);
  await until(async () => (await balance()) === 8);
  assert.doesNotMatch((await ready()).text, /UPSTREAM_OTHER_CHAIN/);
});

test('one of two becomes another chain: the other one answers', async (t) => {
  const { upstreams, balance, ready } = await bed(t, 2);
  await until(async () => (await balance()) === 7);
  const [first] = upstreams as [TestUpstream];
  await first.down();
  serve(first, OTHER, 13);
  await first.up();
  for (let asked = 0; asked < 20; asked += 1) {
    assert.notEqual(await balance(), 13);
    await sleep(50);
  }
  await until(async () => (await balance()) === 7);
  assert.doesNotMatch((await ready()).text, /no upstream/);
});

test('no upstream answers, refused or silent: readiness says so at the next look', async (t) => {
  const { upstreams, ready } = await bed(t, 1);
  const upstream = upstreams[0]!;
  await until(async () => !(await ready()).text.includes('no upstream answers'));
  upstream.on('getSlot', { fault: 'hang' });
  await until(async () => (await ready()).text.includes('no upstream answers'));
  assert.equal((await ready()).status, 503);
  upstream.on('getSlot', { result: '1000' });
  await until(async () => !(await ready()).text.includes('no upstream answers'));
  await upstream.down();
  await until(async () => (await ready()).text.includes('no upstream answers'));
  assert.equal((await ready()).status, 503);
  await upstream.up();
});

test('an address of sender.urls that serves another chain gets nothing; one that does not say which does', async (t) => {
  const upstream = await startUpstream({ genesisHash: OURS });
  const takers = [
    await startUpstream({ genesisHash: OTHER }),
    await startUpstream({ genesisHash: OURS }),
    await startUpstream(),
    await startUpstream(),
  ] as const;
  const [foreign, ours, silent, simple] = takers;
  silent.on('getGenesisHash', { fault: 'hang' });
  simple.on('getGenesisHash', { status: 404, chunks: ['no such page'] });
  for (const taker of takers) taker.on('sendTransaction', { result: '"11111111"' });
  const daemon = await startDaemonProcess({
    config: {
      upstream: { urls: [upstream.url], healthIntervalMs: 300 },
      sender: { urls: takers.map(({ url }) => url), rebroadcast: { enabled: false } },
    },
  });
  t.after(async () => {
    await daemon.stop();
    for (const one of [upstream, ...takers]) await one.stop();
  });
  const send = async () => {
    const params = [legacy([transfer(Keypair.generate().publicKey, 5)]).base64, { encoding: 'base64' }];
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'sendTransaction', params });
    const answer = await fetch(`${daemon.apiUrl}/fast?api-key=${daemon.key}`, { method: 'POST', body });
    assert.equal(answer.status, 200);
  };
  const count = (taker: TestUpstream) => taker.callsOf('sendTransaction').length;
  const refusals = () =>
    daemon
      .output()
      .split('\n')
      .filter((line) => line.includes('UPSTREAM_OTHER_CHAIN') && line.includes('"pool":"send"'));
  await until(async () => refusals().length > 0);
  assert.match(refusals()[0]!, new RegExp(`"genesisHash":"${OTHER}","expected":"${OURS}"`));
  for (let sent = 0; sent < 3; sent += 1) await send();
  await until(async () => [ours, silent, simple].every((taker) => count(taker) === 3));
  assert.equal(count(foreign), 0);
  // It is asked again and again, and said once.
  const asked = foreign.callsOf('getGenesisHash').length;
  await until(async () => foreign.callsOf('getGenesisHash').length > asked);
  assert.equal(refusals().length, 1);
  serve(foreign, OURS, 7);
  await until(async () => {
    await send();
    return count(foreign) > 0;
  });
});
