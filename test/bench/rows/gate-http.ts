/** Not a goal of its own: what a request costs more because it is asked for its key, counted and charged. */
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
    for (const [name, request, goal] of [
      ['one busy key', { method: 'GET', path }, GOAL],
      // Nearly every one is asked of SQLite: the worst case, and no goal.
      ['keys in random order', { method: 'GET', path, paths }, null],
    ] as const) {
      say(name);
      const { cpuNote, ...samples } = await measureServers(
        { server: gated, request },
        { server: open, request },
        { pairs, seconds: 1, connections },
      );
      const ratio = ratioOf(samples.ours, samples.baseline);
      results.push({
        ...{ row: `gate-http/${name}`, name: 'requests through the gate; baseline: the same for everybody' },
        ...{ unit: 'requests/s', ...samples, ratio, goal: goal === null ? 'none' : `>= ${goal}x without a gate` },
        verdict: size === 'smoke' || goal === null ? 'not assessed' : ratio.median >= goal ? 'met' : 'missed',
        ...{ sizes: { projects, keys, connections }, seed },
        notes: [cpuNote, 'usage is written every second; a key is remembered for half a second, 10,000 of them'],
      });
    }
    return results;
  } finally {
    for (const server of servers) server.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

export const row: Row = { id: 'gate-http', name: 'cost of the gate over HTTP', run };
