import { join } from 'node:path';
import { createElection, type Election } from '../chain/election.ts';
import { createFollower, type Follower } from '../chain/follower.ts';
import { createReleaseListeners } from '../chain/run.ts';
import { ledgerThreads } from '../config/core.ts';
import { createOutboxGauges, type OutboxGauges } from '../jobs/metrics.ts';
import { createJobRunner, type JobRunner } from '../jobs/runner.ts';
import { createLedgerMeter, createLedgerReader, type Ledger, openLedger } from '../ledger/index.ts';
import { CodedError, codeOf } from '../lib/coded-error.ts';
import type { ChainId, ChainStatus } from '../ports/chain.ts';
import type { Store } from '../ports/store.ts';
import type { Log, Metrics } from '../ports/telemetry.ts';
import type { UpstreamState } from '../ports/upstream.ts';
import { EXIT } from '../runtime/errors.ts';
import type { AssembledChain, Assembly } from './assemble.ts';
import { type Announcer, type ChainRun, createAnnouncer, createChainRun, type FollowerRun } from './chains.ts';
import type { DaemonParts, FollowerView } from './parts.ts';
import { createRemoteFollower, createRemoteRunner, type RemoteFollower, TOPICS } from './remote.ts';
import { traceBlocks } from './tracing.ts';

/** The background work of a daemon, depending on its roles: jobs and followers. */
export interface DaemonWork {
  /** Creates runner and followers on the open store, or proxies for those of other threads and processes. */
  make(store: Store, dataDir: string): void;
  startJobs(): Promise<void>;
  startFollowing(): Promise<void>;
  /** Stops accepting new work; running work may finish. */
  drain(): Promise<void>;
  stopFollowing(): Promise<void>;
  stopJobs(): Promise<void>;
}

/** The parts that start and stop with the follower of a chain. */
interface Companion {
  start(): Promise<void> | void;
  stop(): Promise<void> | void;
}

