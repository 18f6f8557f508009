import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { EXIT } from '../../src/lib/coded-error.ts';
import {
  type FollowedSubscriptions,
  followedSubscriptions,
  gateService,
  type HostContext,
} from '../../src/plugin/host.ts';
import { type ChainReader, CodedError, codeOf, derived, messageOf } from '../../src/plugin/plugin.ts';
import { accessCharges, kernelTenants } from '../../src/ports/access.ts';
import { kernelLedger } from '../../src/ports/ledger.ts';
import { parsedTransactions } from '../../src/ports/parsed-transactions.ts';
import { kernelThreadLine } from '../../src/ports/processes.ts';
import { createRemoteAddress, createTrust } from '../../src/runtime/network-address.ts';
import type { StreamsConfig } from './config.ts';
import type { FilterLimits } from './filters.ts';
import { createGeyser } from './geyser.ts';
import { createGrpcServer, type GrpcServer } from './grpc-server.ts';
import { createStreamHub } from './hub/index.ts';
import { createPassOn } from './pass-on.ts';
import { createParsedFeeds } from './socket/feed.ts';
import { createFollowed } from './socket/followed.ts';
import { serveSockets } from './socket/line.ts';

const SESSION_PING_MS = 30_000;
/** How long streams have to send their status before the drain goes on. */
const DRAIN_MS = 1_000;

export function provision(ctx: HostContext<StreamsConfig>): void {
  ctx.checkConfig(() => void readTls(ctx.config));
  const chain = ctx.chain('main');
  ctx.provide(followedSubscriptions, answerSockets(ctx, chain));
  if (!ctx.roles.has('indexer') || chain === null) return;
  const tenants = ctx.use(kernelTenants);
  if (tenants === undefined) return;
  const { clock, config, core, log, metrics, random, version } = ctx;
  const { http } = core;
  const { grpc } = config;
  const kept = ctx.use(kernelLedger);
  const blocks = () => kept?.('main') ?? null;
  const seed = new Uint32Array(random.bytes(16).slice().buffer);
  const hub = createStreamHub({ metrics, log, limits: grpc, blocks });
  // What an earlier process kept is there for the first reader, although this one has not reached its upstream yet.
  ctx.onStart(async () => {
    await blocks()
      ?.refresh()
      .catch((error: unknown) => log.warn({ error: messageOf(error) }, 'the ledger cannot be read yet'));
  });
  const { url, token } = grpc.upstream;
  const maxMessageBytes = () => grpc.upstream.maxMessageBytes;
  const passOn = url === null ? null : createPassOn({ url, token, maxMessageBytes, clock, log });
  ctx.onStop(() => passOn?.close());
  const geyser = createGeyser({
    config,
    version,
    hub,
    chain,
    clock,
    log,
    metrics,
    tenants,
    http,
    passOn,
    seed: () => seed,
    gate: ctx.use(gateService) ?? null,
    charges: ctx.use(accessCharges) ?? null,
  });
  let server: GrpcServer | null = null;
  metrics.observe('connections', 'open gRPC connections', () => server?.connections() ?? 0);
  ctx.listen({ chain: 'main', ...hub });
  const openLine = ctx.use(kernelThreadLine);
  const parsed = ctx.use(parsedTransactions);
  let closeLine = () => {};
  ctx.onStart(() => {
    if (openLine === undefined) return;
    const { websocket } = config;
    closeLine = serveSockets({
      openLine,
      hub,
      log,
      metrics,
      tenants,
      limits: websocket,
      parsed: parsed === undefined ? null : createParsedFeeds(parsed, { clock, log }),
      charges: ctx.use(accessCharges) ?? null,
      replayedBlockCredits: () => config.credits.replayedBlock,
      searchCredits: () => config.credits.parsedSearch,
      filters: { limits: socketLimits(websocket), seed },
      idle: () => (chain.status().isStandby === true ? 'another process follows the chain: subscribe there' : null),
    });
  });
  ctx.onStop(() => closeLine());
  ctx.onStart(async () => {
    const { host, port, maxConnections } = grpc;
    const trust = derived(() => http.trustedProxies, createTrust);
    const tls = readTls(config);
    server = createGrpcServer({
      host,
      port,
      tls,
      maxConnections,
      clock,
      handle: geyser.handle,
      maxConnectionsPerAddress: () => http.maxConnectionsPerAddress,
      isTrusted: (address) => trust()(address),
      remoteAddress: createRemoteAddress(() => http.trustedProxies),
      handshakeTimeoutMs: http.headerTimeoutMs,
      pingIntervalMs: SESSION_PING_MS,
    });
    const bound = await server.start().catch((error: unknown) => {
      throw new CodedError('STREAMS_LISTEN', `cannot listen on ${host}:${port} (${codeOf(error) ?? 'error'})`, {
        exitCode: EXIT.temporary,
      });
    });
    log.info({ host, port: bound, tls: tls !== null }, 'gRPC streams are served');
  });
  ctx.onDrain(async () => {
    server?.drain();
    geyser.drain();
    const deadline = clock.monotonic() + DRAIN_MS;
    while (geyser.readers() > 0 && clock.monotonic() < deadline) await clock.sleep(10);
  });
  ctx.onStop(() => server?.stop());
}

