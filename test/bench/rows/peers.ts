/**
 * The daemon against other servers that somebody has built and started: Photon, which indexes compressed accounts, and Svix, which delivers
 * webhooks. Their addresses come from the environment; a peer without one is skipped, and the row says how to give it.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { encode32 } from '../../../src/lib/base58.ts';
import { openSqliteStore } from '../../../src/store/sqlite.ts';
import { until } from '../../helpers/until.ts';
import { type BenchServer, type LoadRequest, measureServers, startBenchServer } from '../http.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { COMPRESSION } from '../samples/compression-blocks.ts';
import { PROXY_KEY } from '../samples/proxy-answers.ts';
import { siblingModule } from '../sibling.ts';
import { catchUp, FIRST_SLOT } from './compression-catch-up.ts';
import { BLOCK_DELIVERIES, CONNECTIONS, inParallel, receivedBy, withDeliveries } from './g8-delivery.ts';

const NODE_PORT = 8_899;
const SIZES = {
  full: { blocks: 600, pairs: 10, deliveryBlocks: 40 },
  quick: { blocks: 300, pairs: 3, deliveryBlocks: 16 },
  smoke: { blocks: 8, pairs: 1, deliveryBlocks: 1 },
} as const;
/** How long a peer may take to read the blocks, or to deliver. */
const PEER_MS = 600_000;

const PHOTON_HELP = `BENCH_PHOTON is not set. Build Photon (the crate photon-indexer), set BENCH_PHOTON to the address it will listen at and start
  this row; then start Photon with an empty database, --start-slot ${FIRST_SLOT} and --rpc-url http://127.0.0.1:${NODE_PORT}, where the row serves the
  blocks that both read. BENCH_PHOTON_NODE_PORT is another port for them.`;
const SVIX_HELP = `BENCH_SVIX is not set. Start a Svix server that may deliver to 127.0.0.1 (SVIX_WHITELIST_SUBNETS), set BENCH_SVIX to its address and
  BENCH_SVIX_TOKEN to a token of it (svix-server jwt generate).`;

async function run(options: RunOptions): Promise<RowResult[]> {
  const { BENCH_PHOTON: photon, BENCH_SVIX: svix } = process.env;
  if (photon === undefined) options.say(`SKIPPED peers/photon: ${PHOTON_HELP}`);
  if (svix === undefined) options.say(`SKIPPED peers/svix: ${SVIX_HELP}`);
  return [
    ...(photon === undefined ? [] : await againstPhoton(photon, options)),
    ...(svix === undefined ? [] : [await againstSvix(svix, options)]),
  ];
}

async function againstPhoton(url: string, options: RunOptions): Promise<RowResult[]> {
  const { blocks } = SIZES[options.size];
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-peers-'));
  const port = process.env['BENCH_PHOTON_NODE_PORT'] ?? NODE_PORT;
  const args = [options.seed, 0, 0, FIRST_SLOT, blocks, port].map(String);
  const node = await startBenchServer(siblingModule(import.meta.url, '../samples/block-upstream.ts'), args);
  const stops = [node.stop];
  try {
    options.say(`blocks ${FIRST_SLOT} to ${FIRST_SLOT + blocks - 1} are at ${node.url}`);
    await catchUp(folder, node.url, null, blocks);
    const hashes = await unspentHashes(join(folder, 'data'));
    const module = siblingModule(import.meta.url, '../samples/proof-server.ts');
    const daemon = await startBenchServer(module, ['daemon', join(folder, 'data')]);
    stops.push(daemon.stop);
    options.say(`waiting for Photon at ${url} to read them`);
    const hasRead = async () => Number(await ask(url, 'getIndexerSlot', {}).catch(() => 0)) >= FIRST_SLOT + blocks - 1;
    await until(hasRead, 'Photon has read the blocks', PEER_MS);
    const peer: BenchServer = { url, cpuUs: () => null, told: { port: 0 }, stop: () => undefined };
    const results: RowResult[] = [];
    for (const method of ['getCompressedAccountProof', 'getCompressedAccount'])
      results.push(await readBoth(method, daemon, peer, hashes, options));
    return results;
  } finally {
    for (const stop of stops) stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function unspentHashes(dataDir: string): Promise<string[]> {
  const store = openSqliteStore({ path: join(dataDir, 'parhelion.db'), busyTimeoutMs: 5_000 });
  try {
    const query = sql<{ hash: Uint8Array }>`select hash from compression_accounts where spent = 0 limit 10000`;
    return (await query.execute(store.read)).rows.map(({ hash }) => encode32(hash));
  } finally {
    await store.close();
  }
}

async function ask(url: string, method: string, params: object): Promise<unknown> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 'bench', method, params });
  const response = await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body });
  const { result, error } = (await response.json()) as { result?: unknown; error?: unknown };
  assert.ok(result !== undefined && result !== null, `${method} at ${url}: ${JSON.stringify(error)}`);
  return result;
}

