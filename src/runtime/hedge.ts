import type { Clock } from '../ports/clock.ts';
import type { CallSignal, UpstreamHedge } from '../ports/upstream.ts';

/** Extra calls that may be made at once after a quiet time. */
const BURST = 10;

/** Extra calls, at most `share` of all calls and `BURST`. */
export function createHedge(config: () => { readonly afterMs: number | null; readonly share: number }): UpstreamHedge {
  let tokens = BURST;
  return {
    afterMs: () => config().afterMs,
    take() {
      if (tokens < 1) return false;
      tokens -= 1;
      return true;
    },
    called() {
      tokens = Math.min(BURST, tokens + config().share);
    },
  };
}

export interface HedgedCall<T> {
  readonly clock: Clock;
  readonly hedge: UpstreamHedge;
  /** Aborts both calls. */
  readonly signal: CallSignal | undefined;
  /** Sends to the first choice, or to the second one. */
  readonly send: (choice: 'first' | 'second', signal: AbortSignal) => Promise<T>;
  /** Whether a result ends the race; of two that do not, that of the first choice is returned. */
  readonly isGood: (result: T) => boolean;
  /** Whether the signal still has to end a result that was returned, because it is a stream; default: no. */
  readonly isOpen?: (result: T) => boolean;
}

/**
 * One call that is repeated at a second upstream when the first has not answered in time. The first good answer counts, and the other call
 * is aborted. Rejects with the signal's reason, and with what the first call threw.
 */
export async function sendHedged<T>(
  call: HedgedCall<T>,
): Promise<{ readonly result: T; readonly by: 'first' | 'second' }> {
  const { hedge, signal, send } = call;
  const controllers = { first: new AbortController(), second: new AbortController() };
  const onAbort = () => {
    for (const controller of Object.values(controllers)) controller.abort(signal?.reason);
  };
  if (signal?.aborted) onAbort();
  signal?.addEventListener('abort', onAbort, { once: true });
  hedge.called();
  let stays = false;
  try {
    const first = send('first', controllers.first.signal);
    const by = await winnerOf(call, first, () => send('second', controllers.second.signal));
    if (by.name === 'second') controllers.first.abort(new Error('another upstream was faster'));
    else controllers.second.abort(new Error('another upstream was faster'));
    const result = await by.work;
    stays = call.isOpen?.(result) ?? false;
    return { result, by: by.name };
  } finally {
    if (!stays) signal?.removeEventListener('abort', onAbort);
  }
}

async function winnerOf<T>(
  { clock, hedge, signal, isGood }: HedgedCall<T>,
  first: Promise<T>,
  start: () => Promise<T>,
) {
  const afterMs = hedge.afterMs() ?? Number.POSITIVE_INFINITY;
  const isFirst = { name: 'first', work: first } as const;
  if (!(await isLate(first, clock, afterMs)) || signal?.aborted || !hedge.take()) return isFirst;
  const second = start();
  // What the loser throws is of no use.
  first.catch(() => undefined);
  second.catch(() => undefined);
  return (await firstGood(first, second, isGood)) === 'second' ? ({ name: 'second', work: second } as const) : isFirst;
}

function isLate(work: Promise<unknown>, clock: Clock, afterMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const cancel = clock.timeout(afterMs, () => resolve(true));
    const inTime = () => {
      cancel();
      resolve(false);
    };
    work.then(inTime, inTime);
  });
}

/** Which of the two is good first; null: neither is. */
function firstGood<T>(
  first: Promise<T>,
  second: Promise<T>,
  isGood: (result: T) => boolean,
): Promise<'first' | 'second' | null> {
  return new Promise((resolve) => {
    let left = 2;
    const ended = () => {
      left -= 1;
      if (left === 0) resolve(null);
    };
    const watch = (work: Promise<T>, name: 'first' | 'second') =>
      work.then((result) => (isGood(result) ? resolve(name) : ended()), ended);
    void watch(first, 'first');
    void watch(second, 'second');
  });
}
