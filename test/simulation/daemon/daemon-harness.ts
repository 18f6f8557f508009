/** A whole daemon in one thread, its world made up and its clock moved by hand; processes follow one another on one database. */
import { copyFileSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createHashing } from '../../../plugins/compression/trees/hashing.ts';
import { knownTrees, seedTrees } from '../../../plugins/compression/trees/tree-book.ts';
import { createBus } from '../../../src/adapters/bus/index.ts';
import { createChainReader, createRpcChainSource, createUpstreamPool } from '../../../src/adapters/chain/rpc/index.ts';
import { chainSetups } from '../../../src/cli/compose.ts';
import { loadCliConfig } from '../../../src/cli/load-config.ts';
import type { LoadedConfig } from '../../../src/config/load.ts';
import { assemble } from '../../../src/daemon/assemble.ts';
import { createDaemon, type Daemon } from '../../../src/daemon/daemon.ts';
import { migrationScopes } from '../../../src/daemon/migrations.ts';
import type { DaemonParts } from '../../../src/daemon/parts.ts';
import type { FoundPlugin } from '../../../src/daemon/registry.ts';
import { createValidator, type Validator, type ValueCheck } from '../../../src/http/validation.ts';
import type { Clock, Random } from '../../../src/ports/clock.ts';
import type { Store } from '../../../src/ports/store.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { openSqliteStore } from '../../../src/store/sqlite.ts';
import { createManualClock, type ManualClock } from '../../helpers/manual-clock.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { createSfc32, type Sfc32 } from '../../helpers/sfc32.ts';
import { type FakeUpstream, honest } from '../follower/fake-node.ts';
import { createFakeTransport } from '../follower/fake-transport.ts';
import { createWorld, FIRST_SLOT, type World } from '../follower/world.ts';
import { createNetwork, type Network } from '../webhooks/network.ts';
import { ALL_FAULTS_FROM, type Life, newLife, outboundOf, type StoreFaults, storeOf } from './process.ts';

export const PROJECT_KEY = '3d3b7f0e-4a52-4c8e-9d1f-2b6f0c117e4a';
const MEMORY = '/dev/shm';
const UPSTREAMS = ['http://upstream-0.invalid', 'http://upstream-1.invalid'];
/** As many attempts as a life can hold: what was not delivered in the end was lost. */
const STEPS = Array.from({ length: 40 }, () => 3);
const SECTIONS = {
  http: { port: 0 },
  admin: { port: 0 },
  lifecycle: { drainTimeoutMs: 2_000 },
  follow: { startSlot: FIRST_SLOT, auditIntervalMs: 1_000 },
  upstream: { urls: UPSTREAMS },
  plugins: ['access', 'compression', 'proxy', 'token-metadata', 'wallet', 'webhooks'],
  proxy: { cache: { disk: 'off' } },
  webhooks: {
    ratePerSecond: 0,
    autoDisable: { enabled: false },
    concurrency: { perWebhook: 8 },
    retry: { durable: { steps: STEPS, timeoutMs: 2_000 } },
  },
};
const DRIVE_MS = 10;

/** What all lives share: the configuration, a database with its tables, and compiled checks of requests. */
interface Mould {
  readonly directory: string;
  readonly config: LoadedConfig<FoundPlugin>;
  readonly database: string;
  readonly validator: Validator;
}

export interface DaemonProcess {
  readonly life: Life;
  readonly daemon: Daemon;
  readonly api: string;
  /** Why it could not go on, while it was alive. */
  readonly fatals: unknown[];
}

export interface DaemonRig {
  readonly world: World;
  readonly upstreams: readonly FakeUpstream[];
  readonly clock: ManualClock;
  readonly draw: Sfc32;
  readonly network: Network;
  readonly faults: StoreFaults;
  /** A look past all faults. */
  readonly store: Store;
  readonly log: ReturnType<typeof createMemoryLog>;
  /** Moves the wall clock alone. */
  jump(ms: number): void;
  /** Begins a process; rejects as its start does. */
  start(life?: Life): Promise<DaemonProcess>;
  /** Moves time on until the work is over. */
  drive<T>(work: Promise<T>): Promise<T>;
  close(): Promise<void>;
}

let mould: Promise<Mould> | null = null;

async function makeMould(): Promise<Mould> {
  const directory = mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), 'parhelion-lives-'));
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  const file = join(directory, 'parhelion.yaml');
  writeFileSync(file, JSON.stringify({ dataDir: directory, ...SECTIONS }));
  const said = { out: () => undefined, err: () => undefined, isTerminal: false, program: 'parhelion' };
  const config = await loadCliConfig({ config: file }, { env: {}, cwd: directory, ...said });
  const database = join(directory, 'mould.db');
  const store = openSqliteStore({ path: database, busyTimeoutMs: 1_000 });
  const clock = createManualClock();
  const parts = partsOf({
    clock,
    draw: createSfc32(1),
    store,
    life: newLife(),
    faults: { writes: 0, slowMs: 0, isHarsh: false },
  });
  const chains = chainSetups(config.core, null);
  const { plugins } = await assemble({ config, parts, chains, version: 'simulated', stockMetrics: 'none' });
  await migrate(store, await migrationScopes(plugins));
  // As each first start does: what stands in them takes a while to hash, and is always the same.
  await store.write((tx) => seedTrees(tx, createHashing({ add: () => undefined }), knownTrees([])));
  await store.close();
  return { directory, config, database, validator: sharedValidator() };

  function partsOf(some: Pick<PartsOptions, 'clock' | 'draw' | 'store' | 'life' | 'faults'>): DaemonParts {
    const world = createWorld(some.draw);
    const network = createNetwork(some.clock, some.draw);
    const upstreams = UPSTREAMS.map((_, index) => honest(`upstream-${index}`));
    return makeParts({ ...some, config, world, network, upstreams, log: createMemoryLog() });
  }
}

