/**
 * `http.processes`: whether a further process adds a whole core. The load shares the cores with the daemon here, so the rate cannot tell: the
 * CPU time of a request tells how many each core answers.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BenchServer, cpuUsOfAll, type LoadSamples, measureServers, startBenchServer } from '../http.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { CACHED, transactionText } from '../samples/proxy-answers.ts';
import { startRole } from '../samples/role-process.ts';
import { siblingModule } from '../sibling.ts';

const GOAL = 0.9;
const KEY = '6b0e8f8c-52a8-4ab1-8b3a-7f1d5c9e2a44';
const PROCESSES = 2;

async function run({ size, seed }: RunOptions): Promise<RowResult[]> {
  const upstream = await startBenchServer(siblingModule(import.meta.url, '../samples/proxy-server.ts'), ['upstream']);
  const http = siblingModule(import.meta.url, '../samples/http-server.ts');
  const [bareMany, bareOne] = [await startBenchServer(http, ['shared']), await startBenchServer(http, ['bare'])];
  const started: Daemon[] = [];
  try {
    const many = await startDaemon(upstream.url, PROCESSES);
    started.push(many);
    const one = await startDaemon(upstream.url, 1);
    started.push(one);
    const request = {
      method: 'POST',
      path: `/?api-key=${KEY}`,
      headers: { 'Content-Type': 'application/json' },
      body: CACHED,
    } as const;
    for (const { url } of started) await untilCached(url + request.path);
    const pairs = size === 'full' ? 10 : size === 'quick' ? 5 : 1;
    const options = { pairs, seconds: size === 'smoke' ? 0.25 : 4, connections: 64 };
    const daemon = await measureServers({ server: many, request }, { server: one, request }, options);
    const get = { method: 'GET', path: '/' } as const;
    const bare = await measureServers({ server: bareMany, request: get }, { server: bareOne, request: get }, options);
    const shared = { unit: 'us of CPU for a request', seed };
    const sizes = { connections: options.connections, processes: PROCESSES };
    const rateNote = ({ ours, baseline }: LoadSamples) =>
      `rates beside the load, which takes about a core itself: ${ratioOf(ours, baseline).median.toFixed(2)}x of one process`;
    const [ratio, ratioOfBare] = [daemon, bare].map(({ cpuUs }) => ratioOf(cpuUs.baseline, cpuUs.ours)) as [
      Ratio,
      Ratio,
    ];
    return [
      {
        row: 'processes',
        name: `cached read over ${PROCESSES} processes; baseline: over one`,
        ...shared,
        ...daemon.cpuUs,
        ratio,
        sizes,
        goal: `>= ${GOAL}x as many for each core`,
        verdict: size === 'smoke' ? 'not assessed' : ratio.median >= GOAL ? 'met' : 'missed',
        notes: [daemon.cpuNote, rateNote(daemon)],
      },
      {
        row: 'processes/bare',
        name: `node:http that does nothing else, in ${PROCESSES} processes; baseline: in one`,
        ...shared,
        ...bare.cpuUs,
        ratio: ratioOfBare,
        sizes,
        goal: 'a report: what two processes lose to the load beside them',
        verdict: 'not assessed',
        notes: [bare.cpuNote, rateNote(bare)],
      },
    ];
  } finally {
    for (const daemon of started) await daemon.end();
    for (const server of [upstream, bareMany, bareOne]) server.stop();
  }
}

type Ratio = ReturnType<typeof ratioOf>;

interface Daemon extends BenchServer {
  end(): Promise<void>;
}

async function startDaemon(upstream: string, processes: number): Promise<Daemon> {
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-processes-'));
  const file = join(dataDir, 'parhelion.yaml');
  const config = {
    dataDir,
    http: { port: 0, processes },
    admin: { port: 0 },
    upstream: { urls: [upstream] },
    follow: { enabled: false },
  };
  writeFileSync(file, JSON.stringify(config));
  const place = { file, dataDir };
  const { api, child, stop } = await startRole('api,indexer,deliverer', place, {
    env: { PARHELION_BOOTSTRAP_KEY: KEY },
  });
  const end = async () => {
    await stop();
    rmSync(dataDir, { recursive: true, force: true });
  };
  const port = Number(new URL(api!).port);
  return { url: api!, told: { port }, cpuUs: () => cpuUsOfAll(child.pid), stop: () => void end(), end };
}

/** In every process: a new connection may go to any of them. */
async function untilCached(url: string): Promise<void> {
  for (let hits = 0, tries = 0; hits < 20; tries += 1) {
    assert.ok(tries < 200, 'the answer does not get into the cache');
    const response = await fetch(url, { method: 'POST', body: CACHED, headers: { Connection: 'close' } });
    assert.equal(await response.text(), transactionText());
    hits = response.headers.get('x-cache') === 'HIT' ? hits + 1 : 0;
  }
}

export const row: Row = { id: 'processes', name: 'processes of the API', run };
