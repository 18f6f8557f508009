import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encode, encode32 } from '../../lib/base58.ts';
import { decodeBlock } from '../decode/decode-block.ts';
import { readMovements } from './read-movements.ts';

const TOKEN = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA';
const TOKEN_2022 = 'TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb';
const WRAPPED = 'So11111111111111111111111111111111111111112';
const HASH = '1'.repeat(32);
const named = (byte: number): string => encode32(new Uint8Array(32).fill(byte));
const [PAYER, OTHER, FROM, TO, MINT, NEW] = [1, 2, 3, 4, 5, 6].map(named) as [
  string,
  string,
  string,
  string,
  string,
  string,
];
const KEYS = [PAYER, OTHER, FROM, TO, MINT, NEW, TOKEN, TOKEN_2022, HASH, WRAPPED];

interface Call {
  readonly program: string;
  readonly accounts: readonly string[];
  readonly data: Uint8Array;
}

const u64 = (value: bigint): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes;
};
const tag = (...parts: readonly (number | Uint8Array)[]): Buffer =>
  Buffer.concat(parts.map((part) => (typeof part === 'number' ? Buffer.of(part) : part)));
const balance = (account: string, owner: string, amount: bigint, program = TOKEN, mint = MINT) => ({
  accountIndex: KEYS.indexOf(account),
  mint,
  owner,
  programId: program,
  uiTokenAmount: { amount: String(amount), decimals: 2 },
});

function movementsOf(
  calls: readonly Call[],
  pre: readonly object[],
  post: readonly object[],
  lamports: readonly number[] = [],
) {
  const instructions = calls.map(({ program, accounts, data }) => ({
    programIdIndex: KEYS.indexOf(program),
    accounts: accounts.map((account) => KEYS.indexOf(account)),
    data: encode(data),
  }));
  const zeros = KEYS.map((_, at) => lamports[at] ?? 0);
  const header = { numRequiredSignatures: 1, numReadonlySignedAccounts: 0, numReadonlyUnsignedAccounts: 0 };
  const block = decodeBlock(7, {
    blockhash: HASH,
    previousBlockhash: HASH,
    parentSlot: 6,
    blockHeight: null,
    blockTime: 0,
    transactions: [
      {
        version: 'legacy',
        transaction: {
          signatures: ['1'.repeat(64)],
          message: { accountKeys: KEYS, header, recentBlockhash: HASH, instructions },
        },
        meta: {
          err: null,
          fee: 0,
          logMessages: [],
          innerInstructions: [],
          preBalances: zeros,
          postBalances: zeros,
          preTokenBalances: pre,
          postTokenBalances: post,
        },
      },
    ],
  });
  const { moves, keys } = readMovements(block.transactions[0]!, block.keys);
  return { moves, text: (id: number) => keys.base58(id) };
}

test('a fee that no instruction contains is the difference at the destination', () => {
  const transfer = { program: TOKEN_2022, accounts: [FROM, MINT, TO, PAYER], data: tag(12, u64(1_000n), 2) };
  const pre = [balance(FROM, PAYER, 5_000n, TOKEN_2022), balance(TO, OTHER, 10n, TOKEN_2022)];
  const post = [balance(FROM, PAYER, 4_000n, TOKEN_2022), balance(TO, OTHER, 970n, TOKEN_2022)];
  const one = movementsOf([transfer], pre, post).moves[0]!;
  assert.ok(one.asset === 'token' && one.amount === 1_000n && one.fee === 40n);
  // Two of them share one change, so neither fee can be inferred.
  for (const move of movementsOf([transfer, transfer], pre, post).moves)
    assert.ok(move.asset === 'token' && move.fee === null);
  const told = { ...transfer, data: tag(26, 1, u64(1_000n), 2, u64(7n)) };
  const [first] = movementsOf([told, told], pre, post).moves;
  assert.ok(first!.asset === 'token' && first!.fee === 7n && first!.kind === 'transferWithFee');
});

test('owners are those at the time', () => {
  const transfer = { program: TOKEN, accounts: [FROM, TO, PAYER], data: tag(3, u64(1n)) };
  const handOver = { program: TOKEN, accounts: [TO, OTHER], data: tag(6, 2, 1, new Uint8Array(32).fill(9)) };
  const { moves, text } = movementsOf(
    [transfer, handOver, transfer],
    [balance(FROM, PAYER, 2n), balance(TO, OTHER, 0n)],
    [balance(FROM, PAYER, 0n), balance(TO, named(9), 2n)],
  );
  const owners = moves.map((move) => (move.asset === 'token' ? text(move.destinationOwner) : ''));
  // The new owner occurs only in the data.
  assert.deepEqual(owners, [OTHER, named(9)]);
});

test('a closed account of wrapped SOL returns its balance, deposits and rent', () => {
  const calls = [
    { program: HASH, accounts: [PAYER, NEW], data: tag(0, 0, 0, 0, u64(2_039_280n), u64(165n), new Uint8Array(32)) },
    { program: TOKEN, accounts: [NEW, WRAPPED], data: tag(18, new Uint8Array(32).fill(1)) },
    { program: HASH, accounts: [PAYER, NEW], data: tag(2, 0, 0, 0, u64(700n)) },
    { program: TOKEN, accounts: [NEW, FROM, PAYER], data: tag(3, u64(200n)) },
    { program: TOKEN, accounts: [NEW, PAYER, PAYER], data: tag(9) },
  ];
  const { moves } = movementsOf(
    calls,
    [balance(FROM, OTHER, 0n, TOKEN, WRAPPED)],
    [balance(FROM, OTHER, 200n, TOKEN, WRAPPED)],
  );
  const close = moves.at(-1)!;
  assert.ok(close.asset === 'native' && close.kind === 'closeWrapped' && close.amount === 2_039_280n + 500n);
  const [made, paid] = moves;
  assert.ok(made!.asset === 'native' && made!.kind === 'createAccount' && made!.toToken?.isWrapped === true);
  assert.ok(paid!.asset === 'native' && paid!.kind === 'transfer' && paid!.toToken?.isWrapped === true);
});

test('a batch equals the instructions in it', () => {
  const inner = tag(3, u64(4n));
  const batch = tag(255, 3, inner.length, inner, 3, inner.length, inner);
  const accounts = [FROM, TO, PAYER, TO, FROM, OTHER];
  const balances = [balance(FROM, PAYER, 9n), balance(TO, OTHER, 9n)];
  const { moves, text } = movementsOf([{ program: TOKEN, accounts, data: batch }], balances, balances);
  assert.deepEqual(
    moves.map((move) =>
      move.asset === 'token' ? [text(move.sourceOwner), text(move.destinationOwner), move.amount] : [],
    ),
    [
      [PAYER, OTHER, 4n],
      [OTHER, PAYER, 4n],
    ],
  );
  const cut = movementsOf([{ program: TOKEN, accounts: accounts.slice(0, 5), data: batch }], balances, balances);
  assert.equal(cut.moves.length, 1);
});
