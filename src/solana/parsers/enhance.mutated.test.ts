import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { listFixtures, readJsonFixture, skipWithoutFixtures } from '../../../test/helpers/fixtures.ts';
import { hostedElements } from '../../../test/helpers/hosted-elements.ts';
import { type ParsedAnswer, plainTransaction } from '../../../test/helpers/plain-transaction.ts';
import { type HostedElement, rebuildBlock, rebuildTransaction } from '../../../test/helpers/rebuild-enhanced.ts';
import { bySeed } from '../../../test/helpers/run-part.ts';
import { decode, encode } from '../../lib/base58.ts';
import { stringify } from '../../lib/json.ts';
import { decodeBlock } from '../decode/decode-block.ts';
import { rawTransaction } from '../raw-transaction.ts';
import { readTransaction } from './enhance.ts';
import { PARSERS } from './registry.ts';

const HASH = '1'.repeat(32);

/** Ways to damage the data or the accounts of one instruction. */
const damage = fc.record({
  instruction: fc.nat(),
  inner: fc.nat(),
  kind: fc.constantFrom('cut', 'flip', 'grow', 'empty', 'noise', 'accounts' as const),
  at: fc.nat(),
  noise: fc.uint8Array({ maxLength: 300 }),
});

type Damage = typeof damage extends fc.Arbitrary<infer T> ? T : never;
type Call = { accounts: number[]; data: string; programIdIndex: number };

function damaged(data: Uint8Array, { kind, at, noise }: Damage): Uint8Array {
  const copy = Uint8Array.from(data);
  if (kind === 'empty') return new Uint8Array();
  if (kind === 'cut') return copy.subarray(0, at % (copy.length + 1));
  if (kind === 'grow') return Uint8Array.from([...copy, ...noise]);
  // The program's own instruction, with random bytes after it.
  if (kind === 'noise') return Uint8Array.from([...copy.subarray(0, 8), ...noise]);
  if (copy.length > 0) copy[at % copy.length]! ^= 1 << (at % 8);
  return copy;
}

interface Answer {
  readonly slot: number;
  readonly blockTime: number;
  readonly transaction: { readonly message: { readonly accountKeys: string[]; readonly instructions: Call[] } };
  readonly meta: {
    readonly innerInstructions: readonly { readonly instructions: Call[] }[];
    readonly loadedAddresses?: { readonly writable: readonly string[]; readonly readonly: readonly string[] };
  };
}

const answerOf = (element: HostedElement): Answer => rebuildTransaction(element) as unknown as Answer;
const callsOf = ({ transaction, meta }: Answer): readonly Call[] => [
  ...transaction.message.instructions,
  ...meta.innerInstructions.flatMap(({ instructions }) => instructions),
];

function mutate(answer: Answer, changes: readonly Damage[]) {
  const made = structuredClone(answer);
  const all = callsOf(made);
  for (const change of changes) {
    const call = all[change.instruction % all.length]!;
    if (change.kind === 'accounts') call.accounts = call.accounts.slice(0, change.at % (call.accounts.length + 1));
    else call.data = encode(damaged(decode(call.data)!, change));
  }
  return decodeBlock(made.slot, {
    blockhash: HASH,
    previousBlockhash: HASH,
    parentSlot: made.slot - 1,
    blockHeight: null,
    blockTime: made.blockTime,
    transactions: [made],
  });
}

bySeed(600, ({ length: numRuns }) => {
  test('damaged instructions: nothing throws, no parser fails, balances stay unchanged', {
    skip: skipWithoutFixtures,
  }, () => {
    const elements = hostedElements().filter(({ accountData }) => accountData.length > 0);
    const accounts = elements.map((element) => {
      const block = rebuildBlock(element);
      return readTransaction(block.transactions[0]!, block).element()['accountData'];
    });
    fc.assert(
      fc.property(fc.nat(), fc.array(damage, { minLength: 1, maxLength: 4 }), (which, changes) => {
        const element = elements[which % elements.length]!;
        const block = mutate(answerOf(element), changes);
        const faults: unknown[] = [];
        const read = readTransaction(block.transactions[0]!, block, { onFault: (...fault) => faults.push(fault) });
        const made = read.element();
        assert.deepEqual(faults, []);
        assert.equal(Object.keys(made).length, 14);
        assert.deepEqual(made['accountData'], accounts[which % elements.length]);
        assert.deepEqual(Object.keys(JSON.parse(stringify(made)) as object), Object.keys(made));
      }),
      { numRuns },
    );
  });
});

