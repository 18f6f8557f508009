import type { Commitment, ConsensusFacts } from '../ports/chain.ts';
import type { Run } from './run.ts';

/** Between questions while the chain may still move to Alpenglow. */
const ASK_AGAIN_MS = 60_000;

/** The commitment to follow now: `finalized` where the chain finalizes by Alpenglow, because a confirmed block is final there. */
export function followedCommitment({ follow, state }: Pick<Run, 'follow' | 'state'>): Commitment {
  if (follow.commitment !== 'auto') return follow.commitment;
  return state.consensus.era === 'alpenglow' ? 'finalized' : 'confirmed';
}

/**
 * Finds out how the chain finalizes: by the operator's word, or from the upstreams. A move to Alpenglow is never undone, so that a known
 * one stays, whatever an upstream says later. Throws only the signal's reason.
 */
export async function learnConsensus(run: Run): Promise<void> {
  const { state, follow, source, signal, chain, log, buffer, fetcher, shared } = run;
  if (state.consensus.era === 'alpenglow') return;
  const before = followedCommitment(run);
  const facts: ConsensusFacts =
    follow.consensus === 'auto'
      ? await source.consensus(signal)
      : { era: follow.consensus, genesisSlot: null, source: 'configuration' };
  if (facts.era === 'unknown' && state.consensus.era !== 'unknown') return;
  const isNew = facts.era !== state.consensus.era;
  state.consensus = facts;
  if (!isNew) return;
  const commitment = followedCommitment(run);
  log.info({ event: 'chain.consensus', chain, ...facts, commitment }, 'how the chain finalizes is known');
  if (commitment === before || !state.started) return;
  // What was read at `confirmed` may be on a branch that was not finalized: it is read again.
  buffer.clear();
  fetcher.clear();
  shared.forgetAbove(-1);
  state.listedTo = -1;
  run.pollWake.wake();
}

/** Asks again until the chain is known to have moved. */
export async function consensusLoop(run: Run): Promise<void> {
  const { signal, clock, state } = run;
  while (!signal.aborted && state.consensus.era !== 'alpenglow') {
    await clock.sleep(ASK_AGAIN_MS, signal).catch(() => undefined);
    if (!signal.aborted) await learnConsensus(run).catch(() => undefined);
  }
}
