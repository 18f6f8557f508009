/**
 * What the proxy costs: a read through it against the same read straight from the upstream and against a proxy that does nothing else, and
 * a cached read against node:http.
 */
import assert from 'node:assert/strict';
import { type LoadRequest, measureServers, startBenchServer } from '../http.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { accountText, CACHED, PROXY_KEY, READ, transactionText } from '../samples/proxy-answers.ts';
import { siblingModule } from '../sibling.ts';

const cases = [
  {
    name: 'through',
    body: READ,
    expected: accountText(),
    server: 'daemon',
    against: 'upstream',
    title: 'read through the whole daemon',
    least: 0.35,
    goal: '>= 0.35x the upstream alone',
  },
  {
    name: 'peer',
    body: READ,
    expected: accountText(),
    server: 'daemon',
    against: 'bare',
    title: 'read through the whole daemon; baseline: through a proxy of node:http and undici that does nothing else',
    least: 0.85,
    goal: '>= 0.85x the bare proxy',
  },
  {
    name: 'bare',
    body: READ,
    expected: accountText(),
    server: 'bare',
    against: 'upstream',
    title: 'read through a proxy of node:http and undici that does nothing else',
    least: null,
    goal: 'a report: the most that a proxy of one thread reaches here',
  },
  {
    name: 'cached',
    body: CACHED,
    expected: transactionText(),
    server: 'daemon',
    against: 'upstream',
    title: 'cached read over the whole daemon',
    least: 0.6,
    goal: '>= 0.6x a bare node:http server',
  },
] as const;

async function run({ size, seed }: RunOptions): Promise<RowResult[]> {
  const module = siblingModule(import.meta.url, '../samples/proxy-server.ts');
  const upstream = await startBenchServer(module, ['upstream']);
  const servers = {
    upstream,
    daemon: await startBenchServer(module, ['daemon', upstream.url]),
    bare: await startBenchServer(module, ['bare', upstream.url]),
  };
  const options = { pairs: size === 'full' ? 10 : size === 'quick' ? 5 : 1, seconds: 1, connections: 64 };
  try {
    const results: RowResult[] = [];
    for (const { name, body, expected, server, against, title, least, goal } of cases) {
      const request: LoadRequest = {
        method: 'POST',
        path: `/?api-key=${PROXY_KEY}`,
        headers: { 'Content-Type': 'application/json' },
        body,
      };
      await checkAnswers(servers[server].url + request.path, body, expected, name === 'cached');
      const { cpuNote, ...samples } = await measureServers(
        { server: servers[server], request },
        { server: servers[against], request },
        options,
      );
      const ratio = ratioOf(samples.ours, samples.baseline);
      results.push({
        row: `G5-proxy/${name}`,
        name: title,
        unit: 'requests/s',
        ...samples,
        ratio,
        goal,
        verdict: size === 'smoke' || least === null ? 'not assessed' : ratio.median >= least ? 'met' : 'missed',
        sizes: { answerBytes: expected.length, connections: options.connections },
        seed,
        notes: [cpuNote, 'proxy, upstream and load share the cores', 'log level info'],
      });
    }
    return results;
  } finally {
    for (const server of Object.values(servers).reverse()) server.stop();
  }
}

/** The bytes are the upstream's; a cached answer has to come from the cache before it is timed. */
async function checkAnswers(url: string, body: string, expected: string, isCached: boolean): Promise<void> {
  let hit: string | null = null;
  for (let i = 0; i < 50 && (i === 0 || (isCached && hit === null)); i++) {
    const response = await fetch(url, { method: 'POST', body });
    hit = response.headers.get('x-cache');
    assert.equal(await response.text(), expected);
  }
  assert.equal(hit, isCached ? 'HIT' : null);
}

export const row: Row = { id: 'G5-proxy', name: 'JSON-RPC proxy', run };
