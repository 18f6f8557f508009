import { messageOf } from '../../lib/coded-error.ts';
import type { Log } from '../../ports/log.ts';
import type { Store, StoreTx } from '../../ports/store.ts';
import type { JobKind, JobOutcome, SettledJob } from '../plugin.ts';
import { type Finished, recordOutcomes, writtenBefore } from './record.ts';
import { isStoreTrouble } from './store-trouble.ts';

/** Writes outcomes and what their kinds write beside them. Returns the outcomes that count, also those that had been written already. */
export async function settleAll(
  tx: StoreTx,
  kinds: ReadonlyMap<string, JobKind>,
  finished: readonly Finished[],
  now: number,
): Promise<Finished[]> {
  const recorded = await recordOutcomes(tx, finished, now);
  const before = await writtenBefore(
    tx,
    finished.filter((one) => one.isUnsure === true && !recorded.includes(one)),
  );
  for (const [name, kind] of kinds) {
    const ofKind = settledOf(name, recorded);
    if (ofKind.length > 0) await kind.settle?.(tx, ofKind);
    const written = [...ofKind, ...settledOf(name, before)];
    // A transaction may run again: it is told when it is through.
    if (written.length > 0 && kind.written !== undefined) tx.onCommit(() => kind.written?.(written));
  }
  return [...recorded, ...before];
}

const settledOf = (kind: string, finished: readonly Finished[]): SettledJob[] =>
  finished
    .filter(({ claimed }) => claimed.job.kind === kind)
    .map(({ claimed, outcome }) => ({ job: claimed.job, outcome }));

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
