import { type DaemonInProcess, runCommand, startDaemon } from '../../helpers/daemon.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';

export interface AccessDaemon {
  readonly daemon: DaemonInProcess;
  readonly upstream: TestUpstream;
  /** Runs a command with `--json` on the running daemon's store; throws when it fails. */
  cli<T = Record<string, unknown>>(...args: string[]): Promise<T>;
  /** A project with values over its plan, and a key of it with these further flags. */
  makeKey(options?: {
    readonly plan?: string;
    readonly override?: object;
    readonly flags?: readonly string[];
  }): Promise<{ readonly project: string; readonly key: string; readonly id: string }>;
  request(path: string, key?: string, init?: RequestInit): Promise<Response>;
  rpc(key: string, body: unknown, headers?: Record<string, string>): Promise<Response>;
  stop(): Promise<void>;
}

/** A daemon with all built-in plugins before an upstream that answers every standard call. */
export async function startAccessDaemon(config: Record<string, unknown> = {}): Promise<AccessDaemon> {
  const upstream = await startUpstream();
  for (const method of ['getBlocks', 'getTransaction', 'getBalance', 'sendTransaction', 'getProgramAccounts'])
    upstream.on(method, { result: '[]' });
  const daemon = await startDaemon({
    chain: { rpcUrl: upstream.url, wsUrl: upstream.wsUrl },
    config: { follow: { enabled: false }, ...config },
  });
  const cli = async <T>(...args: string[]): Promise<T> => {
    const { code, out, err } = await runCommand([...args, '--json', '--config', daemon.configFile]);
    if (code !== 0) throw new Error(err);
    return JSON.parse(out) as T;
  };
  const request = (path: string, key?: string, init: RequestInit = {}) =>
    fetch(daemon.apiUrl + path, {
      ...init,
      headers: { ...(key === undefined ? {} : { 'X-Api-Key': key }), ...(init.headers as Record<string, string>) },
    });
  return {
    daemon,
    upstream,
    cli,
    async makeKey({ plan = 'unlimited', override, flags = [] } = {}) {
      const { id: project } = await cli<{ id: string }>('projects', 'create', '--name', 'p', '--plan', plan);
      if (override !== undefined)
        await cli('projects', 'set-plan', '--id', project, '--override', JSON.stringify(override));
      const { key, id } = await cli<{ key: string; id: string }>('keys', 'create', '--project', project, ...flags);
      return { project, key, id };
    },
    request,
    rpc: (key, body, headers = {}) =>
      request('/', key, { method: 'POST', body: JSON.stringify(body), headers: { ...headers } }),
    async stop() {
      await daemon.stop();
      await upstream.stop();
    },
  };
}

export const rpcCall = (method: string, id: unknown = 1, params: unknown = []) => ({
  jsonrpc: '2.0',
  id,
  method,
  params,
});
