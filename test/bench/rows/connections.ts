/** How long new clients wait for their first answer while others keep the server busy. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { type BenchServer, startBenchServer } from '../http.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import type { Burst } from '../samples/connection-clients.ts';
import { BENCH_KEY } from '../samples/http-answers.ts';
import { siblingModule } from '../sibling.ts';
import { percentile } from '../steady-load.ts';

const CLIENTS = 256;
const GOAL = 3;
const PAUSE_MS = 1_000;
const PATH = `/v1/wallet/abc/history?api-key=${BENCH_KEY}`;

async function run({ size, seed, say }: RunOptions): Promise<RowResult[]> {
  const module = siblingModule(import.meta.url, '../samples/http-server.ts');
  const servers = {
    ours: await startBenchServer(module, ['front']),
    baseline: await startBenchServer(module, ['bare']),
  };
  const rounds = size === 'full' ? 10 : size === 'quick' ? 5 : 1;
  const waits = { ours: [] as number[], baseline: [] as number[] };
  const middles = { ours: [] as number[], baseline: [] as number[] };
  try {
    for (let round = 0; round <= rounds; round += 1)
      for (const who of round % 2 === 0 ? (['ours', 'baseline'] as const) : (['baseline', 'ours'] as const)) {
        const { load, first } = await burst(servers[who], size === 'smoke' ? 50 : PAUSE_MS);
        // The first round compiles, and ours opens its further handles.
        if (round === 0 && size !== 'smoke') continue;
        waits[who].push(percentile(first, 0.99));
        middles[who].push(percentile(load, 0.5));
        say(
          `${who}: p50 of the load ${percentile(load, 0.5).toFixed(1)} ms, first answers p99 ${waits[who].at(-1)?.toFixed(1)} ms`,
        );
      }
  } finally {
    servers.ours.stop();
    servers.baseline.stop();
  }
  const [ours, bare] = [ratioOf(waits.ours, middles.ours), ratioOf(waits.baseline, middles.baseline)];
  return [
    {
      row: 'connections',
      name: `first answers of ${CLIENTS} clients that connect at once while ${CLIENTS} others keep the server busy`,
      unit: 'ms, p99',
      ...waits,
      ratio: ratioOf(waits.ours, waits.baseline),
      goal: `<= ${GOAL}x the p50 of the others`,
      verdict: size === 'smoke' ? 'not assessed' : ours.median <= GOAL ? 'met' : 'missed',
      sizes: { clients: CLIENTS, rounds },
      seed,
      notes: [
        `times the p50 of the others: ours ${ours.median.toFixed(1)} (${ours.min.toFixed(1)}-${ours.max.toFixed(1)}), bare node:http ${bare.median.toFixed(1)} (${bare.min.toFixed(1)}-${bare.max.toFixed(1)})`,
        'one process each; the new clients come once in a second',
      ],
    },
  ];
}

/** Those that keep it busy have a process of their own: they go on while the others connect. */
async function burst(server: BenchServer, pauseMs: number): Promise<Burst> {
  const { path, execArgv } = siblingModule(import.meta.url, '../samples/connection-clients.ts');
  const [busy, fresh] = [CLIENTS, 0].map((connections) =>
    fork(path, [new URL(server.url).port, PATH, String(connections)], { execArgv: [...execArgv] }),
  ) as [ChildProcess, ChildProcess];
  try {
    await Promise.all([ask(busy, 0), ask(fresh, 0)]);
    await sleep(pauseMs);
    await ask(busy, 0);
    await sleep(pauseMs);
    const { load } = await ask(busy, 0);
    const { first } = await ask(fresh, CLIENTS);
    return { load, first };
  } finally {
    busy.disconnect();
    fresh.disconnect();
  }
}

async function ask(clients: ChildProcess, count: number): Promise<Burst> {
  clients.send(count);
  const [answer] = await once(clients, 'message');
  return answer as Burst;
}

export const row: Row = { id: 'connections', name: 'new connections at full load', run };
