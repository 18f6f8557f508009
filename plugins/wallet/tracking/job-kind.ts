import { type JobKind, type Log, messageOf, type Store } from '../../../src/kernel/plugin.ts';
import type { Db } from '../store/tables.ts';
import { type BackfillParts, backfillWallet } from './backfill.ts';

export const JOB_KIND = 'wallet.index';

/** Time of one turn: others wait for as long. */
const TURN_MS = 3_000;
const TIMEOUT_MS = 120_000;
/** Somebody may be waiting for a wallet whose process was killed; that two index it at once does no harm. */
const LEASE_MS = 10_000;
/** Until what is missing at the top may be final. */
const FINALITY_MS = 2_000;
/** Somebody may be waiting: an upstream that failed is asked again soon, and a request begins anew when it was given up. */
const FIRST_PAUSE_MS = 500;
const MOST_PAUSE_MS = 15_000;
const MOST_ATTEMPTS = 20;

/** Indexes a wallet piece by piece; many wallets take turns. The job's key is the number of the wallet. */
export function createIndexJob(parts: BackfillParts & { readonly log: Log }, concurrency: number): JobKind {
  const { clock, store, log } = parts;
  return {
    kind: JOB_KIND,
    summary: 'reads the past of a wallet from the upstream',
    concurrency,
    groupConcurrency: () => 1,
    timeoutMs: TIMEOUT_MS,
    leaseMs: LEASE_MS,
    async run(job, _prepared, signal) {
      const id = Number(job.key);
      try {
        const step = await backfillWallet(parts, id, clock.monotonic() + TURN_MS, signal);
        if (step === 'done') return { kind: 'done' };
        const runAt = clock.now() + (step === 'later' ? FINALITY_MS : 0);
        return { kind: 'retry', runAt, error: 'goes on', uncounted: true };
      } catch (error) {
        signal.throwIfAborted();
        log.warn({ wallet: id, err: messageOf(error) }, 'a wallet could not be indexed further');
        await noteTrouble(store, id, messageOf(error));
        if (job.attempts >= MOST_ATTEMPTS) return { kind: 'failed', error: messageOf(error) };
        const pauseMs = Math.min(MOST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** job.attempts);
        return { kind: 'retry', runAt: clock.now() + pauseMs, error: messageOf(error) };
      }
    },
  };
}

async function noteTrouble(store: Store, id: number, trouble: string): Promise<void> {
  await store.write(async (tx) => {
    await (tx.db as Db).updateTable('wallet_wallets').set({ trouble }).where('id', '=', id).execute();
  });
}
