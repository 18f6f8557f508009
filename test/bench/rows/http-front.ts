/** What the pipeline alone costs, with an answer that is ready, and the part of it that each request pays. The G5 rows stand on it. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openSqliteStore } from '../../../src/store/sqlite.ts';
import { type BenchServer, type LoadRequest, measureServers, startBenchServer } from '../http.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { fillWithKeys, keyOf } from '../samples/access-store.ts';
import { BENCH_KEY, cachedText, rpcText } from '../samples/http-answers.ts';
import { siblingModule } from '../sibling.ts';

const GOAL = 0.5;
const MAX_OVERHEAD_US = 12;
const KEYS = 100;
const body =
  '{"jsonrpc":"2.0","id":"bench","method":"getCompressedAccountProof","params":{"hash":"11111111111111111111111111111111"}}';
const cases: readonly { readonly name: string; readonly request: LoadRequest; readonly expected: string }[] = [
  {
    name: 'rest',
    request: { method: 'GET', path: `/v1/wallet/abc/history?api-key=${BENCH_KEY}` },
    expected: cachedText(),
  },
  {
    name: 'rpc',
    request: { method: 'POST', path: `/?api-key=${BENCH_KEY}`, headers: { 'Content-Type': 'application/json' }, body },
    expected: rpcText(),
  },
];

async function run(options: RunOptions): Promise<RowResult[]> {
  return [...(await pipelineAlone(options)), await overhead(options)];
}

const module = siblingModule(import.meta.url, '../samples/http-server.ts');

/** The real gate, log at info and metrics, less the same pipeline without them: CPU time, which is what a request takes from others. */
async function overhead({ size, seed }: RunOptions): Promise<RowResult> {
  const folder = await mkdtemp(join(tmpdir(), 'parhelion-bench-front-'));
  const servers: BenchServer[] = [];
  try {
    const file = join(folder, 'gate.db');
    const store = openSqliteStore({ path: file, busyTimeoutMs: 5_000 });
    await fillWithKeys(store, KEYS, KEYS);
    await store.close();
    for (const args of [['gated', file], ['unseen']]) servers.push(await startBenchServer(module, args));
    const [whole, unseen] = servers as [BenchServer, BenchServer];
    const request: LoadRequest = { ...cases[1]!.request, path: `/?api-key=${keyOf(7)}` };
    for (const { url } of servers) assert.equal(await answerOf(url, request), rpcText(), url);
    const { cpuUs, cpuNote } = await measureServers(
      { server: whole, request },
      { server: unseen, request },
      { pairs: size === 'full' ? 10 : size === 'quick' ? 5 : 1, seconds: 1, connections: 64 },
    );
    const ours = cpuUs.ours.map((us, pair) => us - cpuUs.baseline[pair]!);
    const median = ours.toSorted((a, b) => a - b)[ours.length >> 1]!;
    return {
      row: 'G5-front/overhead',
      name: 'key, credits, log line and metrics of a request',
      unit: 'us of CPU',
      ours,
      baseline: [],
      ratio: null,
      goal: `<= ${MAX_OVERHEAD_US} us`,
      verdict: size === 'smoke' ? 'not assessed' : median <= MAX_OVERHEAD_US ? 'met' : 'missed',
      sizes: { keys: KEYS, connections: 64 },
      seed,
      notes: [cpuNote, 'ours: with them; baseline: without; the row is the difference'],
    };
  } finally {
    for (const server of servers) server.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

async function pipelineAlone({ size, seed }: RunOptions): Promise<RowResult[]> {
  const ours = await startBenchServer(module, ['front']);
  const bare = await startBenchServer(module, ['bare']);
  const options = { pairs: size === 'full' ? 10 : size === 'quick' ? 5 : 1, seconds: 1, connections: 64 };
  try {
    const results: RowResult[] = [];
    for (const { name, request, expected } of cases) {
      for (const { url } of [ours, bare]) assert.equal(await answerOf(url, request), expected, `${name} at ${url}`);
      const { cpuNote, ...samples } = await measureServers(
        { server: ours, request },
        { server: bare, request },
        options,
      );
      const ratio = ratioOf(samples.ours, samples.baseline);
      results.push({
        row: `G5-front/${name}`,
        name: 'pipeline alone over a ready answer',
        unit: 'requests/s',
        ...samples,
        ratio,
        goal: `>= ${GOAL}x a bare node:http server`,
        verdict: size === 'smoke' ? 'not assessed' : ratio.median >= GOAL ? 'met' : 'missed',
        sizes: { answerBytes: expected.length, connections: options.connections },
        seed,
        notes: [cpuNote, 'key from a map, log at info to a buffered file, metrics on'],
      });
    }
    return results;
  } finally {
    ours.stop();
    bare.stop();
  }
}

async function answerOf(url: string, { method, path, headers, body: content }: LoadRequest): Promise<string> {
  const response = await fetch(url + path, {
    method,
    headers: { ...headers },
    ...(content === undefined ? {} : { body: content }),
  });
  return response.text();
}

export const row: Row = { id: 'G5-front', name: 'HTTP pipeline alone', run };
