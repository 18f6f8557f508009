/** Not a goal of its own: what the pipeline alone costs, with an answer that is ready. The G5 rows stand on it. */
import assert from 'node:assert/strict';
import { type LoadRequest, measureServers, startBenchServer } from '../http.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { BENCH_KEY, cachedText, rpcText } from '../samples/http-answers.ts';
import { siblingModule } from '../sibling.ts';

const GOAL = 0.5;
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

async function run({ size, seed }: RunOptions): Promise<RowResult[]> {
  const module = siblingModule(import.meta.url, '../samples/http-server.ts');
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
