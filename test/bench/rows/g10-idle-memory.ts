/** G10: what the daemon keeps in memory while nothing happens, started the way its unit starts it. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findRunFile, type RunFile } from '../../../src/cli/running-daemon.ts';
import { startUpstream } from '../../helpers/upstream.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { programModule } from '../sibling.ts';

const GOAL = 3;
const READY_TIMEOUT_MS = 60_000;
const BARE = 'require("node:http").createServer().listen(0, "127.0.0.1", () => console.log("ready"))';

async function run({ size, seed, say }: RunOptions): Promise<RowResult[]> {
  const waitMs = size === 'full' ? 30_000 : size === 'quick' ? 5_000 : 500;
  const pairs = size === 'full' ? 5 : size === 'quick' ? 3 : 1;
  // A node that stands still: the daemon has an upstream, and nothing to do.
  const upstream = await startUpstream({ slot: 1_000_000 });
  upstream.on('getBlocks', { result: '[]' });
  const ours: number[] = [];
  const baseline: number[] = [];
  const threads: number[] = [];
  try {
    for (let pair = 0; pair < pairs; pair++) {
      const measure = [
        async () => {
          const seen = await daemonMemory(upstream.url, waitMs);
          ours.push(seen.mib);
          threads.push(seen.threads);
        },
        async () => void baseline.push(await bareMemory(waitMs)),
      ];
      await Promise.all((pair % 2 === 0 ? measure : measure.reverse()).map((one) => one()));
      say(`G10 pair ${pair + 1}: daemon ${ours.at(-1)!.toFixed(1)} MiB, bare ${baseline.at(-1)!.toFixed(1)} MiB`);
    }
  } finally {
    await upstream.stop();
  }
  const ratio = ratioOf(ours, baseline);
  return [
    {
      row: 'G10',
      name: 'idle memory',
      unit: 'MiB of resident memory',
      ours,
      baseline,
      ratio,
      seed,
      goal: `<= ${GOAL}x a process with only createServer().listen()`,
      verdict: size === 'smoke' ? 'not assessed' : ratio.median <= GOAL ? 'met' : 'missed',
      sizes: { waitMs, threads: threads[0] ?? 0 },
      notes: ['all roles, NODE_ENV=production, SQLite, one upstream that stands still; VmRSS of /proc'],
    },
  ];
}

async function daemonMemory(upstreamUrl: string, waitMs: number): Promise<{ mib: number; threads: number }> {
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-idle-'));
  const file = join(dataDir, 'parhelion.yaml');
  const config = { dataDir, http: { port: 0 }, admin: { port: 0 }, upstream: { urls: [upstreamUrl] } };
  writeFileSync(file, JSON.stringify(config));
  const { path, execArgv } = programModule(import.meta.url);
  const child = spawn(process.execPath, [...execArgv, path, 'serve', '--config', file], {
    env: { PATH: process.env['PATH'], NODE_ENV: 'production' },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  try {
    const daemon = await untilRunning(dataDir, child);
    const answer = await fetch(`${daemon.api}/ping`);
    assert.equal(await answer.text(), 'ok');
    await sleep(waitMs);
    assert.equal((await fetch(`${daemon.admin}/readyz`)).status, 200, 'the daemon is not ready');
    return readMemory(child.pid!);
  } finally {
    await end(child);
    rmSync(dataDir, { recursive: true, force: true });
  }
}

async function bareMemory(waitMs: number): Promise<number> {
  const child = spawn(process.execPath, ['-e', BARE], { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    await once(child.stdout, 'data');
    await sleep(waitMs);
    return readMemory(child.pid!).mib;
  } finally {
    await end(child);
  }
}

async function untilRunning(dataDir: string, child: ChildProcess): Promise<RunFile> {
  for (const start = performance.now(); performance.now() - start < READY_TIMEOUT_MS; await sleep(50)) {
    const found = findRunFile(dataDir);
    if (found !== null) return found;
    if (child.exitCode !== null) break;
  }
  throw new Error('the daemon did not start');
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGTERM');
  await gone;
}

function readMemory(pid: number): { mib: number; threads: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const field = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1]);
  return { mib: field('VmRSS') / 1_024, threads: field('Threads') };
}

export const row: Row = { id: 'G10', name: 'idle memory', isLong: true, run };
