/** G5b: a cached token record through the whole daemon, against a server that sends the same bytes and does nothing else. */
import assert from 'node:assert/strict';
import { type LoadRequest, measureServers, startBenchServer } from '../http.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { PROXY_KEY } from '../samples/proxy-answers.ts';
import { BENCH_MINT, TOKEN_QUESTION } from '../samples/token-question.ts';
import { siblingModule } from '../sibling.ts';

const GOAL = 0.5;
const PAIRS = { full: 10, quick: 5, smoke: 1 } as const;
const CONNECTIONS = 64;

async function run({ size, seed }: RunOptions): Promise<RowResult[]> {
  const request: LoadRequest = {
    method: 'POST',
    path: `/v0/token-metadata?api-key=${PROXY_KEY}`,
    headers: { 'Content-Type': 'application/json' },
    body: TOKEN_QUESTION,
  };
  const daemon = await startBenchServer(siblingModule(import.meta.url, '../samples/token-server.ts'));
  try {
    const text = await checkAnswer(daemon.url + request.path);
    const bare = await startBenchServer(siblingModule(import.meta.url, '../samples/proof-server.ts'), ['bare', text]);
    try {
      const options = { pairs: PAIRS[size], seconds: 1, connections: CONNECTIONS };
      const sides = [
        { server: daemon, request },
        { server: bare, request },
      ] as const;
      const { cpuNote, ...samples } = await measureServers(...sides, options);
      const ratio = ratioOf(samples.ours, samples.baseline);
      return [
        {
          row: 'G5b',
          name: 'cached token record over HTTP',
          unit: 'requests/s',
          ...samples,
          ratio,
          goal: `>= ${GOAL}x a bare node:http server`,
          verdict: size === 'smoke' ? 'not assessed' : ratio.median >= GOAL ? 'met' : 'missed',
          sizes: { answerBytes: text.length, connections: CONNECTIONS },
          seed,
          notes: [cpuNote, 'whole daemon over SQLite, key checked, credits counted, log at info'],
        },
      ];
    } finally {
      bare.stop();
    }
  } finally {
    daemon.stop();
  }
}

/** The record is whole, and the second answer, from memory, is the first. */
async function checkAnswer(url: string): Promise<string> {
  const ask = async () => await (await fetch(url, { method: 'POST', body: TOKEN_QUESTION })).text();
  const text = await ask();
  const [element] = JSON.parse(text);
  assert.equal(element.onChainMetadata.metadata?.mint, BENCH_MINT, text);
  assert.equal(await ask(), text);
  return text;
}

export const row: Row = { id: 'G5b', name: 'token metadata over HTTP', run };
