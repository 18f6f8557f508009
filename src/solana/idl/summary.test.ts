import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readJsonFixture, skipWithoutFixtures } from '../../../test/helpers/fixtures.ts';
import { decode32, encode } from '../../lib/base58.ts';
import { WRAPPED_SOL_MINT } from '../addresses.ts';
import { decodeBlock, decodeEntries } from '../decode/decode-block.ts';
import { createWords } from '../parsers/words.ts';
import { nativeInterfaces } from './native.ts';
import { parseTransaction } from './parse-transaction.ts';
import { readIdl } from './read-idl.ts';

test('summaries of a recorded block agree with its balances', { skip: skipWithoutFixtures }, () => {
  const answer = readJsonFixture<{ parentSlot: number }>('chain/blocks/mainnet-254170887-even.json');
  const block = decodeBlock(answer.parentSlot + 1, answer);
  const parts = { find: (program: string) => nativeInterfaces().get(program) ?? null, words: createWords(null) };
  const types = new Map<string, number>();
  let [legs, inner] = [0, 0];
  for (const tx of block.transactions) {
    const parsed = parseTransaction(tx, block, parts);
    const { summary } = parsed;
    if (tx.error !== null) {
      assert.equal(summary, null);
      assert.ok(parsed.instructions.every((one) => one.summary === null));
      continue;
    }
    if (summary === null) continue;
    types.set(summary.type, (types.get(summary.type) ?? 0) + 1);
    assert.notEqual(summary.description, '');
    const data = summary.parsedData;
    // An arbitrage has one mint on both sides.
    if (data === null || data.input_mint === data.output_mint) continue;
    inner += data.inner_swaps.length;
    assert.equal(summary.type, 'swap');
    const [payer] = [block.keys.base58(tx.keys[0]!)];
    const changeOf = (mint: string) => {
      const sum = (list: typeof tx.preTokenBalances) =>
        list
          .filter(
            ({ ownerKey, mintKey }) => block.keys.base58(ownerKey) === payer && block.keys.base58(mintKey) === mint,
          )
          .reduce((total, { amount }) => total + BigInt(amount), 0n);
      return sum(tx.postTokenBalances) - sum(tx.preTokenBalances);
    };
    // Of SOL the payer also pays fees and rents; a token that comes from somebody else's account has another owner.
    for (const [mint, amount] of [
      [data.input_mint, -BigInt(data.in_amount)],
      [data.output_mint, BigInt(data.actual_out_amount)],
    ] as const) {
      if (mint === WRAPPED_SOL_MINT || changeOf(mint) === 0n) continue;
      assert.equal(changeOf(mint), amount, tx.signature);
      legs += 1;
    }
  }
  assert.ok((types.get('swap') ?? 0) > 5 && (types.get('transfer') ?? 0) > 5, JSON.stringify([...types]));
  assert.ok(legs > 5 && inner > 5, `${legs} legs, ${inner} inner swaps`);
});

test('each instruction that moves something says so', { skip: skipWithoutFixtures }, () => {
  const answer = readJsonFixture<{ parentSlot: number }>('chain/blocks/mainnet-254170887-even.json');
  const block = decodeBlock(answer.parentSlot + 1, answer);
  const parts = { find: (program: string) => nativeInterfaces().get(program) ?? null, words: createWords(null) };
  let moved = 0;
  for (const tx of block.transactions.filter(({ error, isVote }) => error === null && !isVote)) {
    for (const one of parseTransaction(tx, block, parts).instructions) {
      if (one.summary === null) continue;
      assert.match(
        `${one.programName} ${one.instructionName}`,
        /^(?:system|token|token_2022) (?:transfer|create_account)/,
      );
      moved += 1;
    }
  }
  assert.ok(moved > 50, `${moved}`);
});

