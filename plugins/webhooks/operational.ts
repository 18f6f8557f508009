import { hash } from 'node:crypto';
import { isLagBeyond, type LagLimit, lagText } from '../../src/lib/slot-length.ts';
import type { HostContext } from '../../src/plugin/host.ts';
import type { ChainId, FinishedJob, JobKind, PluginContext } from '../../src/plugin/plugin.ts';
import type { AccessCharges } from '../../src/ports/access.ts';
import type { ChainStatus } from '../../src/ports/chain.ts';
import type { Clock, Random } from '../../src/ports/clock.ts';
import type { GapRecords } from '../../src/ports/following.ts';
import type { Outbox, OutboxRow } from '../../src/ports/outbox.ts';
import type { Store, StoreTx } from '../../src/ports/store.ts';
import type { Log } from '../../src/ports/telemetry.ts';
import type { WebhooksConfig } from './config.ts';
import type { Reports } from './delivery/attempt.ts';
import { secretKey, signBody } from './delivery/send.ts';
import { isoTime, type NetworkOf, type Webhook } from './model.ts';
import { createNoticeKind, type NoticeKindParts } from './notice-kind.ts';
import type { OwnerAlerts } from './owner-alerts.ts';
import type { WebhookDb } from './store/tables.ts';

interface OperatorAlertParts {
  readonly outbox: Outbox;
  readonly gaps: GapRecords | null;
  readonly chains: readonly ChainId[];
  /** Name of the processor whose gaps are reported. */
  readonly processor: string;
  readonly charges: AccessCharges | null;
  readonly owners: OwnerAlerts;
  readonly networkOf: NetworkOf;
}

/** All events for the operator's webhook. */
export function createOperatorAlerts(ctx: HostContext<WebhooksConfig>, parts: OperatorAlertParts) {
  const { config, store, clock, random, log } = ctx;
  const { outbox, gaps, chains, processor, charges, owners, networkOf } = parts;
  const operational = createOperational({ config: config.operational, enqueue: ctx.jobs.add, clock, random });
  return {
    alerts: createAlerts(operational, owners, charges, clock, log),
    gapAlerts: gaps === null ? null : createGapAlerts({ operational, records: gaps, store, processor, networkOf }),
    stallAlerts: createStallAlerts({
      operational,
      outbox,
      store,
      clock,
      chains,
      maxLag: () => ({ seconds: config.maxLagSeconds, slots: config.maxLagSlots }),
      status: (chain) => ctx.chain(chain)?.status() ?? null,
      patienceMs: () => ctx.core.follow.stalledAfterSeconds * 1_000,
      networkOf,
    }),
    ...createRevertAlerts({ operational, store, log, networkOf }),
  };
}

/** Reports new gaps of the block processor of webhooks. */
export interface GapAlerts {
  check(): Promise<void>;
}

interface GapAlertParts {
  readonly operational: Operational;
  readonly records: GapRecords;
  readonly store: Store;
  readonly processor: string;
  readonly networkOf: NetworkOf;
}

/** Each gap is reported once, also across restarts: the key of its event contains the gap's id. */
function createGapAlerts({ operational, records, store, processor, networkOf }: GapAlertParts): GapAlerts {
  let reported = 0;
  return {
    async check() {
      if (!operational.isOn) return;
      const gaps = (await records.list({ processor, isOpen: true })).filter(
        ({ id, reason }) => id > reported && reason !== 'manual',
      );
      if (gaps.length === 0) return;
      await store.write(async (tx) => {
        for (const { id, chain, fromSlot, toSlot, reason } of gaps) {
          const network = networkOf(chain);
          await operational.report(tx, 'chain.gap', { id, network, fromSlot, toSlot, reason }, { once: `gap_${id}` });
        }
      });
      reported = Math.max(reported, ...gaps.map(({ id }) => id));
    },
  };
}

/** Reports that the follower of a chain is stalled or lags, and that it has resumed. */
export interface StallAlerts {
  check(): Promise<void>;
}

