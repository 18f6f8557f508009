import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { syntheticBlock } from '../../../test/bench/samples/synthetic-block.ts';
import { readFixture, skipWithoutFixtures } from '../../../test/helpers/fixtures.ts';
import { type Mess, messyJson } from '../../../test/helpers/messy-json.ts';
import { normalForm } from '../../../test/helpers/normal-form.ts';
import { blockOf, entryOf, sampleMessage } from '../../../test/helpers/rpc-block.ts';
import { bySeed } from '../../../test/helpers/run-part.ts';
import { createSfc32 } from '../../../test/helpers/sfc32.ts';
import { encode32 } from '../../lib/base58.ts';
import { codeOf } from '../../lib/coded-error.ts';
import { stringify } from '../../lib/json.ts';
import type { ChainBlock } from '../../ports/block.ts';
import { rawTransaction } from '../raw-transaction.ts';
import { decodeBlock } from './decode-block.ts';
import { decodeExact, decodeResponse } from './response.ts';
import { scanBlockAnswer } from './scan-block.ts';

const TIDY: Mess = { blanks: 0, escapes: 0, order: 0, twice: 0, numbers: 0 };
const address = (byte: number): string => encode32(new Uint8Array(32).fill(byte));

const answer = (result: unknown): Buffer => Buffer.from(JSON.stringify({ jsonrpc: '2.0', result, id: 1 }));
const parsed = (slot: number, body: Buffer): ChainBlock =>
  decodeBlock(slot, (decodeExact(body) as { result: unknown }).result);

function wholeForm(block: ChainBlock): unknown {
  const { transactions, keys, answer: _, ...header } = block;
  return {
    header,
    keys: Array.from({ length: keys.size }, (_, id) => keys.base58(id)),
    ids: transactions.map((tx) => [[...tx.keys], [...tx.tokenOwners], tx.preTokenBalances, tx.postTokenBalances]),
    transactions: transactions.map((tx) => normalForm(tx, block)),
    raw: transactions.map((tx) => stringify(rawTransaction(tx, block, { extraKeys: true }))),
  };
}

/** The whole form, or the code of the error; inner instructions are decoded only when they are read. */
function outcomeOf(make: () => ChainBlock): unknown {
  try {
    return wholeForm(make());
  } catch (error) {
    const code = codeOf(error);
    if (code === undefined) throw error;
    return code;
  }
}

/** Decodes both ways; returns whether the scan alone was sufficient. */
function compare(slot: number, body: Buffer): boolean {
  const scanned = scanBlockAnswer(body);
  const expected = outcomeOf(() => parsed(slot, body));
  if (scanned === null) return false;
  assert.deepEqual(
    outcomeOf(() => decodeBlock(slot, scanned)),
    expected,
  );
  return typeof expected !== 'string' && scanned.entries.every(({ usual }) => usual !== null);
}

function recorded(name: string): Buffer {
  const given = decodeResponse(readFixture(`chain/blocks/${name}.json`)) as { result?: unknown };
  return answer(given.result ?? given);
}

test('recorded blocks are equal scanned and parsed', { skip: skipWithoutFixtures }, () => {
  for (const name of ['mainnet-254170887-even', 'devnet-270893658', 'devnet-314167369', 'solders-getBlock-base64']) {
    const body = recorded(name);
    const { result } = JSON.parse(body.toString()) as { result: { parentSlot: number } };
    assert.ok(compare(result.parentSlot + 1, body), name);
    const { answer } = decodeBlock(result.parentSlot + 1, scanBlockAnswer(body)!);
    assert.equal(answer!.text().toString(), JSON.stringify(result));
    assert.equal(answer!.isVerbatim, 'rewards' in result);
    const random = createSfc32(5);
    const spaced = messyJson({ jsonrpc: '2.0', result, id: 1 }, random, { ...TIDY, blanks: 0.3, order: 0.5 });
    assert.ok(compare(result.parentSlot + 1, Buffer.from(spaced)), `${name} in another order`);
  }
});

test('entries in other encodings are left to the parser', { skip: skipWithoutFixtures }, () => {
  for (const name of ['solders-getBlock-json', 'solders-getBlock-json_parsed'])
    assert.ok(scanBlockAnswer(recorded(name))!.entries.every(({ usual }) => usual === null));
});

test('a generated block is equal scanned and parsed, at any offset of its bytes', () => {
  const { body, slot } = syntheticBlock({ seed: 3, transactions: 60, slot: 1000 });
  for (let shift = 0; shift < 5; shift++) {
    const room = Buffer.alloc(body.length + 8);
    body.copy(room, shift);
    assert.ok(compare(slot, room.subarray(shift, shift + body.length)));
  }
});

