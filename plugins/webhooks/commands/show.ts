import type { Command } from '../../../src/kernel/plugin.ts';
import { tableLines, timeText } from '../../../src/lib/table-lines.ts';
import { deliveryKind } from '../delivery/payload.ts';
import { chainOf } from '../model/webhook.ts';
import { MINUTE_MS, sumHealth } from '../store/health.ts';
import type { Db } from '../store/tables.ts';
import { hookOf, ID_OPTION, JSON_OPTION, type WebhookCommandParts } from './common.ts';
import { DELIVERY_HEAD, deliveryCells, deliveryLines } from './delivery-lines.ts';
import { stateOf, summaryOf } from './list.ts';

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
      if (options['json'] === true) return io.json({ ...summaryOf(hook), ...counts, deliveries: last });
      io.line(`${hook.type} webhook of project ${hook.projectId}, ${stateOf(hook)}, ${hook.addressCount} addresses`);
      if (hook.graceUntil !== null) io.line(`not switched off by itself until ${timeText(hook.graceUntil)} (UTC)`);
      io.line(`${waiting} wait, ${held} held; last hour: ${hour.succeeded} delivered, ${hour.failed} failed`);
      if (last.length > 0) for (const line of tableLines(DELIVERY_HEAD, last.map(deliveryCells))) io.line(line);
    },
  };
}
