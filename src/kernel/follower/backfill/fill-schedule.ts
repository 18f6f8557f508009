import { codeOf, messageOf } from '../../../lib/coded-error.ts';
import { backoffMs } from '../backoff.ts';
import { fatalOf, reasonOf } from '../trouble.ts';
import type { FillOptions, FillOutcome } from './contract.ts';
import { fillGap } from './fill-gap.ts';
import { noteTrouble } from './gap-changes.ts';
import { type GapRecord, readGaps } from './gap-record.ts';

/** Pauses of what waits for something that happens by itself, and of what something outside has to heal. */
const WAIT_MS = 2_000;
const FIRST_PAUSE_MS = 60_000;
/** Failures in a row after which the record says so. */
const FAILURES_TO_TELL = 3;

export interface FillSchedule {
  /** Works on the next gap that is due for one piece; false when none is. Errors: those that trying again does not heal. */
  pass(): Promise<boolean>;
}

interface Pause {
  /** Monotonic ms. */
  readonly until: number;
  readonly kind: 'waits' | 'stuck' | 'failed';
  /** In a row, of this kind. */
  readonly tries: number;
  readonly wantedAt: number | null;
}

/** Takes the open gaps in turn, a piece of each, and lets rest those that cannot be filled now. */
export function createFillSchedule(options: FillOptions, wants: (gap: GapRecord) => boolean): FillSchedule {
  const { store, chain, clock, random, follow, log, turn } = options;
  const pauses = new Map<number, Pause>();
  let lastId = -1;

  function isDue(gap: GapRecord): boolean {
    const pause = pauses.get(gap.id);
    // An operator who asks for it ends the pause.
    return wants(gap) && (pause === undefined || pause.until <= clock.monotonic() || pause.wantedAt !== gap.wantedAt);
  }

  function rest(gap: GapRecord, kind: Pause['kind'], pauseMs: (tries: number) => number): number {
    const before = pauses.get(gap.id);
    const tries = before?.kind === kind && before.wantedAt === gap.wantedAt ? before.tries + 1 : 1;
    pauses.set(gap.id, { kind, until: clock.monotonic() + pauseMs(tries), tries, wantedAt: gap.wantedAt });
    return tries;
  }

  async function tell(gap: GapRecord, reason: string, isTry: boolean): Promise<void> {
    if (!isTry && gap.trouble === reason) return;
    await turn(() => store.write((tx) => noteTrouble(tx, gap, reason, isTry ? clock.now() : null)));
  }

  async function take(gap: GapRecord, outcome: FillOutcome): Promise<boolean> {
    if (outcome.kind === 'more' || outcome.kind === 'filled') {
      pauses.delete(gap.id);
      if (outcome.kind === 'filled') {
        const { fromSlot, toSlot, reason } = gap;
        log.info({ chain, gap: gap.id, fromSlot, toSlot, reason }, 'a gap is filled');
      }
      return true;
    }
    if (outcome.kind === 'waits') {
      rest(gap, 'waits', () => WAIT_MS);
      await tell(gap, outcome.reason, false);
      return false;
    }
    const longestMs = follow.gapBackfill.retryMaxSeconds * 1_000;
    rest(gap, 'stuck', (tries) => Math.min(longestMs, FIRST_PAUSE_MS * 2 ** Math.min(tries - 1, 16)));
    if (gap.trouble !== outcome.reason)
      log.warn({ chain, gap: gap.id, reason: outcome.reason }, 'a gap cannot be filled now');
    await tell(gap, outcome.reason, true);
    return false;
  }

  async function fail(gap: GapRecord, error: unknown): Promise<boolean> {
    if (options.signal.aborted || fatalOf(error) !== null) throw error;
    const tries = rest(gap, 'failed', (count) => backoffMs(count, random));
    log.warn({ chain, gap: gap.id, code: codeOf(error), error: messageOf(error) }, 'filling a gap failed');
    if (tries >= FAILURES_TO_TELL) await tell(gap, reasonOf(error, 'filling it'), true);
    return false;
  }

  return {
    async pass() {
      if (options.hindrance() !== null) return false;
      const open = (await readGaps(store.read, { chain, isOpen: true, limit: 1_000 })).reverse();
      for (const id of pauses.keys()) if (!open.some((gap) => gap.id === id)) pauses.delete(id);
      const due = open.filter(isDue);
      const gap = due.find(({ id }) => id > lastId) ?? due[0];
      if (gap === undefined) return false;
      lastId = gap.id;
      try {
        return await take(gap, await fillGap(options, gap));
      } catch (error) {
        return await fail(gap, error);
      }
    },
  };
}