/** Whole transactions as returned by nodes; only the first members are needed here. */
function recordedAnswers(): readonly Answer[] {
  return listFixtures('chain/transactions').map((file) => {
    const { getTransaction: answer } = readJsonFixture<{ readonly getTransaction: ParsedAnswer }>(file);
    const isParsed = typeof answer.transaction.message.accountKeys[0] === 'object';
    return (
      isParsed ? { ...plainTransaction(answer), slot: answer.slot, blockTime: answer.blockTime } : answer
    ) as Answer;
  });
}

bySeed(1_000, ({ length: numRuns }) => {
  test('damaged instructions of other programs do not affect the transfers', { skip: skipWithoutFixtures }, () => {
    const hosted = hostedElements().filter(({ tokenTransfers }) => tokenTransfers.length > 0);
    const answers = [...hosted.map(answerOf), ...recordedAnswers()];
    assert.ok(answers.length > 60);
    fc.assert(
      fc.property(fc.nat(), damage, (which, change) => {
        const answer = answers[which % answers.length]!;
        const faults: unknown[] = [];
        const read = (changes: readonly Damage[]) => {
          const block = mutate(answer, changes);
          const onFault = (...fault: unknown[]) => faults.push(fault);
          return readTransaction(block.transactions[0]!, block, { onFault }).element();
        };
        const all = callsOf(answer);
        const call = all[change.instruction % all.length]!;
        const { writable = [], readonly = [] } = answer.meta.loadedAddresses ?? {};
        const program = [...answer.transaction.message.accountKeys, ...writable, ...readonly][call.programIdIndex]!;
        fc.pre(!program.startsWith('Token') && program !== '1'.repeat(32) && change.kind !== 'accounts');
        const [before, made] = [read([]), read([change])];
        assert.deepEqual(faults, []);
        assert.deepEqual(made['accountData'], before['accountData']);
        assert.deepEqual(made['tokenTransfers'], before['tokenTransfers']);
        // Staking alone hides the creation of the account.
        if (made.type !== 'STAKE_SOL' && before.type !== 'STAKE_SOL')
          assert.deepEqual(made['nativeTransfers'], before['nativeTransfers']);
      }),
      { numRuns },
    );
  });
});

test('a throwing parser is reported, and the next one is called', { skip: skipWithoutFixtures }, () => {
  const [element] = hostedElements();
  const block = rebuildBlock(element!);
  const tx = block.transactions[0]!;
  const faults: string[] = [];
  const broken = {
    name: 'broken',
    programs: null,
    parse: () => {
      throw new Error('no');
    },
  };
  const onFault = (parser: string, signature: string): unknown => faults.push(`${parser} ${signature}`);
  const read = readTransaction(tx, block, { parsers: [broken, ...PARSERS], onFault });
  assert.equal(read.type, element!.type);
  assert.deepEqual(faults, [`broken ${tx.signature}`]);
});

test('throwing texts and events leave the rest of the element intact', { skip: skipWithoutFixtures }, () => {
  const [element] = hostedElements();
  const block = rebuildBlock(element!);
  const fail = () => {
    throw new Error('no');
  };
  const parser = {
    name: 'odd',
    programs: null,
    parse: () => ({ type: 'SWAP', source: 'X', describe: fail, events: fail }),
  };
  const faults: string[] = [];
  const onFault = (name: string): unknown => faults.push(name);
  const made = readTransaction(block.transactions[0]!, block, { parsers: [parser], onFault }).element();
  assert.deepEqual([made.type, made.description, made['events']], ['SWAP', '', {}]);
  assert.deepEqual(faults, ['odd', 'odd']);
});

test('a failed transaction keeps its type and its accounts, and moved nothing', { skip: skipWithoutFixtures }, () => {
  for (const element of hostedElements().filter(({ accountData }) => accountData.length > 0)) {
    for (const [given, told] of [
      [{ InstructionError: [0, { Custom: 1 }] }, { InstructionError: [0, { Custom: 1 }] }],
      ['InsufficientFundsForFee', { error: 'InsufficientFundsForFee' }],
    ]) {
      const block = rebuildBlock({ ...element, transactionError: given });
      const made = readTransaction(block.transactions[0]!, block).element();
      assert.deepEqual([made.type, made.source], [element.type, element.source]);
      assert.deepEqual(
        [made['nativeTransfers'], made['tokenTransfers'], made['events'], made.description],
        [[], [], {}, ''],
      );
      assert.deepEqual(made['transactionError'], told);
      assert.equal((made['instructions'] as unknown[]).length, element.instructions.length);
      assert.ok(rawTransaction(block.transactions[0]!, block));
    }
  }
});
