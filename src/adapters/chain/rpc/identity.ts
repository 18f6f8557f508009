import type { Clock } from '../../../ports/clock.ts';
import type { Log } from '../../../ports/log.ts';
import { readReply } from './client.ts';
import type { Member } from './member.ts';

/** Which chain each upstream of a pool serves: one that serves another is out of service for everybody. */
export interface IdentityWatch {
  /**
   * The chain that the pool is for. Until then every upstream is in service; from then on those that say so, or, where `mayBeSilent`, all
   * that name no other one: then nobody waits for a question either.
   */
  bind(genesisHash: string, mayBeSilent?: boolean): void;
  /** Asks all upstreams now, each by itself. Never throws; one that does not answer is out of service until it does. */
  ask(): Promise<void>;
  /** Something happened after which this one may be another chain: it broke, or its slots went back. */
  suspect(member: Member): void;
  /** A connection to this one was closed: whatever answers there now has to say who it is before it is asked anything. */
  broke(member: Member): void;
  /** A question under way, which has to be answered first; null for none. */
  pending(member: Member): Promise<void> | null;
  /** Asks those that were not asked for long. Part of each round of health checks. */
  round(): Promise<void>;
  stop(): Promise<void>;
}

export interface IdentityOptions {
  readonly label: string;
  readonly members: readonly Member[];
  readonly clock: Clock;
  readonly log: Log;
  /** Called when an upstream went out of service or came back. */
  readonly changed: () => void;
}

const QUESTION = '{"jsonrpc":"2.0","id":1,"method":"getGenesisHash"}';
const TIMEOUT_MS = 4_000;
const MAX_BYTES = 4_096;
/** The longest time without a question. A minute costs little, and bounds what nothing else shows. */
const EVERY_MS = 60_000;
/** Between questions that a suspicion causes, and to one that is out of service. */
const SUSPECT_MS = 1_000;
const UNKNOWN_MS = 500;
const OTHER_MS = 2_000;

export function createIdentityWatch({ label, members, clock, log, changed }: IdentityOptions): IdentityWatch {
  const stopped = new AbortController();
  const running = new Map<Member, Promise<void>>();
  const timers = new Map<Member, () => void>();
  const askedAt = new Map<Member, number>();
  let expected: string | null = null;
  let isSilenceFine = false;

  function set({ upstream, health }: Member, state: 'ours' | 'unknown' | { readonly genesisHash: string }): void {
    const other = typeof state === 'string' ? null : state.genesisHash;
    if (health.isKnown === (state !== 'unknown') && health.otherChain === other) return;
    if (other !== null && health.otherChain !== other)
      log.error(
        { code: 'UPSTREAM_OTHER_CHAIN', pool: label, upstream: upstream.label, genesisHash: other, expected },
        'upstream serves another chain and is out of service',
      );
    if (state === 'ours' && health.otherChain !== null)
      log.info({ pool: label, upstream: upstream.label }, 'upstream serves our chain again');
    health.isKnown = state !== 'unknown';
    health.otherChain = other;
    changed();
  }

  async function question(member: Member): Promise<void> {
    askedAt.set(member, clock.monotonic());
    const { health, transport } = member;
    const { outcome, result, error } = await readReply(transport, {
      ...{ body: QUESTION, timeoutMs: TIMEOUT_MS, maxBytes: MAX_BYTES, signal: stopped.signal },
    });
    if (stopped.signal.aborted || expected === null) return;
    if (typeof result === 'string') set(member, result === expected ? 'ours' : { genesisHash: result });
    // One that does not offer the method cannot be told from ours; one that was seen as another chain has to prove itself.
    else if (outcome.kind === 'denied' || error !== undefined) {
      if (health.otherChain === null) set(member, 'ours');
    } else if (!isSilenceFine && outcome.kind !== 'limited' && health.otherChain === null) set(member, 'unknown');
    if (!health.isKnown || health.otherChain !== null) later(member);
  }

  function askOne(member: Member): Promise<void> {
    const known = running.get(member);
    if (known !== undefined) return known;
    timers.get(member)?.();
    timers.delete(member);
    const made = question(member).finally(() => running.delete(member));
    running.set(member, made);
    return made;
  }

  function later(member: Member): void {
    timers.get(member)?.();
    const ms = member.health.otherChain === null ? UNKNOWN_MS : OTHER_MS;
    timers.set(
      member,
      clock.timeout(ms, () => void askOne(member)),
    );
  }

  const sinceAsked = (member: Member) => clock.monotonic() - (askedAt.get(member) ?? Number.NEGATIVE_INFINITY);
  const isWatching = () => expected !== null && !stopped.signal.aborted;

  async function ask(): Promise<void> {
    if (!isWatching()) return;
    // An answer to an earlier question may be older than what made the caller ask.
    await Promise.all(members.map((member) => running.get(member)));
    await Promise.all(members.map(askOne));
  }

  return {
    bind(genesisHash, mayBeSilent = false) {
      if (expected === genesisHash) return;
      expected = genesisHash;
      isSilenceFine = mayBeSilent;
      for (const member of members) {
        member.health.isKnown = mayBeSilent;
        askedAt.delete(member);
      }
    },
    ask,
    suspect(member) {
      if (!isWatching() || running.has(member) || timers.has(member)) return;
      const waitMs = SUSPECT_MS - sinceAsked(member);
      if (waitMs <= 0) void askOne(member);
      else
        timers.set(
          member,
          clock.timeout(waitMs, () => void askOne(member)),
        );
    },
    broke(member) {
      if (isWatching()) void askOne(member);
    },
    pending: (member) => (isSilenceFine ? null : (running.get(member) ?? null)),
    async round() {
      if (isWatching()) await Promise.all(members.filter((member) => sinceAsked(member) >= EVERY_MS).map(askOne));
    },
    async stop() {
      stopped.abort(new Error('the pool stops'));
      for (const cancel of timers.values()) cancel();
      await Promise.all(running.values());
    },
  };
}
