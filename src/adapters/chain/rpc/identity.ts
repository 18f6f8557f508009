import { rpcRequest } from '../../../lib/json-rpc.ts';
import { OWN_WORK } from '../../../ports/access.ts';
import type { Clock } from '../../../ports/clock.ts';
import type { Log } from '../../../ports/telemetry.ts';
import { createSingleFlight } from '../../../runtime/single-flight.ts';
import { readReply } from './client.ts';
import { isInService, noteChain, type PoolMember } from './member.ts';
import type { SERVED_CHAIN } from './transitions.ts';

/** Which chain each upstream of a pool serves. An upstream of another chain is out of service for all callers. */
export interface IdentityWatch {
  /**
   * Sets the chain of the pool. Before, every upstream is in service; afterwards those that report this chain, or, with `mayBeSilent`,
   * all that report no other chain: calls then do not wait for an identity check.
   */
  bind(genesisHash: string, mayBeSilent?: boolean): void;
  /**
   * Checks all upstreams now, each independently. Never throws; an upstream that does not answer is out of service until it does. False: none of
   * them could show now that it serves our chain.
   */
  ask(): Promise<boolean>;
  /** The upstream may serve another chain now: its connection broke, or its slots went back. */
  suspect(member: PoolMember): void;
  /** A connection was closed: the upstream has to identify its chain before it gets further requests. */
  broke(member: PoolMember): void;
  /** A new upstream: with a chain set, it has to identify its chain first. */
  joined(member: PoolMember): void;
  /** Removed from the pool: no further checks. */
  left(member: PoolMember): void;
  /** The identity check in flight that must finish first; null without one. */
  pending(member: PoolMember): Promise<unknown> | null;
  /** Checks upstreams whose last check is too old. Part of each round of health checks. */
  round(): Promise<void>;
  stop(): Promise<void>;
}

export interface IdentityOptions {
  readonly label: string;
  readonly members: () => readonly PoolMember[];
  readonly clock: Clock;
  readonly log: Log;
  /** Called when an upstream went out of service or came back. */
  readonly changed: () => void;
}

const QUESTION = rpcRequest('getGenesisHash');
const TIMEOUT_MS = 4_000;
const MAX_BYTES = 4_096;
/** Longest time without a check. One call a minute costs little, and bounds changes that nothing else shows. */
const EVERY_MS = 60_000;
/** Shortest time between checks after a suspicion, and of an upstream that is out of service. */
const SUSPECT_MS = 1_000;
const UNKNOWN_MS = 500;
const OTHER_MS = 2_000;

export function createIdentityWatch({ label, members, clock, log, changed }: IdentityOptions): IdentityWatch {
  const stopped = new AbortController();
  const running = createSingleFlight<PoolMember, boolean>();
  /** They have the method: an error from one of them is no answer. */
  const able = new WeakSet<PoolMember>();
  const timers = new Map<PoolMember, () => void>();
  const askedAt = new Map<PoolMember, number>();
  let expected: string | null = null;
  let isSilenceFine = false;

  function note({ upstream, health }: PoolMember, event: keyof typeof SERVED_CHAIN, named: string | null = null): void {
    const { chain, otherChain } = health;
    noteChain(health, event, named);
    if (health.chain === chain && health.otherChain === otherChain) return;
    if (health.chain === 'other' && health.otherChain !== otherChain)
      log.error(
        { code: 'UPSTREAM_OTHER_CHAIN', pool: label, upstream: upstream.label, genesisHash: named, expected },
        'upstream serves another chain and is out of service',
      );
    if (health.chain === 'ours' && chain === 'other')
      log.info({ pool: label, upstream: upstream.label }, 'upstream serves our chain again');
    changed();
  }

  /** Returns whether it serves our chain, as far as can be known of it. */
  async function question(member: PoolMember): Promise<boolean> {
    askedAt.set(member, clock.monotonic());
    const { health, transport } = member;
    const request = {
      body: QUESTION,
      timeoutMs: TIMEOUT_MS,
      maxBytes: MAX_BYTES,
      isRead: true,
      signal: stopped.signal,
      tenant: OWN_WORK,
    };
    const { outcome, result, error } = await readReply(transport, request, 'getGenesisHash');
    if (stopped.signal.aborted || expected === null) return false;
    if (typeof result === 'string') able.add(member);
    const cannotTell = (outcome.kind === 'denied' || error !== undefined) && !able.has(member);
    if (result === expected) note(member, 'names ours');
    else if (typeof result === 'string') note(member, 'names another', result);
    // An upstream without the method counts as ours; one that was seen on another chain must prove itself.
    else if (cannotTell) note(member, 'cannot tell');
    else if (!isSilenceFine && outcome.kind !== 'limited') note(member, 'does not answer');
    if (!isInService(health) && members().includes(member)) later(member);
    return health.chain !== 'other' && (result === expected || cannotTell);
  }

  const askOne = (member: PoolMember): Promise<boolean> =>
    running.run(member, () => {
      timers.get(member)?.();
      timers.delete(member);
      return question(member);
    });

  function later(member: PoolMember): void {
    timers.get(member)?.();
    const ms = member.health.chain === 'other' ? OTHER_MS : UNKNOWN_MS;
    timers.set(
      member,
      clock.timeout(ms, () => void askOne(member)),
    );
  }

  const sinceAsked = (member: PoolMember) => clock.monotonic() - (askedAt.get(member) ?? Number.NEGATIVE_INFINITY);
  const isWatching = () => expected !== null && !stopped.signal.aborted;

  async function ask(): Promise<boolean> {
    if (!isWatching()) return expected === null;
    // An answer to an earlier check may predate the reason for this one.
    await Promise.all(members().map((member) => running.get(member)));
    return (await Promise.all(members().map(askOne))).includes(true);
  }

  return {
    bind(genesisHash, mayBeSilent = false) {
      if (expected === genesisHash) return;
      expected = genesisHash;
      isSilenceFine = mayBeSilent;
      for (const member of members()) {
        noteChain(member.health, mayBeSilent ? 'need not tell' : 'has to tell');
        askedAt.delete(member);
      }
    },
    ask,
    suspect(member) {
      if (!isWatching() || running.get(member) !== undefined || timers.has(member) || !members().includes(member))
        return;
      const waitMs = SUSPECT_MS - sinceAsked(member);
      if (waitMs <= 0) void askOne(member);
      else
        timers.set(
          member,
          clock.timeout(waitMs, () => void askOne(member)),
        );
    },
    broke(member) {
      if (isWatching() && members().includes(member)) void askOne(member);
    },
    joined(member) {
      if (!isWatching()) return;
      noteChain(member.health, isSilenceFine ? 'need not tell' : 'has to tell');
      void askOne(member);
    },
    left(member) {
      timers.get(member)?.();
      timers.delete(member);
      askedAt.delete(member);
    },
    pending: (member) => (isSilenceFine ? null : (running.get(member) ?? null)),
    async round() {
      if (isWatching())
        await Promise.all(
          members()
            .filter((member) => sinceAsked(member) >= EVERY_MS)
            .map(askOne),
        );
    },
    async stop() {
      stopped.abort(new Error('the pool is stopping'));
      for (const cancel of timers.values()) cancel();
      await Promise.all(running.all());
    },
  };
}
