/** Whole daemons on chains with slots of 200 and of 400 ms: what is said and judged is time, and the same on both. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Finding } from '../../../src/cli/doctor/finding.ts';
import type { Readiness } from '../../../src/http/health.ts';
import { apiOf } from '../../conformance/webhooks/daemon.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, runCommand, startDaemon } from '../../helpers/daemon.ts';
import { type FaultProxy, startFaultProxy } from '../../helpers/fault-proxy.ts';
import { until } from './harness.ts';

const LENGTHS = [200, 400] as const;
const ADDRESS = '11111111111111111111111111111112';
const LAG = 'parhelion_follow_lag_seconds';
const TWO_HOURS_MS = 7_200_000;
/** A busy machine slows the chain at times, and the two sides look at different times; what is wrong is off by a factor of two. */
const NEAR = 0.3;
const isNear = (a: number, b: number, share = NEAR) => Math.abs(a - b) <= share * Math.max(a, b);

interface Bed {
  readonly chain: TestChain;
  readonly proxy: FaultProxy;
  readonly daemon: DaemonInProcess;
  /** Tip and time at the beginning, to know how long slots really take here. */
  readonly first: { readonly slot: number; readonly at: number };
}

async function startBed(slotMs: number): Promise<Bed> {
  const chain = await startChain({ slotMs, time: { kind: 'wall' } });
  const proxy = await startFaultProxy(Number(new URL(chain.rpcUrl).port));
  const daemon = await startDaemon({
    chain: { rpcUrl: `http://127.0.0.1:${proxy.port}` },
    config: {
      // The limit is only looked at where nothing else is wrong.
      follow: { maxReadyLagSeconds: 6, stalledAfterSeconds: 600 },
      upstream: {
        urls: [{ url: `http://127.0.0.1:${proxy.port}`, websocketUrl: chain.wsUrl }],
        healthIntervalMs: 500,
        coolDownMs: 500,
      },
      webhooks: { allowCidrs: ['127.0.0.0/8'], allowHttp: true },
    },
  });
  await until(async () => (await readinessOf(daemon)).status.tipSlot !== null);
  const { status } = await readinessOf(daemon);
  return { chain, proxy, daemon, first: { slot: status.tipSlot!, at: performance.now() } };
}

async function readinessOf({ adminUrl }: { readonly adminUrl: string }) {
  const response = await fetch(`${adminUrl}/readyz`);
  const { checks, chain } = (await response.json()) as Readiness;
  const detail = checks.find(({ name }) => name === 'chain main')?.detail ?? '';
  return { code: response.status, detail, status: chain[0]! };
}

async function metricOf({ adminUrl }: { readonly adminUrl: string }, name: string): Promise<number> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(text)?.[1]);
}

