import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { defineHostPlugin, gateService } from '../../src/plugin/host.ts';
import { API_VERSION, CodedError, codeOf, derived } from '../../src/plugin/plugin.ts';
import { accessCharges, kernelTenants } from '../../src/ports/access.ts';
import { kernelLedger } from '../../src/ports/ledger.ts';
import { createRemoteAddress, createTrust } from '../../src/runtime/remote-address.ts';
import { type StreamsConfig, streamsConfig } from './config.ts';
import { createGeyser } from './geyser.ts';
import { createGrpcServer, type GrpcServer } from './grpc-server.ts';
import { createHub } from './hub.ts';

const SESSION_PING_MS = 30_000;
/** How long streams have to send their status before the drain goes on. */
const DRAIN_MS = 1_000;
const EXIT_TEMPORARY = 75;
const EXIT_CONFIG = 78;

/**
 * Streams of transactions, blocks and slots over gRPC. The listener is in the thread that follows the chain, where each block is decoded
 * once for all.
 */
export default defineHostPlugin({
  id: 'streams',
  apiVersion: API_VERSION,
  summary: 'streams of transactions, blocks and slots over gRPC, for Yellowstone and LaserStream clients',
  roles: ['indexer'],
  config: streamsConfig,
  uses: [accessCharges, gateService, kernelLedger, kernelTenants],
  provision(ctx) {
    ctx.checkConfig(() => void readTls(ctx.config));
    const chain = ctx.chain('main');
    if (!ctx.roles.has('indexer') || chain === null) return;
    const tenants = ctx.use(kernelTenants);
    if (tenants === undefined) return;
    const { clock, config, core, log, metrics, random, version } = ctx;
    const { http } = core;
    const { grpc } = config;
    const kept = ctx.use(kernelLedger);
    const blocks = () => kept?.('main') ?? null;
    const hub = createHub({ clock, metrics, log, limits: grpc, blocks });
    const geyser = createGeyser({
      ...{ config, version, hub, chain, clock, log, metrics, tenants, http },
      seed: () => new Uint32Array(random.bytes(16).slice().buffer),
      gate: ctx.use(gateService) ?? null,
      charges: ctx.use(accessCharges) ?? null,
    });
    let server: GrpcServer | null = null;
    metrics.observe('connections', 'open gRPC connections', () => server?.connections() ?? 0);
    ctx.listen({ chain: 'main', ...hub });
    ctx.onStart(async () => {
      const { host, port, maxConnections } = grpc;
      const trust = derived(() => http.trustedProxies, createTrust);
      const tls = readTls(config);
      server = createGrpcServer({
        ...{ host, port, tls, maxConnections, clock, handle: geyser.handle },
        maxConnectionsPerAddress: () => http.maxConnectionsPerAddress,
        isTrusted: (address) => trust()(address),
        remoteAddress: createRemoteAddress(() => http.trustedProxies),
        handshakeTimeoutMs: http.headerTimeoutMs,
        pingIntervalMs: SESSION_PING_MS,
      });
      const bound = await server.start().catch((error: unknown) => {
        throw new CodedError('STREAMS_LISTEN', `cannot listen on ${host}:${port} (${codeOf(error) ?? 'error'})`, {
          exitCode: EXIT_TEMPORARY,
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
  },
});

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
  new CodedError('STREAMS_TLS', problem, { exitCode: EXIT_CONFIG, facts: { path: 'streams.grpc.tls' } });
