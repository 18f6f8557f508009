import type { CoreConfig, TlsSection } from '../config/core.ts';
import type { ReloadReport } from '../http/admin.ts';
import type { Health } from '../http/health.ts';
import { createAdminFront, createHttpFront } from '../http/index.ts';
import { createRpcFront } from '../http/json-rpc/front.ts';
import { createValidator, type Validator } from '../http/validation.ts';
import { RequestError } from '../plugin/plugin.ts';
import type { Clock } from '../ports/clock.ts';
import type { Inject } from '../ports/daemon-view.ts';
import type { ApiProcess, CheckResult, HandedSocket, InheritedSockets, SharedListeners } from '../ports/processes.ts';
import type { MetricsRegistry } from '../runtime/metrics.ts';
import type { Assembly } from './assemble.ts';
import type { DaemonParts } from './parts.ts';

/** Base addresses of the listeners, with their actual ports. */
export interface DaemonAddresses {
  /** Null without the role `api`. */
  readonly api: string | null;
  /** Where web3.js expects websockets; the API listener's address if that port is not available. Null without the role `api`. */
  readonly websocket: string | null;
  readonly admin: string;
}

export interface FrontsOptions {
  readonly assembly: Assembly;
  readonly parts: DaemonParts;
  readonly health: Health;
  /** All roles of this process. */
  readonly metricsText: () => Promise<string>;
  readonly lastReload: () => ReloadReport | null;
  readonly sockets: InheritedSockets | undefined;
  /** Only in a further process of the API, which has no admin listener: takes requests for websockets. */
  readonly handOver?: (handed: HandedSocket) => void;
}

/** The listeners of a process: the admin listener, and the API listeners if the process has the role `api`. */
export interface DaemonFronts {
  listenAdmin(): Promise<void>;
  /** `shared`: listeners of the main process. */
  listenApi(shared?: SharedListeners): Promise<void>;
  /** Lets further processes of the API serve the same listeners, and serves the websockets that they accept. */
  shareApi(processes: readonly ApiProcess[]): Promise<void>;
  /** Throws if nothing listens. */
  addresses(): DaemonAddresses;
  /** Calls a route of the API listener for a caller, or of the admin listener without one. */
  readonly inject: Inject;
  /** See `HttpFront.prepareReload`. */
  prepareReload(core: CoreConfig): () => void;
  beginDrain(): void;
  /** Requests of the API listener: the total since the start, and those in flight. */
  load(): { readonly requests: number; readonly inFlight: number };
  /** Waits for accepted requests until the signal aborts. */
  closeApi(deadline: AbortSignal): Promise<void>;
  closeAdmin(): Promise<void>;
}

export function createFronts({
  assembly,
  parts,
  health,
  metricsText,
  lastReload,
  sockets,
  handOver,
}: FrontsOptions): DaemonFronts {
  const { merged, metrics, version } = assembly;
  const { core } = assembly.config;
  const { clock, random, log, validator = createValidator() } = parts;
  const isApi = assembly.roles.has('api');
  const secure = (section: TlsSection) => (core[section].tls.certFile === null ? '' : 's');
  const http = isApi ? createApi(assembly, parts, validator, handOver) : null;
  health.show(() => proxyNotice(http?.undeclaredProxy() ?? null));
  const admin =
    handOver !== undefined
      ? null
      : createAdminFront({
          core,
          clock,
          random,
          log,
          health,
          version,
          routes: isApi ? merged.routes : [],
          budgets: isApi ? assembly.budgets : null,
          registry: { text: metricsText, contentType: metrics.contentType },
          lastReload,
          metrics: metrics.scope('admin'),
          expiry: expiryGauge(metrics),
        });
  return {
    async listenAdmin() {
      await admin?.listen(sockets?.admin);
    },
    async listenApi(shared) {
      const inherited = { fd: sockets?.api ?? null, websocketFd: sockets?.websocket ?? null };
      await http?.listen(shared === undefined ? inherited : { shared });
    },
    async shareApi(processes) {
      if (http === null || processes.length === 0) return;
      for (const { onSocket } of processes) onSocket(http.take);
      const { listeners, release } = http.shared();
      await Promise.all(processes.map((process) => process.listen(listeners, release)));
    },
    addresses() {
      const api = http?.addresses() ?? null;
      const operations = admin?.address() ?? null;
      if ((isApi && api === null) || operations === null) throw new Error('the daemon does not listen yet');
      return {
        api: api === null ? null : baseUrl(`http${secure('http')}`, api.host, api.port),
        websocket: api === null ? null : baseUrl(`ws${secure('http')}`, api.host, api.websocketPort ?? api.port),
        admin: baseUrl(`http${secure('admin')}`, operations.host, operations.port),
      };
    },
    async inject(call) {
      const front = call.caller === null ? admin : http;
      if (front === null) throw new RequestError(404, 'invalid path');
      return await front.inject(call);
    },
    prepareReload(next) {
      const prepared = [admin?.prepareReload(next), http?.prepareReload(next)];
      return () => {
        for (const serve of prepared) serve?.();
      };
    },
    beginDrain: () => http?.beginDrain(),
    load: () => http?.load() ?? { requests: 0, inFlight: 0 },
    async closeApi(deadline) {
      await http?.close(deadline);
    },
    async closeAdmin() {
      if (admin !== null) await untilDeadline(clock, core.lifecycle.stopTimeoutMs, admin.close);
    },
  };
}

function createApi(
  assembly: Assembly,
  { clock, random, log }: DaemonParts,
  validator: Validator,
  handOver: FrontsOptions['handOver'],
) {
  const { merged, metrics, version } = assembly;
  const { core } = assembly.config;
  const { gate, paywall, sockets, routes, tracer } = merged;
  const rpc = createRpcFront({
    core,
    log,
    clock,
    gate,
    validator,
    methods: merged.rpc,
    fallback: merged.rpcFallback,
    metrics: metrics.scope('rpc'),
  });
  const main = assembly.chains.find(({ setup }) => setup.id === 'main');
  return createHttpFront({
    core,
    routes,
    clock,
    random,
    log,
    rpc,
    gate,
    paywall,
    sockets,
    tracer,
    version,
    validator,
    metrics: metrics.scope('http'),
    expiry: expiryGauge(metrics),
    chainLabel: () => main?.setup.kind ?? null,
    budgets: assembly.budgets,
    answered: assembly.requests,
    taps: assembly.taps,
    ...(handOver === undefined ? {} : { handOver }),
  });
}

/** One series per listener with TLS. */
const expiryGauge = (metrics: MetricsRegistry) =>
  metrics
    .scope('tls')
    .gauge('certificate_expiry_timestamp_seconds', 'unix time at which a certificate expires', ['listener']);

function proxyNotice(peer: string | null): CheckResult | null {
  if (peer === null) return null;
  const detail = `all requests come from ${peer} with X-Forwarded-For, and it is not in http.trustedProxies`;
  return { name: 'clients', ok: false, detail, required: false };
}

/** A wildcard address means all addresses of the machine; people and scripts need one that they can call. */
function baseUrl(scheme: string, host: string, port: number): string {
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `${scheme}://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`;
}

async function untilDeadline(clock: Clock, ms: number, close: (deadline: AbortSignal) => Promise<void>): Promise<void> {
  const deadline = new AbortController();
  const cancel = clock.timeout(ms, () => deadline.abort(new Error('the deadline has passed')));
  try {
    await close(deadline.signal);
  } finally {
    cancel();
  }
}
