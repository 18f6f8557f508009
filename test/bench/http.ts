/**
 * Pairs of servers under load. Each server is a process of its own, hit in turns by one load generator in this process; the
 * median of the quotients of each pair is the result.
 */
import { fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import autocannon from 'autocannon';
import { ratioOf } from './paired.ts';
import type { BenchModule } from './sibling.ts';

export interface BenchServer {
  readonly url: string;
  /** CPU time of its process and its children so far in microseconds, all threads; null where the system does not tell. */
  cpuUs(): number | null;
  /** What it sent when it was ready. */
  readonly told: { readonly port: number; readonly adminPort?: number; readonly wallet?: string };
  readonly pid?: number | undefined;
  stop(): void;
}

export interface LoadRequest {
  readonly method: 'GET' | 'POST';
  /** With its query. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Sent in turns by every connection, instead of the one body. */
  readonly bodies?: readonly string[];
  /** Asked for in turns instead of the one path. */
  readonly paths?: readonly string[];
  /** Status of its answers, if it is not 2xx. */
  readonly status?: number;
}

export interface LoadOptions {
  readonly pairs: number;
  readonly seconds: number;
  readonly connections: number;
}

const MAX_WARM_UPS = 10;

/** Starts a module that sends `{port}` to its parent once it listens. Its log lines are written, at level info, and thrown away. */
export function startBenchServer({ path, execArgv }: BenchModule, args: readonly string[] = []): Promise<BenchServer> {
  const env = { ...process.env, TEST_LOG: 'info' };
  const child = fork(path, args, { env, execArgv: [...execArgv], stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`the server ended with ${code}`)));
    child.once('message', (message: BenchServer['told']) => {
      child.removeAllListeners('exit');
      resolve({
        url: `http://127.0.0.1:${message.port}`,
        cpuUs: () => cpuUsOfAll(child.pid),
        told: message,
        pid: child.pid,
        stop: () => child.disconnect(),
      });
    });
  });
}

/** Linux counts in hundredths of a second: user and system time are the 14th and 15th field, the name before may have spaces. */
export function cpuUsOf(pid: number | undefined): number | null {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)!.split(' ');
    return (Number(fields[11]) + Number(fields[12])) * 10_000;
  } catch {
    return null;
  }
}

export function cpuUsOfAll(pid: number | undefined): number | null {
  const own = cpuUsOf(pid);
  if (own === null) return null;
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  return children === '' ? own : children.split(' ').reduce((sum, child) => sum + (cpuUsOf(Number(child)) ?? 0), own);
}

export interface LoadSamples {
  readonly ours: number[];
  readonly baseline: number[];
  /** CPU time of a request on both sides, which the load of the machine changes less than their rates. */
  readonly cpuNote: string;
  /** CPU time of a request in each measurement, us. */
  readonly cpuUs: { readonly ours: readonly number[]; readonly baseline: readonly number[] };
  /** How long ours took. */
  readonly latencyNote: string;
}

interface Target {
  readonly server: BenchServer;
  readonly request: LoadRequest;
}

/** Requests per second of each measurement, pair by pair. Throws when an answer had another status than it should. */
export async function measureServers(ours: Target, baseline: Target, options: LoadOptions): Promise<LoadSamples> {
  const targets = { ours, baseline };
  const cpu = { ours: [] as number[], baseline: [] as number[] };
  const latencies: { readonly p50: number; readonly p99: number }[] = [];
  const samples = { ours: [] as number[], baseline: [] as number[] };
  for (const target of [ours, baseline]) await warmUp(target, options);
  for (let pair = 0; pair < options.pairs; pair += 1) {
    const order = pair % 2 === 0 ? (['ours', 'baseline'] as const) : (['baseline', 'ours'] as const);
    for (const who of order) {
      const { rate, cpuUs, p50, p99 } = await load(targets[who], options);
      samples[who].push(rate);
      cpu[who].push(cpuUs);
      if (who === 'ours') latencies.push({ p50, p99 });
    }
  }
  const ratio = ratioOf(cpu.baseline, cpu.ours);
  const [mine, theirs] = [cpu.ours, cpu.baseline].map((list) =>
    list.toSorted((a, b) => a - b)[list.length >> 1]!.toFixed(0),
  );
  const cpuNote = `CPU time of a request: ours ${mine} us, baseline ${theirs} us, by that ${ratio.median.toFixed(2)}x (${ratio.min.toFixed(2)}-${ratio.max.toFixed(2)})`;
  const latencyNote = `p50 and p99 of ours in ms: ${latencies.map(({ p50, p99 }) => `${p50}/${p99}`).join(', ')}`;
  return { ...samples, cpuNote, cpuUs: cpu, latencyNote };
}

