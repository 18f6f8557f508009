import type { Command } from '../../../src/kernel/plugin.ts';
import { tableLines, timeText } from '../../../src/lib/table-lines.ts';
import type { Webhook } from '../model/webhook.ts';
import { allHooks, listHooks } from '../store/hooks.ts';
import type { Db } from '../store/tables.ts';
import { hostOf, JSON_OPTION, textOf } from './common.ts';

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

export const stateOf = ({ active, disabledReason }: Webhook): string =>
  active ? 'on' : `off (${disabledReason ?? 'user'})`;

/** A webhook as scripts see it, without what its receiver keeps secret. */
export function summaryOf(hook: Webhook): Record<string, unknown> {
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
