import { type ChildProcess, fork } from 'node:child_process';
import { join } from 'node:path';
import type { Pool } from 'undici';
import { CodedError, codeOf, EXIT, messageOf } from '../../lib/coded-error.ts';
import type { ChainId } from '../../ports/chain.ts';
import type { ArchiveEngine } from '../../ports/ledger.ts';
import { makeFolder } from '../../runtime/make-folder.ts';
import { patientConnector } from '../http-sockets.ts';
import { undici } from '../undici.ts';

/** Where an archive is: `chdb:PATH`, or `clickhouse://[user[:password]@]host[:port][,host…]/[database][?replicated=1&quorum=2&secure=1]`. */
export interface ArchiveAddress {
  /** Absolute, or relative to the data folder; null for servers. */
  readonly folder: string | null;
  readonly origins: readonly string[];
  readonly headers: Readonly<Record<string, string>>;
  readonly database: string;
  /** Copies of each insert, on as many servers; 0: one server keeps the tables. */
  readonly quorum: number;
}

const SERVERS = /^clickhouse:\/\/(?:([^:@/]*)(?::([^@/]*))?@)?([^/?@]+)(?:\/([^?]*))?(?:\?(.*))?$/;
const DEFAULT_DATABASE = 'parhelion';
/** The longest path of a socket is 107 bytes. */
const LONGEST_FOLDER = 90;

/** Errors: CONFIG_INVALID, which never repeats the address. */
export function parseArchive(text: string, chain: ChainId, dataDir: string): ArchiveAddress {
  const invalid = (what: string) =>
    new CodedError('CONFIG_INVALID', `ledger.archive: ${what}`, {
      exitCode: EXIT.config,
      facts: { problems: [`ledger.archive: ${what}`] },
    });
  if (text.startsWith('chdb:')) {
    const path = text.slice('chdb:'.length);
    if (path === '') throw invalid('the folder behind chdb: is missing');
    const folder = join(path.startsWith('/') ? path : join(dataDir, path), chain);
    if (Buffer.byteLength(folder) > LONGEST_FOLDER) throw invalid(`the path is longer than ${LONGEST_FOLDER} bytes`);
    return { folder, origins: [], headers: {}, database: DEFAULT_DATABASE, quorum: 0 };
  }
  const found = SERVERS.exec(text);
  if (found === null) throw invalid('is neither chdb:PATH nor clickhouse://HOST');
  const [, user, password, hosts, path, query] = found;
  const options = new URLSearchParams(query ?? '');
  for (const name of options.keys())
    if (!['replicated', 'quorum', 'secure'].includes(name)) throw invalid(`the option ${name} is unknown`);
  const base = path === undefined || path === '' ? DEFAULT_DATABASE : path;
  if (!/^[A-Za-z_]\w{0,60}$/.test(base)) throw invalid('the name of the database is not made of letters, digits and _');
  const isReplicated = options.get('replicated') === '1';
  const quorum = Number(options.get('quorum') ?? (isReplicated ? 2 : 0));
  if (!Number.isInteger(quorum) || quorum < 0 || (isReplicated && quorum < 1)) throw invalid('quorum is no count');
  const scheme = options.get('secure') === '1' ? 'https' : 'http';
  const port = scheme === 'https' ? 8443 : 8123;
  const origins = hosts!.split(',').map((host) => `${scheme}://${/:\d+$/.test(host) ? host : `${host}:${port}`}`);
  if (origins.some((origin) => !URL.canParse(origin))) throw invalid('a host is not valid');
  const headers = {
    ...(user === undefined || user === '' ? {} : { 'x-clickhouse-user': decodeURIComponent(user) }),
    ...(password === undefined ? {} : { 'x-clickhouse-key': decodeURIComponent(password) }),
  };
  const database = chain === 'main' ? base : `${base}_${chain}`;
  return { folder: null, origins, headers, database, quorum: isReplicated ? quorum : 0 };
}

const SELECT_TIMEOUT_MS = 30_000;
const INSERT_TIMEOUT_MS = 120_000;
const CONNECTIONS = 8;
/** Characters of a server's message. */
const LONGEST_MESSAGE = 300;
/** Only the next host can help. */
const UNREACHABLE = /^(ECONN|ENOTFOUND|EAI_|EHOST|ENET|EPIPE|ENOENT|UND_ERR_|ERR_TLS_)/;

