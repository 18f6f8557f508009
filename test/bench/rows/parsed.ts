/** How fast instructions are decoded by an IDL, beside Anchor's coder, which names no accounts, and the dynamic parser of Codama. */
import assert from 'node:assert/strict';
import { parseInstructionData } from '@codama/dynamic-parsers';
import { rootNodeFromAnchor } from '@codama/nodes-from-anchor';
import anchor, { type Idl } from '@coral-xyz/anchor';
import { createParsedTransactions } from '../../../plugins/parsed/board.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import { decodeEntries } from '../../../src/solana/decode/decode-block.ts';
import { type AccountUse, readIdl } from '../../../src/solana/idl/read-idl.ts';
import { createWords } from '../../../src/solana/parsers/parser.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { paired, ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';

const ADDRESS = 'JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4';
const INSTRUCTIONS = 30;
const ACCOUNTS = 12;
const STEPS = 3;
/** The goal of the decoder, on one thread. */
const GOAL = 200_000;

/** Like a router's: 12 accounts, a vector of structs and three integers of 64 bits. */
const idl = {
  address: ADDRESS,
  metadata: { name: 'router', version: '0.1.0', spec: '0.1.0' },
  instructions: Array.from({ length: INSTRUCTIONS }, (_, at) => ({
    name: `route_${at}`,
    discriminator: [at, 2, 3, 4, 5, 6, 7, 8],
    docs: [],
    accounts: Array.from({ length: ACCOUNTS }, (_unused, place) => ({ name: `account_${place}`, docs: [] })),
    args: [
      { name: 'plan', type: { vec: { defined: { name: 'Step' } } }, docs: [] },
      ...['in_amount', 'quoted_amount', 'least_amount'].map((name) => ({ name, type: 'u64', docs: [] })),
    ],
  })),
  accounts: [],
  errors: [],
  events: [],
  constants: [],
  types: [
    {
      name: 'Step',
      docs: [],
      type: {
        kind: 'struct',
        fields: [
          { name: 'percent', type: 'u8', docs: [] },
          { name: 'input_index', type: 'u8', docs: [] },
          { name: 'out_amount', type: 'u64', docs: [] },
        ],
      },
    },
  ],
};

/** One call of each instruction. */
function calls(): Buffer[] {
  return idl.instructions.map(({ discriminator }, at) => {
    const data = Buffer.alloc(8 + 4 + STEPS * 10 + 24);
    data.set(discriminator);
    data.writeUInt32LE(STEPS, 8);
    for (let step = 0; step < STEPS; step++) {
      data.set([100, step], 12 + step * 10);
      data.writeBigUInt64LE(9_007_199_254_740_993n * BigInt(step + 1), 14 + step * 10);
    }
    [0n, 2n ** 64n - 1n, BigInt(at) * 1_000_000n].forEach((amount, place) => {
      data.writeBigUInt64LE(amount, data.length - 24 + place * 8);
    });
    return data;
  });
}

const accounts: readonly AccountUse[] = Array.from({ length: ACCOUNTS }, (_, at) => ({
  pubkey: `${ADDRESS.slice(0, 41)}${100 + at}`,
  isSigner: at === 0,
  isWritable: at < 4,
}));

const LISTS: Readonly<Record<string, readonly string[]>> = {
  rootNode: ['additionalPrograms'],
  programNode: ['accounts', 'instructions', 'definedTypes', 'pdas', 'errors', 'events', 'constants'],
  instructionNode: ['accounts', 'arguments', 'extraArguments', 'remainingAccounts', 'byteDeltas', 'subInstructions'],
};

/** The two packages of Codama are of different versions: one leaves out empty lists that the other reads. */
function withLists(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(withLists);
  if (typeof node !== 'object' || node === null) return node;
  const lists = LISTS[(node as { kind?: string }).kind ?? ''] ?? [];
  const members = Object.entries(node).map(([name, member]) => [name, withLists(member)]);
  return { ...Object.fromEntries(lists.map((name) => [name, []])), ...Object.fromEntries(members) };
}

/** Without the discriminator, with names in snake_case and integers as text. */
function plain(data: unknown): unknown {
  const snake = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return JSON.parse(
    JSON.stringify(data, (name, value: unknown) =>
      name === 'discriminator' ? undefined : typeof value === 'bigint' ? String(value) : value,
    ),
    function (this: unknown, name, value: unknown) {
      if (name === '' || snake(name) === name) return value;
      (this as Record<string, unknown>)[snake(name)] = value;
      return undefined;
    },
  );
}

