import { createHealth } from '../http/health.ts';
import { messageOf } from '../lib/coded-error.ts';
import type { ChainId } from '../ports/chain.ts';
import type { Clock } from '../ports/clock.ts';
import type { CrewMember } from '../ports/crew.ts';
import type { InheritedSockets } from '../ports/inherited-sockets.ts';
import type { Log } from '../ports/log.ts';
import { type AssembleOptions, type Assembly, assemble } from './assemble.ts';
import { createCrew, renderMetrics } from './crew/crew.ts';
import { createWork } from './daemon-work.ts';
import { createLifecycle } from './plugins/lifecycle.ts';
import { createReloader } from './plugins/reload.ts';
import { createStoreCheck } from './store-check.ts';

export interface MachineryOptions extends AssembleOptions {
  /** Listeners that the service manager holds open. */
  readonly sockets?: InheritedSockets;
  /** Roles of this process in threads of their own; they start and stop with the daemon. */
  readonly crew?: readonly CrewMember[];
  /** Whether this daemon is itself such a thread: then it neither listens nor migrates. */
  readonly isMember?: boolean;
}

/** The parts that the stages of a daemon start and stop; nothing is open yet. Errors: those of `assemble`. */
export async function makeMachinery(options: MachineryOptions) {
  const isMember = options.isMember ?? false;
  const assembly = await assemble({ ...options, processMetrics: options.processMetrics ?? !isMember });
  const { parts, config } = options;
  const { clock, log } = parts;
  const { core } = config;
  const { metrics, merged } = assembly;
  const end = createEnd();
  const crew = createCrew({
    ...{ members: options.crew ?? [], lifecycle: core.lifecycle, metrics: metrics.scope('roles'), log },
  });
  void crew.failed.then(end.fail);
  const storeCheck = createStoreCheck(() => assembly.store.get().probe());
  const health = createHealth({
    // Members are asked by the main thread, whose own look at the store is enough.
    checks: isMember ? merged.checks : [storeCheck, ...merged.checks],
    ...{ crew: crew.checks, version: options.version, clock, log },
    chains: () => assembly.chains.map(({ reader }) => reader.status()),
    answers: (id) => answersOf(assembly, id),
    maxReadyLag: { seconds: core.follow.maxReadyLagSeconds, slots: core.follow.maxReadyLagSlots },
  });
  void end.failed.then(health.setFailed);
  const lifecycle = createLifecycle({ plugins: assembly.plugins, clock, log, ...core.lifecycle });
  const metricsText = async () =>
    await renderMetrics([{ role: null, families: await metrics.families() }, ...(await crew.metrics())]);
  tellChainKinds(assembly);
  const fronts = isMember
    ? null
    : (await loadFronts())({ assembly, parts, health, metricsText, sockets: options.sockets });
  return {
    ...{ assembly, end, crew, health, lifecycle },
    fronts,
    work: createWork(assembly, parts, end.fail),
    reloader: createReloader({
      ...{ config, lifecycle, crew, setLogLevel: parts.setLogLevel, metrics, clock, log },
      prepareTls: (next) => fronts?.prepareTls(next) ?? (() => undefined),
    }),
    drain: createDrain({ timeoutMs: core.lifecycle.drainTimeoutMs, clock, log }),
  };
}

/** A thread that does not listen does without router, validator and all else that stands behind a listener. */
const loadFronts = async () => (await import('./daemon-fronts.ts')).createFronts;

/** Who only delivers needs no upstream to be ready. */
async function answersOf({ chains, roles }: Assembly, id: ChainId): Promise<boolean> {
  if (!roles.has('api') && !roles.has('indexer')) return true;
  return (await chains.find(({ setup }) => setup.id === id)?.pool.answers()) ?? true;
}

/** `parhelion_chain_info{kind="local"} 1`: nobody should have to guess whether the data is of a public network. */
function tellChainKinds({ chains, metrics }: Assembly): void {
  const info = metrics.scope('chain').gauge('info', 'which kind of chain is served', ['chain', 'kind']);
  for (const { setup } of chains) info.with(setup.id, setup.kind).set(1);
}

/** The first fatal error; later ones only follow from it. */
function createEnd() {
  let fail: (error: unknown) => void = () => undefined;
  const failed = new Promise<unknown>((resolve) => {
    fail = resolve;
  });
  return { failed, fail: (error: unknown) => fail(error) };
}

interface DrainOptions {
  /** For all of it. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly log: Log;
}

/** One time limit for everything that finishes what it has begun. */
interface Drain {
  /** Aborts at the end of the time. */
  readonly deadline: AbortSignal;
  /** Waits for work to be over, until the deadline. Never rejects. */
  wait(works: readonly Promise<unknown>[]): Promise<void>;
  /** Everything is closed: the time no longer matters. */
  end(): void;
}

/** The time begins to run at the first wait. */
export function createDrain({ timeoutMs, clock, log }: DrainOptions): Drain {
  const controller = new AbortController();
  let cancel: (() => void) | null = null;
  return {
    deadline: controller.signal,
    async wait(works) {
      cancel ??= clock.timeout(timeoutMs, () => controller.abort(new Error('the drain deadline has passed')));
      const late = new Promise<void>((resolve) => {
        if (controller.signal.aborted) resolve();
        controller.signal.addEventListener('abort', () => resolve(), { once: true });
      });
      const over = Promise.all(works).catch((error: unknown) => {
        log.error({ error: messageOf(error) }, 'drain failed');
      });
      await Promise.race([over, late]);
    },
    end: () => cancel?.(),
  };
}
