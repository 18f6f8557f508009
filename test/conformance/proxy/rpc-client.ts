import type { TestContext } from 'node:test';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';

export interface ProxyBed {
  readonly daemon: DaemonInProcess;
  readonly upstreams: readonly TestUpstream[];
  readonly first: TestUpstream;
  readonly second: TestUpstream;
}

export interface BedOptions {
  readonly upstreams?: number;
  /** Merged into the configuration. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** More keys of the upstreams. */
  readonly merge?: { readonly upstream: Readonly<Record<string, unknown>> };
  readonly genesisHash?: string;
  /** Default: that of the configuration. */
  readonly coolDownMs?: number;
  readonly dataDir?: string;
  readonly key?: string;
  /** Programs the upstreams before the daemon starts. */
  readonly prepare?: (upstream: TestUpstream) => void;
}

/** A daemon in front of programmable upstreams; removed at the end of the test. */
export async function startBed(t: TestContext, options: BedOptions = {}): Promise<ProxyBed> {
  const { genesisHash } = options;
  const upstreams = await Promise.all(
    Array.from({ length: options.upstreams ?? 1 }, () =>
      startUpstream(genesisHash === undefined ? {} : { genesisHash }),
    ),
  );
  for (const one of upstreams) options.prepare?.(one);
  const upstream = {
    urls: upstreams.map(({ url, wsUrl }) => ({ url, websocketUrl: wsUrl })),
    healthIntervalMs: 3_600_000,
    ...(options.coolDownMs === undefined ? {} : { coolDownMs: options.coolDownMs }),
    ...options.merge?.upstream,
  };
  const daemon = await startDaemon({
    // The others take most of the start and are not used by these calls.
    config: { plugins: ['access', 'proxy'], upstream, follow: { enabled: false }, ...options.config },
    ...(options.dataDir === undefined ? {} : { dataDir: options.dataDir }),
    ...(options.key === undefined ? {} : { key: options.key }),
  });
  t.after(async () => {
    await daemon.stop();
    await Promise.all(upstreams.map((one) => one.stop()));
  });
  return { daemon, upstreams, first: upstreams[0]!, second: upstreams[1] ?? upstreams[0]! };
}

export interface RawAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** Posts raw bytes to the JSON-RPC root with the daemon's key. */
export async function post(
  { daemon }: Pick<ProxyBed, 'daemon'>,
  body: string,
  init: {
    readonly headers?: Readonly<Record<string, string>>;
    readonly signal?: AbortSignal;
    readonly query?: string;
  } = {},
): Promise<RawAnswer> {
  const response = await fetch(`${daemon.apiUrl}/?api-key=${daemon.key}${init.query ?? ''}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...init.headers },
    body,
    ...(init.signal === undefined ? {} : { signal: init.signal }),
  });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

/** A call with the id 1. */
export const call = (method: string, params: unknown = []): string =>
  JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });

/** Waits for an action of another party; the test fails without it. A minute, because the machine may be busy. */
export async function until(what: string, done: () => boolean | Promise<boolean>): Promise<void> {
  for (const startedMs = performance.now(); performance.now() - startedMs < 60_000; ) {
    if (await done()) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error(`waited in vain: ${what}`);
}