/** What both have to say of an account; more members and other texts for numbers are no concern of this row. */
function factsOf(result: unknown): unknown {
  const { hash, leafIndex, owner, proof, root } = (result as { value: Record<string, unknown> }).value;
  return { hash, leafIndex, owner, proof, root };
}

async function readBoth(
  method: string,
  daemon: BenchServer,
  peer: BenchServer,
  hashes: readonly string[],
  { size, seed }: RunOptions,
): Promise<RowResult> {
  const { blocks, pairs } = SIZES[size];
  const path = `/?api-key=${PROXY_KEY}`;
  for (const hash of hashes.slice(0, 20))
    assert.deepEqual(
      factsOf(await ask(daemon.url + path, method, { hash })),
      factsOf(await ask(peer.url, method, { hash })),
      `${method} of ${hash}`,
    );
  const bodies = hashes.map((hash) => JSON.stringify({ jsonrpc: '2.0', id: 'bench', method, params: { hash } }));
  const request: LoadRequest = {
    method: 'POST',
    path,
    headers: { 'Content-Type': 'application/json' },
    body: bodies[0]!,
    bodies,
  };
  const options = { pairs, seconds: 1, connections: CONNECTIONS };
  const { ours, baseline, latencyNote } = await measureServers(
    { server: daemon, request },
    { server: peer, request: { ...request, path: '' } },
    options,
  );
  return {
    row: `peers/photon ${method}`,
    name: `${method} beside Photon`,
    unit: 'requests/s',
    ours,
    baseline,
    ratio: ratioOf(ours, baseline),
    goal: 'a report',
    verdict: 'not assessed',
    seed,
    sizes: { blocks, ...COMPRESSION, distinct: hashes.length, connections: CONNECTIONS },
    notes: [latencyNote, 'the daemon on SQLite with its whole pipeline; Photon on the database it was started with'],
  };
}

async function againstSvix(url: string, { size, seed, say }: RunOptions): Promise<RowResult> {
  const { pairs, deliveryBlocks } = SIZES[size];
  const count = deliveryBlocks * BLOCK_DELIVERIES;
  const [ours, baseline]: [number[], number[]] = [[], []];
  const bodyBytes = await withDeliveries(async (bed) => {
    const send = await svixEndpoint(url, `${bed.url}/hook`);
    const payload = JSON.parse(bed.body.toString()) as unknown;
    const viaSvix = async () => {
      await receivedBy(bed.url, '/reset');
      const startMs = performance.now();
      await inParallel(count, () => send(payload));
      while ((await receivedBy(bed.url)).count < count) {
        if (performance.now() - startMs > PEER_MS) throw new Error('Svix has not delivered all messages');
        await sleep(5);
      }
      return count / ((performance.now() - startMs) / 1_000);
    };
    await viaSvix();
    for (let pair = 0; pair < pairs; pair += 1) {
      ours.push((await bed.deliver(deliveryBlocks)).rate);
      baseline.push(await viaSvix());
      say(`peers/svix: ours ${Math.round(ours.at(-1)!)}/s, Svix ${Math.round(baseline.at(-1)!)}/s`);
    }
    return bed.body.length;
  });
  return {
    row: 'peers/svix',
    name: 'durable deliveries beside Svix',
    unit: 'deliveries/s',
    ours,
    baseline,
    ratio: ratioOf(ours, baseline),
    goal: 'a report',
    verdict: 'not assessed',
    seed,
    sizes: { bodyBytes, connections: CONNECTIONS, deliveries: count },
    notes: ['from a decoded block, or from the calls that create messages, until the receiver has all; ours on SQLite'],
  };
}

/** An application of Svix with one endpoint; the function creates a message. */
async function svixEndpoint(url: string, receiver: string): Promise<(payload: unknown) => Promise<void>> {
  const headers = {
    'Content-Type': 'application/json',
    Authorization: `Bearer ${process.env['BENCH_SVIX_TOKEN'] ?? ''}`,
  };
  const post = async (path: string, body: object): Promise<{ readonly id: string }> => {
    const response = await fetch(`${url}/api/v1${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
    const text = await response.text();
    assert.ok(response.ok, `${path} at ${url}: ${response.status} ${text}`);
    return JSON.parse(text) as { readonly id: string };
  };
  const { id } = await post('/app/', { name: 'bench' });
  await post(`/app/${id}/endpoint/`, { url: receiver, description: 'bench' });
  return async (payload) => void (await post(`/app/${id}/msg/`, { eventType: 'bench', payload: { payload } }));
}

export const row: Row = { id: 'peers', name: 'the daemon beside Photon and Svix', run };
