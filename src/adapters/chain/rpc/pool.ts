import { isDeepStrictEqual } from 'node:util';
import type { CoreConfig } from '../../../config/core.ts';
import { CodedError } from '../../../lib/coded-error.ts';
import { rpcRequest } from '../../../lib/json-rpc.ts';
import { createSlotLength, isLagBeyond } from '../../../lib/slot-length.ts';
import { OWN_WORK } from '../../../ports/access.ts';
import type { Clock } from '../../../ports/clock.ts';
import type { Log, Metrics } from '../../../ports/telemetry.ts';
import {
  type CallSignal,
  configuredNow,
  type Upstream,
  type UpstreamConfig,
  type UpstreamList,
  type UpstreamOutcome,
  type UpstreamPool,
  type UpstreamReply,
  type UpstreamRequest,
} from '../../../ports/upstream.ts';
import { createHedge } from '../../../runtime/hedge.ts';
import { orAborted } from '../../../runtime/waiting.ts';
import { readReply } from './client.ts';
import { createIdentityWatch, type IdentityWatch } from './identity.ts';
import {
  applyOutcome,
  byPreference,
  type Health,
  isHealthy,
  isInService,
  type Member,
  type MemberOptions,
  makeMember,
  markBehind,
  openSocket,
  sawSlotOf,
  stateOf,
} from './member.ts';
import { checkQuorum, createQuorum } from './quorum.ts';
import { checkAddresses } from './transport.ts';

export interface PoolOptions extends MemberOptions {
  readonly upstreams: UpstreamList;
  readonly core: CoreConfig;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Shared by the pools of one process; without it each pool logs separately. */
  readonly outages?: OutageLog;
}

/** Decides which thread of a process logs an outage. */
export interface OutageLog {
  /** False when another thread has logged the start. */
  begin(upstream: string): boolean;
  /** False when another thread logged the start, and therefore logs the end. */
  end(upstream: string): boolean;
}

/** A good answer younger than this shows that an upstream is reachable; otherwise it is polled, for at most this time. */
const FRESH_ANSWER_MS = 2_000;
const QUICK_PROBE_MS = 1_500;

