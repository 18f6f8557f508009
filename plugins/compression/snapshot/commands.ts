import { createReadStream, createWriteStream, existsSync } from 'node:fs';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ReadableStream } from 'node:stream/web';
import { EXIT } from '../../../src/lib/coded-error.ts';
import type { CommandValues } from '../../../src/plugin/plugin.ts';
import {
  type ChainReader,
  type Clock,
  CodedError,
  type Command,
  type CommandIo,
  type Random,
} from '../../../src/plugin/plugin.ts';
import type { GapRecords } from '../../../src/ports/following.ts';
import { callPeer } from '../../../src/runtime/call-peer.ts';
import { addressesOf } from '../chain/repair.ts';
import { COMPRESSION_COMMANDS, SNAPSHOT_PORT } from '../command-list.ts';
import type { CompressionConfig } from '../config.ts';
import type { CompressionDb } from '../store/tables.ts';
import type { Hashing } from '../trees/hashing.ts';
import { readLightTrees, type TreeReader } from '../trees/tree-reader.ts';
import { type LoadedSnapshot, loadSnapshot } from './load.ts';
import { listSnapshots, saveNow, snapshotSchema } from './save.ts';

interface SnapshotCommandParts {
  readonly config: CompressionConfig;
  readonly hashing: Hashing;
  readonly random: Random;
  readonly clock: Clock;
  readonly gaps: GapRecords | null;
  readonly chain: ChainReader | null;
  readonly reader: TreeReader | null;
  readonly genesisHash: () => Promise<string | null>;
  readonly processor: { readonly name: string; readonly version: number };
}

export function snapshotCommands(parts: SnapshotCommandParts): Command[] {
  return [saveCommand(parts), loadCommand(parts), serveCommand(parts)];
}

function saveCommand(parts: SnapshotCommandParts): Command {
  return {
    ...COMPRESSION_COMMANDS.save,
    async run(options, io) {
      const { signal } = new AbortController();
      const saved = await saveNow({ ...parts, store: io.store }, folderOf(parts, options), signal);
      if (saved === null)
        throw new CodedError('COMPRESSION_SNAPSHOT_EMPTY', 'nothing is indexed yet', { exitCode: EXIT.temporary });
      if (options['json'] === true) io.json(saved);
      else io.line(`${saved.file}: slot ${saved.slot}, ${saved.rows} rows, ${saved.bytes} bytes`);
    },
  };
}

function loadCommand(parts: SnapshotCommandParts): Command {
  return {
    ...COMPRESSION_COMMANDS.load,
    async run(options, io) {
      const { file, url } = options;
      if ((typeof file === 'string') === (typeof url === 'string')) throw usage('give one of --file and --url');
      if (typeof file === 'string' && !existsSync(file)) throw usage(`there is no file ${file}`);
      if (typeof file === 'string') return report(options, io, await load(parts, options, io, file));
      const fetched = await fetchSnapshot(String(url));
      try {
        report(options, io, await load(parts, options, io, fetched.file));
      } finally {
        await fetched.remove();
      }
    },
  };
}

async function load(parts: SnapshotCommandParts, options: CommandValues, io: CommandIo, file: string) {
  const { hashing, random, config, reader, gaps, processor } = parts;
  const genesisHash = options['offline'] === true || reader === null ? null : await parts.genesisHash();
  const progress = io.progress?.({ what: 'snapshot load', unit: 'rows', total: null });
  try {
    return await loadSnapshot(
      {
        store: io.store,
        hashing,
        random,
        programId: config.programId,
        schema: snapshotSchema(),
        chain: genesisHash === null || reader === null ? null : { genesisHash, reader },
        replaces: options['replace'] === true,
        progress: (rows) => progress?.update(rows),
        async also(tx, header, headSlot) {
          // Rows above the snapshot are deleted, but the cursor stays: that range is requested again.
          if (headSlot === null || headSlot <= header.slot || gaps === null) return;
          const addresses = (await readLightTrees(tx.db as CompressionDb)).flatMap(addressesOf);
          const range = { fromSlot: header.slot + 1, toSlot: headSlot };
          await gaps.request(tx, { chain: 'main', processor, ...range, addresses });
        },
      },
      file,
    );
  } finally {
    progress?.end();
  }
}

