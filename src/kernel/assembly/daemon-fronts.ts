import type { Clock } from '../../ports/clock.ts';
import type { InheritedSockets } from '../../ports/inherited-sockets.ts';
import type { Health } from '../health.ts';
import { createAdminFront, createHttpFront } from '../http/index.ts';
import { createRpcFront } from '../rpc/front.ts';
import type { Assembly } from './assemble.ts';
import type { DaemonParts } from './parts.ts';

/** Base addresses of the listeners, with the ports that were really taken. */
export interface DaemonAddresses {
  readonly api: string;
  /** Null when there is no listener of its own for websockets; the API listener takes them too. */
  readonly websocket: string | null;
  readonly admin: string;
}

/** The listeners of a daemon. */
export interface DaemonFronts {
  listenAdmin(): Promise<void>;
  listenApi(): Promise<void>;
  /** Errors when nothing listens. */
  addresses(): DaemonAddresses;
  beginDrain(): void;
  /** Requests of the API listener since the start, and those under way. */
  load(): { readonly requests: number; readonly inFlight: number };
  /** Waits for accepted requests up to the drain deadline. */
  closeApi(): Promise<void>;
  closeAdmin(): Promise<void>;
}

export function createFronts(
  assembly: Assembly,
  parts: DaemonParts,
  health: Health,
  sockets: InheritedSockets | undefined,
): DaemonFronts {
  const { merged, metrics, version } = assembly;
  const { core } = assembly.config;
  const { clock, random, log } = parts;
  const shared = { core, routes: merged.routes, clock, random, log };
  const rpc = createRpcFront({
    methods: merged.rpc,
    fallback: merged.rpcFallback,
    gate: merged.gate,
    core,
    log,
    metrics: metrics.scope('rpc'),
    clock,
  });
  const main = assembly.chains.find(({ setup }) => setup.id === 'main');
  const http = createHttpFront({
    ...shared,
    rpc,
    gate: merged.gate,
    sockets: merged.sockets,
    metrics: metrics.scope('http'),
    version,
    chainLabel: () => main?.setup.kind ?? null,
  });
  const admin = createAdminFront({ ...shared, health, registry: metrics, metrics: metrics.scope('admin') });
  return {
    async listenAdmin() {
      await admin.listen(sockets?.admin);
    },
    async listenApi() {
      await http.listen({ fd: sockets?.api ?? null, websocketFd: sockets?.websocket ?? null });
    },
    addresses() {
      const api = http.addresses();
      const operations = admin.address();
      if (api === null || operations === null) throw new Error('the daemon does not listen yet');
      return {
        api: baseUrl('http', api.host, api.port),
        websocket: api.websocketPort === null ? null : baseUrl('ws', api.host, api.websocketPort),
        admin: baseUrl('http', operations.host, operations.port),
      };
    },
    beginDrain: http.beginDrain,
    load: http.load,
    closeApi: () => untilDeadline(clock, core.lifecycle.drainTimeoutMs, http.close),
    closeAdmin: () => untilDeadline(clock, core.lifecycle.stopTimeoutMs, admin.close),
  };
}

/** Any address stands for every one of the machine; people and scripts want one that they can call. */
function baseUrl(scheme: string, host: string, port: number): string {
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `${scheme}://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`;
}

async function untilDeadline(clock: Clock, ms: number, close: (deadline: AbortSignal) => Promise<void>): Promise<void> {
  const deadline = new AbortController();
  const cancel = clock.timeout(ms, () => deadline.abort(new Error('the drain deadline has passed')));
  try {
    await close(deadline.signal);
  } finally {
    cancel();
  }
}
