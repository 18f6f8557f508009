/** G5c and G5d: a page of history and one of balances through the whole daemon, against a server that sends the same bytes. */
import assert from 'node:assert/strict';
import { type BenchServer, type LoadRequest, measureServers, startBenchServer } from '../http.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { PROXY_KEY } from '../samples/proxy-answers.ts';
import { siblingModule } from '../sibling.ts';

const GOAL = 0.5;
const SIZES = {
  full: { pairs: 10, blocks: 300, rows: 100 },
  quick: { pairs: 5, blocks: 300, rows: 100 },
  smoke: { pairs: 1, blocks: 12, rows: 1 },
} as const;
const CONNECTIONS = 64;

async function run({ size, seed, say }: RunOptions): Promise<RowResult[]> {
  const { pairs, blocks, rows } = SIZES[size];
  say(`an economy of ${blocks} blocks`);
  const module = siblingModule(import.meta.url, '../samples/wallet-server.ts');
  const daemon = await startBenchServer(module, [String(seed), String(blocks)]);
  try {
    const wallet = daemon.told.wallet ?? '';
    const history = await checkPage(daemon, `${wallet}/history?limit=100`, 'data', rows);
    const balances = await checkPage(daemon, `${wallet}/balances`, 'balances', 2);
    const results: RowResult[] = [];
    for (const [row, name, page] of [
      ['G5c', 'warm page of wallet history over HTTP', history],
      ['G5d', 'warm page of wallet balances over HTTP', balances],
    ] as const) {
      const { ratio, cpuNote, ...samples } = await compare(daemon, page, pairs);
      results.push({
        row,
        name,
        unit: 'requests/s',
        ...samples,
        ratio,
        seed,
        goal: `>= ${GOAL}x a bare node:http server`,
        verdict: size === 'smoke' ? 'not assessed' : ratio.median >= GOAL ? 'met' : 'missed',
        sizes: { answerBytes: page.text.length, entries: page.entries, connections: CONNECTIONS },
        notes: [cpuNote, 'whole daemon over SQLite, key checked, credits counted, log at info'],
      });
    }
    return results;
  } finally {
    daemon.stop();
  }
}

interface BenchPage {
  readonly request: LoadRequest;
  readonly text: string;
  readonly entries: number;
}

/** The page has entries, and the second answer is the first. */
async function checkPage({ url }: BenchServer, path: string, list: string, least: number): Promise<BenchPage> {
  const request: LoadRequest = { method: 'GET', path: `/v1/wallet/${path}`, headers: { 'X-Api-Key': PROXY_KEY } };
  const ask = async () => await (await fetch(url + request.path, { headers: { ...request.headers } })).text();
  const text = await ask();
  const entries = (JSON.parse(text)[list] ?? []).length;
  assert.ok(entries >= least, `${path}: ${entries} entries of ${least}: ${text.slice(0, 200)}`);
  assert.equal(await ask(), text);
  return { request, text, entries };
}

async function compare(daemon: BenchServer, { request, text }: BenchPage, pairs: number) {
  const bare = await startBenchServer(siblingModule(import.meta.url, '../samples/proof-server.ts'), ['bare', text]);
  try {
    const options = { pairs, seconds: 1, connections: CONNECTIONS };
    const samples = await measureServers({ server: daemon, request }, { server: bare, request }, options);
    return { ...samples, ratio: ratioOf(samples.ours, samples.baseline) };
  } finally {
    bare.stop();
  }
}

export const row: Row = { id: 'G5c', name: 'wallet pages over HTTP', run };