/** Speaks HTTP to servers, or to the process around chdb. */
function createHttpEngine(address: ArchiveAddress): ArchiveEngine {
  const { folder, database, quorum, headers } = address;
  const { Pool: Made, buildConnector } = undici();
  // Pools with a connector of their own take no `socketPath`: it belongs to the connector.
  const socket = folder === null ? {} : { socketPath: join(folder, 'parhelion.sock') };
  const connect = patientConnector(buildConnector({ timeout: 5_000, ...socket }));
  const options = { connections: CONNECTIONS, pipelining: 1, connect, keepAliveTimeout: 3_000 };
  const origins = folder === null ? address.origins : ['http://chdb'];
  const pools: readonly Pool[] = origins.map((origin) => new Made(origin, options));
  const name = folder === null ? address.origins.join(', ') : folder;
  /** The host that answered last. */
  let current = 0;

  async function send(parameters: Record<string, string>, body: Buffer | string, timeoutMs: number): Promise<string> {
    const query = new URLSearchParams({ default_format: 'JSONEachRow', wait_end_of_query: '1', ...parameters });
    let failed: unknown;
    for (let tries = 0; tries < pools.length; tries++) {
      try {
        const { statusCode, body: answer } = await pools[current]!.request({
          path: `/?${query}`,
          method: 'POST',
          headers,
          body,
          headersTimeout: timeoutMs,
          bodyTimeout: timeoutMs,
        });
        const text = await answer.text();
        if (statusCode === 200) return text;
        throw new CodedError('ARCHIVE_REFUSED', `the archive refuses: ${text.slice(0, LONGEST_MESSAGE).trim()}`, {
          facts: { status: statusCode },
          retryable: true,
        });
      } catch (error) {
        if (!UNREACHABLE.test(codeOf(error) ?? '')) throw error;
        failed = error;
        current = (current + 1) % pools.length;
      }
    }
    throw new CodedError('ARCHIVE_UNREACHABLE', `the archive ${name} does not answer: ${messageOf(failed)}`, {
      cause: failed,
      retryable: true,
    });
  }

  const copies: Record<string, string> =
    quorum > 0 ? { insert_quorum: String(quorum), insert_quorum_timeout: '30000' } : {};
  return {
    name,
    database,
    isReplicated: quorum > 0,
    async run(sql) {
      await send({}, sql, INSERT_TIMEOUT_MS);
    },
    async select<T>(sql: string) {
      const text = await send({}, sql, SELECT_TIMEOUT_MS);
      return text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as T]));
    },
    async insert(table, rows) {
      await send({ query: `INSERT INTO ${database}.${table} FORMAT TabSeparated`, ...copies }, rows, INSERT_TIMEOUT_MS);
    },
    async close() {
      await Promise.all(pools.map((pool) => pool.destroy()));
    },
  };
}

export interface EngineOptions {
  readonly address: ArchiveAddress;
  /** Folder in which the package chdb is also searched. */
  readonly packages: string;
  /** Starts the process around chdb: in one process of a daemon. Others find its socket. */
  readonly owns: boolean;
}

/** Opens nothing: what cannot be reached is an error of each call, until it can. */
export function createArchiveEngine({ address, packages, owns }: EngineOptions): ArchiveEngine {
  const http = createHttpEngine(address);
  const { folder } = address;
  if (folder === null || !owns) return http;
  let child: Promise<ChildProcess> | null = null;
  let isClosed = false;

  /** Started with the first call, and again after it ended. */
  async function ready(): Promise<void> {
    if (isClosed) throw new CodedError('ARCHIVE_UNREACHABLE', 'the archive was closed');
    if (child === null) {
      child = startChild(folder!, packages, () => {
        child = null;
      });
      child.catch(() => {
        child = null;
      });
    }
    await child;
  }
  return {
    ...http,
    run: (sql) => ready().then(() => http.run(sql)),
    select: <T>(sql: string) => ready().then(() => http.select<T>(sql)),
    insert: (table, rows) => ready().then(() => http.insert(table, rows)),
    async close() {
      isClosed = true;
      await http.close();
      const running = await child?.catch(() => null);
      if (running === null || running === undefined || running.exitCode !== null) return;
      const gone = new Promise((resolve) => running.once('exit', resolve));
      running.disconnect();
      await gone;
    },
  };
}

const START_LIMIT_MS = 60_000;

function startChild(folder: string, packages: string, onExit: () => void): Promise<ChildProcess> {
  makeFolder(folder);
  const source = import.meta.url.endsWith('.ts');
  const entry = new URL(source ? './chdb-child.ts' : './chdb-child.js', import.meta.url);
  return new Promise((resolve, reject) => {
    const child = fork(entry, [folder, packages], {
      execArgv: source ? ['--import', import.meta.resolve('tsx')] : [],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    const fail = (reason: string) => {
      clearTimeout(timer);
      child.kill('SIGKILL');
      reject(
        new CodedError('ARCHIVE_UNREACHABLE', `the engine of the archive does not start: ${reason}`, {
          retryable: true,
        }),
      );
    };
    const timer = setTimeout(() => fail('no answer'), START_LIMIT_MS);
    child.once('exit', (code, signal) => {
      onExit();
      fail(`it ended with ${signal ?? code}`);
    });
    child.once('error', (error) => fail(messageOf(error)));
    child.once('message', (message: { readonly isReady: boolean; readonly reason?: string }) => {
      if (!message.isReady) return fail(message.reason ?? 'unknown');
      clearTimeout(timer);
      resolve(child);
    });
  });
}
