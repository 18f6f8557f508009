/**
 * The two sides of the rows about reads of compressed accounts, each in a process of its own: `daemon FOLDER LEAVES SEED [STORE]` is a whole
 * daemon over a planted tree, in SQLite or in the empty database at the address STORE; `daemon FOLDER` is one over what is there; `bare TEXT`
 * is node:http that reads the request and sends a ready answer.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { sql } from 'kysely';
import { openStore } from '../../../src/store/index.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { plantWorld } from './proof-world.ts';
import { PROXY_KEY } from './proxy-answers.ts';

async function plant(folder: string, leaves: number, seed: number, url: string): Promise<void> {
  const store = await openStore({ url, poolSize: 4, busyTimeoutMs: 5_000, statementTimeoutMs: 60_000 }, folder);
  await plantWorld(store, leaves, seed);
  // A server does this by itself sooner or later.
  if (store.dialect === 'postgres') await store.write(({ db }) => sql`analyze`.execute(db));
  await store.close();
}

async function serveDaemon(folder: string, url: string): Promise<number> {
  const config = { follow: { enabled: false } };
  const daemon = await startDaemon({ key: PROXY_KEY, dataDir: folder, store: url, config });
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

const [kind, first, leaves, seed, url = 'sqlite:'] = process.argv.slice(2);
if (leaves !== undefined) await plant(first!, Number(leaves), Number(seed), url);
const port = kind === 'daemon' ? await serveDaemon(first!, url) : await serveBare(first!);
process.once('disconnect', () => process.exit(0));
process.send?.({ port });
