/** What apps ask for about compressed accounts, through the whole daemon on both engines, against bare node:http that sends the same bytes. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { encode32 } from '../../../src/lib/base58.ts';
import { startPostgresServer } from '../../helpers/postgres-server.ts';
import { createSfc32, type Sfc32 } from '../../helpers/sfc32.ts';
import { type BenchServer, type LoadRequest, measureServers, startBenchServer } from '../http.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { OWNED, ownerOf, worldLeaves } from '../samples/proof-world.ts';
import { PROXY_KEY } from '../samples/proxy-answers.ts';
import { siblingModule } from '../sibling.ts';

const CONNECTIONS = 64;
const SIZES = {
  full: { leaves: 2 ** 17, bodies: 20_000, pairs: 10 },
  quick: { leaves: 2 ** 16, bodies: 10_000, pairs: 3 },
  smoke: { leaves: 96, bodies: 20, pairs: 1 },
} as const;

interface Call {
  readonly id: string;
  readonly name: string;
  readonly method: string;
  params(leaves: readonly Buffer[], random: Sfc32): object;
  /** Items in the answer. */
  count(value: never): number;
  readonly items: number;
}

const hashOf = (leaves: readonly Buffer[], random: Sfc32) => encode32(leaves[random.below(leaves.length)]!);
const isOne = (value: { readonly leafIndex: number }) => Number(Number.isInteger(value.leafIndex));

const CALLS: readonly Call[] = [
  {
    id: 'proof',
    name: 'a proof',
    method: 'getCompressedAccountProof',
    count: isOne,
    items: 1,
    params: (leaves, random) => ({ hash: hashOf(leaves, random) }),
  },
  {
    id: 'account',
    name: 'an account',
    method: 'getCompressedAccount',
    count: isOne,
    items: 1,
    params: (leaves, random) => ({ hash: hashOf(leaves, random) }),
  },
  {
    id: 'owner',
    name: 'accounts of an owner',
    method: 'getCompressedAccountsByOwner',
    items: OWNED,
    params: (leaves, random) => ({ owner: encode32(ownerOf(random.below(leaves.length))) }),
    count: (value: { readonly items: readonly unknown[] }) => value.items.length,
  },
  {
    id: 'proofs',
    name: 'ten proofs in one call',
    method: 'getMultipleCompressedAccountProofs',
    items: 10,
    params: (leaves, random) => Array.from({ length: 10 }, () => hashOf(leaves, random)),
    count: (value: readonly unknown[]) => value.length,
  },
];

async function run(options: RunOptions): Promise<RowResult[]> {
  const results = await onEngine('sqlite', 'sqlite:', options);
  // The tests of the methods run on both engines.
  if (options.size === 'smoke') return results;
  const server = await startPostgresServer();
  try {
    return [...results, ...(await onEngine('postgres', server.url, options))];
  } finally {
    await server.stop();
  }
}

async function onEngine(engine: string, url: string, options: RunOptions): Promise<RowResult[]> {
  const { leaves: count } = SIZES[options.size];
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-reads-'));
  options.say(`${count} accounts in ${engine}`);
  const module = siblingModule(import.meta.url, '../samples/proof-server.ts');
  const daemon = await startBenchServer(module, ['daemon', folder, String(count), String(options.seed), url]);
  try {
    const leaves = worldLeaves(count, options.seed);
    const results: RowResult[] = [];
    for (const call of CALLS) results.push(await measure(daemon, `reads/${call.id}-${engine}`, call, leaves, options));
    return results;
  } finally {
    daemon.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function measure(
  daemon: BenchServer,
  row: string,
  call: Call,
  leaves: readonly Buffer[],
  { size, seed, say }: RunOptions,
): Promise<RowResult> {
  const { bodies, pairs } = SIZES[size];
  const random = createSfc32(seed + 1);
  const bodyOf = () =>
    JSON.stringify({ jsonrpc: '2.0', id: 'bench', method: call.method, params: call.params(leaves, random) });
  const request: LoadRequest = {
    method: 'POST',
    path: `/?api-key=${PROXY_KEY}`,
    headers: { 'Content-Type': 'application/json' },
    body: bodyOf(),
    bodies: Array.from({ length: bodies }, bodyOf),
  };
  const text = await (await fetch(daemon.url + request.path, { method: 'POST', body: request.body! })).text();
  const { result } = JSON.parse(text);
  assert.equal(call.count(result?.value as never), call.items, text);
  const bare = await startBenchServer(siblingModule(import.meta.url, '../samples/proof-server.ts'), ['bare', text]);
  try {
    const options = { pairs, seconds: size === 'smoke' ? 0.25 : 1, connections: CONNECTIONS };
    const { cpuNote, latencyNote, ...samples } = await measureServers(
      { server: daemon, request },
      { server: bare, request },
      options,
    );
    say(
      `${row}: ${samples.ours.map(Math.round).join(', ')} of ${samples.baseline.map(Math.round).join(', ')}; ${latencyNote}`,
    );
    return {
      row,
      name: call.name,
      unit: 'requests/s',
      ...samples,
      ratio: ratioOf(samples.ours, samples.baseline),
      goal: 'a report; an account costs no more than its proof',
      verdict: 'not assessed',
      sizes: { leaves: leaves.length, distinct: bodies, answerBytes: text.length, connections: CONNECTIONS },
      seed,
      notes: [cpuNote, latencyNote],
    };
  } finally {
    bare.stop();
  }
}

export const row: Row = { id: 'reads', name: 'reads of compressed accounts', run };
