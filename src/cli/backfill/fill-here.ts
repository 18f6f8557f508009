import type { AssembledChain, Assembly } from '../../kernel/assembly/assemble.ts';
import { bindStoreToChain } from '../../kernel/assembly/chain-identity.ts';
import type { DaemonParts } from '../../kernel/assembly/parts.ts';
import { createRemoteRunner } from '../../kernel/assembly/remote-runner.ts';
import type { FillOptions } from '../../kernel/follower/backfill/contract.ts';
import { createFillSchedule } from '../../kernel/follower/backfill/fill-schedule.ts';
import type { GapRecord } from '../../kernel/follower/backfill/gap-record.ts';
import { createTurn } from '../../kernel/follower/turn.ts';
import { createLifecycle } from '../../kernel/plugins/lifecycle.ts';
import type { Store } from '../../ports/store.ts';

export interface FillHereOptions {
  readonly assembly: Assembly;
  readonly parts: DaemonParts;
  readonly store: Store;
  readonly chains: readonly AssembledChain[];
  readonly isOurs: (gap: GapRecord) => boolean;
  readonly signal: AbortSignal;
}

const PAUSE_MS = 500;

/**
 * Fills gaps in this process, as a daemon would that does nothing else, until the signal is aborted. Two of them, or one beside a
 * daemon, find each other out at each block. Errors: STORE_WRONG_CHAIN, PLUGIN_START_*, CHAIN_*, those of the store.
 */
export async function fillHere(options: FillHereOptions): Promise<void> {
  const { assembly, parts, store, chains, signal } = options;
  const { core } = assembly.config;
  assembly.outbox.set(createRemoteRunner(parts));
  const lifecycle = createLifecycle({ plugins: assembly.plugins, ...parts, ...core.lifecycle });
  try {
    await Promise.all(chains.map(({ pool }) => pool.start()));
    for (const { reader, setup } of chains) {
      const genesisHash = await reader.call<string>('getGenesisHash', [], { signal });
      await bindStoreToChain(store, setup.id, genesisHash);
    }
    await lifecycle.start();
    await Promise.all(chains.map((chain) => fillChain(options, chain)));
  } finally {
    await lifecycle.stop();
    await Promise.all(assembly.chains.map(({ pool }) => pool.stop()));
  }
}

async function fillChain(options: FillHereOptions, chain: AssembledChain): Promise<void> {
  const { signal, parts } = options;
  const schedule = createFillSchedule(fillOptions(options, chain), options.isOurs);
  while (!signal.aborted) {
    try {
      if (!(await schedule.pass())) await parts.clock.sleep(PAUSE_MS, signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }
}

function fillOptions(
  { assembly, parts, store, signal }: FillHereOptions,
  { setup, source }: AssembledChain,
): FillOptions {
  const { follow } = assembly.config.core;
  const { clock, random, log } = parts;
  return {
    ...{ chain: setup.id, source, store, follow, clock, random, log, signal },
    processors: assembly.merged.processors.filter(({ chains }) => chains.includes(setup.id)),
    turn: createTurn(),
    concurrency: follow.catchUpConcurrency,
    hindrance: () => (source.isLimited?.() === true ? 'an upstream asks for fewer calls' : null),
    finalSlot: async () => await source.tip({ commitment: 'finalized', signal }),
    filled: () => undefined,
  };
}