interface StallAlertParts {
  readonly operational: Operational;
  readonly outbox: Pick<Outbox, 'list'>;
  readonly store: Store;
  readonly clock: Clock;
  readonly chains: readonly ChainId[];
  /** Null when no upstream is configured. */
  status(chain: ChainId): ChainStatus | null;
  readonly maxLag: () => LagLimit;
  /** Time that a stall may last before it is reported. */
  readonly patienceMs: () => number;
  readonly networkOf: NetworkOf;
}

interface ProblemState {
  /** Monotonic start of the current problem. */
  since: number | null;
  /** Last report that this process made or read. */
  isReported: boolean | null;
}

/**
 * The last report is read from the outbox, so that each change is reported once across restarts and processes: the key of an event
 * is derived from the one before it.
 */
function createStallAlerts(parts: StallAlertParts): StallAlerts {
  const { operational, outbox, store, clock, chains, maxLag, patienceMs, networkOf } = parts;
  const seen = new Map(chains.map((chain): [ChainId, ProblemState] => [chain, { since: null, isReported: null }]));

  async function reportStall(chain: ChainId, status: ChainStatus, reason: string | null): Promise<void> {
    const network = networkOf(chain);
    const group = `chain ${network}`;
    const [last] = await outbox.list({ kind: OPERATIONAL_KIND, group }, { limit: 1 });
    if (wasStalled(last) === (reason !== null)) return;
    const { cursorSlot, tipSlot, lagSlots } = status;
    const type = reason === null ? 'chain.resumed' : 'chain.stalled';
    const data = { network, ...(reason === null ? {} : { reason }), cursorSlot, tipSlot, lagSlots };
    await store.write((tx) => operational.report(tx, type, data, { once: `${group} ${last?.key ?? ''}`, group }));
  }

  async function checkChain(chain: ChainId, one: ProblemState): Promise<void> {
    const status = parts.status(chain);
    // Nothing is known before the first answers.
    if (status === null || (status.lagSlots === null && status.stalled === null)) return;
    const reason = status.stalled ?? (isLagBeyond(status, maxLag()) ? lagText(status) : null);
    one.since = reason === null ? null : (one.since ?? clock.monotonic());
    const lastsMs = one.since === null ? 0 : Math.max(clock.monotonic() - one.since, status.silentMs ?? 0);
    const isLong = one.since !== null && lastsMs >= patienceMs();
    if (reason !== null && !isLong) return;
    if (one.isReported === isLong) return;
    await reportStall(chain, status, reason);
    one.isReported = isLong;
  }

  return {
    async check() {
      if (!operational.isOn) return;
      for (const [chain, one] of seen) await checkChain(chain, one);
    },
  };
}

const wasStalled = (row: OutboxRow | undefined): boolean =>
  (row?.payload as OperationalEvent | undefined)?.type === 'chain.stalled';

/** Reports reverted blocks: one event for a whole reorg. */
interface RevertAlerts {
  /** Called in the transaction that reverts the blocks. */
  reverted(tx: StoreTx, chain: ChainId, slot: number): void;
}

interface RevertAlertParts {
  readonly operational: Operational;
  readonly store: Store;
  readonly log: Log;
  readonly networkOf: NetworkOf;
}

function createRevertAlerts({ operational, store, log, networkOf }: RevertAlertParts): RevertAlerts {
  /** Slots by open reorg transaction. */
  const open = new WeakMap<StoreTx, number[]>();

  async function reportReorg(chain: ChainId, slots: readonly number[]): Promise<void> {
    const network = networkOf(chain);
    const range = { network, blocks: slots.length, fromSlot: Math.min(...slots), toSlot: Math.max(...slots) };
    await store.write((tx) => operational.report(tx, 'chain.reverted', range));
  }

  return {
    reverted(tx, chain, slot) {
      if (!operational.isOn) return;
      const known = open.get(tx);
      if (known !== undefined) {
        known.push(slot);
        return;
      }
      const slots = [slot];
      open.set(tx, slots);
      tx.onCommit(() => {
        reportReorg(chain, slots).catch((error: unknown) =>
          log.warn({ err: error }, 'could not report a reorg to the operator'),
        );
      });
    },
  };
}

