/**
 * The two sides of row G5a, each in a process of its own: `daemon FOLDER LEAVES SEED` is a whole daemon over a planted tree, `bare TEXT`
 * is node:http that reads the request and sends a ready answer.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { openSqliteStore } from '../../../src/store/sqlite.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { plantWorld } from './proof-world.ts';
import { PROXY_KEY } from './proxy-answers.ts';

async function serveDaemon(folder: string, leaves: number, seed: number): Promise<number> {
  const path = join(folder, 'parhelion.db');
  const store = openSqliteStore({ path, busyTimeoutMs: 5_000 });
  await plantWorld(store, leaves, seed);
  await store.close();
  const config = { follow: { enabled: false } };
  const daemon = await startDaemon({ key: PROXY_KEY, dataDir: folder, store: `sqlite:${path}`, config });
  return Number(new URL(daemon.apiUrl).port);
}

/** What the pipeline sends too: the same headers on both sides. */
const HEADERS = {
  'X-Content-Type-Options': 'nosniff',
  'X-Request-Id': '00000000-0000-4000-8000-000000000000',
  'Cache-Control': 'no-store',
  'Access-Control-Allow-Origin': '*',
  'Content-Type': 'application/json; charset=utf-8',
};

async function serveBare(text: string): Promise<number> {
  const body = Buffer.from(text);
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      response.writeHead(200, { ...HEADERS, 'Content-Length': body.length });
      response.end(body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

const [kind, first, leaves, seed] = process.argv.slice(2);
const port = kind === 'daemon' ? await serveDaemon(first!, Number(leaves), Number(seed)) : await serveBare(first!);
process.once('disconnect', () => process.exit(0));
process.send?.({ port });