/**
 * Until two rounds differ by less than 5 %: compiling is part of no goal. The rate alone may be that of the load, which says nothing about
 * the server. A smoke run only looks whether all is right.
 */
async function warmUp(target: Target, options: LoadOptions): Promise<void> {
  const rounds = options.pairs === 1 ? 1 : MAX_WARM_UPS;
  for (let i = 0, before = { rate: 0, cpuUs: 0 }; i < rounds; i += 1) {
    const { rate, cpuUs } = await load(target, options);
    const changes = [rate / before.rate, ...(Number.isNaN(cpuUs) ? [] : [cpuUs / before.cpuUs])];
    if (changes.every((change) => Math.abs(change - 1) < 0.05)) return;
    before = { rate, cpuUs };
  }
}

async function load({ server, request }: Target, { connections, seconds }: LoadOptions) {
  const before = server.cpuUs();
  const result = await autocannon({
    url: server.url + request.path,
    method: request.method,
    headers: { ...request.headers },
    ...(request.body === undefined ? {} : { body: request.body }),
    ...(request.bodies === undefined && request.paths === undefined ? {} : { requests: turns(request) }),
    connections,
    duration: seconds,
  });
  const { status } = request;
  const wrong =
    status === undefined ? result.non2xx : result.requests.total - (result.statusCodeStats[status]?.count ?? 0);
  if (wrong > 0 || result.errors > 0)
    throw new Error(`${request.path}: ${wrong} answers were not ${status ?? '2xx'}, ${result.errors} errors`);
  const spent = before === null ? Number.NaN : (server.cpuUs() ?? Number.NaN) - before;
  const { p50, p99 } = result.latency;
  return { rate: result.requests.total / result.duration, cpuUs: spent / result.requests.total, p50, p99 };
}

/** One list for all connections: lists of their own, all from the beginning, would have them ask the same at the same time. */
function turns({ bodies, paths }: LoadRequest) {
  let next = 0;
  return [
    {
      setupRequest(request: object) {
        next += 1;
        return {
          ...request,
          ...(bodies === undefined ? {} : { body: bodies[next % bodies.length] }),
          ...(paths === undefined ? {} : { path: paths[next % paths.length] }),
        };
      },
    },
  ];
}

/** Asks one request after the other on one connection. */
export interface AnswerReader {
  /** `body` is valid until the next request. */
  ask(request: LoadRequest): Promise<{ readonly ms: number; readonly head: string; readonly body: Buffer }>;
  close(): void;
}

/** Bytes that are read from the socket at once, and those of the longest answer. */
const READ_BYTES = 262_144;
const ANSWER_BYTES = 8_388_608;

/**
 * Answers are read into memory that is used again: with the clients of Node, the time of a long answer is that of their garbage collections.
 */
export function createAnswerReader({ told: { port } }: BenchServer): AnswerReader {
  const answer = Buffer.alloc(ANSWER_BYTES);
  let [read, length, headLength] = [0, 0, 0];
  let waiting: { readonly done: () => void; readonly fail: (error: Error) => void } | null = null;
  const callback = (count: number, bytes: Uint8Array): boolean => {
    answer.set(bytes.subarray(0, count), read);
    read += count;
    if (length === 0) {
      headLength = answer.subarray(0, read).indexOf('\r\n\r\n') + 4;
      if (headLength > 3)
        length = headLength + Number(/\ncontent-length: *(\d+)/i.exec(answer.toString('latin1', 0, headLength))![1]);
    }
    if (length > 0 && read === length) waiting?.done();
    return true;
  };
  const socket = connect({ host: '127.0.0.1', port, onread: { buffer: Buffer.alloc(READ_BYTES), callback } });
  socket.setNoDelay(true);
  socket.on('error', (error) => waiting?.fail(error));
  socket.on('close', () => waiting?.fail(new Error(`the connection ended after ${read} bytes of an answer`)));
  return {
    async ask({ method, path, headers = {}, body = '' }) {
      [read, length] = [0, 0];
      const all = { Host: 'bench', 'Content-Length': Buffer.byteLength(body), ...headers };
      const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
      const started = performance.now();
      await new Promise<void>((done, fail) => {
        waiting = { done, fail };
        socket.write(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`);
      });
      const ms = performance.now() - started;
      return { ms, head: answer.toString('latin1', 0, headLength), body: answer.subarray(headLength, length) };
    },
    close() {
      waiting = null;
      socket.destroy();
    },
  };
}
