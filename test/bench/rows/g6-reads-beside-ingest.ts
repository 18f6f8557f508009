/** G6: how much longer reads take while the indexer works at full speed in its thread, over the whole daemon. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findRunFile } from '../../../src/cli/running-daemon.ts';
import type { Readiness } from '../../../src/http/health.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { type BenchServer, startBenchServer } from '../http.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { CACHED, PROXY_KEY, transactionText } from '../samples/proxy-answers.ts';
import { programModule, siblingModule } from '../sibling.ts';
import { percentile, steadyLoad } from '../steady-load.ts';

const GOAL = 3;
/** Of the rate that a closed loop reaches while nothing else happens. */
const RATE_SHARE = 0.3;
const CONNECTIONS = 64;
/** How far the tip stays ahead while blocks are to be ingested at full speed: more than the indexer asks for in advance. */
const AHEAD = 250;
const TIP_EVERY_MS = 200;
const WEBHOOKS = 10;
const ADDRESSES = 1_000;
const SHARE = 0.99;

const SIZES = {
  full: { pairs: 10, seconds: 10, transactions: 1_500 },
  quick: { pairs: 5, seconds: 4, transactions: 1_500 },
  smoke: { pairs: 1, seconds: 0.5, transactions: 50 },
} as const;

interface Daemon {
  readonly readUrl: string;
  readonly api: string;
  cursor(): Promise<number>;
  stop(): Promise<void>;
}

async function run({ size, seed, say }: RunOptions): Promise<RowResult[]> {
  const { pairs, seconds, transactions } = SIZES[size];
  const stream = siblingModule(import.meta.url, '../samples/block-stream.ts');
  const upstream = await startBenchServer(stream, [String(transactions), String(seed)]);
  const daemon = await startDaemon(upstream.url);
  try {
    await watchAddresses(daemon, seed);
    await warmUp(daemon);
    const perSecond = Math.max(20, Math.floor((await closedLoopRate(daemon)) * RATE_SHARE));
    const load = { url: daemon.readUrl, body: CACHED, perSecond, seconds, connections: CONNECTIONS };
    const ours: number[] = [];
    const baseline: number[] = [];
    const medians = { ours: [] as number[], baseline: [] as number[] };
    const rates: number[] = [];
    await steadyLoad(load);
    for (let pair = 0; pair < pairs; pair++) {
      const idle = async () => {
        const { latenciesMs } = await steadyLoad(load);
        baseline.push(percentile(latenciesMs, SHARE));
        medians.baseline.push(percentile(latenciesMs, 0.5));
      };
      const busy = async () => {
        const calm = await flood(upstream, daemon);
        const [from, startedMs] = [await daemon.cursor(), performance.now()];
        const { latenciesMs } = await steadyLoad(load);
        rates.push(((await daemon.cursor()) - from) / ((performance.now() - startedMs) / 1_000));
        await calm();
        ours.push(percentile(latenciesMs, SHARE));
        medians.ours.push(percentile(latenciesMs, 0.5));
      };
      for (const one of pair % 2 === 0 ? [idle, busy] : [busy, idle]) await one();
      say(
        `p99 ${ours.at(-1)?.toFixed(2)} ms beside ${rates.at(-1)?.toFixed(0)} blocks/s, ${baseline.at(-1)?.toFixed(2)} ms idle`,
      );
    }
    assert.ok(
      rates.some((rate) => rate > 0),
      'nothing was indexed meanwhile',
    );
    const ratio = ratioOf(ours, baseline);
    const halves = [medians.ours, medians.baseline].map((list) =>
      percentile(
        list.toSorted((a, b) => a - b),
        0.5,
      ).toFixed(2),
    );
    const rate = percentile(
      rates.toSorted((a, b) => a - b),
      0.5,
    );
    return [
      {
        row: 'G6',
        name: 'reads beside ingest',
        unit: 'ms, p99 of a read',
        ours,
        baseline,
        ratio,
        seed,
        goal: `<= ${GOAL}x the p99 with ingest idle`,
        verdict: size === 'smoke' ? 'not assessed' : ratio.median <= GOAL ? 'met' : 'missed',
        sizes: {
          readsPerSecond: perSecond,
          blocksPerSecond: Math.round(rate),
          transactions,
          addresses: WEBHOOKS * ADDRESSES,
        },
        notes: [
          'the read is a cached getTransaction through the whole daemon; the indexer follows a chain that never ends',
          `p50 ${halves[0]} ms beside ingest, ${halves[1]} ms idle`,
          'daemon, upstream and load share the cores',
        ],
      },
    ];
  } finally {
    await daemon.stop();
    upstream.stop();
  }
}

