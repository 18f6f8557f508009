/**
 * Pairs of servers under load. Each server is a process of its own, hit in turns by one load generator in this process; the
 * median of the quotients of each pair is the result.
 */
import { fork } from 'node:child_process';
import autocannon from 'autocannon';
import type { BenchModule } from './sibling.ts';

export interface BenchServer {
  readonly url: string;
  stop(): void;
}

export interface LoadRequest {
  readonly method: 'GET' | 'POST';
  /** With its query. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

export interface LoadOptions {
  readonly pairs: number;
  readonly seconds: number;
  readonly connections: number;
}

/** Starts a module that sends `{port}` to its parent once it listens. */
export function startBenchServer({ path, execArgv }: BenchModule, args: readonly string[] = []): Promise<BenchServer> {
  const child = fork(path, args, { execArgv: [...execArgv], stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`the server ended with ${code}`)));
    child.once('message', (message: { port: number }) => {
      child.removeAllListeners('exit');
      resolve({ url: `http://127.0.0.1:${message.port}`, stop: () => child.disconnect() });
    });
  });
}

/** Requests per second of each measurement, pair by pair. Throws when an answer was not 2xx. */
export async function measureServers(
  ours: { readonly url: string; readonly request: LoadRequest },
  baseline: { readonly url: string; readonly request: LoadRequest },
  options: LoadOptions,
): Promise<{ readonly ours: number[]; readonly baseline: number[] }> {
  const load = async ({ url, request }: typeof ours, seconds: number): Promise<number> => {
    const result = await autocannon({
      url: url + request.path,
      method: request.method,
      headers: { ...request.headers },
      ...(request.body === undefined ? {} : { body: request.body }),
      connections: options.connections,
      duration: seconds,
    });
    if (result.non2xx > 0 || result.errors > 0)
      throw new Error(`${url}${request.path}: ${result.non2xx} answers were not 2xx, ${result.errors} errors`);
    return result.requests.total / result.duration;
  };
  for (const target of [ours, baseline]) for (let i = 0; i < 2; i += 1) await load(target, options.seconds);
  const samples = { ours: [] as number[], baseline: [] as number[] };
  for (let pair = 0; pair < options.pairs; pair += 1) {
    const order = pair % 2 === 0 ? (['ours', 'baseline'] as const) : (['baseline', 'ours'] as const);
    for (const who of order) samples[who].push(await load(who === 'ours' ? ours : baseline, options.seconds));
  }
  return samples;
}
