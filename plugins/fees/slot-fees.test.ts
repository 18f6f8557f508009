import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { ChainBlock } from '../../src/ports/block.ts';
import { createKeyTable } from '../../src/solana/decode/key-table.ts';
import { hashAccount, packFees, unpackFees } from './slot-fees.ts';

interface Sample {
  readonly isVote: boolean;
  readonly failed: boolean;
  /** Micro-lamports per compute unit; null: without a price. */
  readonly rate: number | null;
  readonly signers: number;
  readonly readonlySigners: number;
  readonly readonlyUnsigned: number;
  /** Indexes into the accounts of the block. */
  readonly keys: readonly number[];
  readonly loadedWritable: number;
  readonly loadedReadonly: number;
}

function blockOf(accounts: readonly Uint8Array[], samples: readonly Sample[]): ChainBlock {
  const keys = createKeyTable(Uint32Array.of(1, 2, 3, 4), 8);
  const ids = accounts.map((key) => keys.intern(new DataView(key.buffer, key.byteOffset, 32), 0));
  const transactions = samples.map((sample, index) => ({
    index,
    isVote: sample.isVote,
    error: sample.failed ? {} : null,
    version: 1,
    instructions: [],
    // A limit of a million units: the fee in lamports is the rate in micro-lamports.
    config: { priorityFee: BigInt(sample.rate ?? 0), computeUnitLimit: sample.rate === null ? null : 1_000_000 },
    header: {
      numRequiredSignatures: sample.signers,
      numReadonlySignedAccounts: sample.readonlySigners,
      numReadonlyUnsignedAccounts: sample.readonlyUnsigned,
    },
    keys: Uint32Array.from(sample.keys, (key) => ids[key]!),
    staticKeyCount: sample.keys.length - sample.loadedWritable - sample.loadedReadonly,
    loadedWritableCount: sample.loadedWritable,
  }));
  return { slot: 1, keys, transactions } as unknown as ChainBlock;
}

function isWritable(sample: Sample, at: number): boolean {
  const statics = sample.keys.length - sample.loadedWritable - sample.loadedReadonly;
  if (at >= statics) return at < statics + sample.loadedWritable;
  if (at < sample.signers) return at < sample.signers - sample.readonlySigners;
  return at < statics - sample.readonlyUnsigned;
}

/** Rates of those that write to the account: of normal transactions, then of votes. */
function ratesOf(samples: readonly Sample[], account: number): { normal: number[]; votes: number[] } {
  const writes = samples.filter(
    (one) => !one.failed && one.rate !== null && one.keys.some((key, at) => key === account && isWritable(one, at)),
  );
  const rates = (areVotes: boolean) => writes.filter(({ isVote }) => isVote === areVotes).map(({ rate }) => rate!);
  return { normal: rates(false), votes: rates(true) };
}

function check(accounts: readonly Uint8Array[], samples: readonly Sample[]): void {
  const { bytes, samples: count } = packFees(blockOf(accounts, samples));
  const fees = unpackFees(bytes)!;
  const priced = samples.filter(({ failed, rate }) => !failed && rate !== null);
  assert.equal(count, priced.length);
  assert.deepEqual(
    [...fees.rates],
    [...priced.filter(({ isVote }) => !isVote), ...priced.filter(({ isVote }) => isVote)].map(({ rate }) => rate),
  );
  assert.equal(fees.normal, priced.filter(({ isVote }) => !isVote).length);
  accounts.forEach((key, account) => {
    const found: { normal: number[]; votes: number[] } = { normal: [], votes: [] };
    const isThere = fees.each(hashAccount(key), (index) => {
      (index < fees.normal ? found.normal : found.votes).push(fees.rates[index]!);
    });
    const expected = ratesOf(samples, account);
    assert.deepEqual(found, expected);
    assert.equal(isThere, expected.normal.length + expected.votes.length > 0);
  });
}

const ACCOUNTS = 12;

const sample: fc.Arbitrary<Sample> = fc
  .record({
    isVote: fc.boolean(),
    failed: fc.boolean(),
    rate: fc.option(fc.nat(1e9)),
    keys: fc.uniqueArray(fc.nat(ACCOUNTS - 1), { minLength: 1 }),
    parts: fc.tuple(fc.nat(), fc.nat(), fc.nat(), fc.nat(), fc.nat()),
  })
  .map(({ parts: [loadedWritable, loadedReadonly, signers, readonlySigners, readonlyUnsigned], ...one }) => {
    const loaded = loadedWritable % one.keys.length;
    const rest = loadedReadonly % (one.keys.length - loaded);
    const statics = one.keys.length - loaded - rest;
    const signing = 1 + (signers % statics);
    return {
      ...one,
      loadedWritable: loaded,
      loadedReadonly: rest,
      signers: signing,
      readonlySigners: readonlySigners % signing,
      readonlyUnsigned: readonlyUnsigned % (statics - signing + 1),
    };
  });

test('each account of a block has the rates of the transactions that write to it', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.uint8Array({ minLength: 32, maxLength: 32 }), {
        minLength: ACCOUNTS,
        maxLength: ACCOUNTS,
        selector: (key) => Buffer.from(key).toString('hex'),
      }),
      fc.array(sample, { maxLength: 20 }),
      check,
    ),
    { numRuns: 500 },
  );
});

test('accounts whose hashes agree in the upper half are both found', () => {
  const seen = new Map<number, Uint8Array>();
  const pairs: Uint8Array[] = [];
  for (let n = 0; pairs.length < 8; n++) {
    const key = new Uint8Array(32);
    // The hash never collides for keys that differ in one word only.
    const view = new DataView(key.buffer);
    view.setUint32(0, n);
    view.setUint32(28, Math.imul(n, 0x9e3779b1));
    const { high } = hashAccount(key);
    const other = seen.get(high);
    if (other === undefined) seen.set(high, key);
    else pairs.push(other, key);
  }
  const writes = (rate: number, ...keys: number[]): Sample => ({
    isVote: false,
    failed: false,
    rate,
    keys,
    signers: 1,
    readonlySigners: 0,
    readonlyUnsigned: 0,
    loadedWritable: 0,
    loadedReadonly: 0,
  });
  for (const accounts of [pairs, pairs.toReversed()]) {
    check(accounts, [writes(5, 0, 1, 2), writes(7, 1, 3, 4), writes(9, 7, 6, 5)]);
  }
});
