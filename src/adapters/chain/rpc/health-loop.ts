import { rpcRequest } from '../../../lib/json-rpc.ts';
import { OWN_WORK } from '../../../ports/access.ts';
import type { Clock } from '../../../ports/clock.ts';
import type { UpstreamOutcome } from '../../../ports/upstream.ts';
import { readReply } from './client.ts';
import type { IdentityWatch } from './identity.ts';
import { isInService, type PoolMember, sawSlotOf } from './member.ts';

interface HealthLoopOptions {
  readonly members: () => readonly PoolMember[];
  readonly clock: Clock;
  readonly intervalMs: () => number;
  readonly report: (member: PoolMember, outcome: UpstreamOutcome) => void;
  /** Called after each round. */
  readonly roundEnded: () => void;
  readonly identity: Pick<IdentityWatch, 'round' | 'suspect'>;
  /** Whether a tip that moved back this many slots may belong to another chain. */
  readonly isFarBack: (slots: number) => boolean;
  /** Receives the newest slot of each round. */
  readonly sawTip: (slot: number) => void;
}

const PROBE = rpcRequest('getSlot', [{ commitment: 'confirmed' }]);
const FINAL_PROBE = rpcRequest('getSlot', [{ commitment: 'finalized' }]);
const INVALID_PARAMS = -32_602;
const PROBE_TIMEOUT_MS = 4_000;
const PROBE_MAX_BYTES = 64 * 1024;

/** Polls every upstream for its slot. */
export function createHealthLoop(options: HealthLoopOptions) {
  const { members, clock, intervalMs, report, roundEnded, identity } = options;
  const stopped = new AbortController();
  let running: Promise<void> = Promise.resolve();

  /** The upstream's current slot; null without an answer. */
  async function probe(member: PoolMember, timeoutMs = PROBE_TIMEOUT_MS): Promise<number | null> {
    const ask = (body: string) =>
      readReply(
        member.transport,
        { body, timeoutMs, maxBytes: PROBE_MAX_BYTES, isRead: true, signal: stopped.signal, tenant: OWN_WORK },
        'getSlot',
      );
    let answer = await ask(PROBE);
    const isRefused = answer.error?.code === INVALID_PARAMS;
    if (isRefused) answer = await ask(FINAL_PROBE);
    // Nothing follows from a failure.
    if ('result' in answer) member.health.refusesConfirmed = isRefused;
    if (stopped.signal.aborted) return null;
    const isSlot = answer.outcome.kind === 'ok' && Number.isSafeInteger(answer.result);
    const slot = isSlot ? (answer.result as number) : null;
    if (slot !== null) {
      if (options.isFarBack((member.health.slot ?? 0) - slot)) identity.suspect(member);
      sawSlotOf(member.health, slot, clock.monotonic());
    }
    report(member, answer.outcome);
    return slot;
  }

  async function round(): Promise<void> {
    const now = clock.monotonic();
    const asked = members().filter(({ health }) => health.limitedUntil <= now);
    const slots = await Promise.all(asked.map(async (member) => [member, await probe(member)] as const));
    await identity.round();
    const ours = slots.flatMap(([{ health }, slot]) => (slot !== null && isInService(health) ? [slot] : []));
    if (ours.length > 0) options.sawTip(Math.max(...ours));
    roundEnded();
  }

  async function loop(): Promise<void> {
    while (!stopped.signal.aborted) {
      try {
        await clock.sleep(intervalMs(), stopped.signal);
      } catch {
        return;
      }
      await round();
    }
  }

  return {
    /** Polls all of them now. */
    async probe(timeoutMs: number): Promise<void> {
      await Promise.all(members().map((member) => probe(member, timeoutMs)));
      roundEnded();
    },
    /** Waits for the first round, so that the first choice of an upstream is a good one. */
    async start(): Promise<void> {
      await round();
      running = loop();
    },
    async stop(): Promise<void> {
      stopped.abort(new Error('the pool is stopping'));
      await running;
    },
  };
}