export function createWork(assembly: Assembly, parts: DaemonParts, fatal: (error: unknown) => void): DaemonWork {
  const { clock, log, random, bus } = parts;
  const { roles } = assembly;
  const { core } = assembly.config;
  let jobs: JobRunner | null = null;
  let gauges: OutboxGauges | null = null;
  let runs: readonly ChainRun[] = [];
  const companions: Companion[] = [];

  function makeJobs(store: Store, dataDir: string): void {
    if (!roles.has('deliverer')) {
      assembly.outbox.set(createRemoteRunner({ bus, clock }));
      return;
    }
    const metrics = assembly.metrics.scope('jobs');
    const kinds = assembly.merged.jobs;
    const owner = parts.openOwner(dataDir);
    if (owner === null)
      log.warn(
        { dataDir },
        'cannot lock a file in the data folder: after a crash, claimed jobs wait until their lease ends',
      );
    const runner = createJobRunner({ store, owner, clock, random, log, fatal, kinds, config: core.jobs, metrics });
    jobs = runner;
    gauges = createOutboxGauges({ store, kinds: kinds.map(({ kind }) => kind), clock, log, metrics });
    assembly.outbox.set(runner);
    bus.subscribe(TOPICS.jobsDue, runner.wake);
  }

  /** Null if nothing needs the blocks of this chain (reading them would only cost upstream calls), or another role follows it. */
  function followerOf(chain: AssembledChain, store: Store): FollowerRun | null {
    const { id } = chain.setup;
    if (!core.follow.enabled) return null;
    const processors = assembly.merged.processors.filter(({ chains }) => chains.includes(id));
    if (!roles.has('indexer')) {
      // Listeners are known to the indexer alone: without a processor only the follower itself can say that it is there.
      if (roles.has('api')) viewFollower(chain, store, processors.length === 0);
      return null;
    }
    const listeners = assembly.merged.listeners.filter(({ chain: of }) => of === id);
    if (processors.length + listeners.length === 0) return null;
    const metrics = assembly.metrics.scope(id === 'main' ? 'follow' : `follow_${id}`);
    const ledger = core.ledger.retain.hours === 0 ? {} : { openLedger: ledgerOf(id) };
    const { tracer } = assembly.merged;
    const makeFollower = (on: Store) =>
      createFollower({
        chain: id,
        source: chain.source,
        store: on,
        processors,
        listeners,
        core,
        clock,
        random,
        metrics,
        log,
        fatal,
        ...ledger,
        isOnDemand: chain.setup.kind === 'local' && core.upstream.local.slotMs === 0,
        pluginOf: (processor) => assembly.merged.processorOwners.get(processor) ?? processor,
        ...(tracer === null ? {} : { traceBlock: traceBlocks(tracer, id) }),
      });
    if (store.dialect === 'postgres') return electedFollowerOf(chain, store, metrics, makeFollower);
    const follower = makeFollower(store);
    tellLead(
      metrics,
      () => true,
      () => 0,
    );
    chain.follower.set(follower);
    companions.push(createAnnouncer({ chain: id, follower, bus, clock }));
    return follower;
  }

  function viewFollower(chain: AssembledChain, store: Store, onlyTold: boolean): void {
    const { id } = chain.setup;
    const remote = createRemoteFollower({ chain: id, store, bus, clock, log, tipSlot: () => tipOf(chain), onlyTold });
    chain.follower.set(remote);
    companions.push(remote);
  }

  const { index } = core.ledger;
  const ledgerDir = (chain: ChainId) => join(core.dataDir, 'ledger', chain);

  /** Until this process writes the ledger itself it reads the one of another thread or process. */
  function readLedgers(): void {
    if (core.ledger.retain.hours === 0) return;
    for (const { setup, pool } of assembly.chains) {
      const damaged = assembly.metrics
        .scope(setup.id === 'main' ? 'ledger_reader' : `ledger_reader_${setup.id}`)
        .counter(
          'blocks_damaged_total',
          'reads of blocks that are damaged on disk, outside the thread that writes them',
        );
      const isPassed = (slot: number) => pool.states().some((upstream) => isAbove(upstream, slot));
      const reader = { dir: ledgerDir(setup.id), chain: setup.id, clock, log, damaged: () => damaged.add(), index };
      assembly.ledgers.set(setup.id, createLedgerReader({ ...reader, isPassed }));
    }
  }

  function makeArchiveEngines(): void {
    for (const { setup } of assembly.chains) {
      const engine = parts.archiveEngine?.(setup.id, roles.has('indexer')) ?? null;
      if (engine !== null) assembly.archiveEngines.set(setup.id, engine);
    }
  }

  function ledgerOf(chain: ChainId): () => Promise<Ledger> {
    const { hours, bytes } = core.ledger.retain;
    const meter = createLedgerMeter(assembly.metrics.scope(chain === 'main' ? 'ledger' : `ledger_${chain}`));
    const dir = ledgerDir(chain);
    return async () => {
      const ledger = await openLedger({
        dir,
        chain,
        clock,
        log,
        meter,
        index,
        retainHours: hours,
        retainBytes: bytes,
        threads: ledgerThreads(core),
        heldAbove: assembly.ledgerHolds.get(chain) ?? [],
      });
      assembly.ledgers.set(chain, ledger);
      for (const run of assembly.ledgerOpened.get(chain) ?? []) run(ledger);
      return ledger;
    };
  }

  /** On a database server other processes may have this role too: one of them follows the chain. */
  function electedFollowerOf(
    chain: AssembledChain,
    store: Store,
    metrics: Metrics,
    makeFollower: (on: Store) => Follower,
  ): FollowerRun {
    const { id } = chain.setup;
    const { leaseMs, rewindTo } = core.follow;
    const election = createElection({
      chain: id,
      store,
      name: parts.processName,
      leaseMs,
      clock,
      log,
      lost: fatal,
      ...(rewindTo === null ? {} : { otherLeads: () => fatal(rewindRefused(id)) }),
    });
    const elected = createElectedFollower({
      chain: id,
      election,
      log,
      fatal,
      makeFollower: () => makeFollower(election.store),
      remote: createRemoteFollower({ chain: id, store, bus, clock, log, tipSlot: () => tipOf(chain) }),
      announce: (follower) => createAnnouncer({ chain: id, follower, bus, clock }),
    });
    tellLead(
      metrics,
      () => elected.leads,
      () => election.leader()?.epoch ?? 0,
    );
    chain.follower.set(elected);
    return elected;
  }

  /** When one role finds that an upstream has changed its chain, the others check it at once. */
  function tellOtherChains({ setup, pool }: AssembledChain): Companion {
    const others = () => JSON.stringify(pool.states().map(({ otherChain }) => otherChain));
    let published = others();
    const off = [
      pool.onChange(() => {
        if (others() === published) return;
        published = others();
        bus.publish(TOPICS.otherChain, { chain: setup.id });
      }),
      bus.subscribe(TOPICS.otherChain, (message) => {
        if ((message as { readonly chain: ChainId }).chain === setup.id) void pool.identify();
      }),
    ];
    return {
      start: () => undefined,
      stop() {
        for (const end of off) end();
      },
    };
  }

  return {
    make(store, dataDir) {
      makeJobs(store, dataDir);
      readLedgers();
      makeArchiveEngines();
      for (const chain of assembly.chains) companions.push(tellOtherChains(chain));
      runs = assembly.chains.map((chain) =>
        createChainRun({ chain, store, follower: followerOf(chain, store), clock, log, fatal }),
      );
    },
    async startJobs() {
      await jobs?.start();
      await gauges?.start();
    },
    async startFollowing() {
      await Promise.all(runs.map((run) => run.start()));
      for (const companion of companions) await companion.start();
    },
    async drain() {
      await Promise.all([...runs.map((run) => run.drain()), jobs?.drain()]);
    },
    async stopFollowing() {
      for (const companion of companions) await companion.stop();
      await Promise.all(runs.map((run) => run.stop()));
    },
    async stopJobs() {
      gauges?.stop();
      const deadline = new AbortController();
      const cancel = clock.timeout(core.lifecycle.stopTimeoutMs, () =>
        deadline.abort(new Error('the stop deadline has passed')),
      );
      await jobs?.stop(deadline.signal);
      cancel();
    },
  };
}

