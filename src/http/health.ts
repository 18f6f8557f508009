import { messageOf } from '../lib/coded-error.ts';
import { isLagBeyond, type LagLimit, lagLimitText, lagText } from '../lib/slot-length.ts';
import type { HealthCheck } from '../plugin/plugin.ts';
import type { ChainId, ChainStatus } from '../ports/chain.ts';
import type { Clock } from '../ports/clock.ts';
import type { CheckResult } from '../ports/processes.ts';
import type { Log } from '../ports/telemetry.ts';
import { wordsOf } from '../runtime/errors.ts';
import { finalityAlarmText, finalityText } from '../runtime/finality-text.ts';

const DEFAULT_CHECK_TIMEOUT_MS = 2_000;
/** Concurrent probes share one run of the checks. */
const REUSE_MS = 500;

/** The part of a chain's status that /healthz shows: enough to distinguish the local chain from a real one. */
export interface ChainLabel {
  readonly chain: string;
  readonly kind: string;
  readonly cluster: string;
  readonly engine?: string;
  readonly fixtures?: number;
}

export interface Readiness {
  readonly ready: boolean;
  readonly draining: boolean;
  readonly checks: readonly CheckResult[];
  readonly chain: readonly ChainStatus[];
}

export interface Health {
  /** Liveness: runs no checks. */
  live(): { readonly status: 'ok'; readonly version: string; readonly chain: readonly ChainLabel[] };
  /** Runs all checks, each within its time limit. */
  ready(): Promise<Readiness>;
  /** Runs only the checks of this thread's plugins. */
  checks(): Promise<readonly CheckResult[]>;
  /** Not ready until all plugins have started. */
  setStarted(): void;
  setDraining(): void;
  /** Adds information that readiness shows but does not depend on; called at each probe, null: nothing to show. */
  show(notice: () => CheckResult | null): void;
  /** Reports a fatal error: readiness shows it for as long as the daemon still answers. */
  setFailed(error: unknown): void;
  readonly draining: boolean;
}

export interface HealthOptions {
  readonly checks: readonly HealthCheck[];
  /** Called at each probe. */
  readonly chains: () => readonly ChainStatus[];
  /** Whether an upstream of the chain answers; called at each probe. */
  readonly answers?: (chain: ChainId) => Promise<boolean>;
  /** Checks of the roles in other threads. */
  readonly workers?: () => Promise<readonly CheckResult[]>;
  readonly maxReadyLag: LagLimit;
  readonly version: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly checkTimeoutMs?: number;
}

export function createHealth(options: HealthOptions): Health {
  const { clock } = options;
  let started = false;
  let draining = false;
  let failed: CheckResult | null = null;
  const notices: (() => CheckResult | null)[] = [];
  let last: { readonly at: number; readonly results: Promise<readonly CheckResult[]> } | null = null;

  const runOwn = () => Promise.all(options.checks.map((check) => runCheck(check, options)));
  const runChecks = (): Promise<readonly CheckResult[]> => {
    const now = clock.monotonic();
    if (last !== null && now - last.at < REUSE_MS) return last.results;
    const results = Promise.all([options.workers?.() ?? [], runOwn()]).then((all) => all.flat());
    last = { at: now, results };
    return results;
  };

  return {
    live: () => ({ status: 'ok', version: options.version, chain: options.chains().map(labelOf) }),
    ready: async () => {
      const chain = options.chains();
      const ofChain = async (status: ChainStatus) =>
        chainChecks(status, options.maxReadyLag, (await options.answers?.(status.chain)) ?? true, clock.now());
      const asked = [...(await Promise.all(chain.map(ofChain))).flat(), ...(await runChecks())];
      // The daemon may have failed while the checks ran.
      const checks: readonly CheckResult[] = [
        { name: 'started', ok: started, detail: started ? 'all plugins run' : 'plugins are starting' },
        ...(failed === null ? [] : [failed]),
        ...asked,
        ...notices.flatMap((notice) => notice() ?? []),
      ];
      const ready = !draining && checks.every(({ ok, required }) => ok || required === false);
      return { ready, draining, checks, chain };
    },
    checks: runOwn,
    setStarted: () => {
      started = true;
    },
    setDraining: () => {
      draining = true;
    },
    show: (notice) => void notices.push(notice),
    setFailed: (error) => {
      failed ??= { name: 'daemon', ok: false, detail: wordsOf(error) ?? 'it ends; the log says why' };
    },
    get draining() {
      return draining;
    },
  };
}

