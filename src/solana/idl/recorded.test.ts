import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readJsonFixture, skipWithoutFixtures } from '../../../test/helpers/fixtures.ts';
import {
  type CaseInstruction,
  type CaseTransaction,
  instructionFault,
  manifestInterfaces,
  parseCase,
} from '../../../test/helpers/parsed-cases.ts';
import { plainTransaction } from '../../../test/helpers/plain-transaction.ts';
import { decodeEntries } from '../decode/decode-block.ts';
import { createWords } from '../parsers/parser.ts';
import { type FindInterface, parseTransaction } from './parse-transaction.ts';
import { readIdl } from './read-idl.ts';

const sorted = (rows: readonly object[]): string[] =>
  rows.map((row) => JSON.stringify(Object.entries(row).sort())).sort();

/** Differences between the cases and what is read, as texts; empty when all agree. */
function faultsOf(cases: readonly CaseTransaction[], find: FindInterface, hasTransfers = true): string[] {
  const faults: string[] = [];
  for (const one of cases) {
    const parsed = parseCase(one, find);
    const { expected } = one;
    const same = (what: string, found: unknown, wanted: unknown) => {
      try {
        assert.deepEqual(JSON.parse(JSON.stringify(found ?? null)), wanted);
      } catch (error) {
        faults.push(`${one.id} ${what}: ${(error as Error).message.slice(0, 600)}`);
      }
    };
    const head = [parsed.transactionStatus, parsed.fee, parsed.error];
    same('status', head, [expected.status, expected.fee, expected.error]);
    same('decodedError', parsed.decodedError, expected.decodedError);
    const native = parsed.nativeTransfers.map(({ fromUserAccount, toUserAccount, amount }) => ({
      from: fromUserAccount,
      to: toUserAccount,
      amount,
    }));
    const tokens = parsed.tokenTransfers.map((row) => ({
      from: row.fromTokenAccount,
      to: row.toTokenAccount,
      fromUser: row.fromUserAccount,
      toUser: row.toUserAccount,
      amount: String(row.rawTokenAmount),
      decimals: row.decimals,
      mint: row.mint,
    }));
    // Cases name transfers in no order.
    if (hasTransfers) same('native', sorted(native), sorted(expected.native));
    if (hasTransfers) same('tokens', sorted(tokens), sorted(expected.tokens));
    same('count', parsed.instructions.length, expected.instructions.length);
    expected.instructions.forEach((wanted, at) => {
      if (wanted === null) return;
      const fault = instructionFault(parsed.instructions[at]!, wanted);
      if (fault !== null) faults.push(`${one.id} #${at} ${wanted.kind}: ${fault}`);
    });
  }
  return faults;
}

test('made-up transactions read as their encoders say', { skip: skipWithoutFixtures }, () => {
  const cases = readJsonFixture<CaseTransaction[]>('parsed/transactions.json');
  assert.ok(cases.length > 100);
  const faults = faultsOf(cases, manifestInterfaces());
  assert.deepEqual(faults.slice(0, 5), [], `${faults.length} faults`);
});

test('instructions that were cut are calls of what they were, others of nothing', { skip: skipWithoutFixtures }, () => {
  const find = manifestInterfaces();
  let cut = 0;
  for (const one of readJsonFixture<CaseTransaction[]>('parsed/transactions.json'))
    for (const [at, { call }] of parseCase(one, find).instructions.entries()) {
      const wanted = one.expected.instructions[at];
      if (wanted == null) continue;
      assert.equal(call?.name ?? null, wanted.name ?? wanted.known ?? null, `${one.id} #${at} ${wanted.kind}`);
      if (wanted.known !== undefined) cut += 1;
    }
  assert.ok(cut > 100, `${cut} were cut`);
});

test('transactions for scans read as their encoders say', { skip: skipWithoutFixtures }, () => {
  const { transactions } = readJsonFixture<{ transactions: CaseTransaction[] }>('parsed/scan.json');
  assert.ok(transactions.length > 10);
  assert.deepEqual(faultsOf(transactions, manifestInterfaces(), false), []);
});

test('before and after an upgrade each interface reads its own calls', { skip: skipWithoutFixtures }, () => {
  const upgrades = readJsonFixture<Upgrade[]>('parsed/upgrades.json');
  assert.ok(upgrades.length > 3);
  for (const { address, old, new: next, before, after } of upgrades) {
    const only = (idl: unknown): FindInterface => {
      const read = readIdl(JSON.stringify(idl));
      return (programId) => (programId === address ? read : null);
    };
    const own = (cases: readonly CaseTransaction[]) => cases.map((one) => ofProgram(one, address));
    assert.deepEqual(faultsOf(own(before), only(old.idl)), []);
    assert.deepEqual(faultsOf(own(after), only(next.idl)), []);
  }
});

interface Upgrade {
  readonly address: string;
  readonly old: { readonly idl: unknown };
  readonly new: { readonly idl: unknown };
  readonly before: readonly CaseTransaction[];
  readonly after: readonly CaseTransaction[];
}

/** Without what is asked of other programs. */
function ofProgram(one: CaseTransaction, address: string): CaseTransaction {
  const parsed = parseCase(one, () => null);
  const { expected } = one;
  const instructions = expected.instructions.map((wanted, at) =>
    parsed.instructions[at]?.programId === address ? wanted : null,
  );
  return { ...one, expected: { ...expected, instructions } };
}

test('recorded transactions read as Anchor reads them', { skip: skipWithoutFixtures }, () => {
  const find = manifestInterfaces();
  const cases = readJsonFixture<RealCase[]>('parsed/real.json');
  assert.ok(cases.length > 10);
  for (const { signature, from, instructions } of cases) {
    const file = readJsonFixture<Answer & { result?: Answer; getTransaction?: Answer }>(`chain/${from}`);
    const answer = file.getTransaction ?? file.result ?? file;
    const [one] = answer.transactions ?? [];
    const isParsed = typeof answer.transaction?.message.accountKeys[0] === 'object';
    const entries = one !== undefined ? answer.transactions! : [isParsed ? plainTransaction(answer as never) : answer];
    const { transactions, keys } = decodeEntries(1, entries, new Uint8Array(32));
    const tx = transactions.find((one) => one.signature === signature);
    assert.ok(tx, signature);
    const parsed = parseTransaction(
      tx,
      { slot: 1, blockTime: null, keys },
      { find, words: createWords(null) },
    ).instructions;
    for (const wanted of instructions) {
      const [outer, inner] = wanted.at;
      const found = parsed.find((one) => one.instructionIndex === outer && one.innerInstructionIndex === inner);
      assert.ok(found, `${signature} ${wanted.at}`);
      assert.equal(instructionFault(found, wanted), null);
    }
  }
});

interface RealCase {
  readonly signature: string;
  readonly from: string;
  readonly instructions: readonly (CaseInstruction & { readonly at: readonly [number, number | null] })[];
}

interface Answer {
  readonly transactions?: readonly unknown[];
  readonly transaction?: { readonly message: { readonly accountKeys: readonly unknown[] } };
}