async function startDaemon(upstreamUrl: string): Promise<Daemon> {
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-g6-'));
  const file = join(dataDir, 'parhelion.yaml');
  const config = {
    dataDir,
    http: { port: 0 },
    admin: { port: 0 },
    log: { level: 'warn' },
    upstream: { urls: [upstreamUrl] },
    follow: { startSlot: 1_000, pollMs: 50, maxCatchupSlots: 1_000_000_000 },
    webhooks: { allowCidrs: ['127.0.0.1/32'] },
  };
  writeFileSync(file, JSON.stringify(config));
  const { path, execArgv } = programModule(import.meta.url);
  const child = spawn(process.execPath, [...execArgv, path, 'serve', '--config', file], {
    env: { PATH: process.env['PATH'], NODE_ENV: 'production', PARHELION_BOOTSTRAP_KEY: PROXY_KEY },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const { api, admin } = await addressesOf(dataDir, child);
  return {
    api,
    readUrl: `${api}/?api-key=${PROXY_KEY}`,
    async cursor() {
      const { chain } = (await (await fetch(`${admin}/readyz`)).json()) as Readiness;
      return chain[0]?.cursorSlot ?? 0;
    },
    async stop() {
      if (child.exitCode === null) {
        child.kill('SIGTERM');
        await once(child, 'exit');
      }
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

async function addressesOf(dataDir: string, child: ChildProcess): Promise<{ api: string; admin: string }> {
  for (;;) {
    const found = findRunFile(dataDir);
    if (found?.api != null) return { api: found.api, admin: found.admin };
    if (child.exitCode !== null) throw new Error(`the daemon ended with ${child.exitCode}`);
    await sleep(50);
  }
}

/** Webhooks whose addresses occur in no block: every block is matched, and nothing is delivered. */
async function watchAddresses({ api }: Daemon, seed: number): Promise<void> {
  // Far from the seeds of the blocks: the same keys would come out.
  const random = createSfc32(seed ^ 0x5a5a5a5a);
  for (let n = 0; n < WEBHOOKS; n++) {
    const accountAddresses = Array.from({ length: ADDRESSES }, () => encode32(random.fill(new Uint8Array(32))));
    const body = JSON.stringify({ webhookType: 'raw', webhookURL: 'http://127.0.0.1:9/', accountAddresses });
    const response = await fetch(`${api}/v0/webhooks?api-key=${PROXY_KEY}`, { method: 'POST', body });
    assert.equal(response.status, 200, await response.text());
  }
}

async function warmUp({ readUrl }: Daemon): Promise<void> {
  for (let tries = 0; tries < 100; tries++) {
    const response = await fetch(readUrl, { method: 'POST', body: CACHED });
    assert.equal(await response.text(), transactionText());
    if (response.headers.get('x-cache') === 'HIT') return;
    await sleep(20);
  }
  assert.fail('the answer never came from the cache');
}

async function closedLoopRate({ readUrl }: Daemon): Promise<number> {
  const { default: autocannon } = await import('autocannon');
  const options = { url: readUrl, method: 'POST', body: CACHED, connections: CONNECTIONS, duration: 1 } as const;
  await autocannon(options);
  const { requests, duration } = await autocannon(options);
  return requests.total / duration;
}

/** Keeps the tip ahead of the indexer; the returned function ends that and waits until there is nothing left to do. */
async function flood({ url }: BenchServer, daemon: Daemon): Promise<() => Promise<void>> {
  let isOn = true;
  let tip = 0;
  const raise = async () => {
    tip = (await daemon.cursor()) + AHEAD;
    await fetch(`${url}/tip?slot=${tip}`);
  };
  const from = await daemon.cursor();
  await raise();
  while ((await daemon.cursor()) <= from) await sleep(20);
  const raising = (async () => {
    while (isOn) {
      await raise();
      await sleep(TIP_EVERY_MS);
    }
  })();
  return async () => {
    isOn = false;
    await raising;
    while ((await daemon.cursor()) < tip) await sleep(50);
  };
}

export const row: Row = { id: 'G6', name: 'reads beside ingest', run };