async function runCheck(check: HealthCheck, options: HealthOptions): Promise<CheckResult> {
  const timeoutMs = options.checkTimeoutMs ?? DEFAULT_CHECK_TIMEOUT_MS;
  const controller = new AbortController();
  return new Promise((resolve) => {
    const give = (ok: boolean, detail: string) => {
      cancel();
      resolve({ name: check.name, ok, detail, ...(check.required === false ? { required: false } : {}) });
    };
    const cancel = options.clock.timeout(timeoutMs, () => {
      give(false, `no answer within ${timeoutMs} ms`);
      controller.abort(new Error('health check timed out'));
    });
    // The text of an unexpected error may contain an address: it goes to the log, not into the answer.
    const fail = (error: unknown) => {
      options.log.warn({ check: check.name, error: messageOf(error) }, 'health check failed');
      give(false, 'the check failed; the log says why');
    };
    try {
      check.run(controller.signal).then((result) => give(result.ok, result.detail), fail);
    } catch (error) {
      fail(error);
    }
  });
}

/** Problems of the second chain are shown but do not affect readiness, which is that of the main chain. */
function chainChecks(status: ChainStatus, maxLag: LagLimit, answers: boolean, nowMs: number): readonly CheckResult[] {
  const left = (status.leftBehind ?? []).map(
    (detail): CheckResult => ({ name: `chain ${status.chain}: left behind`, ok: false, detail, required: false }),
  );
  const distrusted = (status.distrusted ?? []).map(
    (detail): CheckResult => ({ name: upstreamCheckName(status.chain), ok: false, detail, required: false }),
  );
  return [chainCheck(status, maxLag, answers), ...finalityChecks(status, nowMs), ...left, ...distrusted];
}

export const finalityCheckName = (chain: ChainId): string => `chain ${chain}: finality`;
/** An upstream that is left out because it was proven wrong. */
export const upstreamCheckName = (chain: ChainId): string => `chain ${chain}: upstream`;

/** An alarm does not make the daemon unready: what is released does not depend on certificates. */
function finalityChecks({ chain, finality }: ChainStatus, nowMs: number): readonly CheckResult[] {
  if (finality === undefined || finality.state === 'off') return [];
  const detail = finalityText(finality, nowMs);
  return [{ name: finalityCheckName(chain), ok: finalityAlarmText(finality, nowMs) === null, detail, required: false }];
}

function chainCheck(status: ChainStatus, maxLag: LagLimit, answers: boolean): CheckResult {
  const name = `chain ${status.chain}`;
  const fail = (detail: string): CheckResult =>
    status.chain === 'main' ? { name, ok: false, detail } : { name, ok: false, detail, required: false };
  const isForeign = status.stalled?.startsWith('UPSTREAM_OTHER_CHAIN') === true;
  if (!answers && !isForeign) return fail(`no upstream answers${status.stalled === null ? '' : `; ${status.stalled}`}`);
  if (status.stalled !== null) return fail(status.stalled);
  if (isLagBeyond(status, maxLag)) return fail(`${lagText(status)}; ${lagLimitText(maxLag)} are allowed`);
  const place = status.lagSlots === null ? 'not followed yet' : lagText(status);
  const standing = status.isStandby === true ? `, standing by for ${status.leader?.name ?? 'nobody'}` : '';
  return { name, ok: true, detail: place + standing };
}

function labelOf(status: ChainStatus): ChainLabel {
  return {
    chain: status.chain,
    kind: status.kind,
    cluster: status.cluster,
    ...(status.engine === undefined ? {} : { engine: status.engine }),
    ...(status.fixtures === undefined ? {} : { fixtures: status.fixtures }),
  };
}
