import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { CodedError } from '../../../src/plugin/plugin.ts';
import { listSnapshots } from './save.ts';

export interface SnapshotServer {
  readonly url: string;
  close(): Promise<void>;
}

const MOST_CONNECTIONS = 64;
const IDLE_MS = 60_000;

/** Gives the files of a folder to whoever asks: `/latest`, `/` (a list), or a name from it. Errors: COMPRESSION_SNAPSHOT_LISTEN. */
export async function serveSnapshots(
  folder: string,
  address: { readonly host: string; readonly port: number },
): Promise<SnapshotServer> {
  const server = createServer((request, response) => {
    answer(folder, request, response).catch(() => response.destroy());
  });
  server.maxConnections = MOST_CONNECTIONS;
  server.timeout = IDLE_MS;
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) =>
      reject(
        new CodedError('COMPRESSION_SNAPSHOT_LISTEN', 'the address cannot be listened on', { cause, exitCode: 75 }),
      ),
    );
    server.listen(address.port, address.host, resolve);
  });
  const { port, family, address: host } = server.address() as AddressInfo;
  return {
    url: `http://${family === 'IPv6' ? `[${host}]` : host}:${port}`,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

async function answer(folder: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.method !== 'GET' && request.method !== 'HEAD') return end(response, 405, { error: 'only GET' });
  const snapshots = await listSnapshots(folder);
  const path = (request.url ?? '/').split('?')[0] ?? '/';
  if (path === '/')
    return end(
      response,
      200,
      snapshots.map(({ file, slot }) => ({ name: basename(file), slot })),
    );
  // Names are compared and never joined to the folder.
  const found = path === '/latest' ? snapshots[0] : snapshots.find(({ file }) => `/${basename(file)}` === path);
  if (found === undefined) return end(response, 404, { error: 'there is no such snapshot' });
  const { size } = await stat(found.file);
  response.writeHead(200, {
    'Content-Type': 'application/octet-stream',
    'Content-Length': size,
    'Content-Disposition': `attachment; filename="${basename(found.file)}"`,
  });
  if (request.method === 'HEAD') response.end();
  else await pipeline(createReadStream(found.file), response);
}

function end(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'Content-Type': 'application/json' });
  response.end(JSON.stringify(body));
}
