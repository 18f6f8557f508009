import type { Command } from '../../../src/kernel/plugin.ts';
import { tableLines } from '../../../src/lib/table-lines.ts';
import { findProjectRow } from '../projects/projects.ts';
import { readUsage } from '../usage/read-usage.ts';
import { type UsageRecord, usageRecord } from '../usage/record.ts';
import { usageError } from '../usage-error.ts';
import { type CommandParts, JSON_OPTION } from './common.ts';

export function projectUsageCommands({ plans, clock }: CommandParts): Command[] {
  return [
    {
      path: ['projects', 'usage'],
      summary: 'show what a project used in its credit cycle, as far as it is written (within a second)',
      options: [
        { flags: '--id <id>', description: 'id of the project, from `projects list`', required: true },
        JSON_OPTION,
      ],
      async run(options, io) {
        const project = await findProjectRow(io.store, String(options['id']));
        const usage = await readUsage(io.store.read, project, plans(), clock.now());
        if (usage === null) throw usageError('ACCESS_UNKNOWN_PLAN', project.plan);
        const record = usageRecord(usage);
        if (options['json'] === true) io.json(record);
        else for (const line of usageLines(record)) io.line(line);
      },
    },
  ];
}

function usageLines(record: UsageRecord): readonly string[] {
  const { creditCycle, subscriptionDetails, credits, requests, dataTransfer } = record;
  const totals = tableLines(
    ['CREDITS', ''],
    [
      ['used', record.creditsUsed],
      ['left of the plan', record.creditsRemaining],
      ['prepaid, used', record.prepaidCreditsUsed],
      ['prepaid, left', record.prepaidCreditsRemaining],
    ],
  );
  const products = Object.keys(credits).map((name) => [
    name,
    credits[name] ?? 0,
    requests[name] ?? 0,
    dataTransfer[name] ?? 0,
  ]);
  return [
    `plan ${subscriptionDetails.plan}, cycle ${creditCycle.start} to ${creditCycle.end}`,
    '',
    ...totals,
    '',
    ...tableLines(['PRODUCT', 'CREDITS', 'REQUESTS', 'BYTES'], products),
  ];
}