/** Reports webhooks that start or stop failing: each change once. */
export interface Alerts {
  /** Finished attempts, in the transaction that writes them. */
  note(tx: StoreTx, finished: readonly FinishedJob[], reports: Pick<Reports, 'get'>): Promise<void>;
  /** The credits of a project are used up, or it is disabled. */
  paused(tx: StoreTx, projectId: string): Promise<void>;
  /** A webhook was disabled automatically. */
  disabled(tx: StoreTx, hook: Webhook, reason: string): Promise<void>;
}

/** Failed attempts of a delivery after which its receiver counts as failing. */
const FAILING_ATTEMPTS = 4;
const EXHAUSTED_EVERY_MS = 3_600_000;

interface Change {
  readonly hook: Webhook;
  failing: boolean;
  recovered: boolean;
  exhausted: number;
}

function createAlerts(
  operational: Operational,
  owners: OwnerAlerts,
  charges: AccessCharges | null,
  clock: Clock,
  log: Log,
): Alerts {
  return {
    async note(tx, finished, reports) {
      if (!operational.isOn && !owners.isOn()) return;
      const changes = changesOf(finished, reports);
      if (changes.size === 0) return;
      const states = await readAlerts(tx, [...changes.keys()]);
      for (const [number, change] of changes) {
        const before = states.get(number) ?? { number, failingSince: null, exhausted: 0, exhaustedReportedAt: 0 };
        const after = await reportChange({ operational, owners }, tx, before, change, clock.now());
        if (after !== before) await writeAlert(tx, after);
      }
    },
    async paused(tx, projectId) {
      const isDisabled = (await charges?.isDisabled(projectId)) ?? false;
      const why = isDisabled ? 'the project is disabled' : 'the project has no credits left';
      tx.onCommit(() => log.warn({ project: projectId }, `deliveries on hold: ${why}`));
      const reason = isDisabled ? 'disabled' : 'credits';
      await operational.report(tx, 'webhook.paused', { project: projectId, reason });
    },
    async disabled(tx, hook, reason) {
      await operational.report(tx, 'webhook.disabled', { webhookID: hook.id, project: hook.projectId, reason });
      await owners.report(tx, hook, 'webhook.disabled', { reason });
    },
  };
}

function changesOf(finished: readonly FinishedJob[], reports: Pick<Reports, 'get'>): ReadonlyMap<number, Change> {
  const changes = new Map<number, Change>();
  for (const { job, outcome } of finished) {
    const report = reports.get(job.id);
    if (report === undefined) continue;
    const { hook, n, members } = report;
    const ok = outcome.kind === 'done';
    const gaveUp = outcome.kind === 'failed';
    const change = changes.get(hook.number) ?? { hook, failing: false, recovered: false, exhausted: 0 };
    if (ok) change.recovered = true;
    else if (n >= FAILING_ATTEMPTS) change.failing = true;
    if (gaveUp) change.exhausted += 1 + members.length;
    changes.set(hook.number, change);
  }
  return changes;
}

async function reportChange(
  { operational, owners }: { readonly operational: Operational; readonly owners: OwnerAlerts },
  tx: StoreTx,
  before: AlertState,
  { hook, failing, recovered, exhausted }: Change,
  now: number,
): Promise<AlertState> {
  const about = { webhookID: hook.id, project: hook.projectId };
  let state = before;
  if (recovered && state.failingSince !== null) {
    const failingSince = isoTime(state.failingSince);
    await operational.report(tx, 'webhook.recovered', { ...about, failingSince });
    await owners.report(tx, hook, 'webhook.recovered', { failingSince });
    state = { ...state, failingSince: null };
  } else if (failing && !recovered && state.failingSince === null) {
    await operational.report(tx, 'webhook.failing', about);
    await owners.report(tx, hook, 'webhook.failing');
    state = { ...state, failingSince: now };
  }
  if (exhausted === 0) return state;
  const count = state.exhausted + exhausted;
  if (now - state.exhaustedReportedAt < EXHAUSTED_EVERY_MS) return { ...state, exhausted: count };
  await operational.report(tx, 'delivery.exhausted', { ...about, count });
  return { ...state, exhausted: 0, exhaustedReportedAt: now };
}