function tellLead(metrics: Metrics, leads: () => boolean, epoch: () => number): void {
  metrics.observe('leading', '1 if this process is the leader of the chain, 0 if it is a standby', () =>
    leads() ? 1 : 0,
  );
  metrics.observe('leader_epoch', 'leader epoch of the chain; 0 without an election', epoch);
}

/** A rewind is meant for one start; it must not happen later when this process becomes the leader. */
const rewindRefused = (chain: ChainId) =>
  new CodedError('FOLLOW_REWIND', `cannot rewind: another process follows the ${chain} chain; stop it first`, {
    exitCode: EXIT.config,
  });

function tipOf({ pool }: AssembledChain): number | null {
  const slots = pool.states().flatMap(({ healthy, slot }) => (healthy && slot !== null ? [slot] : []));
  return slots.length === 0 ? null : Math.max(...slots);
}

/** What an upstream said longer ago proves nothing about the chain of now. */
const RECENT_ANSWER_MS = 30_000;

const isAbove = ({ slot: tip, inService, silentMs }: UpstreamState, slot: number): boolean =>
  inService && tip !== null && tip > slot && silentMs < RECENT_ANSWER_MS;

export interface ElectedFollowerOptions {
  readonly chain: ChainId;
  readonly election: Election;
  /** Created when this process becomes the leader: a standby has no metrics of a follower. */
  readonly makeFollower: () => Follower;
  /** Shows the status of the leader while that is another process. */
  readonly remote: RemoteFollower;
  readonly announce: (follower: FollowerView) => Announcer;
  readonly log: Log;
  readonly fatal: (error: unknown) => void;
}

/** The follower of a chain that several processes could follow. This process is a standby until it is elected. */
export interface ElectedFollower extends FollowerRun, FollowerView {
  readonly leads: boolean;
}

function createElectedFollower(options: ElectedFollowerOptions): ElectedFollower {
  const { chain, election, remote, log, fatal } = options;
  const listeners = createReleaseListeners(log);
  let leading: { readonly follower: Follower; readonly announcer: Announcer } | null = null;
  let waiting: Promise<void> = Promise.resolve();

  const status = (): Partial<ChainStatus> => {
    const leader = election.leader();
    const led = leader === null ? {} : { leader };
    return leading === null
      ? { ...remote.status(), ...led, isStandby: true }
      : { ...leading.follower.status(), ...led };
  };
  const view: FollowerView = {
    status,
    onReleased: listeners.add,
  };

  async function lead(): Promise<void> {
    const follower = options.makeFollower();
    follower.onReleased(listeners.call);
    leading = { follower, announcer: options.announce(view) };
    await follower.start();
    leading.announcer.start();
  }

  async function standBy(): Promise<void> {
    if (!(await election.untilLeading())) return;
    await remote.stop();
    await lead();
  }

  return {
    ...view,
    get leads() {
      return leading !== null;
    },
    async start() {
      const isElected = await election.tryLead().catch((error: unknown) => {
        log.warn({ chain, code: codeOf(error) }, 'cannot read the leader');
        return false;
      });
      if (isElected) return await lead();
      log.info({ chain, leader: election.leader()?.name ?? null }, 'standing by: another process follows the chain');
      remote.onReleased(listeners.call);
      await remote.start();
      waiting = standBy().catch(fatal);
    },
    async drain() {
      election.stop();
      await leading?.follower.drain();
    },
    async stop() {
      election.stop();
      await waiting;
      if (leading === null) await remote.stop();
      leading?.announcer.stop();
      await leading?.follower.stop();
      await election.resign();
    },
  };
}
