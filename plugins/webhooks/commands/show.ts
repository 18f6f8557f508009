import { tableLines, timeText } from '../../../src/lib/table-lines.ts';
import type { Command, CommandIo } from '../../../src/plugin/plugin.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { Store } from '../../../src/ports/store.ts';
import { type Delivery, type DeliveryQueue, deliveryKind } from '../delivery/queue.ts';
import { chainOf, type Webhook } from '../model/webhook.ts';
import { readAttempts } from '../store/batches.ts';
import { MINUTE_MS, sumHealth } from '../store/health.ts';
import { allHooks, listHooks } from '../store/hooks.ts';
import { readMissed } from '../store/missed.ts';
import type { Db } from '../store/tables.ts';
import {
  hookOf,
  hostOf,
  ID_OPTION,
  integerOf,
  JSON_OPTION,
  textOf,
  type WebhookCommandParts,
  whenInterrupted,
} from './common.ts';

const SHOWN = 10;
const COUNTED = 100_000;
const HOUR_MINUTES = 60;

export function showCommand({ queue, outbox, context }: WebhookCommandParts): Command {
  return {
    path: ['webhooks', 'show'],
    summary: 'what a webhook is, what waits for it, and its last deliveries',
    options: [ID_OPTION, JSON_OPTION],
    async run(options, io) {
      const hook = await hookOf(io, options);
      const db = io.store.read as Db;
      const since = Math.floor(context.clock.now() / MINUTE_MS) - HOUR_MINUTES + 1;
      const hour = await sumHealth(db, hook.number, since);
      const waits = { kind: deliveryKind(chainOf(hook.type)), group: hook.id, states: ['pending', 'running'] as const };
      const waiting = await outbox.count(waits, { atMost: COUNTED });
      const held = await outbox.count({ ...waits, states: ['held'] }, { atMost: COUNTED });
      const last = await deliveryLines(
        io.store,
        await queue.list(hook.id, { status: null, before: null, limit: SHOWN }),
      );
      const counts = { waiting, held, deliveredLastHour: hour.succeeded, failedLastHour: hour.failed };
      const missed = await readMissed(db, hook.number);
      if (options['json'] === true) return io.json({ ...summaryOf(hook), ...counts, missed, deliveries: last });
      io.line(`${hook.type} webhook of project ${hook.projectId}, ${stateOf(hook)}, ${hook.addressCount} addresses`);
      if (hook.graceUntil !== null) io.line(`not switched off by itself until ${timeText(hook.graceUntil)} (UTC)`);
      io.line(`${waiting} wait, ${held} held; last hour: ${hour.succeeded} delivered, ${hour.failed} failed`);
      for (const { fromSlot, toSlot, events, reason } of missed)
        io.line(
          `${events} events of slots ${fromSlot} to ${toSlot} were not stored (${reason}); a replay reads them again`,
        );
      if (last.length > 0) for (const line of tableLines(DELIVERY_HEAD, last.map(deliveryCells))) io.line(line);
    },
  };
}

export function listCommand(): Command {
  return {
    path: ['webhooks', 'list'],
    summary: 'list the webhooks, with the hosts they go to',
    options: [{ flags: '--project <id>', description: 'of this project only' }, JSON_OPTION],
    async run(options, io) {
      const project = textOf(options, 'project');
      const db = io.store.read as Db;
      const hooks = project === undefined ? await allHooks(db) : await listHooks(db, project);
      if (options['json'] === true) return io.json(hooks.map(summaryOf));
      if (hooks.length === 0) return io.line('no webhooks');
      const cells = hooks.map((hook) => [
        hook.id,
        hook.type,
        stateOf(hook),
        hook.addressCount,
        hostOf(hook.url),
        hook.projectId,
        timeText(hook.createdAt),
      ]);
      for (const line of tableLines(['ID', 'TYPE', 'STATE', 'ADDRESSES', 'HOST', 'PROJECT', 'MADE (UTC)'], cells))
        io.line(line);
    },
  };
}

const stateOf = ({ active, disabledReason }: Webhook): string => (active ? 'on' : `off (${disabledReason ?? 'user'})`);

/** A webhook as scripts see it, without what its receiver keeps secret. */
function summaryOf(hook: Webhook): Record<string, unknown> {
  return {
    id: hook.id,
    project: hook.projectId,
    type: hook.type,
    host: hostOf(hook.url),
    active: hook.active,
    disabledReason: hook.disabledReason,
    disabledAt: hook.disabledAt,
    graceUntil: hook.graceUntil,
    addresses: hook.addressCount,
    retryPreset: hook.retryPreset,
    batchSize: hook.batchSize,
    ordered: hook.ordered,
    onInactive: hook.onInactive,
    createdAt: hook.createdAt,
  };
}

