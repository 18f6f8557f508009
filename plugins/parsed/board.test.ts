import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChainBlock } from '../../src/ports/block.ts';
import type { ParsedFilter } from '../../src/ports/parsed-transactions.ts';
import { readIdl } from '../../src/solana/idl/read-idl.ts';
import { createWords } from '../../src/solana/parsers/words.ts';
import { madeTransaction, PAYER } from '../../test/helpers/parsed-found.ts';
import { createSfc32 } from '../../test/helpers/sfc32.ts';
import { createParsedTransactions } from './board.ts';
import type { Learned } from './interfaces.ts';

const PROGRAM = 'JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4';
const OTHER = 'whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc';
const SLOT = 100;

const idl = (...names: string[]) =>
  readIdl(
    JSON.stringify({
      metadata: { name: 'router' },
      address: PROGRAM,
      instructions: names.map((name, at) => ({
        ...{ name, discriminator: [at + 1], args: [] },
        accounts: [{ name: 'payer' }],
      })),
    }),
  )!;

const blockOf = (seed: number, data: readonly number[]): ChainBlock => {
  const { block } = madeTransaction(SLOT, seed, PROGRAM, data);
  return { ...block, slot: SLOT, blockTime: null } as unknown as ChainBlock;
};

function create() {
  const learns: string[][] = [];
  const followed: number[] = [];
  const shared = idl('route', 'swap');
  const own = idl('mine', 'swap');
  const learned: Learned = {
    find: (program) => (program === PROGRAM ? shared : null),
    versionsOf: () => [],
    with: () => ({ ...learned, find: () => own }),
  };
  const random = createSfc32(1);
  const parsed = createParsedTransactions({
    interfaces: {
      async learn(slots) {
        learns.push([...slots.keys()]);
        return learned;
      },
      follow: ({ slot }) => void followed.push(slot),
    },
    ownOf: async (project) => (project === 'owner' ? new Map() : null),
    words: createWords(null),
    random: { bytes: (count: number) => Uint8Array.from({ length: count }, () => random.below(256)) } as never,
  });
  return { learns, followed, parsed };
}

const filter = (more: Partial<ParsedFilter>): ParsedFilter => ({
  ...{ programs: [], instructionNames: [], include: [], roles: [], includeFailed: false, includeCpi: true },
  ...more,
});

test('filters are found by program, account and role; a project sees its own interfaces', async () => {
  const { parsed, followed } = create();
  const board = parsed.openBoard<string>();
  const set = (name: string, more: Partial<ParsedFilter>, project: string | null = null) =>
    board.set(name, { filter: filter(more), project });
  set('program', { programs: [PROGRAM] });
  set('equal', { programs: [PROGRAM, OTHER] });
  set('account', { include: [PAYER] });
  set('name', { programs: [PROGRAM], instructionNames: ['Route'] });
  set('role', { programs: [PROGRAM], roles: [['payer', PAYER]] });
  set('owner', { programs: [PROGRAM], instructionNames: ['mine'] }, 'owner');
  set('no name', { programs: [PROGRAM], instructionNames: ['mine'] });
  set('no role', { programs: [PROGRAM], roles: [['owner', PAYER]] });
  set('no program', { programs: [OTHER] });
  set('program is no account', { include: [PROGRAM] });
  set('gone', { programs: [PROGRAM] });
  board.remove('gone');
  const block = blockOf(1, [1]);
  const found = await board.match(block, { isLive: true });
  assert.deepEqual([...found.keys()].sort(), ['account', 'equal', 'name', 'owner', 'program', 'role']);
  assert.deepEqual(followed, [SLOT]);
  const textOf = (name: string) => found.get(name)![0]!.text('full');
  // The same text, not only an equal one.
  assert.equal(textOf('program'), textOf('equal'));
  assert.equal(found.get('program')![0]!.key('full'), found.get('equal')![0]!.key('full'));
  assert.notEqual(found.get('program')![0]!.key('full'), found.get('owner')![0]!.key('full'));
  const nameIn = (name: string) =>
    (JSON.parse(textOf(name)) as { instructions: { instructionName: string }[] }).instructions[0]!.instructionName;
  assert.deepEqual([nameIn('program'), nameIn('owner')], ['route', 'mine']);
});

test('a block that nobody wants asks for no interface; one that is compared twice is learned once', async () => {
  const { parsed, learns } = create();
  const [board, second] = [parsed.openBoard<string>(), parsed.openBoard<string>()];
  board.set('other', { filter: filter({ programs: [OTHER] }), project: null });
  const block = blockOf(2, [2]);
  assert.equal((await board.match(block, { isLive: true })).size, 0);
  assert.deepEqual(learns, []);
  for (const one of [board, second]) one.set('one', { filter: filter({ programs: [PROGRAM] }), project: null });
  const [a, b] = [await board.match(block, { isLive: true }), await second.match(block, { isLive: false })];
  assert.deepEqual(learns, [[PROGRAM]]);
  assert.equal(a.get('one')![0]!.text('raw'), b.get('one')![0]!.text('raw'));
});

test('an owner that leaves while interfaces are read gets nothing', async () => {
  const { parsed } = create();
  const board = parsed.openBoard<string>();
  board.set('one', { filter: filter({ programs: [PROGRAM] }), project: null });
  const matching = board.match(blockOf(3, [1]), { isLive: true });
  board.remove('one');
  assert.equal((await matching).size, 0);
});
