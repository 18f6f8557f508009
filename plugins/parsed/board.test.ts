import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChainBlock } from '../../src/ports/block.ts';
import type { ParsedFilter } from '../../src/ports/parsed-transactions.ts';
import { decodeEntries } from '../../src/solana/decode/decode-block.ts';
import { readIdl } from '../../src/solana/idl/read-idl.ts';
import { createWords } from '../../src/solana/parsers/parser.ts';
import { madeTransaction, PAYER } from '../../test/helpers/parsed-found.ts';
import { createSfc32 } from '../../test/helpers/sfc32.ts';
import { createParsedTransactions } from './board.ts';
import { CostlyInterface } from './costs.ts';
import type { Learned } from './interfaces/index.ts';

const PROGRAM = 'JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4';
const OTHER = 'whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc';
const SLOT = 100;

const idl = (...names: string[]) =>
  readIdl(
    JSON.stringify({
      metadata: { name: 'router' },
      address: PROGRAM,
      instructions: names.map((name, at) => ({
        name,
        discriminator: [at + 1],
        args: name === 'create_v2' ? [{ name: 'amount', type: 'u64' }] : [],
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
  const shared = idl('route', 'swap', 'create_v2');
  const own = { ...idl('mine', 'swap') };
  const learnedOf = (known: ReadonlySet<string>): Learned => ({
    find: (program) => (known.has(program) ? shared : null),
    versionsOf: () => [],
    with: () => ({ ...learnedOf(known), find: () => own }),
  });
  /** What is awaited before an answer; it may throw. */
  const upstream = { answers: async (_programs: readonly string[]): Promise<void> => undefined };
  const random = createSfc32(1);
  const parsed = createParsedTransactions({
    interfaces: {
      async learn(slots) {
        learns.push([...slots.keys()]);
        await upstream.answers([...slots.keys()]);
        return learnedOf(new Set(slots.keys()));
      },
      follow: ({ slot }) => void followed.push(slot),
    },
    ownOf: async (project) => (project === 'owner' ? new Map() : null),
    words: createWords(null),
    random: { bytes: (count: number) => Uint8Array.from({ length: count }, () => random.below(256)) } as never,
  });
  return { learns, followed, parsed, upstream, own };
}

const filter = (more: Partial<ParsedFilter>): ParsedFilter => ({
  programs: [],
  instructionNames: [],
  include: [],
  roles: [],
  includeFailed: false,
  includeCpi: true,
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
  // One string, not only an equal one.
  assert.equal(textOf('program'), textOf('equal'));
  assert.equal(found.get('program')![0]!.key('full'), found.get('equal')![0]!.key('full'));
  assert.notEqual(found.get('program')![0]!.key('full'), found.get('owner')![0]!.key('full'));
  const nameIn = (name: string) =>
    (JSON.parse(textOf(name)) as { instructions: { instructionName: string }[] }).instructions[0]!.instructionName;
  assert.deepEqual([nameIn('program'), nameIn('owner')], ['route', 'mine']);
});

test('a call whose arguments do not fit its interface is found by its name and its accounts, and shown as it is', async () => {
  const { parsed } = create();
  const board = parsed.openBoard<string>();
  const set = (owner: string, more: Partial<ParsedFilter>) =>
    board.set(owner, { filter: filter({ programs: [PROGRAM], ...more }), project: null });
  set('name', { instructionNames: ['createV2'] });
  set('role', { instructionNames: ['create_v2'], roles: [['payer', PAYER]] });
  set('other name', { instructionNames: ['route'] });
  set('other role', { roles: [['owner', PAYER]] });
  // The third instruction has an argument, and the data end before it.
  const found = await board.match(blockOf(6, [3]), { isLive: true });
  assert.deepEqual([...found.keys()].sort(), ['name', 'role']);
  const { instructions } = JSON.parse(found.get('name')![0]!.text('matched')) as { instructions: object[] };
  assert.deepEqual(instructions, [
    {
      instructionIndex: 0,
      innerInstructionIndex: null,
      stackHeight: 1,
      programId: PROGRAM,
      programName: 'router',
      instructionName: null,
      summary: null,
      decoded: null,
      rawData: '4',
      rawAccounts: [PAYER],
    },
  ]);
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

/** A block that calls two programs; two boards, of which the first wants one of them and the second both. */
function twoPrograms() {
  const bed = create();
  const entries = [PROGRAM, OTHER].map((program, at) => madeTransaction(SLOT, at, program, [1]).entry);
  const block = { ...decodeEntries(SLOT, entries, new Uint8Array(32)), slot: SLOT, blockTime: null };
  const boards = [[PROGRAM], [PROGRAM, OTHER]].map((programs) => {
    const board = bed.parsed.openBoard<string>();
    board.set('one', { filter: filter({ programs, instructionNames: ['route'] }), project: null });
    return async () => (await board.match(block as unknown as ChainBlock, { isLive: false })).get('one')?.length;
  });
  return { ...bed, first: boards[0]!, second: boards[1]! };
}

test('programs whose interfaces could not be read are read when the block is compared again', async () => {
  const { upstream, first, second } = twoPrograms();
  assert.equal(await first(), 1);
  upstream.answers = () => Promise.reject(new Error('no upstream answers'));
  await assert.rejects(second(), /no upstream answers/);
  await assert.rejects(second(), /no upstream answers/);
  upstream.answers = () => Promise.resolve();
  assert.equal(await second(), 2);
});

test('a board waits for interfaces that another one is reading', async () => {
  const { upstream, first, second } = twoPrograms();
  assert.equal(await first(), 1);
  const { promise, resolve } = createPromise();
  upstream.answers = () => promise;
  const matching = Promise.all([second(), second()]);
  await new Promise(setImmediate);
  resolve();
  assert.deepEqual(await matching, [2, 2]);
});

test('an answer that comes late takes nothing from one that asked for more', async () => {
  const { upstream, learns, first, second } = twoPrograms();
  const [ofOne, ofTwo] = [createPromise(), createPromise()];
  upstream.answers = (programs) => (programs.length === 1 ? ofOne : ofTwo).promise;
  const matching = Promise.all([first(), second()]);
  while (learns.length < 2) await new Promise(setImmediate);
  ofTwo.resolve();
  ofOne.resolve();
  assert.deepEqual(await matching, [1, 2]);
});

function createPromise() {
  let resolve: () => void = assert.fail;
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

test('a project whose interfaces decode too slowly gets an error and nothing of the block; other projects continue', async () => {
  const bed = create();
  const board = bed.parsed.openBoard<string>();
  for (const [name, project] of [
    ['all', null],
    ['mine', 'owner'],
  ] as const)
    board.set(name, { filter: filter({ programs: [PROGRAM] }), project });
  bed.own.decode = () => {
    throw new CostlyInterface(PROGRAM);
  };
  const decoded = new Map<string, number>();
  const costly: string[] = [];
  const found = await board.match(blockOf(4, [1]), {
    isLive: true,
    decoded: (owner, transactions) => decoded.set(owner, transactions),
    costly: (owner, reason) => costly.push(`${owner} ${reason}`),
  });
  assert.deepEqual([...found.keys()], ['all']);
  assert.equal(decoded.get('all'), 1);
  assert.equal(costly.length, 1);
  assert.match(costly[0]!, /^mine .*PARSED_IDL_COSTLY/);
  await assert.rejects(board.match(blockOf(5, [1]), { isLive: true }), CostlyInterface);
});
