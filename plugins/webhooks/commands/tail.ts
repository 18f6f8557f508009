import type { Command, CommandIo } from '../../../src/kernel/plugin.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { DeliveryQueue } from '../delivery/queue.ts';
import { hookOf, ID_OPTION, integerOf, JSON_OPTION, type WebhookCommandParts, whenInterrupted } from './common.ts';
import { type DeliveryLine, deliveryLines } from './delivery-lines.ts';

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