/** A delivery in a line. Times are unix milliseconds. */
interface DeliveryLine {
  readonly id: number;
  readonly webhook: string;
  readonly status: string;
  readonly signature: string;
  readonly slot: number;
  readonly attempts: number;
  readonly lastStatus: number | null;
  readonly reason: string | null;
  readonly createdAt: number;
  readonly nextAttemptAt: number | null;
}

const DELIVERY_HEAD = ['ID', 'STATUS', 'MADE (UTC)', 'SLOT', 'TRIED', 'HTTP', 'REASON', 'SIGNATURE'];

async function deliveryLines(store: Store, deliveries: readonly Delivery[]): Promise<readonly DeliveryLine[]> {
  const attempts = await readAttempts(
    store.read as Db,
    deliveries.map(({ id }) => id),
  );
  return deliveries.map((one) => {
    const tried = attempts.get(one.id) ?? [];
    return {
      id: one.id,
      webhook: one.webhookId,
      status: one.status,
      signature: one.payload.signature,
      slot: one.payload.slot,
      attempts: tried.length,
      lastStatus: tried.at(-1)?.status ?? null,
      reason: one.error,
      createdAt: one.createdAt,
      nextAttemptAt: one.nextAttemptAt,
    };
  });
}

const deliveryCells = (line: DeliveryLine): readonly (string | number)[] => [
  String(line.id),
  line.status,
  timeText(line.createdAt),
  String(line.slot),
  line.attempts,
  String(line.lastStatus ?? '-'),
  line.reason ?? '-',
  line.signature,
];

const POLL_MS = 500;
const MAX_LINES = 100;
const DEFAULT_LINES = 10;

export function tailCommand({ queue, context }: WebhookCommandParts): Command {
  return {
    path: ['webhooks', 'tail'],
    summary: 'show the deliveries of a webhook as they come and change, until interrupted',
    options: [
      ID_OPTION,
      { flags: '--lines <number>', description: `that many of before; without it ${DEFAULT_LINES}` },
      { flags: '--count <number>', description: 'end after so many lines' },
      JSON_OPTION,
    ],
    async run(options, io) {
      const hook = await hookOf(io, options);
      const lines = integerOf(options, 'lines', { min: 0, max: MAX_LINES }) ?? DEFAULT_LINES;
      const count = integerOf(options, 'count', { min: 1, max: 1_000_000 }) ?? Number.POSITIVE_INFINITY;
      const interrupted = whenInterrupted();
      const tell = (line: DeliveryLine) => (options['json'] === true ? io.json(line) : io.line(textOfLine(line)));
      try {
        await follow({ queue, io, clock: context.clock, hookId: hook.id, lines, count, tell }, interrupted.signal);
      } finally {
        interrupted.end();
      }
    },
  };
}

interface Follow {
  readonly queue: DeliveryQueue;
  readonly io: CommandIo;
  readonly clock: Clock;
  readonly hookId: string;
  readonly lines: number;
  readonly count: number;
  tell(line: DeliveryLine): void;
}

/** Looks again and again at the newest deliveries, and tells what is new or changed among them. */
async function follow(parts: Follow, signal: AbortSignal): Promise<void> {
  const { queue, io, clock, hookId, lines, tell } = parts;
  let known = new Map<number, string>();
  let left = parts.count;
  for (let isFirst = true; !signal.aborted && left > 0; isFirst = false) {
    const found = await queue.list(hookId, { status: null, before: null, limit: MAX_LINES });
    const all = [...(await deliveryLines(io.store, found))].reverse();
    const next = new Map(all.map((line) => [line.id, JSON.stringify(line)]));
    const shown = isFirst ? all.slice(all.length - Math.min(lines, all.length)) : all;
    for (const line of shown) {
      if (known.get(line.id) === next.get(line.id)) continue;
      tell(line);
      left -= 1;
      if (left <= 0) return;
    }
    known = next;
    await clock.sleep(POLL_MS, signal).catch(() => {});
  }
}

function textOfLine({ id, status, signature, slot, attempts, lastStatus, reason }: DeliveryLine): string {
  const tried = attempts === 0 ? 'not tried' : `tried ${attempts} times, HTTP ${lastStatus ?? '-'}`;
  return `${id} ${status} slot ${slot} ${signature} ${tried}${reason === null ? '' : ` (${reason})`}`;
}