const balance = fc.record(
  {
    accountIndex: fc.nat(3),
    mint: fc.oneof(fc.nat(255).map(address), fc.constantFrom('', 'x', address(1).slice(1))),
    owner: fc.oneof(fc.nat(9).map(address), fc.constantFrom('', null, 5, 'owner')),
    programId: fc.oneof(fc.nat(9).map(address), fc.constantFrom('', null)),
    uiTokenAmount: fc.record(
      { amount: fc.constantFrom('5', '', 5), decimals: fc.constantFrom(0, 6, '6'), uiAmount: fc.double() },
      { requiredKeys: ['amount'] },
    ),
  },
  { requiredKeys: ['accountIndex', 'mint', 'uiTokenAmount'] },
);
const sound = fc.record({
  accountIndex: fc.nat(2),
  mint: fc.nat(255).map(address),
  owner: fc.nat(9).map(address),
  programId: fc.nat(3).map(address),
  uiTokenAmount: fc.constant({ amount: '12', decimals: 2, uiAmount: 0.12, uiAmountString: '0.12' }),
});
const instruction = fc.record(
  {
    accounts: fc.array(fc.oneof({ weight: 9, arbitrary: fc.nat(2) }, fc.constantFrom(3, -1, 0.5, 'a')), {
      maxLength: 4,
    }),
    data: fc.oneof({ weight: 9, arbitrary: fc.constant('3Bxs4h24hBtQy9rw') }, fc.constantFrom('', '0', 7)),
    programIdIndex: fc.nat(3),
    stackHeight: fc.constantFrom(null, 2, 9),
  },
  { requiredKeys: ['accounts', 'data', 'programIdIndex'] },
);
const text = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: 'grapheme' }),
  fc.constant('Program log: "x"\\n'),
);
const meta = fc.record(
  {
    err: fc.constantFrom(null, { InstructionError: [0, { Custom: 1 }] }, 'AccountInUse'),
    fee: fc.oneof({ weight: 9, arbitrary: fc.nat() }, fc.constantFrom(null, '5')),
    logMessages: fc.oneof(fc.constant(null), fc.array(text, { maxLength: 3 }), fc.constant('log')),
    preBalances: fc.oneof(
      { weight: 9, arbitrary: fc.constant([1, 2, 3]) },
      fc.constantFrom([1, 2], null, [1, null, {}]),
    ),
    preTokenBalances: fc.oneof(
      fc.constant(null),
      fc.array(fc.oneof({ weight: 5, arbitrary: sound }, balance), { maxLength: 3 }),
    ),
    postTokenBalances: fc.array(sound, { maxLength: 3 }),
    innerInstructions: fc.oneof(
      fc.constant(null),
      fc.array(fc.record({ index: fc.nat(300), instructions: fc.array(instruction, { maxLength: 2 }) }), {
        maxLength: 2,
      }),
    ),
    status: fc.constant({ Ok: null }),
    news: fc.anything({ maxDepth: 2, withNullPrototype: false }).filter((value) => JSON.stringify(value) !== undefined),
  },
  { requiredKeys: [] },
);
const messes: readonly Mess[] = [
  TIDY,
  { ...TIDY, blanks: 0.3 },
  { ...TIDY, order: 1 },
  { blanks: 0.1, escapes: 0.002, order: 0.3, twice: 0.01, numbers: 0.02 },
];

bySeed(600, ({ length: numRuns }) => {
  test('any block is equal scanned and parsed, in any formatting, and bad ones give the same code', () => {
    let enough = 0;
    fc.assert(
      fc.property(fc.array(meta, { maxLength: 4 }), fc.constantFrom(...messes), fc.nat(), (metas, mess, seed) => {
        const result = blockOf(metas.map((one) => entryOf({ message: sampleMessage(), meta: one })));
        const body = Buffer.from(messyJson({ id: 1, jsonrpc: '2.0', result }, createSfc32(seed), mess));
        if (compare(100, body)) enough++;
      }),
      { numRuns },
    );
    assert.ok(enough > (numRuns > 100 ? numRuns / 10 : 0), `the scan was enough for ${enough} only`);
  });
});

bySeed(3_000, ({ length: numRuns }) => {
  test('for any changed, inserted or removed byte, scanned and parsed agree', () => {
    const metas = [{}, { logMessages: ['Program "log"', 'é\u0001'], err: { a: [1] }, status: { Ok: null } }];
    const tokens = {
      preTokenBalances: [{ accountIndex: 0, mint: address(1), uiTokenAmount: { amount: '1', decimals: 0 } }],
    };
    const result = blockOf([...metas, tokens].map((one) => entryOf({ message: sampleMessage(), meta: one })));
    const whole = answer(result);
    const byte = fc.oneof(fc.nat(255), fc.constantFrom(...Array.from(Buffer.from('"\\,:{}[]0.e-n \n\t\u0001'))));
    fc.assert(
      fc.property(fc.nat(whole.length - 1), fc.nat(2), byte, fc.nat(30), (at, kind, value, length) => {
        const added = kind === 0 ? Buffer.of(value) : kind === 1 ? whole.subarray(at, at + length) : Buffer.alloc(0);
        const left = kind === 0 ? at + 1 : kind === 1 ? at : at + length;
        compare(100, Buffer.concat([whole.subarray(0, at), added, whole.subarray(left)]));
      }),
      { numRuns },
    );
  });
});

test('unusual results are left to the parser', () => {
  const block = JSON.stringify(blockOf([]));
  const texts = [
    '',
    ' ',
    'null',
    '[]',
    '{}',
    '{"result":null}',
    `{"result":${block}`,
    `{"result":${block}} x`,
    `{"result":${block},"result":${block}}`,
    `{"result":${block},"error":null}`,
    `{"res\\u0075lt":${block}}`,
    `{"result":${block.replace('"transactions":[]', '"transactions":null')}}`,
    `{"result":${block.replace('"transactions"', '"transaction"')}}`,
    `\uFEFF{"result":${block}}`,
    `{"deep":${'['.repeat(100)}${']'.repeat(100)},"result":${block}}`,
  ];
  for (const given of texts) assert.equal(scanBlockAnswer(Buffer.from(given)), null, given.slice(0, 60));
  assert.notEqual(scanBlockAnswer(Buffer.from(`{"result":${block}}`)), null);
});
