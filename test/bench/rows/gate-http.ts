/** What a request costs more because it is asked for its key, counted and charged, and because nearly every one has another key. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openSqliteStore } from '../../../src/store/sqlite.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { type BenchServer, measureServers, startBenchServer } from '../http.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { fillWithKeys, keyOf } from '../samples/access-store.ts';
import { siblingModule } from '../sibling.ts';

const SIZES = {
  full: { projects: 10_000, keys: 100_000, pairs: 10 },
  quick: { projects: 10_000, keys: 100_000, pairs: 5 },
  smoke: { projects: 20, keys: 100, pairs: 1 },
} as const;
const GOAL = 0.7;
const GOAL_RANDOM = 0.5;
const BUSY = 7;
const connections = 64;
const pathOf = (key: string) => `/v1/wallet/abc/history?api-key=${key}`;

async function run({ size, seed, say }: RunOptions): Promise<RowResult[]> {
  const { projects, keys, pairs } = SIZES[size];
  const folder = await mkdtemp(join(tmpdir(), 'parhelion-bench-gate-'));
  const module = siblingModule(import.meta.url, '../samples/http-server.ts');
  const servers: BenchServer[] = [];
  try {
    const file = join(folder, 'gate.db');
    say(`${keys} keys of ${projects} projects`);
    const store = openSqliteStore({ path: file, busyTimeoutMs: 5_000 });
    await fillWithKeys(store, projects, keys);
    await store.close();
    const gated = await startBenchServer(module, ['gated', file]);
    servers.push(gated);
    const open = await startBenchServer(module, ['open']);
    servers.push(open);
    assert.equal((await fetch(gated.url + pathOf('nobody'))).status, 401);
    const results: RowResult[] = [];
    const path = pathOf(keyOf(BUSY));
    const random = createSfc32(seed);
    const paths = Array.from({ length: keys }, () => pathOf(keyOf(random.below(keys))));
    const busy = { method: 'GET', path } as const;
    for (const { name, against, request, baseline, goal, reference } of [
      {
        name: 'one busy key',
        against: 'the same for everybody',
        request: busy,
        goal: GOAL,
        reference: 'without a gate',
        baseline: { server: open, request: busy },
      },
      {
        name: 'keys in random order',
        against: 'one busy key',
        request: { ...busy, paths },
        goal: GOAL_RANDOM,
        reference: 'of one busy key',
        // Both are sent from a list: it costs the load generator more than one request that is always the same.
        baseline: { server: gated, request: { ...busy, paths: [path] } },
      },
    ]) {
      say(name);
      const options = { pairs, seconds: 1, connections };
      const { cpuNote, ...samples } = await measureServers({ server: gated, request }, baseline, options);
      const ratio = ratioOf(samples.ours, samples.baseline);
      results.push({
        row: `gate-http/${name}`,
        name: `requests through the gate; baseline: ${against}`,
        unit: 'requests/s',
        ...samples,
        ratio,
        goal: `>= ${goal}x ${reference}`,
        verdict: size === 'smoke' ? 'not assessed' : ratio.median >= goal ? 'met' : 'missed',
        sizes: { projects, keys, connections },
        seed,
        notes: [cpuNote, 'usage is written every second; all keys fit into the cache'],
      });
    }
    return results;
  } finally {
    for (const server of servers) server.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

export const row: Row = { id: 'gate-http', name: 'cost of the gate over HTTP', run };
