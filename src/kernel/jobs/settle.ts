import { messageOf } from '../../lib/coded-error.ts';
import type { Log } from '../../ports/log.ts';
import type { Store, StoreTx } from '../../ports/store.ts';
import type { JobKind, JobOutcome, SettledJob } from '../plugin.ts';
import { type Finished, recordOutcomes } from './record.ts';
import { isStoreTrouble } from './store-trouble.ts';

/** Writes outcomes and what their kinds write beside them. Returns the outcomes that counted. */
export async function settleAll(
  tx: StoreTx,
  kinds: ReadonlyMap<string, JobKind>,
  finished: readonly Finished[],
  now: number,
): Promise<Finished[]> {
  const recorded = await recordOutcomes(tx, finished, now);
  for (const [name, kind] of kinds) {
    if (kind.settle === undefined) continue;
    const ofKind = recorded
      .filter(({ claimed }) => claimed.job.kind === name)
      .map(({ claimed, outcome }): SettledJob => ({ job: claimed.job, outcome }));
    if (ofKind.length > 0) await kind.settle(tx, ofKind);
  }
  return recorded;
}

/**
 * After a kind's `settle` threw: writes the outcomes one by one, so that one bad job spoils nobody else's. A job whose own writing
 * fails becomes `failed`: run again, it would have its effect again and fail again. Errors: those of the store.
 */
export async function settleSingly(
  store: Store,
  kinds: ReadonlyMap<string, JobKind>,
  finished: readonly Finished[],
  now: number,
  log: Log,
): Promise<Finished[]> {
  const recorded: Finished[] = [];
  for (const one of finished) {
    try {
      recorded.push(...(await store.write((tx) => settleAll(tx, kinds, [one], now))));
    } catch (error) {
      if (isStoreTrouble(error)) throw error;
      const { kind, key } = one.claimed.job;
      log.error({ kind, key, error: messageOf(error) }, 'the outcome of a job could not be written by its kind');
      const outcome: JobOutcome = { kind: 'failed', error: `JOB_SETTLE_FAILED: ${messageOf(error)}` };
      recorded.push(...(await store.write((tx) => recordOutcomes(tx, [{ ...one, outcome }], now))));
    }
  }
  return recorded;
}
