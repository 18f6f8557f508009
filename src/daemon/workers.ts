import type { CoreConfig } from '../config/core.ts';
import { CodedError, codeOf, messageOf } from '../lib/coded-error.ts';
import type { CheckResult, ConfigValues, CrewDuties, CrewMember, MetricFamily } from '../ports/crew.ts';
import type { Role } from '../ports/daemon-view.ts';
import type { Log } from '../ports/log.ts';
import type { Metrics } from '../ports/metrics.ts';
import { metricsText } from '../runtime/metrics-text.ts';

interface CrewOptions {
  readonly members: readonly CrewMember[];
  readonly lifecycle: CoreConfig['lifecycle'];
  /** Scoped to `roles`. */
  readonly metrics: Metrics;
  readonly log: Log;
}

/** The roles of this process that run in threads of their own, as one. */
export interface Crew {
  /** Errors: the first of a member that does not start. */
  start(): Promise<void>;
  /** Errors: ROLE_SILENT, ROLE_ENDED, which name the role. */
  ping(): Promise<void>;
  /** The checks of all members, named after their role, and whether each answers. */
  checks(): Promise<readonly CheckResult[]>;
  /** Of the members that answer within a second. */
  metrics(): Promise<readonly { readonly role: Role; readonly families: readonly MetricFamily[] }[]>;
  /** Errors: PLUGIN_RELOAD_REFUSED; nothing has changed then. */
  checkConfig(next: ConfigValues): Promise<void>;
  /** All members or none: those that took it go back to `before` when another refuses. Errors: PLUGIN_RELOAD_REFUSED, ROLE_SILENT. */
  takeConfig(next: ConfigValues, before: ConfigValues): Promise<void>;
  /** No new work; within the time limit of drains. Never rejects. */
  drain(): Promise<void>;
  /** Closes and ends the members, each within the time limit. Never rejects; runs once. */
  stop(): Promise<void>;
  /** Resolves with what ended a member, or makes it useless. */
  readonly failed: Promise<unknown>;
}

const PING_TIMEOUT_MS = 10_000;
/** Above the limit of a single check. */
const CHECKS_TIMEOUT_MS = 2_500;
const METRICS_TIMEOUT_MS = 1_000;
const RELOAD_TIMEOUT_MS = 30_000;
/** What the way to a thread and back may add to its own time limit. */
const WAY_MS = 1_000;

export function createCrew({ members, lifecycle, metrics, log }: CrewOptions): Crew {
  const silent = metrics.counter('unanswered_total', 'questions that a role in a thread of its own did not answer', [
    'role',
    'duty',
  ]);
  let stopping: Promise<void> | null = null;

  /** The error when the member does not answer. Silence is logged and counted; the end of a member is our own doing, or ends the daemon. */
  async function tryAsk<D extends keyof CrewDuties>(
    member: CrewMember,
    duty: D,
    timeoutMs: number,
    ...args: Parameters<CrewDuties[D]>
  ) {
    try {
      return { value: await member.ask(duty, timeoutMs, ...args) };
    } catch (error) {
      if (hasEnded(error)) return { error };
      silent.with(member.role, duty).add();
      log.warn({ member: member.role, duty, code: codeOf(error), error: messageOf(error) }, 'a role did not answer');
      return { error };
    }
  }

  async function checksOf(member: CrewMember): Promise<readonly CheckResult[]> {
    const { role } = member;
    const found = await tryAsk(member, 'checks', CHECKS_TIMEOUT_MS);
    if (!('value' in found)) return [{ name: `role ${role}`, ok: false, detail: whyNot(found.error) }];
    const own = (found.value as readonly CheckResult[]).map((check) => ({ ...check, name: `${role}: ${check.name}` }));
    return [{ name: `role ${role}`, ok: true, detail: 'answers' }, ...own];
  }

  async function stopOne(member: CrewMember): Promise<void> {
    await tryAsk(member, 'stop', lifecycle.stopTimeoutMs + WAY_MS);
    await member
      .end()
      .catch((error: unknown) => log.error({ member: member.role, error: messageOf(error) }, 'not ended'));
  }

  return {
    async start() {
      await Promise.all(members.map((member) => member.ask('start', null)));
    },
    async ping() {
      await Promise.all(members.map((member) => member.ask('ping', PING_TIMEOUT_MS)));
    },
    checks: async () => (await Promise.all(members.map(checksOf))).flat(),
    async metrics() {
      const answers = await Promise.all(
        members.map(async (member) => ({ member, found: await tryAsk(member, 'metrics', METRICS_TIMEOUT_MS) })),
      );
      return answers.flatMap(({ member, found }) =>
        'value' in found ? [{ role: member.role, families: found.value as readonly MetricFamily[] }] : [],
      );
    },
    async checkConfig(next) {
      await Promise.all(members.map((member) => member.ask('checkConfig', RELOAD_TIMEOUT_MS, next)));
    },
    async takeConfig(next, before) {
      const asked: CrewMember[] = [];
      for (const member of members) {
        asked.push(member);
        try {
          await member.ask('takeConfig', RELOAD_TIMEOUT_MS, next);
        } catch (error) {
          // One that refused has changed nothing; one that was only silent may have.
          const changed = asked.filter((other) => other !== member || codeOf(error) === 'ROLE_SILENT');
          for (const other of changed.toReversed()) await tryAsk(other, 'takeConfig', RELOAD_TIMEOUT_MS, before);
          throw refusedBy(member.role, error);
        }
      }
    },
    async drain() {
      await Promise.all(members.map((member) => tryAsk(member, 'drain', lifecycle.drainTimeoutMs + WAY_MS)));
    },
    stop() {
      // At once: after the drain none of them waits for another, and the service manager has only so much patience.
      stopping ??= Promise.all(members.map(stopOne)).then(() => undefined);
      return stopping;
    },
    failed: members.length === 0 ? new Promise(() => undefined) : Promise.race(members.map(({ failed }) => failed)),
  };
}

function refusedBy(role: Role, error: unknown): CodedError {
  return new CodedError(
    'PLUGIN_RELOAD_REFUSED',
    `the role ${role} refused the new configuration: ${messageOf(error)}`,
    {
      cause: error,
      facts: { role, code: codeOf(error) ?? null },
    },
  );
}

const hasEnded = (error: unknown): boolean => /^ROLE_(ENDED|CRASHED)$/.test(codeOf(error) ?? '');

const whyNot = (error: unknown) => (codeOf(error) === 'ROLE_SILENT' ? 'does not answer' : 'has ended');

/** Metrics of one part of a daemon. */
interface MetricPart {
  /** Becomes the label `role` of every sample; null, for the main thread, adds none. */
  readonly role: string | null;
  readonly families: readonly MetricFamily[];
}

/** Prometheus text of several parts: each metric has its HELP and TYPE once, and the samples of all parts. */
export function renderMetrics(parts: readonly MetricPart[]): Promise<string> {
  const merged = new Map<
    string,
    { readonly family: MetricFamily; readonly values: MetricFamily['values'][number][] }
  >();
  for (const { role, families } of parts) {
    for (const family of families) {
      let known = merged.get(family.name);
      if (known === undefined) {
        known = { family, values: [] };
        merged.set(family.name, known);
      }
      for (const value of family.values) {
        known.values.push(role === null ? value : { ...value, labels: { ...value.labels, role } });
      }
    }
  }
  return metricsText([...merged.values()].map(({ family, values }) => ({ ...family, values })));
}
