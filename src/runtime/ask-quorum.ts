import { createHash } from 'node:crypto';
import { isPlainObject, stringify, withSortedMembers } from '../lib/json.ts';
import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/telemetry.ts';
import type { CallSignal, Upstream, UpstreamPool, UpstreamQuorum } from '../ports/upstream.ts';
import { type Disagreement, Votes } from './votes.ts';
import { backoffMs, orAborted } from './waiting.ts';

/** One upstream's answer to a call, in the form in which answers are compared. */
export interface AnswerVote<T> {
  readonly key: string;
  readonly value: T;
  /** Whether another answer proves this one wrong: it has content, and cannot change. */
  readonly isFixed: boolean;
  /** Slot of its context; null: it has none. */
  readonly slot: number | null;
}

/** Methods without a context whose answer, once there is one, stays the same. */
const FIXED = new Set(['getBlock', 'getBlockTime', 'getGenesisHash', 'getTransaction']);
const KEY_CHARS = 32;

/** The vote of a result: members in any order, without the context, which says when the node was asked. */
export function voteOf<T>(method: string, result: unknown, value: T): AnswerVote<T> {
  const isWithContext = isPlainObject(result) && 'value' in result && isPlainObject(result['context']);
  const content: unknown = isWithContext ? result['value'] : result;
  const context = isWithContext ? (result['context'] as Record<string, unknown>) : {};
  const slot = typeof context['slot'] === 'number' ? context['slot'] : null;
  const hash = createHash('sha256')
    .update(stringify(withSortedMembers(content)))
    .digest('hex');
  return {
    key: content === null ? 'null' : `answer ${hash.slice(0, KEY_CHARS)}`,
    value,
    isFixed: content !== null && (slot !== null || FIXED.has(method)),
    slot,
  };
}

/** The vote of an error object that is about the call. Nodes have two codes for a slot without a block. */
export const voteOfError = <T>(code: number, isSkipped: boolean, value: T): AnswerVote<T> => ({
  key: isSkipped ? 'error skipped' : `error ${code}`,
  value,
  isFixed: false,
  slot: null,
});

export interface QuorumCall<T> {
  readonly method: string;
  readonly pool: Pick<UpstreamPool, 'report'>;
  readonly quorum: UpstreamQuorum;
  readonly clock: Clock;
  readonly log: Log | null;
  readonly signal: CallSignal | undefined;
  /** Monotonic ms. */
  readonly untilMs: number;
  /** Null: the upstream has no answer that counts. */
  readonly send: (upstream: Upstream) => Promise<AnswerVote<T> | null>;
}

export type QuorumOutcome<T> = { readonly kind: 'agreed'; readonly value: T } | Disagreement;

const AGAIN = { firstMs: 100, longestMs: 1_000 } as const;

/**
 * Sends a call to all upstreams until enough give the same answer; who gives another one that cannot be right is left out for a while.
 * Rejects with what `send` throws, and with the signal's reason.
 */
export async function askQuorum<T>(call: QuorumCall<T>): Promise<QuorumOutcome<T>> {
  const { quorum, clock, signal } = call;
  const untilMs = Math.min(call.untilMs, clock.monotonic() + quorum.waitMs());
  const votes = new Votes<AnswerVote<T>>(quorum.needed());
  for (let attempts = 1; ; attempts += 1) {
    // When all have answered and nothing is agreed, some may have been behind: all are asked again.
    const open = quorum.voters().filter(({ label }) => !votes.has(label));
    await askUntilAgreed(call, open.length > 0 ? open : quorum.voters(), votes);
    if (signal?.aborted) throw signal.reason;
    const agreed = votes.agreed();
    if (agreed !== null) {
      quorum.count('agreed');
      return { kind: 'agreed', value: agreed.value.value };
    }
    if (clock.monotonic() >= untilMs) break;
    const pause = clock.sleep(Math.min(backoffMs(attempts, null, AGAIN), Math.max(1, untilMs - clock.monotonic())));
    await (signal === undefined ? pause : orAborted(pause, signal));
  }
  const found = votes.disagreement(quorum.total());
  quorum.count(found.kind);
  return found;
}

/** Resolves as soon as enough agree, or when all have answered; later votes still name who was wrong. */
function askUntilAgreed<T>(call: QuorumCall<T>, upstreams: readonly Upstream[], votes: Votes<AnswerVote<T>>) {
  return new Promise<void>((resolve, reject) => {
    const asked = upstreams.map(async (upstream) => {
      const vote = await call.send(upstream);
      if (vote !== null) votes.cast({ voter: upstream.label, key: vote.key, value: vote });
      if (votes.agreed() !== null) resolve();
    });
    void Promise.allSettled(asked).then((ends) => {
      const failed = ends.find(({ status }) => status === 'rejected') as PromiseRejectedResult | undefined;
      if (failed !== undefined && votes.agreed() === null) reject(failed.reason as Error);
      resolve();
      blame(call, upstreams, votes);
    });
  });
}

function blame<T>(call: QuorumCall<T>, upstreams: readonly Upstream[], votes: Votes<AnswerVote<T>>): void {
  const agreed = votes.agreed();
  if (agreed === null || !agreed.value.isFixed) return;
  for (const { voter, value } of votes.against(agreed.key)) {
    const upstream = upstreams.find(({ label }) => label === voter);
    if (upstream === undefined || !value.isFixed || value.slot !== agreed.value.slot) continue;
    const facts = { event: 'upstream.outvoted', upstream: voter, method: call.method, voters: agreed.voters };
    call.log?.error(facts, 'an upstream gives another answer than the others and is left out for a while');
    const reason = `${call.method}: ${agreed.voters.join(', ')} give another answer`;
    call.pool.report(upstream, { kind: 'contradicted', reason });
  }
}
