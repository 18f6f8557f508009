import { createElection } from '../chain/election.ts';
import { createFollower, type Follower } from '../chain/follower.ts';
import { CodedError, EXIT } from '../lib/coded-error.ts';
import type { ChainId } from '../ports/chain.ts';
import type { Store } from '../ports/store.ts';
import type { Metrics } from '../ports/telemetry.ts';
import type { AssembledChain, Assembly } from './assemble.ts';
import { createAnnouncer, type FollowerRun } from './chains.ts';
import { createElectedFollower } from './elected-follower.ts';
import { ledgerOpener } from './ledgers.ts';
import type { DaemonParts } from './parts.ts';
import { createRemoteFollower } from './remote.ts';
import { traceBlocks } from './tracing.ts';

/** The parts that start and stop with the follower of a chain. */
export interface Companion {
  start(): Promise<void> | void;
  stop(): Promise<void> | void;
}

interface FollowersParts {
  readonly assembly: Assembly;
  readonly parts: DaemonParts;
  readonly store: Store;
  readonly fatal: (error: unknown) => void;
  /** Gets what starts and stops with a follower. */
  readonly companions: Companion[];
}

/** Null if nothing needs the blocks of this chain (reading them would only cost upstream calls), or another role follows it. */
export function followerOf(all: FollowersParts, chain: AssembledChain): FollowerRun | null {
  const { assembly, parts, store, fatal, companions } = all;
  const { clock, random, log, bus } = parts;
  const { roles } = assembly;
  const { core } = assembly.config;
  const { id } = chain.setup;
  if (!core.follow.enabled) return null;
  const processors = assembly.merged.processors.filter(({ chains }) => chains.includes(id));
  if (!roles.has('indexer')) {
    // Listeners are known to the indexer alone: without a processor only the follower itself can say that it is there.
    if (roles.has('api')) viewFollower(all, chain, processors.length === 0);
    return null;
  }
  const listeners = assembly.merged.listeners.filter(({ chain: of }) => of === id);
  if (processors.length + listeners.length === 0) return null;
  const metrics = assembly.metrics.scope(id === 'main' ? 'follow' : `follow_${id}`);
  const ledger = core.ledger.retain.hours === 0 ? {} : { openLedger: ledgerOpener(assembly, parts, id) };
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
  if (store.dialect === 'postgres') return electedFollowerOf(all, chain, metrics, makeFollower);
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

function viewFollower({ parts, store, companions }: FollowersParts, chain: AssembledChain, onlyTold: boolean): void {
  const { clock, log, bus } = parts;
  const { id } = chain.setup;
  const remote = createRemoteFollower({ chain: id, store, bus, clock, log, tipSlot: () => tipOf(chain), onlyTold });
  chain.follower.set(remote);
  companions.push(remote);
}

/** On a database server other processes may have this role too: one of them follows the chain. */
function electedFollowerOf(
  { assembly, parts, store, fatal }: FollowersParts,
  chain: AssembledChain,
  metrics: Metrics,
  makeFollower: (on: Store) => Follower,
): FollowerRun {
  const { id } = chain.setup;
  const { clock, log, bus } = parts;
  const { leaseMs, rewindTo } = assembly.config.core.follow;
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