const OPERATIONAL_TYPES = [
  'webhook.disabled',
  'webhook.failing',
  'webhook.recovered',
  'delivery.exhausted',
  'webhook.paused',
  'chain.gap',
  'chain.reverted',
  'chain.stalled',
  'chain.resumed',
] as const;
type OperationalType = (typeof OPERATIONAL_TYPES)[number];

/** One event for the operator. */
export interface OperationalEvent {
  readonly type: OperationalType;
  /** ISO 8601, UTC. */
  readonly timestamp: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** The operator's webhook. */
export interface Operational {
  readonly isOn: boolean;
  /**
   * Puts an event into the outbox, in the transaction that caused it; an event with a `once` name only once. Does nothing without
   * a configured address.
   */
  report(tx: StoreTx, type: OperationalType, data: OperationalEvent['data'], options?: ReportOptions): Promise<void>;
}

interface ReportOptions {
  readonly once?: string;
  /** Group by which the event is found again. */
  readonly group?: string;
}

const OPERATIONAL_KIND = 'webhooks.operational';
const ID_BYTES = 16;

interface OperationalParts {
  readonly config: WebhooksConfig['operational'];
  readonly enqueue: PluginContext['jobs']['add'];
  readonly clock: Clock;
  readonly random: Random;
}

const digest = (text: string): string => hash('sha256', text, 'hex').slice(0, 2 * ID_BYTES);

function createOperational({ config, enqueue, clock, random }: OperationalParts): Operational {
  return {
    isOn: config !== null,
    async report(tx, type, data, { once, group = 'operator' } = {}) {
      if (config === null) return;
      const payload: OperationalEvent = { type, timestamp: new Date(clock.now()).toISOString(), data };
      const key = `evt_${once === undefined ? Buffer.from(random.bytes(ID_BYTES)).toString('hex') : digest(once)}`;
      await enqueue(tx, [{ kind: OPERATIONAL_KIND, key, group, payload }]);
    },
  };
}

/** What was reported about a webhook. Times are unix milliseconds. */
interface AlertState {
  readonly number: number;
  /** Start of the known failure; null while it works. */
  readonly failingSince: number | null;
  /** Failed deliveries that were not reported yet. */
  readonly exhausted: number;
  readonly exhaustedReportedAt: number;
}

async function readAlerts(tx: StoreTx, numbers: readonly number[]): Promise<ReadonlyMap<number, AlertState>> {
  const rows = await (tx.db as WebhookDb)
    .selectFrom('webhook_alerts')
    .selectAll()
    .where('number', 'in', numbers)
    .execute();
  return new Map(
    rows.map((row) => [
      row.number,
      {
        number: row.number,
        failingSince: row.failing_since,
        exhausted: row.exhausted,
        exhaustedReportedAt: row.exhausted_reported_at,
      },
    ]),
  );
}

async function writeAlert(tx: StoreTx, state: AlertState): Promise<void> {
  const values = {
    failing_since: state.failingSince,
    exhausted: state.exhausted,
    exhausted_reported_at: state.exhaustedReportedAt,
  };
  await (tx.db as WebhookDb)
    .insertInto('webhook_alerts')
    .values({ number: state.number, ...values })
    .onConflict((conflict) => conflict.column('number').doUpdateSet(values))
    .execute();
}

/** Sends events to the operator, signed like deliveries. */
export function createOperationalKind(parts: NoticeKindParts): JobKind {
  const { clock, config } = parts;
  const { operational } = config;
  return createNoticeKind(parts, {
    kind: OPERATIONAL_KIND,
    summary: 'reports failing webhooks, stalls and gaps to the operator',
    noticeOf({ key, payload }) {
      // Events of an earlier configuration.
      if (operational === null) return { kind: 'discarded', error: 'no operational webhook is configured' };
      const body = Buffer.from(JSON.stringify(payload));
      const timestamp = Math.floor(clock.now() / 1_000);
      const signature = signBody([secretKey(operational.secret)], key, timestamp, body);
      const headers = { 'webhook-timestamp': String(timestamp), 'webhook-signature': signature };
      return { url: operational.url, body, headers };
    },
  });
}