/** The upstreams of one chain. Opens no connection before `start`; `send` works before that too. Error: CONFIG_INVALID. */
export function createUpstreamPool(options: PoolOptions): UpstreamPool {
  const { label, core, clock, log, outages } = options;
  const maxLag = {
    get seconds() {
      return core.follow.unhealthyLagSeconds;
    },
    slots: core.follow.unhealthyLagSlots,
  };
  const slotLength = createSlotLength();
  const { upstreams } = options;
  const identity = createIdentityWatch({ label, members: current, clock, log, changed: () => refresh() });
  let taken: readonly UpstreamConfig[] | null = null;
  let members: readonly Member[] = [];
  let byLabel: ReadonlyMap<string, Member> = new Map();
  let hasArchive = false;
  let labels = 0;
  /** Removed ones with requests in flight. */
  const retired = new Set<Member>();
  const listeners = new Set<() => void>();
  let lastHealthy = '';
  /** State at the last refresh. */
  let allHealthy = false;
  let lastOthers = '';

  /** The upstreams as configured now. Those whose entry is the same as before keep their state and their label. */
  function current(): readonly Member[] {
    const wanted = configuredNow(upstreams);
    if (wanted === taken) return members;
    checkAddresses(label, wanted);
    const isFirst = taken === null;
    if (isFirst && label === 'main') checkQuorum(core.upstream.quorum.agree, wanted.length);
    taken = wanted;
    const before = new Set(members);
    const joined: Member[] = [];
    members = wanted.map((config, order) => {
      const same = [...before].find((member) => isDeepStrictEqual(member.config, config));
      const member = same ?? newMember(config);
      if (same === undefined) joined.push(member);
      else before.delete(same);
      member.health.order = order;
      return member;
    });
    byLabel = new Map(members.map((member) => [member.upstream.label, member]));
    hasArchive = members.some(({ upstream }) => upstream.archive);
    if (isFirst) return members;
    for (const member of joined) identity.joined(member);
    for (const member of before) retire(member);
    log.info({ pool: label, upstreams: [...byLabel.keys()] }, 'upstreams replaced');
    // The caller may be in the middle of a choice.
    queueMicrotask(refresh);
    return members;
  }

  /** A label is never used again, so that whoever remembers one never means another upstream. */
  function newMember(config: UpstreamConfig): Member {
    const made: Member = makeMember(config, `${label}-${labels++}`, options, () => identity.broke(made));
    return made;
  }

  function retire(member: Member): void {
    identity.left(member);
    if (member.outage !== null) outages?.end(member.upstream.label);
    retired.add(member);
    void member.transport.retire().finally(() => retired.delete(member));
  }

  /** Notifies the listeners when the set of healthy upstreams changed. */
  function refresh(): void {
    markBehind(
      current().map((member) => member.health),
      maxLag,
      slotLength.ms(),
    );
    const now = clock.monotonic();
    const healthy = members.filter((member) => isHealthy(member.health, now)).map((member) => member.upstream.label);
    const others = members.map(({ health }) => health.otherChain ?? '').join();
    allHealthy = healthy.length === members.length;
    if (healthy.join() === lastHealthy && others === lastOthers) return;
    lastOthers = others;
    if (healthy.join() !== lastHealthy && (lastHealthy !== '' || healthy.length < members.length))
      log.info({ pool: label, healthy }, 'healthy upstreams changed');
    lastHealthy = healthy.join();
    for (const listener of listeners) listener();
  }
  const loop = createHealthLoop({
    members: current,
    clock,
    intervalMs: () => core.upstream.healthIntervalMs,
    report: reportTo,
    roundEnded: refresh,
    identity,
    isFarBack: (slots) => isLagBeyond({ lagSlots: slots, slotMs: slotLength.ms() }, maxLag),
    sawTip: (slot) => slotLength.sawTip(slot, clock.monotonic()),
  });

  function reportTo(member: Member, outcome: Parameters<UpstreamPool['report']>[1]): void {
    applyOutcome(member.health, outcome, clock.monotonic(), core);
    if (outcome.kind === 'contradicted') contradictions.with(member.upstream.label).add();
    if (outcome.kind === 'failed') identity.suspect(member);
    noteOutage(member, outcome.kind === 'ok');
    // A good answer changes nothing where all is well, and there is one for each call that is passed on.
    if (outcome.kind !== 'ok' || !allHealthy) refresh();
  }
  let probing: Promise<boolean> | null = null;
  const hasAnswered = () =>
    current().some(({ health }) => isInService(health) && clock.monotonic() - health.answeredAt < FRESH_ANSWER_MS);
  const probeNow = () =>
    loop
      .probe(QUICK_PROBE_MS)
      .then(hasAnswered)
      .finally(() => {
        probing = null;
      });

  /** Logs one line at the start and one at the end of an outage: repeated failures and cool-downs are one outage. */
  function noteOutage(member: Member, isOk: boolean): void {
    const now = clock.monotonic();
    const { health, outage } = member;
    const about = { pool: label, upstream: member.upstream.label };
    if (health.restUntil > now) {
      if (outage !== null) outage.fineSince = null;
      else {
        member.outage = { since: now, fineSince: null };
        // Each thread of a process has its own pool and sees the same outage.
        if (outages?.begin(member.upstream.label) === false) return;
        log.warn({ ...about, reason: health.reason }, 'upstream is cooling down');
      }
    } else if (outage !== null && isOk) {
      outage.fineSince ??= now;
      if (now - outage.fineSince < core.upstream.coolDownMs) return;
      member.outage = null;
      if (outages?.end(member.upstream.label) === false) return;
      log.info({ ...about, outageMs: Math.round(outage.fineSince - outage.since) }, 'upstream is back');
    }
  }
  /** Waits for an identity check in flight, within the deadline of the caller. */
  async function identified(member: Member, signal: CallSignal | undefined): Promise<void> {
    const question = identity.pending(member);
    if (question !== null) await (signal === undefined ? question : orAborted(question, signal));
  }
  current();
  const memberOf = (upstream: Upstream): Member | undefined => byLabel.get(upstream.label);

  const contradictions = options.metrics.counter(
    'contradictions_total',
    'answers that were proven wrong about the chain, or that the other upstreams outvoted',
    ['upstream'],
  );
  options.metrics.observe(
    'upstreams_other_chain',
    'upstreams out of service because they serve another chain',
    () => current().filter(({ health }) => health.otherChain !== null).length,
  );
  options.metrics.observe('upstreams_healthy', 'upstreams in use', () => {
    const now = clock.monotonic();
    return current().filter((member) => isHealthy(member.health, now)).length;
  });

  const pool: UpstreamPool = {
    label,
    hedge: createHedge(() => ({ afterMs: core.upstream.hedgeAfterMs, share: core.upstream.hedgeShare })),
    states: () => current().map((member) => stateOf(member, clock.monotonic())),
    candidates({ prefer, avoid = [], healthyOnly = false, exceptLimited = false, archive = false } = {}) {
      const now = clock.monotonic();
      const fit = current().filter(
        ({ upstream, health }) =>
          isInService(health) &&
          !avoid.includes(upstream.label) &&
          (!archive || upstream.archive || !hasArchive) &&
          (!healthyOnly || isHealthy(health, now)) &&
          (!exceptLimited || health.limitedUntil <= now),
      );
      if (fit.length === 1) return [fit[0]!.upstream];
      return fit
        .map((member) => ({
          member,
          health: member.health,
          full: member.health.inFlight >= member.upstream.maxConcurrent,
        }))
        .sort(byPreference(clock, prefer === undefined ? null : (byLabel.get(prefer)?.health.order ?? null)))
        .map(({ member }) => member.upstream);
    },
    async send(upstream, request) {
      const member = memberOf(upstream);
      if (member === undefined)
        throw new CodedError('UPSTREAM_CONNECT', `${upstream.label} is no upstream of pool ${label} any more`, {
          retryable: true,
        });
      if (identity.pending(member) !== null) await identified(member, request.signal);
      if (!isInService(member.health))
        throw new CodedError('UPSTREAM_CONNECT', `${upstream.label} is out of service`, { retryable: true });
      member.health.inFlight += 1;
      const ended = () => {
        member.health.inFlight -= 1;
      };
      let reply: UpstreamReply;
      try {
        reply = await member.transport.send(withKnownCommitment(member.health, request));
      } catch (error) {
        ended();
        throw error;
      }
      if (reply.whole === null) reply.body.once('close', ended);
      else ended();
      try {
        // The connection may have broken while the request waited, and the next one may lead to another chain.
        if (identity.pending(member) !== null) await identified(member, request.signal);
        if (!isInService(member.health))
          throw new CodedError('UPSTREAM_FAILED', `${upstream.label} is out of service`, { retryable: true });
        return reply;
      } catch (error) {
        if (reply.whole === null) reply.body.destroy();
        throw error;
      }
    },
    report(upstream, outcome) {
      const member = memberOf(upstream);
      if (member !== undefined) reportTo(member, outcome);
    },
    openSocket(upstream) {
      return openSocket(memberOf(upstream), label);
    },
    async answers() {
      if (hasAnswered()) return true;
      probing ??= probeNow();
      return await probing;
    },
    bind: identity.bind,
    identify: identity.ask,
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    start: () => loop.start(),
    async stop() {
      await Promise.all([loop.stop(), identity.stop()]);
      await Promise.all([...members, ...retired].map((member) => member.transport.close()));
    },
  };
  return label === 'main' ? { ...pool, quorum: createQuorum({ core, metrics: options.metrics, pool }) } : pool;
}

