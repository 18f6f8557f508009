/** What was compared, as a document, a table for people, and Markdown. */
import type { Store } from '../../src/plugin/plugin.ts';
import type { DifferenceGroup, MethodCounts, ShadowReport } from '../../src/ports/shadow-report.ts';
import { dayOf } from './budget.ts';
import { type CountRow, type GroupRow, tables } from './tables.ts';

const DAY_MS = 86_400_000;

export async function readReport(
  read: Store['read'],
  { now, days, limit }: { readonly now: number; readonly days: number; readonly limit: number },
): Promise<ShadowReport> {
  const today = dayOf(now);
  const db = tables(read);
  const rows = await db
    .selectFrom('shadow_counts')
    .selectAll()
    .where('day', '>', today - days)
    .execute();
  const spent = await db.selectFrom('shadow_spent').selectAll().where('day', '=', today).executeTakeFirst();
  const groups = await db
    .selectFrom('shadow_groups')
    .selectAll()
    .where('last_at', '>=', (today - days + 1) * DAY_MS)
    .orderBy(({ eb }) => eb.case().when('reason', '=', '').then(0).else(1).end())
    .orderBy('count', 'desc')
    .orderBy('id')
    .limit(limit)
    .execute();
  const methods = sumMethods(rows);
  const sum = (name: 'compared' | 'equal' | 'explained' | 'different' | 'unanswered') =>
    methods.reduce((total, one) => total + one[name], 0);
  const compared = sum('compared');
  return {
    days,
    compared,
    equal: sum('equal'),
    explained: sum('explained'),
    different: sum('different'),
    unanswered: sum('unanswered'),
    differentShare: compared === 0 ? 0 : sum('different') / compared,
    spentToday: {
      requests: Number(spent?.requests ?? 0),
      credits: Number(spent?.credits ?? 0),
      bytes: Number(spent?.bytes ?? 0),
    },
    methods,
    groups: groups.map(groupOf),
  };
}

function groupOf(row: GroupRow): DifferenceGroup {
  return {
    id: row.id,
    method: row.method,
    product: row.product,
    path: row.path,
    kind: row.kind,
    reason: row.reason === '' ? null : row.reason,
    count: Number(row.count),
    firstAt: Number(row.first_at),
    lastAt: Number(row.last_at),
  };
}

function sumMethods(rows: readonly CountRow[]): readonly MethodCounts[] {
  const sums = new Map<string, { -readonly [Name in keyof MethodCounts]: MethodCounts[Name] }>();
  for (const row of rows) {
    const sum = sums.get(row.method) ?? {
      method: row.method,
      product: row.product,
      compared: 0,
      equal: 0,
      explained: 0,
      different: 0,
      unanswered: 0,
    };
    sum.equal += Number(row.equal);
    sum.explained += Number(row.explained);
    sum.different += Number(row.different);
    sum.unanswered += Number(row.unanswered);
    sum.compared = sum.equal + sum.explained + sum.different;
    sums.set(row.method, sum);
  }
  return [...sums.values()].sort((a, b) => b.different - a.different || b.compared - a.compared);
}

const percent = (share: number): string => `${(100 * share).toFixed(share > 0 && share < 0.001 ? 4 : 2)} %`;

/** The whole report in one sentence. */
export function summaryOf(report: ShadowReport): string {
  const { compared, equal, explained, different, unanswered, days } = report;
  return `${compared} answers compared in ${days} days: ${equal} equal, ${explained} different with an explanation, ${different} without (${percent(report.differentShare)}); ${unanswered} times the reference did not answer`;
}

export function markdownOf(report: ShadowReport): string {
  const cell = (text: string) => text.replaceAll('|', '\\|').replaceAll('\n', ' ');
  const table = (head: readonly string[], rows: readonly (readonly (string | number)[])[]) => [
    `| ${head.join(' | ')} |`,
    `|${head.map(() => '---').join('|')}|`,
    ...rows.map((row) => `| ${row.map((value) => cell(String(value))).join(' | ')} |`),
  ];
  return [
    '# Answers compared with the reference',
    '',
    `${summaryOf(report)}.`,
    '',
    ...table(
      ['method', 'product', 'compared', 'equal', 'explained', 'different', 'unanswered'],
      report.methods.map((one) => [
        one.method,
        one.product,
        one.compared,
        one.equal,
        one.explained,
        one.different,
        one.unanswered,
      ]),
    ),
    '',
    '## Differences',
    '',
    ...table(
      ['method', 'member', 'kind', 'answers', 'explanation'],
      report.groups.map(({ method, path, kind, count, reason }) => [
        method,
        path === '' ? '(whole answer)' : path,
        kind,
        count,
        reason ?? '',
      ]),
    ),
  ].join('\n');
}
