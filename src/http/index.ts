import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { BudgetLedger } from '../budgets.ts';
import { apiProcesses, type CoreConfig } from '../config/core.ts';
import { codeOf, messageOf } from '../lib/coded-error.ts';
import { derived } from '../lib/reloadable.ts';
import type { Gate, Paywall, SocketHandler } from '../plugin/host.ts';
import type { Reply, Route } from '../plugin/plugin.ts';
import type { TapSeat } from '../ports/answer-tap.ts';
import type { Clock, Random } from '../ports/clock.ts';
import type { Inject, RequestListener } from '../ports/daemon-view.ts';
import type { HandedSocket, SharedListeners } from '../ports/processes.ts';
import type { Gauge, Log, Metrics, Tracer } from '../ports/telemetry.ts';
import { createTrust } from '../runtime/network-address.ts';
import { acceptFaster, type FastAccept } from './accept.ts';
import {
  acceptQueued,
  apiConnections,
  createAddressLimit,
  createReadingRate,
  lingerFor,
  readDescriptors,
} from './connections.ts';
import type { RpcFront } from './json-rpc/front.ts';
import { closeListener, createListener, handleOf, listenOn, setTimeouts } from './listener.ts';
import { createPipeline, slowestMs } from './pipeline.ts';
import { documentRoutes } from './reference/index.ts';
import { createListenerTls } from './tls.ts';
import { createUpgrader } from './upgrade.ts';
import type { Validator } from './validation.ts';

export { type AdminFront, type AdminFrontOptions, createAdminFront } from './admin.ts';
export { openApiDocument } from './reference/index.ts';

export interface HttpFrontOptions {
  readonly core: CoreConfig;
  /** Routes of all plugins; those of the admin listener are ignored here. */
  readonly routes: readonly Route[];
  readonly rpc: RpcFront;
  readonly gate: Gate | null;
  readonly paywall?: Paywall | null;
  readonly sockets: SocketHandler | null;
  readonly tracer?: Tracer | null;
  readonly log: Log;
  /** Scoped to `http`. */
  readonly metrics: Metrics;
  /** See `ListenerTlsOptions`. */
  readonly expiry: Gauge;
  readonly clock: Clock;
  readonly random: Random;
  readonly validator?: Validator;
  /** Version in the OpenAPI document. */
  readonly version: string;
  /** `local` marks every answer with `x-parhelion-chain: local`. */
  readonly chainLabel?: () => string | null;
  readonly budgets?: BudgetLedger | null;
  /** Listeners for the answered requests of projects. */
  readonly answered?: ReadonlySet<RequestListener>;
  /** Sees a share of the requests with their answers. */
  readonly taps?: TapSeat;
  /** Only in a further process of the API: takes requests for websockets. */
  readonly handOver?: (handed: HandedSocket) => void;
}

export interface HttpAddresses {
  readonly host: string;
  readonly port: number;
  /** Null if the second listener could not be opened. */
  readonly websocketPort: number | null;
}

export interface ListenOptions {
  /** Inherited sockets (socket activation); null or absent: bind. */
  readonly fd?: number | null;
  readonly websocketFd?: number | null;
  /** Listeners of the main process, which this one serves as well. */
  readonly shared?: SharedListeners;
}

export interface HttpFront {
  /** Binds both listeners. Throws HTTP_PORT_TAKEN or HTTP_LISTEN_FAILED. */
  listen(options?: ListenOptions): Promise<HttpAddresses>;
  /** Null before `listen`. */
  addresses(): HttpAddresses | null;
  /** What further processes of the API serve as well. */
  shared(): SharedListeners;
  /** Serves a connection that a further process has accepted. */
  take(handed: HandedSocket): void;
  /**
   * Reads the certificate of a configuration; the returned function activates it, and the limits of connections. Call it after the values
   * were assigned. Errors: TLS_UNREADABLE, TLS_INVALID, PLUGIN_RELOAD_REFUSED (TLS cannot be switched on or off while the daemon listens).
   */
  prepareReload(core: CoreConfig): () => void;
  /**
   * From now on new requests are answered with 503; accepted ones continue. Inherited sockets are released at once: new connections wait
   * in them for the next process, and a request on a connection that this process has accepted is served, since nobody else can.
   */
  beginDrain(): void;
  /** Calls a route of the API listener. */
  readonly inject: Inject;
  /** Requests since the start, and those in flight. */
  load(): { readonly requests: number; readonly inFlight: number };
  /** Address of a suspected proxy that is not in `http.trustedProxies`; null: none. */
  undeclaredProxy(): string | null;
  /** Stops listening, waits for accepted requests until the signal aborts, then aborts them and closes the remaining connections. */
  close(deadline: AbortSignal): Promise<void>;
}