describe('time on chains of both slot lengths', { skip: (await chainMissing()) ?? false }, () => {
  let beds: readonly [Bed, Bed];
  const each = <T>(work: (bed: Bed) => Promise<T>) =>
    Promise.all(beds.map(work)) as unknown as Promise<readonly [T, T]>;
  const measured = ({ daemon }: Bed) => readinessOf(daemon).then(({ status }) => status.slotMs!);

  before(async () => {
    beds = [await startBed(LENGTHS[0]), await startBed(LENGTHS[1])];
  });
  after(async () => {
    await each(async ({ chain, proxy, daemon }) => {
      await daemon.stop();
      await proxy.close();
      await chain.stop();
    });
  });

  test('the length is measured as it is', async () => {
    await each(({ daemon }) => until(async () => (await readinessOf(daemon)).status.slotMs !== null));
    await each(async ({ daemon, first }) => {
      const { status } = await readinessOf(daemon);
      const real = (performance.now() - first.at) / (status.tipSlot! - first.slot);
      assert.ok(isNear(status.slotMs!, real), `${status.slotMs} ms, really ${real} ms`);
      assert.ok(isNear((await metricOf(daemon, 'parhelion_follow_slot_seconds')) * 1_000, real));
    });
    const [short, long] = await each(measured);
    assert.ok(isNear(long / short, 2), `${short} and ${long} ms`);
  });

  test('doctor names it', async () => {
    // The times of the first and the last block are whole seconds.
    await until(() => beds.every(({ first }) => performance.now() - first.at > 25_000));
    await each(async ({ daemon }) => {
      const { out } = await runCommand(['doctor', '--json', '--config', daemon.configFile]);
      const { findings } = JSON.parse(out) as { findings: Finding[] };
      const [, ms] = /slots of (\d+) ms/.exec(findings.find(({ check }) => check === 'upstream')?.detail ?? '') ?? [];
      assert.ok(isNear(Number(ms), (await readinessOf(daemon)).status.slotMs!), `${ms} ms`);
    });
  });

  test('one replay takes two hours of the chain, by route and by command', async () => {
    await each(async (bed) => {
      const { daemon } = bed;
      const hook = { webhookURL: 'http://127.0.0.1:9/', webhookType: 'raw', accountAddresses: [ADDRESS] };
      const api = apiOf(daemon.apiUrl, daemon.key);
      const { webhookID } = (await api('POST', '/v0/webhooks', hook)).body as { webhookID: string };
      const range = { fromSlot: 0, toSlot: 1_000_000 };
      const route = await api('POST', `/v0/webhooks/${webhookID}/replay`, range);
      const command = await runCommand([
        'webhooks',
        'replay',
        '--config',
        daemon.configFile,
        '--id',
        webhookID,
        '--from',
        '0',
        '--to',
        '1000000',
      ]);
      assert.deepEqual([route.status, command.code], [400, 64], command.err);
      const slotMs = await measured(bed);
      for (const text of [JSON.stringify(route.body), command.err]) {
        const [, most] = /at most (\d+) slots at once, 2 hours of the chain/.exec(text) ?? [];
        assert.ok(isNear(Number(most) * slotMs, TWO_HOURS_MS), `${text}: ${slotMs} ms`);
      }
    });
  });

  test('readiness and lag: no block comes for the same time on both', async () => {
    await each(async ({ daemon }) => until(async () => (await readinessOf(daemon)).code === 200));
    for (const { chain } of beds) chain.faults.set([{ match: { method: 'getBlock' }, action: 'notYet' }]);
    // Each as it is when it is first not ready.
    const [short, long] = await each(async ({ daemon }) => {
      let seen = await readinessOf(daemon);
      await until(async () => {
        seen = await readinessOf(daemon);
        return seen.code === 503;
      });
      return seen;
    });
    for (const { detail } of [short, long]) assert.match(detail, /slots behind the tip, \d+ s; 6 s are allowed$/);
    const seconds = ({ status }: typeof short) => (status.lagSlots! * status.slotMs!) / 1_000;
    assert.ok(isNear(seconds(short), seconds(long), 0.3), `${short.detail} | ${long.detail}`);
    assert.ok(isNear(short.status.lagSlots! / long.status.lagSlots!, 2, 0.3), `${short.detail} | ${long.detail}`);
    for (const { chain } of beds) chain.faults.clear();
    await each(({ daemon }) => until(async () => (await readinessOf(daemon)).code === 200));
  });

  test('the lag grows with time while the tip is unknown, by readiness and metrics', async () => {
    const startedAt = performance.now();
    for (const { proxy } of beds) {
      proxy.set({ up: { resetAfterBytes: 0 } });
      proxy.cut();
    }
    const lags = () => each(({ daemon }) => metricOf(daemon, LAG));
    await each(({ daemon }) => until(async () => (await metricOf(daemon, LAG)) > 5, 2_000));
    const [before, beforeAt] = [await lags(), performance.now()];
    await sleep(4_000);
    const [later, laterAt] = [await lags(), performance.now()];
    for (const [index, lag] of later.entries()) {
      const grown = lag - before[index]!;
      assert.ok(isNear(grown, (laterAt - beforeAt) / 1_000, 0.35), `${grown} s in ${laterAt - beforeAt} ms`);
      assert.ok(lag <= (laterAt - startedAt) / 1_000 + 3, `${lag} s`);
    }
    const all = await each(({ daemon }) => readinessOf(daemon));
    for (const [index, { code, detail, status }] of all.entries()) {
      assert.deepEqual([code, /^no upstream answers/.test(detail)], [503, true], detail);
      assert.ok((status.lagSlots! * status.slotMs!) / 1_000 >= later[index]! - 1, JSON.stringify(status));
    }
    for (const { proxy } of beds) proxy.clear();
    await each(({ daemon }) => until(async () => (await readinessOf(daemon)).code === 200));
  });
});

test('a start while no upstream answers waits, and serves once one does', {
  skip: (await chainMissing()) ?? false,
}, async (t) => {
  const chain = await startChain({ slotMs: 100, time: { kind: 'wall' } });
  const proxy = await startFaultProxy(Number(new URL(chain.rpcUrl).port));
  proxy.set({ up: { resetAfterBytes: 0 } });
  const daemon = await startDaemon({
    chain: { rpcUrl: `http://127.0.0.1:${proxy.port}` },
    config: { upstream: { urls: [`http://127.0.0.1:${proxy.port}`], healthIntervalMs: 300, coolDownMs: 300 } },
  });
  t.after(async () => {
    await daemon.stop();
    await proxy.close();
    await chain.stop();
  });
  const slot = async () => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getSlot', params: [{ commitment: 'confirmed' }] });
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(`${daemon.apiUrl}/?api-key=${daemon.key}`, { method: 'POST', headers, body });
    return (await answer.json()) as { readonly result?: number; readonly error?: object };
  };
  assert.ok((await slot()).error !== undefined);
  const waiting = await readinessOf(daemon);
  assert.deepEqual([waiting.code, waiting.status.cursorSlot], [503, null]);
  assert.match(waiting.detail, /^no upstream answers/);
  proxy.clear();
  await until(async () => (await readinessOf(daemon)).status.cursorSlot !== null);
  await until(async () => (await readinessOf(daemon)).code === 200);
  const { detail, status } = await readinessOf(daemon);
  assert.equal(status.stalled, null, detail);
  assert.ok((await slot()).result! >= status.cursorSlot!);
});