function report(
  options: CommandValues,
  io: CommandIo,
  { header, rows, rootsFound, rootsTooOld }: LoadedSnapshot,
): void {
  const { slot, treeCount } = header;
  if (options['json'] === true) io.json({ slot, treeCount, rows, rootsFound, rootsTooOld });
  else
    io.line(
      `loaded slot ${slot}: ${treeCount} trees, ${rows} rows; ${rootsFound} roots found on the chain, ${rootsTooOld} too old to be there`,
    );
}

function serveCommand(parts: SnapshotCommandParts): Command {
  return {
    ...COMPRESSION_COMMANDS.serve,
    async run(options, io) {
      const { host, port } = options;
      const number = typeof port === 'string' ? Number(port) : SNAPSHOT_PORT;
      if (!Number.isInteger(number) || number < 0 || number > 65_535)
        throw usage('--port must be a number up to 65535');
      const server = await serveSnapshots(folderOf(parts, options), {
        host: typeof host === 'string' ? host : '127.0.0.1',
        port: number,
      });
      // Before it says that it serves: who has read that may interrupt it.
      const interrupted = new Promise<void>((resolve) => {
        for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => resolve());
      });
      if (options['json'] === true) io.json({ url: server.url });
      else io.line(`snapshots at ${server.url}/latest`);
      await interrupted;
      await server.close();
    },
  };
}

function folderOf({ config }: SnapshotCommandParts, options: CommandValues): string {
  const folder = options['dir'] ?? config.snapshotDir;
  if (typeof folder !== 'string') throw usage('give --dir, or set compression.snapshotDir');
  return folder;
}

const usage = (message: string) => new CodedError('COMPRESSION_USAGE', message, { exitCode: EXIT.usage });

/** Downloads a snapshot from another daemon into a temporary file. Errors: COMPRESSION_SNAPSHOT_FETCH. */
export async function fetchSnapshot(url: string): Promise<{ readonly file: string; remove(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'parhelion-snapshot-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    // An address without a path is the address of the server.
    const address = new URL(url);
    if (address.pathname === '/') address.pathname = '/latest';
    const response = await download(address);
    if (!response.ok || response.body === null) throw new Error(`status ${response.status}`);
    const file = join(folder, 'snapshot');
    await pipeline(Readable.fromWeb(response.body as ReadableStream), createWriteStream(file, { mode: 0o600 }));
    return { file, remove };
  } catch (cause) {
    await remove();
    throw new CodedError('COMPRESSION_SNAPSHOT_FETCH', 'the snapshot cannot be downloaded', {
      cause,
      exitCode: EXIT.temporary,
    });
  }
}

const MAX_REDIRECTS = 5;

async function download(address: URL): Promise<Response> {
  for (let count = 0, from = address; ; count += 1) {
    const response = await callPeer(from);
    const to = response.headers.get('location');
    if (response.status < 300 || response.status >= 400 || to === null || count === MAX_REDIRECTS) return response;
    await response.body?.cancel();
    from = new URL(to, from);
  }
}

export interface SnapshotServer {
  readonly url: string;
  close(): Promise<void>;
}

const MAX_CONNECTIONS = 64;
const IDLE_MS = 60_000;

/** Serves the files of a folder over HTTP: `/latest`, `/` (a list), or a name from it. Errors: COMPRESSION_SNAPSHOT_LISTEN. */
export async function serveSnapshots(
  folder: string,
  address: { readonly host: string; readonly port: number },
): Promise<SnapshotServer> {
  const server = createServer((request, response) => {
    answer(folder, request, response).catch(() => response.destroy());
  });
  server.maxConnections = MAX_CONNECTIONS;
  server.timeout = IDLE_MS;
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) =>
      reject(
        new CodedError('COMPRESSION_SNAPSHOT_LISTEN', 'the address cannot be listened on', {
          cause,
          exitCode: EXIT.temporary,
        }),
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
