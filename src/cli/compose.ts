import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { openBus, threadLines } from '../adapters/bus/index.ts';
import { createFooterStream } from '../adapters/chain/finality/footer-stream.ts';
import { createYellowstoneStream } from '../adapters/chain/geyser/block-stream.ts';
import {
  createChainReader,
  createRpcChainSource,
  createUpstreamPool,
  type OutageLog,
  type SourceOptions,
} from '../adapters/chain/rpc/index.ts';
import { type ArchiveAddress, createArchiveEngine, parseArchive } from '../adapters/clickhouse/index.ts';
import { createSystemClock, createSystemRandom } from '../adapters/clock.ts';
import { createLog, type RootLog } from '../adapters/log.ts';
import { createOutbound } from '../adapters/outbound/index.ts';
import { peersLine } from '../adapters/workers/api-process.ts';
import type { CoreConfig, UpstreamEntry } from '../config/core.ts';
import type { ChainSetup, DaemonParts } from '../daemon/parts.ts';
import { CodedError, EXIT } from '../lib/coded-error.ts';
import { derived } from '../lib/reloadable.ts';
import type { ChainId } from '../ports/chain.ts';
import type { ApiPeers, Bus } from '../ports/processes.ts';
import type { UpstreamConfig } from '../ports/upstream.ts';
import { openStore } from '../store/index.ts';
import { openOwner } from '../store/owner.ts';
import type { WriteLock } from '../store/write-lock.ts';

/** Shared by the roles of a process; not needed if one thread runs all roles. */
export interface SharedParts {
  /** Name of the channel between the threads. */
  readonly channel: string | null;
  /** Whether to connect to other processes, if the store supports it. */
  readonly isConnected: boolean;
  /** Lock of the embedded database. */
  readonly lock: WriteLock | null;
  /** The other processes of the API of this daemon; null: there is one. */
  readonly peers: ApiPeers | null;
}

const ALONE: SharedParts = { channel: null, isConnected: false, lock: null, peers: null };

/** The adapters of a real daemon; `configFile` is the source of its configuration. The caller must close the bus. */
export function composeParts(
  core: CoreConfig,
  log: RootLog = createLog(core.log),
  { channel, isConnected, lock, peers }: SharedParts = ALONE,
  configFile: string | null = null,
): DaemonParts {
  const clock = createSystemClock();
  const random = createSystemRandom();
  const shared = { clock, random, log, core };
  const bus = openBus({
    channel,
    storeUrl: isConnected ? core.store.url : null,
    lines: peers === null ? [] : [peersLine(peers)],
    clock,
    random,
    log,
  });
  const outages = createOutageLog(bus);
  const archives = archiveAddresses(core);
  const packages = configFile === null ? process.cwd() : dirname(configFile);
  return {
    processName: `${hostname()}:${process.pid}`,
    clock,
    random,
    log,
    outbound: createOutbound({ clock, log }),
    setLogLevel: (level) => log.setLevel(level),
    setLogContext: (read) => log.setContext(read),
    openOwner,
    openStore: (config, dataDir) => openStore(config, dataDir, lock ?? undefined),
    bus,
    openThreadLine: threadLines(channel ?? `parhelion-${process.pid}-${randomUUID()}`),
    peers,
    ...(archives === null
      ? {}
      : { archiveEngine: (chain, owns) => createArchiveEngine({ address: archives[chain], packages, owns }) }),
    makePool: (label, upstreams, metrics) => createUpstreamPool({ ...shared, label, upstreams, metrics, outages }),
    makeChain: ({ id, kind }, pool, follower) => ({
      source: createRpcChainSource({ ...shared, chain: id, pool, ...streamOf(id, shared, configFile) }),
      reader: createChainReader({
        clock,
        random,
        chain: id,
        kind,
        pool,
        follower,
        get timeoutMs() {
          return core.rpc.upstreamTimeoutMs;
        },
        get maxBytes() {
          return core.rpc.maxUpstreamBytes;
        },
      }),
    }),
  };
}

/** Null without an archive. Errors: CONFIG_INVALID. */
function archiveAddresses({ ledger, dataDir }: CoreConfig): Readonly<Record<ChainId, ArchiveAddress>> | null {
  if (ledger.archive === null) return null;
  if (ledger.retain.hours === 0) {
    const problem = 'ledger.archive copies the ledger: set ledger.retain.hours too';
    throw new CodedError('CONFIG_INVALID', problem, { exitCode: EXIT.config, facts: { problems: [problem] } });
  }
  const of = (chain: ChainId) => parseArchive(ledger.archive as string, chain, dataDir);
  return { main: of('main'), devnet: of('devnet') };
}

/** Logs one line per outage and process: the first thread that sees it logs it and informs the others. */
function createOutageLog(bus: Bus): OutageLog {
  const process_ = `${hostname()}:${process.pid}`;
  const thread = randomUUID();
  const others = new Map<string, string>();
  const written = new Set<string>();
  bus.subscribe(OUTAGES, (message) => {
    const { from, by, upstream, isOver } = message as Record<string, unknown>;
    if (from !== process_ || by === thread) return;
    if (isOver === true) others.delete(String(upstream));
    else others.set(String(upstream), String(by));
  });
  const publish = (upstream: string, isOver: boolean) =>
    bus.publish(OUTAGES, { from: process_, by: thread, upstream, isOver });
  return {
    begin(upstream) {
      if (others.has(upstream)) return false;
      written.add(upstream);
      publish(upstream, false);
      return true;
    },
    end(upstream) {
      if (!written.delete(upstream)) return false;
      publish(upstream, true);
      return true;
    },
  };
}

const OUTAGES = 'upstream-outages';

/** Only the main chain has a stream. */
function streamOf(
  chain: ChainId,
  { core, log, clock }: Pick<SourceOptions, 'core' | 'log' | 'clock'>,
  configFile: string | null,
): Pick<SourceOptions, 'stream' | 'footers'> {
  if (chain !== 'main' || core.follow.stream.plugin === null) return {};
  const stream = createYellowstoneStream({ core, log, configDir: configFile === null ? null : dirname(configFile) });
  const { url, token } = core.follow.stream;
  return url === null ? { stream } : { stream, footers: createFooterStream({ url, token, clock }) };
}

/** The chains of a configuration; with `local`, the local chain is the only upstream of the main one. */
export function chainSetups(core: CoreConfig, local: UpstreamConfig | null): readonly ChainSetup[] {
  return [
    {
      id: 'main',
      kind: local === null ? 'rpc' : 'local',
      upstreams: local === null ? derived(() => core.upstream.urls, toUpstreams) : [local],
    },
    { id: 'devnet', kind: 'rpc', upstreams: derived(() => core.upstream.devnet.urls, toUpstreams) },
  ];
}

const toUpstreams = (entries: readonly UpstreamEntry[]): readonly UpstreamConfig[] =>
  entries.map((entry) => (typeof entry === 'string' ? { url: entry } : (entry as UpstreamConfig)));
