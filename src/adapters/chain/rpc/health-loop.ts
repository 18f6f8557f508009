import type { Clock } from '../../../ports/clock.ts';
import type { UpstreamOutcome } from '../../../ports/upstream.ts';
import type { Member } from './member.ts';
import { readReply } from './read-reply.ts';

export interface HealthLoopOptions {
  readonly members: readonly Member[];
  readonly clock: Clock;
  readonly intervalMs: number;
  readonly report: (member: Member, outcome: UpstreamOutcome) => void;
  /** Called after each round. */
  readonly settle: () => void;
}

const PROBE = '{"jsonrpc":"2.0","id":1,"method":"getSlot","params":[{"commitment":"confirmed"}]}';
const PROBE_TIMEOUT_MS = 4_000;
const PROBE_MAX_BYTES = 64 * 1024;

/** Asks every upstream for its slot, again and again. */
export function createHealthLoop({ members, clock, intervalMs, report, settle }: HealthLoopOptions) {
  const stopped = new AbortController();
  let running: Promise<void> = Promise.resolve();

  async function probe(member: Member): Promise<void> {
    const answer = await readReply(member.transport, {
      body: PROBE,
      timeoutMs: PROBE_TIMEOUT_MS,
      maxBytes: PROBE_MAX_BYTES,
      signal: stopped.signal,
    });
    if (stopped.signal.aborted) return;
    const slot = answer.result;
    if (answer.outcome.kind === 'ok' && Number.isSafeInteger(slot)) member.health.slot = slot as number;
    report(member, answer.outcome);
  }

  async function round(): Promise<void> {
    const now = clock.monotonic();
    await Promise.all(members.filter(({ health }) => health.limitedUntil <= now).map(probe));
    settle();
  }

  async function loop(): Promise<void> {
    while (!stopped.signal.aborted) {
      try {
        await clock.sleep(intervalMs, stopped.signal);
      } catch {
        return;
      }
      await round();
    }
  }

  return {
    /** Waits for the first round, so that the first choice is a good one. */
    async start(): Promise<void> {
      await round();
      running = loop();
    },
    async stop(): Promise<void> {
      stopped.abort(new Error('the pool stops'));
      await running;
    },
  };
}
