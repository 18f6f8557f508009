/** G5a: a Merkle proof through the whole daemon, against a server that sends the same bytes and does nothing else. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { poseidon2 } from 'poseidon-lite';
import { decode32, encode32 } from '../../../src/lib/base58.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { type LoadRequest, measureServers, startBenchServer } from '../http.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { PROOF_HEAD, PROOF_TREE_HEIGHT, worldLeaves } from '../samples/proof-world.ts';
import { PROXY_KEY } from '../samples/proxy-answers.ts';
import { siblingModule } from '../sibling.ts';

const GOAL = 0.6;
const SIZES = {
  full: { leaves: 2 ** 17, bodies: 20_000, pairs: 10 },
  quick: { leaves: 2 ** 16, bodies: 10_000, pairs: 5 },
  smoke: { leaves: 100, bodies: 20, pairs: 1 },
} as const;

async function run({ size, seed, say }: RunOptions): Promise<RowResult[]> {
  const { leaves: count, bodies, pairs } = SIZES[size];
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-proof-'));
  const module = siblingModule(import.meta.url, '../samples/proof-server.ts');
  say(`a tree of ${count} leaves`);
  const leaves = worldLeaves(count, seed);
  const random = createSfc32(seed + 1);
  const request: LoadRequest = {
    method: 'POST',
    path: `/?api-key=${PROXY_KEY}`,
    headers: { 'Content-Type': 'application/json' },
    body: bodyFor(leaves[0]!),
    bodies: Array.from({ length: bodies }, () => bodyFor(leaves[random.below(count)]!)),
  };
  const daemon = await startBenchServer(module, ['daemon', folder, String(count), String(seed)]);
  try {
    const texts = await checkAnswers(daemon.url + request.path, leaves, [0, 1, count >> 1, count - 1]);
    const bare = await startBenchServer(module, ['bare', texts[2]!]);
    try {
      const options = { pairs, seconds: 1, connections: 64 };
      const { cpuNote, ...samples } = await measureServers(
        { server: daemon, request },
        { server: bare, request },
        options,
      );
      const ratio = ratioOf(samples.ours, samples.baseline);
      return [
        {
          row: 'G5a',
          name: 'Merkle proofs over HTTP',
          unit: 'requests/s',
          ...samples,
          ratio,
          goal: `>= ${GOAL}x a bare node:http server`,
          verdict: size === 'smoke' ? 'not assessed' : ratio.median >= GOAL ? 'met' : 'missed',
          sizes: {
            leaves: count,
            height: PROOF_TREE_HEIGHT,
            distinct: bodies,
            answerBytes: texts[2]!.length,
            connections: 64,
          },
          seed,
          notes: [cpuNote, 'whole daemon over SQLite, key checked, log at info; random leaves, pages cached'],
        },
      ];
    } finally {
      bare.stop();
    }
  } finally {
    daemon.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

const bodyFor = (leaf: Uint8Array) =>
  `{"jsonrpc":"2.0","id":"bench","method":"getCompressedAccountProof","params":{"hash":"${encode32(leaf)}"}}`;

/** Every proof folds to the root that it tells, by another library's hashes. */
async function checkAnswers(url: string, leaves: readonly Buffer[], indexes: readonly number[]): Promise<string[]> {
  const texts: string[] = [];
  for (const index of indexes) {
    const text = await (await fetch(url, { method: 'POST', body: bodyFor(leaves[index]!) })).text();
    const { result } = JSON.parse(text);
    assert.ok(result !== undefined, text);
    assert.deepEqual([result.context.slot, result.value.leafIndex], [PROOF_HEAD, index]);
    const proof: string[] = result.value.proof;
    assert.equal(proof.length, PROOF_TREE_HEIGHT);
    const root = proof.reduce((node, sibling, level) => {
      const other = numberOf(decode32(sibling)!);
      return Math.floor(index / 2 ** level) % 2 === 0 ? poseidon2([node, other]) : poseidon2([other, node]);
    }, numberOf(leaves[index]!));
    assert.equal(root, numberOf(decode32(result.value.root)!));
    texts.push(text);
  }
  return texts;
}

const numberOf = (bytes: Uint8Array) => BigInt(`0x${Buffer.from(bytes).toString('hex')}`);

export const row: Row = { id: 'G5a', name: 'Merkle proofs over HTTP', run };