interface HealthLoopOptions {
  readonly members: () => readonly Member[];
  readonly clock: Clock;
  readonly intervalMs: () => number;
  readonly report: (member: Member, outcome: UpstreamOutcome) => void;
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
const CONFIRMED = /"(commitment|preflightCommitment)"(\s*:\s*)"confirmed"/g;

/** The request in words that the upstream knows: one that refuses `confirmed` is asked for `finalized`. */
function withKnownCommitment(health: Health, request: UpstreamRequest): UpstreamRequest {
  if (!health.refusesConfirmed) return request;
  return { ...request, body: String(request.body).replace(CONFIRMED, '"$1"$2"finalized"') };
}
const PROBE_TIMEOUT_MS = 4_000;
const PROBE_MAX_BYTES = 64 * 1024;

/** Polls every upstream for its slot. */
function createHealthLoop(options: HealthLoopOptions) {
  const { members, clock, intervalMs, report, roundEnded, identity } = options;
  const stopped = new AbortController();
  let running: Promise<void> = Promise.resolve();

  /** The upstream's current slot; null without an answer. */
  async function probe(member: Member, timeoutMs = PROBE_TIMEOUT_MS): Promise<number | null> {
    const ask = (body: string) =>
      readReply(
        member.transport,
        { body, timeoutMs, maxBytes: PROBE_MAX_BYTES, signal: stopped.signal, tenant: OWN_WORK },
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
