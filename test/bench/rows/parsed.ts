/** How fast instructions are decoded by an IDL, beside Anchor's coder, which names no accounts, and the dynamic parser of Codama. */
import assert from 'node:assert/strict';
import { parseInstructionData } from '@codama/dynamic-parsers';
import { rootNodeFromAnchor } from '@codama/nodes-from-anchor';
import anchor, { type Idl } from '@coral-xyz/anchor';
import { type AccountUse, readIdl } from '../../../src/solana/idl/read-idl.ts';
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

export const row: Row = { id: 'parsed', name: 'instructions decoded by an IDL', run };