const TO_DOCS: Reply = { status: 302, headers: { Location: '/docs', Vary: 'Accept' } };

/** The API listener and a second one on the next port, which web3.js uses for websockets. Both serve everything. */
export function createHttpFront(options: HttpFrontOptions): HttpFront {
  const { core, log } = options;
  const publicRoutes = options.routes.filter((route) => route.auth !== 'admin');
  const { methods, forwarded, priceOf } = options.rpc;
  const documents = documentRoutes(
    { routes: publicRoutes, methods, forwarded, priceOf, version: options.version },
    'none',
  );
  const pipeline = createPipeline({ ...options, routes: [...publicRoutes, ...documents], home: TO_DOCS, cors: true });
  const upgrader = createUpgrader({ ...options, pipeline, targetLimitBytes: core.http.targetLimitBytes });
  const processes = apiProcesses(core);
  const limits = () => ({ ...core.http, handlerTimeoutMs: slowestMs(core, [...publicRoutes, ...options.rpc.methods]) });
  const trust = derived(() => core.http.trustedProxies, createTrust);
  const perAddress = createAddressLimit(
    () => core.http.maxConnectionsPerAddress,
    (address) => trust()(address),
    pipeline.meter.crowded,
  );
  const tls = createListenerTls({ ...options, section: 'http' }, pipeline.meter);
  const readingRate = createReadingRate({
    clock: options.clock,
    limits: core.http,
    cut: pipeline.meter.slowReaders,
  });
  const { handOver } = options;
  const further = new Map<Server, FastAccept>();
  const makeServer = (listener: number) => {
    const server = createListener(limits(), pipeline.meter, pipeline.handle, tls.makeServer);
    pipeline.connections.attach(server);
    upgrader.attach(server, handOver === undefined ? null : (socket, bytes) => handOver({ listener, socket, bytes }));
    perAddress.attach(server);
    readingRate.attach(server);
    further.set(server, acceptFaster(server, log));
    return server;
  };
  const api = makeServer(0);
  const twin = makeServer(1);
  let addresses: HttpAddresses | null = null;

  const inherited: Server[] = [];
  const beginDrain = () => pipeline.beginDrain(inherited.length === 0);
  const closings = new Map<Server, Promise<void>>();
  const closeOnce = (server: Server): Promise<void> => {
    if (server.listening) {
      const closed = Promise.all([closeListener(server), further.get(server)?.close()]);
      closings.set(
        server,
        closed.then(() => undefined),
      );
    }
    return closings.get(server) ?? Promise.resolve();
  };

  const listenTwin = async (bound: AddressInfo, given: ListenOptions): Promise<number | null> => {
    const opened = await openTwin(twin, bound, given, options);
    if (opened.isInherited) inherited.push(twin);
    return opened.port;
  };

  const limitConnections = () => pipeline.connections.setMost(roomForConnections(options, processes));

  async function listenShared({ listeners, release }: SharedListeners): Promise<HttpAddresses> {
    const [bound, twinBound] = await Promise.all(
      listeners.map((shared, place) => listenOn(place === 0 ? api : twin, { shared })),
    );
    if (release) inherited.push(api, twin);
    const { address, port } = bound as AddressInfo;
    addresses = { host: address, port, websocketPort: twinBound?.port ?? null };
    return addresses;
  }

  return {
    listen: async (given = {}) => {
      const { host, port } = core.http;
      const { fd } = given;
      tls.prepare(core)();
      limitConnections();
      if (given.shared !== undefined) return await listenShared(given.shared);
      const bound = await listenOn(api, typeof fd === 'number' ? { fd } : { host, port, key: 'http.port' });
      if (typeof fd === 'number') inherited.push(api);
      try {
        addresses = { host: bound.address, port: bound.port, websocketPort: await listenTwin(bound, given) };
      } catch (error) {
        await closeListener(api);
        throw error;
      }
      log.info({ ...addresses }, 'listening');
      return addresses;
    },
    addresses: () => addresses,
    shared: () => ({
      listeners: [api, twin].filter(({ listening }) => listening).map(handleOf),
      release: inherited.length > 0,
    }),
    take({ listener, socket, bytes }) {
      // In front of what the client may have sent since.
      socket.unshift(bytes);
      (listener === 0 ? api : twin).emit('connection', socket);
    },
    prepareReload(next) {
      const serve = tls.prepare(next);
      const isRoom = next.http.maxConnections !== core.http.maxConnections;
      return () => {
        serve();
        if (isRoom) limitConnections();
        for (const server of [api, twin]) setTimeouts(server, limits());
      };
    },
    beginDrain: () => {
      beginDrain();
      for (const server of inherited) void closeOnce(server);
    },
    inject: pipeline.inject,
    undeclaredProxy: pipeline.undeclaredProxy,
    load: () => ({ requests: pipeline.inFlight.total, inFlight: pipeline.inFlight.count }),
    close: async (deadline) => {
      beginDrain();
      await acceptQueued([api, twin], deadline);
      const closed = Promise.all([closeOnce(api), closeOnce(twin)]);
      await lingerFor(
        [api, twin],
        () => [...further.values()].flatMap(({ servers }) => servers),
        closed,
        pipeline.inFlight,
        options.clock,
        deadline,
      );
      tls.endHandshakes();
      await pipeline.inFlight.idle(deadline);
      pipeline.inFlight.abortAll('the service is shutting down');
      upgrader.destroyAll();
      api.closeAllConnections();
      twin.closeAllConnections();
      await closed;
    },
  };
}