const POOL_PROGRAM = 'JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4';
const [PAYER, POOL, STRANGER] = [1, 2, 3].map((byte) => new Uint8Array(32).fill(byte)) as [
  Uint8Array,
  Uint8Array,
  Uint8Array,
];
const PLACES = { payer: 0, pool: 1, stranger: 2, system: 3, program: 4 } as const;
type Who = 'payer' | 'pool' | 'stranger';
type Call = number | readonly [from: Who, to: Who, lamports: number];

/** The type in the summary of a transaction that calls a pool or moves SOL, each with what it calls. */
function poolSummary(calls: readonly (readonly [Call, ...Call[]])[]): string | undefined {
  const keys = [PAYER, POOL, STRANGER, new Uint8Array(32), decode32(POOL_PROGRAM)!];
  const parts = (call: Call): readonly [program: number, accounts: readonly number[], data: Buffer] => {
    if (typeof call === 'number') return [PLACES.program, [PLACES.payer], Buffer.from([call])];
    const [from, to, lamports] = call;
    const data = Buffer.alloc(12);
    data.writeUInt32LE(2);
    data.writeUInt32LE(lamports, 4);
    return [PLACES.system, [PLACES[from], PLACES[to]], data];
  };
  const outer = calls.flatMap(([call]) => {
    const [program, accounts, data] = parts(call);
    return [program, accounts.length, ...accounts, data.length, ...data];
  });
  const head = [1, ...new Uint8Array(64).fill(1), 1, 0, 2, keys.length, ...keys.flatMap((key) => [...key])];
  const wire = Buffer.from([...head, ...new Uint8Array(32), calls.length, ...outer]);
  const innerInstructions = calls.map(([, ...inner], index) => ({
    index,
    instructions: inner.map((call) => {
      const [programIdIndex, accounts, data] = parts(call);
      return { programIdIndex, accounts, data: encode(data), stackHeight: 2 };
    }),
  }));
  const balances = keys.map(() => 1_000_000);
  const meta = { err: null, fee: 5_000, preBalances: balances, postBalances: balances, innerInstructions };
  const entry = { transaction: [wire.toString('base64'), 'base64'], meta, version: 'legacy' };
  const block = decodeEntries(1, [entry], new Uint8Array(32));
  const pool = readIdl(
    JSON.stringify({
      metadata: { name: 'pool' },
      instructions: ['add_liquidity', 'remove_liquidity'].map((name, discriminator) => ({
        ...{ name, discriminator: [discriminator], accounts: [], args: [] },
      })),
    }),
  );
  const find = (program: string) => (program === POOL_PROGRAM ? pool : (nativeInterfaces().get(program) ?? null));
  const [tx] = block.transactions;
  return parseTransaction(tx!, { ...block, slot: 1, blockTime: null }, { find, words: createWords(null) }).summary
    ?.type;
}

test('what a program calls liquidity is told only where the fee payer gave or got something in that instruction', () => {
  const [ADD, REMOVE] = [0, 1];
  const cases: [readonly (readonly [Call, ...Call[]])[], string | undefined][] = [
    [[[ADD, ['payer', 'pool', 5]]], 'add_liquidity'],
    [[[REMOVE, ['pool', 'payer', 5]]], 'remove_liquidity'],
    // A name alone, the other direction, others, nothing, and to itself.
    [[[ADD]], undefined],
    [[[ADD, ['pool', 'payer', 5]]], undefined],
    [[[REMOVE, ['payer', 'pool', 5]]], undefined],
    [[[ADD, ['pool', 'stranger', 5]]], undefined],
    [[[ADD, ['payer', 'pool', 0]]], undefined],
    [[[ADD, ['payer', 'payer', 5]]], undefined],
    [
      [
        [ADD, ['payer', 'pool', 5]],
        [REMOVE, ['pool', 'payer', 5]],
      ],
      undefined,
    ],
  ];
  for (const [calls, wanted] of cases) assert.equal(poolSummary(calls), wanted, JSON.stringify(calls));
  // A tip beside it proves nothing.
  assert.notEqual(poolSummary([[ADD], [['payer', 'stranger', 5]]]), 'add_liquidity');
});