/** The subscriptions that the plugin with the websockets asks for. */
function answerSockets(ctx: HostContext<StreamsConfig>, chain: ChainReader | null): FollowedSubscriptions {
  const { clock, config, core, log } = ctx;
  const openLine = ctx.use(kernelThreadLine);
  if (openLine === undefined || chain === null || !ctx.roles.has('api')) return NOTHING_FOLLOWED;
  const followed = createFollowed({
    openLine,
    chain,
    clock,
    log,
    limits: config.websocket,
    parsed: ctx.use(parsedTransactions) ?? null,
    parsedRules: {
      get creditsPerNotification() {
        return config.credits.parsedEvent;
      },
      get maxSubscriptions() {
        return config.websocket.parsed.maxSubscriptions;
      },
      get maxCallsPerSecond() {
        return config.websocket.parsed.maxCallsPerSecond;
      },
      get maxBehind() {
        return config.websocket.parsed.maxBehind;
      },
      get quietMs() {
        return config.websocket.parsed.quietMs;
      },
      get silentMs() {
        return config.websocket.parsed.silentMs;
      },
      methods: PARSED_METHODS,
    },
    idle: () => (core.follow.enabled ? null : 'the daemon does not follow the chain (follow.enabled)'),
  });
  ctx.onStart(() => followed.start());
  ctx.onStop(() => followed.stop());
  return followed;
}

/** What clients of parsed transactions call besides: one of them may ask a node. */
const PARSED_METHODS = new Set(['describeProgram', 'ping']);

const NOTHING_FOLLOWED: FollowedSubscriptions = {
  serves: () => null,
  maxParamsBytes: () => 0,
  rules: () => null,
  subscribe: () => () => undefined,
};

/** The lists of a websocket have no cuckoo filter and no labels. */
function socketLimits(websocket: StreamsConfig['websocket']): FilterLimits {
  return {
    get maxAddresses() {
      return websocket.maxAddresses;
    },
    get allowFullStream() {
      return websocket.allowFullStream;
    },
    maxFilters: 1,
    maxCuckooBytes: 0,
  };
}

interface TlsFiles {
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** Null without TLS. Errors: STREAMS_TLS, which names the files and never quotes them. */
function readTls({ grpc: { tls } }: StreamsConfig): TlsFiles | null {
  const { certFile, keyFile } = tls;
  if (certFile === null && keyFile === null) return null;
  if (certFile === null || keyFile === null)
    throw badTls('streams.grpc.tls needs both certFile and keyFile, or neither');
  const files = { cert: readPem('certFile', certFile), key: readPem('keyFile', keyFile) };
  try {
    createSecureContext(files);
    return files;
  } catch {
    throw badTls(`${certFile} and ${keyFile} hold no certificate with its key in PEM`);
  }
}

function readPem(name: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw badTls(`streams.grpc.tls.${name}: ${path} cannot be read (${codeOf(error) ?? 'error'})`);
  }
}

const badTls = (problem: string) =>
  new CodedError('STREAMS_TLS', problem, { exitCode: EXIT.config, facts: { path: 'streams.grpc.tls' } });