/** The second listener: a socket of systemd, the configured port, or the next one if it is free. `port` null: there is none. */
async function openTwin(
  twin: Server,
  bound: AddressInfo,
  { fd, websocketFd }: ListenOptions,
  { core, log }: Pick<HttpFrontOptions, 'core' | 'log'>,
): Promise<{ readonly port: number | null; readonly isInherited: boolean }> {
  if (typeof websocketFd === 'number') {
    const { port } = await listenOn(twin, { fd: websocketFd });
    return { port, isInherited: true };
  }
  const { websocketPort } = core.http;
  const host = typeof fd === 'number' ? bound.address : core.http.host;
  const port = websocketPort ?? bound.port + 1;
  if (port > 65_535) return { port: null, isInherited: false };
  try {
    const { port: opened } = await listenOn(twin, { host, port, key: 'http.websocketPort' });
    return { port: opened, isInherited: false };
  } catch (error) {
    // The port was not configured explicitly, and the first listener serves websockets too.
    if (websocketPort !== null) throw error;
    log.warn({ port, code: codeOf(error), error: messageOf(error) }, 'no second listener for websockets');
    return { port: null, isInherited: false };
  }
}

/** The share of this process in `http.maxConnections`, as far as the limit of open files allows it. */
function roomForConnections({ core, log }: Pick<HttpFrontOptions, 'core' | 'log'>, processes: number): number {
  const maxConnections = Math.ceil(core.http.maxConnections / processes);
  const descriptors = readDescriptors();
  const connections = apiConnections(maxConnections, descriptors);
  if (connections < maxConnections)
    log.warn(
      { maxConnections, connections, descriptors },
      'the limit of open files (ulimit -n, LimitNOFILE=) leaves room for fewer connections than http.maxConnections',
    );
  return connections;
}
