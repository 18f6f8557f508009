import { Type } from '../../../src/plugin/plugin.ts';
import { answered, anything, choice, count, defineTool, given, INPUT, listOf } from '../tool.ts';
import { itemsOf, memberOf, moreSentence, nextOf, objectsOf } from './answers.ts';
import { timesOf } from './history.ts';

const VIEWS = ['activity', 'interface'] as const;

export const programTool = defineTool({
  name: 'program',
  title: 'Program',
  description:
    'What a program is and does. Views: activity (transactions that call it, decoded, with counts by instruction; narrow it with since, until and instructions), interface (the instructions that its IDLs name). With `account`, activity is searched in the history of that account, which is faster for busy programs.',
  input: Type.Object(
    {
      program: INPUT.address('address of the program'),
      view: Type.Optional(choice(VIEWS, 'default: activity')),
      instructions: Type.Optional(
        Type.Array(Type.String({ minLength: 1, maxLength: 100 }), {
          minItems: 1,
          maxItems: 20,
          description: 'only transactions with one of these instructions, by their names in the interface',
        }),
      ),
      account: Type.Optional(INPUT.address('only transactions of this account')),
      status: Type.Optional(choice(['any', 'succeeded', 'failed'], 'default any')),
      order: Type.Optional(choice(['newest', 'oldest'], 'default newest')),
      since: INPUT.since,
      until: INPUT.until,
      limit: INPUT.limit(100, 10),
      cursor: INPUT.cursor,
    },
    { additionalProperties: false },
  ),
  data: answered({
    counts: anything('Calls of the program by instruction, of this page'),
    items: listOf('Transactions, decoded'),
    scan: anything('How far the search went and why it stopped'),
    next: Type.Union([Type.String(), Type.Null()], { description: 'Cursor of the next page; null: none' }),
    versions: listOf('Interfaces with their slots and instructions'),
  }),
  async run(input, calls) {
    const { program, view = 'activity', order = 'newest', limit = 10 } = input;
    if (view === 'interface') {
      const found = await calls.get(`/v1/parsed-events/idls/${encodeURIComponent(program)}`);
      const versions = itemsOf(memberOf(found, 'versions'));
      return { summary: `${count(versions.length, 'interface')} of ${program} known.`, data: { versions } };
    }
    const match = { programs: [given({ programId: program, instructions: input.instructions, scope: 'transaction' })] };
    const found = await calls.send(
      'POST',
      '/v1/parsed-events/scan',
      given({
        address: input.account ?? program,
        match,
        status: input.status ?? 'any',
        sortOrder: order === 'oldest' ? 'asc' : 'desc',
        limit,
        paginationToken: input.cursor,
        time: timesOf(input),
      }),
    );
    const items = objectsOf(memberOf(found, 'data'));
    const next = nextOf(found);
    const scan = memberOf(found, 'scan');
    const failed = items.filter((item) => memberOf(item['parsed'], 'transactionStatus') === 'ERROR').length;
    const searched = count(Number(memberOf(scan, 'scannedTransactions') ?? 0), 'transaction');
    return {
      summary: `${count(items.length, 'matching transaction')}, ${failed} of them failed; ${searched} searched. ${moreSentence(next)}`,
      data: { counts: countsOf(items, program), items, scan, next },
    };
  },
});

/** Calls of a program by the name of the instruction; `unknown` without an interface. */
function countsOf(items: readonly unknown[], program: string): Readonly<Record<string, number>> {
  const counts = new Map<string, number>();
  for (const item of items)
    for (const instruction of objectsOf(memberOf(memberOf(item, 'parsed'), 'instructions'))) {
      if (instruction['programId'] !== program) continue;
      const name = typeof instruction['instructionName'] === 'string' ? instruction['instructionName'] : 'unknown';
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
  return Object.fromEntries([...counts].sort(([, a], [, b]) => b - a));
}