interface PartsOptions {
  readonly config: LoadedConfig;
  readonly clock: Clock;
  readonly draw: Sfc32;
  readonly life: Life;
  readonly faults: StoreFaults;
  readonly store: Store;
  readonly world: World;
  readonly network: Network;
  readonly upstreams: readonly FakeUpstream[];
  readonly log: ReturnType<typeof createMemoryLog>;
}

/** The outside world of one process. */
function makeParts({
  config,
  clock,
  draw,
  life,
  faults,
  store,
  world,
  network,
  upstreams,
  log,
}: PartsOptions): DaemonParts {
  const { core } = config;
  const random = randomOf(draw);
  const shared = { clock, random, log, core };
  return {
    processName: 'simulated',
    clock,
    random,
    log,
    setLogLevel: () => undefined,
    setLogContext: () => undefined,
    outbound: outboundOf(life, network.outbound(life)),
    bus: createBus([], log),
    peers: null,
    openThreadLine: () => ({ post: () => undefined, close: () => undefined }),
    openOwner: () => null,
    openStore: async () => storeOf(life, faults, store, draw, clock),
    makePool: (label, configs, metrics) =>
      createUpstreamPool({
        ...shared,
        label,
        metrics,
        upstreams: configs,
        makeTransport: (upstream) =>
          createFakeTransport(world, upstreams[Number(upstream.label.split('-').at(-1))]!, draw, clock),
      }),
    makeChain: ({ id, kind }, pool, follower) => ({
      // Never started: hints are sockets, which the simulation has none of.
      source: { ...createRpcChainSource({ ...shared, chain: id, pool }), start: async () => {}, stop: async () => {} },
      reader: createChainReader({
        clock,
        random,
        chain: id,
        kind,
        pool,
        follower,
        timeoutMs: core.rpc.upstreamTimeoutMs,
        maxBytes: core.rpc.maxUpstreamBytes,
      }),
    }),
  };
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
const isFile = (resource: string): boolean => resource.startsWith('FSReq');

/** Lets everything run that waits for promises or for files: a slow disk takes none of the made-up time. */
async function settle(): Promise<void> {
  do {
    await turn();
    await turn();
  } while (process.getActiveResourcesInfo().some(isFile));
}

export async function createDaemonRig(seed: number): Promise<DaemonRig> {
  mould ??= makeMould();
  const { directory, config, database, validator } = await mould;
  const folder = mkdtempSync(join(directory, 'life-'));
  const path = join(folder, 'parhelion.db');
  copyFileSync(database, path);
  const open = () => openSqliteStore({ path, busyTimeoutMs: 1_000 });
  const draw = createSfc32(seed);
  const steady = createManualClock(undefined, settle);
  let jumpMs = 0;
  const clock: Clock = {
    now: () => steady.now() + jumpMs,
    monotonic: steady.monotonic,
    timeout: steady.timeout,
    sleep: steady.sleep,
  };
  const world = createWorld(draw, draw.float() < 0.5 ? 12 : 32);
  const network = createNetwork(steady, draw);
  const upstreams = UPSTREAMS.map((_, index) => honest(`upstream-${index}`));
  const faults: StoreFaults = { writes: 0, slowMs: 0, isHarsh: seed >= ALL_FAULTS_FROM };
  const log = createMemoryLog();
  const store = open();

  async function drive<T>(work: Promise<T>): Promise<T> {
    let isOver = false;
    const end = () => {
      isOver = true;
    };
    work.then(end, end);
    await steady.advance(0);
    while (!isOver) await steady.advance(DRIVE_MS);
    return await work;
  }

  async function start(life: Life = newLife()): Promise<DaemonProcess> {
    const own = { life, store: open() };
    const daemon = await createDaemon({
      config,
      version: 'simulated',
      chains: chainSetups(config.core, null),
      dataDir: folder,
      parts: { ...makeParts({ config, clock, draw, faults, world, network, upstreams, log, ...own }), validator },
      firstProject: { key: PROJECT_KEY },
      // Whoever watches the process never stops, and there are many daemons in this one.
      stockMetrics: 'none',
    });
    const fatals: unknown[] = [];
    void daemon.failed.then((error) => {
      if (!life.isDead) fatals.push(error);
    });
    await drive(daemon.start());
    const { api } = daemon.addresses();
    if (api === null) throw new Error('it has all roles');
    return { life, daemon, api, fatals };
  }

  return {
    world,
    upstreams,
    clock: steady,
    draw,
    network,
    faults,
    store,
    log,
    start,
    drive,
    jump(ms) {
      jumpMs += ms;
    },
    async close() {
      await store.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Schemas are made anew by each daemon, and are the same. */
function sharedValidator(): Validator {
  const validator = createValidator();
  const known = new Map<string, ValueCheck>();
  return {
    compile(schema, name) {
      const text = `${name} ${JSON.stringify(schema)}`;
      const check = known.get(text) ?? validator.compile(schema, name);
      known.set(text, check);
      return check;
    },
  };
}

function randomOf(draw: Sfc32): Random {
  return {
    float: () => draw.float(),
    bytes: (count) => draw.fill(new Uint8Array(count)),
    uuid: () => {
      const hex = Buffer.from(draw.fill(new Uint8Array(16))).toString('hex');
      return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
    },
  };
}
