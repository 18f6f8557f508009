import type { CoreConfig } from '../../../kernel/config/core.ts';
import type { Log } from '../../../ports/log.ts';
import type { Metrics } from '../../../ports/metrics.ts';
import type { Upstream, UpstreamConfig, UpstreamPool } from '../../../ports/upstream.ts';
import { checkAddresses } from './check-addresses.ts';
import { applyOutcome, byPreference, isHealthy, markBehind } from './health.ts';
import { createHealthLoop } from './health-loop.ts';
import { type Member, type MemberOptions, makeMember, openSocket, stateOf } from './member.ts';

export interface PoolOptions extends MemberOptions {
  readonly upstreams: readonly UpstreamConfig[];
  readonly core: CoreConfig;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** The upstreams of one chain. Opens nothing before `start`; `send` works before as well. Error: CONFIG_INVALID. */
export function createUpstreamPool(options: PoolOptions): UpstreamPool {
  const { label, core, clock, log } = options;
  checkAddresses(label, options.upstreams);
  const members = options.upstreams.map((config, order) => makeMember(config, order, options));
  const byUpstream = new Map(members.map((member) => [member.upstream.label, member]));
  const hasArchive = members.some(({ upstream }) => upstream.archive);
  const listeners = new Set<() => void>();
  let lastHealthy = '';

  /** Tells the listeners when the set of healthy upstreams is another than before. */
  function settle(): void {
    markBehind(
      members.map((member) => member.health),
      core.follow.unhealthyLagSlots,
    );
    const now = clock.monotonic();
    const healthy = members.filter((member) => isHealthy(member.health, now)).map((member) => member.upstream.label);
    if (healthy.join() === lastHealthy) return;
    if (lastHealthy !== '' || healthy.length < members.length)
      log.info({ pool: label, healthy }, 'healthy upstreams changed');
    lastHealthy = healthy.join();
    for (const listener of listeners) listener();
  }
  const loop = createHealthLoop({
    members,
    clock,
    intervalMs: core.upstream.healthIntervalMs,
    report: reportTo,
    settle,
  });

  function reportTo(member: Member, outcome: Parameters<UpstreamPool['report']>[1]): void {
    const wasResting = member.health.restUntil > clock.monotonic();
    applyOutcome(member.health, outcome, clock.monotonic(), core);
    if (!wasResting && member.health.restUntil > clock.monotonic())
      log.warn(
        { pool: label, upstream: member.upstream.label, reason: member.health.reason },
        'upstream is left alone for a while',
      );
    settle();
  }
  const memberOf = (upstream: Upstream): Member | undefined => byUpstream.get(upstream.label);

  options.metrics.observe('upstreams_healthy', 'upstreams that are used', () => {
    const now = clock.monotonic();
    return members.filter((member) => isHealthy(member.health, now)).length;
  });

  return {
    label,
    size: members.length,
    states: () => members.map((member) => stateOf(member, clock.monotonic())),
    candidates({ prefer, avoid = [], healthyOnly = false, exceptLimited = false, archive = false } = {}) {
      const now = clock.monotonic();
      return members
        .filter(
          ({ upstream, health }) =>
            !avoid.includes(upstream.label) &&
            (!archive || upstream.archive || !hasArchive) &&
            (!healthyOnly || isHealthy(health, now)) &&
            (!exceptLimited || health.limitedUntil <= now),
        )
        .map((member) => ({
          member,
          health: member.health,
          full: member.health.inFlight >= member.upstream.maxConcurrent,
        }))
        .sort(byPreference(clock, prefer === undefined ? null : (byUpstream.get(prefer)?.health.order ?? null)))
        .map(({ member }) => member.upstream);
    },
    async send(upstream, request) {
      const member = memberOf(upstream);
      if (member === undefined) throw new TypeError(`${upstream.label} is not of pool ${label}`);
      member.health.inFlight += 1;
      try {
        const reply = await member.transport.send(request);
        reply.body.once('close', () => {
          member.health.inFlight -= 1;
        });
        return reply;
      } catch (error) {
        member.health.inFlight -= 1;
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
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    start: () => loop.start(),
    async stop() {
      await loop.stop();
      await Promise.all(members.map((member) => member.transport.close()));
    },
  };
}