async function run({ size, seed, say }: RunOptions): Promise<RowResult[]> {
  const list = calls();
  const program = readIdl(JSON.stringify(idl))!;
  const coder = new anchor.BorshInstructionCoder(idl as unknown as Idl);
  const root = withLists(rootNodeFromAnchor(idl as never)) as never;
  const anchorArgs = (data: Buffer) =>
    JSON.parse(
      JSON.stringify(coder.decode(data)!.data, (_, value: unknown) =>
        typeof value === 'string' && /^[0-9a-f]{2,16}$/.test(value) ? BigInt(`0x${value}`).toString() : value,
      ),
    );
  for (const data of list) {
    const found = program.decode(data, accounts, ADDRESS)!;
    assert.deepEqual(anchorArgs(data), found.args);
    assert.deepEqual(plain(parseInstructionData(root, data)!.data), found.args);
    assert.equal(found.accounts.length, ACCOUNTS);
  }
  const ours = () => list.reduce((sum, data) => sum + program.decode(data, accounts, ADDRESS)!.accounts.length, 0);
  const others: readonly (readonly [name: string, run: () => number])[] = [
    ['anchor', () => list.reduce((sum, data) => sum + coder.decode(data)!.name.length, 0)],
    ['codama', () => list.reduce((sum, data) => sum + (parseInstructionData(root, data) === undefined ? 0 : 1), 0)],
  ];
  return others.map(([name, baseline]) => {
    say(`instructions by an IDL, beside ${name}`);
    const timing = size === 'smoke' ? { pairs: 2, minMs: 1 } : { pairs: 10, minMs: 300 };
    const { oursMs, baselineMs, sink } = paired({ run: ours }, { run: baseline }, timing);
    const perSecond = (ms: number): number => (list.length / ms) * 1_000;
    const rates = oursMs.map(perSecond).sort((left, right) => left - right);
    const median = rates[rates.length >> 1]!;
    return {
      row: `parsed/${name}`,
      name: `instructions decoded by an IDL, beside ${name}`,
      unit: 'instructions/s',
      ours: oursMs.map(perSecond),
      baseline: baselineMs.map(perSecond),
      ratio: ratioOf(oursMs, baselineMs),
      goal: `>= ${GOAL.toLocaleString('en-US')} instructions/s`,
      verdict: size === 'smoke' ? 'not assessed' : median >= GOAL ? 'met' : 'missed',
      sizes: { instructions: INSTRUCTIONS, accounts: ACCOUNTS, steps: STEPS },
      seed,
      notes: [
        'named accounts and text for 64-bit integers; the baseline decodes arguments only; the arguments of all three are equal',
        `sink ${sink}`,
      ],
    };
  });
}

const FILTERS = 100_000;
const TRANSACTIONS = 1_000;
const PER_TRANSACTION = 8;
const KEYS = 20;
/** For an instruction that nobody asked for. */
const GOAL_US = 2;

/** A block of transactions that share no program or account with the filters. */
function strangers(random: ReturnType<typeof createSfc32>, count: number): ChainBlock {
  const keys = Array.from({ length: count * 4 }, () => randomKey(random));
  const entries = Array.from({ length: count }, () => {
    const own = Array.from({ length: KEYS }, () => keys[random.below(keys.length)]!);
    const calls = Array.from({ length: PER_TRANSACTION }, () => [
      KEYS - 1 - random.below(4),
      ACCOUNTS,
      ...Array.from({ length: ACCOUNTS }, () => random.below(KEYS)),
      8,
      ...randomKey(random).subarray(0, 8),
    ]);
    const signature = Buffer.concat([randomKey(random), randomKey(random)]);
    const head = [1, ...signature, 1, 0, 4, KEYS];
    const wire = Buffer.from([
      ...head,
      ...own.flatMap((key) => [...key]),
      ...randomKey(random),
      calls.length,
      ...calls.flat(),
    ]);
    const balances = Array.from({ length: KEYS }, () => 1);
    const meta = { err: null, fee: 5_000, preBalances: balances, postBalances: balances, innerInstructions: [] };
    return { transaction: [wire.toString('base64'), 'base64'], meta, version: 'legacy' };
  });
  const block = decodeEntries(1, entries, new Uint8Array(32));
  return { ...block, slot: 1, blockTime: null } as unknown as ChainBlock;
}

const randomKey = (random: ReturnType<typeof createSfc32>): Buffer =>
  Buffer.from(Array.from({ length: 32 }, () => random.below(256)));

/** Subscriptions with a program, an account, or both, compared with a block that has nothing for them. */
async function matching({ size, seed, say }: RunOptions): Promise<RowResult> {
  const filters = size === 'smoke' ? 100 : FILTERS;
  const count = size === 'smoke' ? 20 : TRANSACTIONS;
  const random = createSfc32(seed);
  const never = () => Promise.reject(new Error('nobody asked for it'));
  const parsed = createParsedTransactions({
    interfaces: { learn: never, follow: () => undefined },
    ownOf: never,
    words: createWords(null),
    random: { bytes: (bytes) => randomKey(random).subarray(0, bytes), float: random.float, uuid: () => '' },
  });
  const board = parsed.openBoard<number>();
  for (let at = 0; at < filters; at++) {
    const [programs, include] = [at % 3 === 1 ? [] : [1], at % 3 === 0 ? [] : [1, 2]].map((list) =>
      list.map(() => encode32(randomKey(random))),
    );
    const filter = { programs: programs!, include: include!, instructionNames: [], roles: [] };
    board.set(at, { filter: { ...filter, includeFailed: false, includeCpi: true }, project: null });
  }
  const block = strangers(random, count);
  say(`${filters} filters of parsed transactions`);
  const instructions = count * PER_TRANSACTION;
  const ours: number[] = [];
  for (let turn = 0; turn < 20; turn++) {
    const from = performance.now();
    assert.equal((await board.match(block, { isLive: true })).size, 0);
    ours.push(((performance.now() - from) * 1_000) / instructions);
  }
  const median = [...ours].sort((left, right) => left - right)[ours.length >> 1]!;
  return {
    row: 'parsed/matching',
    name: 'an instruction that no subscription wants',
    unit: 'µs',
    ours,
    baseline: [],
    ratio: null,
    goal: `< ${GOAL_US} µs`,
    verdict: size === 'smoke' ? 'not assessed' : median < GOAL_US ? 'met' : 'missed',
    sizes: { filters, instructions, accounts: ACCOUNTS },
    seed,
    notes: ['filters with a program, accounts, or both; the look-up of all keys of the block counts'],
  };
}

export const row: Row = {
  id: 'parsed',
  name: 'instructions decoded by an IDL',
  run: async (options) => [...(await run(options)), await matching(options)],
};
