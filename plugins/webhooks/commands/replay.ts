import type { Command } from '../../../src/plugin/plugin.ts';
import { recoverDeliveries } from '../delivery/recover.ts';
import { instantOf, untilOf } from '../input/instant.ts';
import { REPLAYED_HOURS } from '../replay.ts';
import {
  hookOf,
  ID_OPTION,
  integerOf,
  JSON_OPTION,
  type Options,
  textOf,
  usage,
  type WebhookCommandParts,
} from './common.ts';

const SLOT = { min: 0, max: Number.MAX_SAFE_INTEGER };

export function replayCommand(parts: WebhookCommandParts): Command {
  return {
    path: ['webhooks', 'replay'],
    summary: 'send failed deliveries of a time again, or read slots from the chain again for a webhook',
    options: [
      ID_OPTION,
      { flags: '--since <time>', description: 'deliveries made since then: unix seconds or an ISO 8601 date' },
      { flags: '--until <time>', description: 'and until then; without it now' },
      {
        flags: '--from <slot>',
        description: `first slot to read again, at most ${REPLAYED_HOURS} hours of the chain at once`,
      },
      { flags: '--to <slot>', description: 'last slot to read again' },
      { flags: '--force', description: 'with slots: also what was delivered before' },
      JSON_OPTION,
    ],
    async run(options, io) {
      const hook = await hookOf(io, options);
      const fromSlot = integerOf(options, 'from', SLOT);
      const toSlot = integerOf(options, 'to', SLOT);
      const since = textOf(options, 'since');
      if ((since === undefined) === (fromSlot === undefined)) throw usage('give either --since or --from and --to');
      if (since !== undefined) {
        const { queued, remaining } = await recoverDeliveries(
          { store: io.store, outbox: parts.outbox, charges: parts.charges },
          hook,
          { states: ['failed', 'discarded'], ...timesOf(options, parts.context.clock.now()) },
        );
        if (options['json'] === true) io.json({ queued, remaining });
        else io.line(`${queued} deliveries go out again${remaining === 0 ? '' : `, ${remaining} more are left`}`);
        return;
      }
      if (fromSlot === undefined || toSlot === undefined) throw usage('--from wants --to');
      if (toSlot < fromSlot) throw usage('--to must not be below --from');
      if (parts.replays === null) throw usage('the chain cannot be read again here');
      const range = { fromSlot, toSlot, force: options['force'] === true };
      const { id } = await parts.replays.begin(parts.context, hook.projectId, hook.id, range);
      if (options['json'] === true) io.json({ replayId: id, fromSlot, toSlot });
      else io.line(`the daemon reads the slots ${fromSlot} to ${toSlot} again, beside its other work`);
    },
  };
}

function timesOf(options: Options, now: number): { readonly sinceMs: number; readonly untilMs: number } {
  const sinceMs = instantOf('--since', timeOf(textOf(options, 'since')), now);
  return { sinceMs, untilMs: untilOf(timeOf(textOf(options, 'until')), now, sinceMs) };
}

const timeOf = (text: string | undefined): string | number | undefined =>
  text !== undefined && /^\d+$/.test(text) ? Number(text) : text;
