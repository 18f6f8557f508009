/** Writes the transition tables of the state machines into the README files of their folders, between comments with their names. */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { FILL } from '../../plugins/das/indexing/tables.ts';
import { REPLAY } from '../../plugins/streams/hub/replays.ts';
import { RANGE } from '../../plugins/wallet/store/range.ts';
import { COOL_DOWN, SERVED_CHAIN } from '../../src/adapters/chain/rpc/transitions.ts';
import { OUTBOX } from '../../src/jobs/transitions.ts';
import type { Transitions } from '../../src/lib/transitions.ts';
import { findProjectRoot } from './project-root.ts';

interface Machine {
  readonly name: string;
  /** Path from the root. */
  readonly page: string;
  /** In the order of the columns. */
  readonly states: readonly string[];
  readonly table: Transitions<string, string>;
}

export const MACHINES: readonly Machine[] = [
  {
    name: 'outbox',
    page: 'src/jobs/README.md',
    states: ['none', 'pending', 'running', 'held', 'done', 'failed', 'discarded'],
    table: OUTBOX,
  },
  {
    name: 'cool-down',
    page: 'src/adapters/chain/rpc/README.md',
    states: ['none', 'failing', 'limited', 'refused', 'distrusted'],
    table: COOL_DOWN,
  },
  {
    name: 'served chain',
    page: 'src/adapters/chain/rpc/README.md',
    states: ['ours', 'unknown', 'other'],
    table: SERVED_CHAIN,
  },
  { name: 'fill', page: 'plugins/das/README.md', states: ['none', 'filling', 'ready'], table: FILL },
  { name: 'replay', page: 'plugins/streams/README.md', states: ['reading', 'live', 'over'], table: REPLAY },
  {
    name: 'wallet',
    page: 'plugins/wallet/README.md',
    states: ['dropped', 'left', 'new', 'live', 'stored', 'apart', 'joined'],
    table: RANGE,
  },
];

/** One row for each event; an empty cell: the event changes nothing in that state. */
function rowsOf({ states, table }: Machine): string {
  const rows = [
    ['event', ...states.map((state) => `in \`${state}\``)],
    ...Object.entries(table).map(([event, after]) => [
      event,
      ...states.map((state) => {
        const next = (after as { readonly [state: string]: string })[state];
        return next === undefined ? '' : next === state ? 'stays' : `\`${next}\``;
      }),
    ]),
  ];
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const line = (cells: readonly string[]) => `| ${cells.map((cell, at) => cell.padEnd(widths[at]!)).join(' | ')} |`;
  const [head, ...others] = rows.map(line);
  return [head, line(widths.map((width) => '-'.repeat(width))), ...others].join('\n');
}

/** A page with its tables as the code has them. */
export function pageWithTables(page: string): string {
  let text = readFileSync(findProjectRoot() + page, 'utf8');
  for (const machine of MACHINES.filter((one) => one.page === page)) {
    const [begin, end] = [`<!-- transitions of ${machine.name} -->`, `<!-- /transitions of ${machine.name} -->`];
    const [from, to] = [text.indexOf(begin), text.indexOf(end)];
    if (from < 0 || to < from) throw new Error(`${page} has no place for the transitions of ${machine.name}`);
    text = `${text.slice(0, from)}${begin}\n\n${rowsOf(machine)}\n\n${text.slice(to)}`;
  }
  return text;
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  for (const page of new Set(MACHINES.map((one) => one.page)))
    writeFileSync(findProjectRoot() + page, pageWithTables(page));
