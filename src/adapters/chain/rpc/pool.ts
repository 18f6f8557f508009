import type { CoreConfig } from '../../../config/core.ts';
import { createSlotLength, isLagBeyond } from '../../../lib/slot-length.ts';
import type { Clock } from '../../../ports/clock.ts';
import type { Log, Metrics } from '../../../ports/telemetry.ts';
import type { Upstream, UpstreamList, UpstreamPool } from '../../../ports/upstream.ts';
import { createHedge } from '../../../runtime/hedge.ts';
import { createHealthLoop } from './health-loop.ts';
import { createIdentityWatch } from './identity.ts';
import {
  applyOutcome,
  byPreference,
  isHealthy,
  isInService,
  type MemberOptions,
  markBehind,
  openSocket,
  type PoolMember,
  upstreamStateOf,
} from './member.ts';
import { createOutages, type OutageLog } from './outages.ts';
import { checkQuorum, createQuorum } from './quorum.ts';
import { createRoster } from './roster.ts';
import { createSending } from './sending.ts';

export type { OutageLog };

export interface UpstreamPoolOptions extends MemberOptions {
  readonly upstreams: UpstreamList;
  readonly core: CoreConfig;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Shared by the pools of one process; without it each pool logs separately. */
  readonly outages?: OutageLog;
}

type CandidateOptions = NonNullable<Parameters<UpstreamPool['candidates']>[0]>;

/** A good answer younger than this shows that an upstream is reachable; otherwise it is polled, for at most this time. */
const FRESH_ANSWER_MS = 2_000;
const QUICK_PROBE_MS = 1_500;

/** The upstreams of one chain. Opens no connection before `start`; `send` works before that too. Error: CONFIG_INVALID. */
export function createUpstreamPool(options: UpstreamPoolOptions): UpstreamPool {
  const { label, core, clock, log, outages } = options;
  const maxLag = {
    get seconds() {
      return core.follow.unhealthyLagSeconds;
    },
    slots: core.follow.unhealthyLagSlots,
  };
  const slotLength = createSlotLength();
  const { upstreams } = options;
  const notes = createOutages({ label, core, clock, log, shared: outages });
  const roster = createRoster({
    upstreams,
    member: options,
    check(count) {
      if (label === 'main') checkQuorum(core.upstream.quorum.agree, count);
    },
    broke: (member) => identity.broke(member),
    replaced(joined, left, labels) {
      for (const member of joined) identity.joined(member);
      for (const member of left) {
        identity.left(member);
        notes.forget(member);
      }
      log.info({ pool: label, upstreams: labels }, 'upstreams replaced');
      // The caller may be in the middle of a choice.
      queueMicrotask(refresh);
    },
  });
  const { current, memberOf } = roster;
  const identity = createIdentityWatch({ label, members: current, clock, log, changed: () => refresh() });
  const listeners = new Set<() => void>();
  let lastHealthy = '';
  /** State at the last refresh. */
  let allHealthy = false;
  let lastOthers = '';

  /** Notifies the listeners when the set of healthy upstreams changed. */
  function refresh(): void {
    const members = current();
    markBehind(
      members.map((member) => member.health),
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

  function reportTo(member: PoolMember, outcome: Parameters<UpstreamPool['report']>[1]): void {
    applyOutcome(member.health, outcome, clock.monotonic(), core);
    if (outcome.kind === 'contradicted') contradictions.with(member.upstream.label).add();
    if (outcome.kind === 'failed') identity.suspect(member);
    notes.note(member, outcome.kind === 'ok');
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

  current();

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
    states: () => current().map((member) => upstreamStateOf(member, clock.monotonic())),
    candidates(wanted = {}) {
      const order = wanted.prefer === undefined ? null : (memberOf({ label: wanted.prefer })?.health.order ?? null);
      return choose(current(), wanted, { clock, order, hasArchive: roster.hasArchive });
    },
    send: createSending({ label, memberOf, identity }),
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
      await roster.close();
    },
  };
  return label === 'main' ? { ...pool, quorum: createQuorum({ core, metrics: options.metrics, pool }) } : pool;
}

interface Choice {
  readonly clock: Clock;
  /** Place of the preferred member in the configuration; null: none is preferred. */
  readonly order: number | null;
  /** Whether a member has the whole history. */
  readonly hasArchive: boolean;
}

/** The upstreams that may get a call, the best first. Without a member that has the whole history, all count as having it. */
function choose(
  members: readonly PoolMember[],
  { avoid = [], healthyOnly = false, exceptLimited = false, archive = false }: CandidateOptions,
  { clock, order, hasArchive }: Choice,
): readonly Upstream[] {
  const now = clock.monotonic();
  const fit = members.filter(
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
    .sort(byPreference(clock, order))
    .map(({ member }) => member.upstream);
}
