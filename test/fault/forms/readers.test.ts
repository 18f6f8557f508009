/** Transactions in forms beyond today's: the decoder, and everything that reads what it makes. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createBlockUpdates } from '../../../plugins/streams/wire/updates.ts';
import { emptyDictionary } from '../../../src/ledger/dictionary.ts';
import { PARTS } from '../../../src/ledger/frame.ts';
import { PayloadReader, payloadOf } from '../../../src/ledger/payload.ts';
import { rowsOf } from '../../../src/ledger/rows.ts';
import { decode, encode32, encode64 } from '../../../src/lib/base58.ts';
import { parseExact, stringify } from '../../../src/lib/json.ts';
import { type ChainBlock, isPlaceholder, type NormalTransaction } from '../../../src/ports/block.ts';
import { decodeBlock, decodeTransaction } from '../../../src/solana/decode/decode-block.ts';
import { mergeJson } from '../../../src/solana/decode/merge.ts';
import { scanBlockAnswer } from '../../../src/solana/decode/scan-block.ts';
import { readTransfers } from '../../../src/solana/movements/transfers.ts';
import { enhance } from '../../../src/solana/parsers/enhance.ts';
import { rawTransaction } from '../../../src/solana/raw-transaction.ts';
import { EncodingMissing, showEntry, showEntryAsKept } from '../../../src/solana/show-transaction.ts';
import { BLOCK_FORMS, type BlockForm, type FormPlace } from '../../helpers/block-forms.ts';
import { normalForm } from '../../helpers/normal-form.ts';
import { blockOf, entryOf, sampleMessage, wireOf } from '../../helpers/rpc-block.ts';
import { bySeed, inLongTier } from '../../helpers/run-part.ts';

const SLOT = 100;
const place: FormPlace = { signature: new Uint8Array(64).fill(77), payer: new Uint8Array(32).fill(88) };
const message = sampleMessage();
const neighbour = (byte: number): string =>
  JSON.stringify(entryOf({ message, signatures: [new Uint8Array(64).fill(byte)] }));
const [before, after] = [neighbour(1), neighbour(2)];

/** The text of an answer with these entries; `more`: further members of the block. */
function answerOf(entries: readonly string[], more = ''): Buffer {
  const block = JSON.stringify({ ...blockOf([], SLOT), rewards: [] }).replace(
    '"transactions":[]',
    () => `"transactions":[${entries.join()}]${more}`,
  );
  return Buffer.from(`{"jsonrpc":"2.0","result":${block},"id":1}`);
}

const scanned = (body: Buffer): ChainBlock => {
  const found = scanBlockAnswer(body);
  assert.ok(found !== null);
  return decodeBlock(SLOT, found);
};
const parsed = (body: Buffer): ChainBlock =>
  decodeBlock(SLOT, (parseExact(body.toString()) as { readonly result: unknown }).result);

/** Everything that processors do with a transaction; throws what would stop them. */
function readEverything(block: ChainBlock): void {
  const updates = createBlockUpdates(block, 1);
  updates.block(null);
  rowsOf(block);
  for (const tx of block.transactions) {
    normalForm(tx, block);
    for (const extraKeys of [false, true]) stringify(rawTransaction(tx, block, { extraKeys }));
    stringify(enhance(tx, block));
    readTransfers(tx, block.keys);
    updates.transaction(tx.index);
    updates.transactionStatus(tx.index);
    // What wallets and caches keep of it can be read again.
    const again = decodeTransaction(parseExact(stringify({ ...rawTransaction(tx, block), meta: tx.meta })))
      .transactions[0]!;
    assert.equal(again.signatures.length > 0, true);
    if (!isPlaceholder(tx.signature)) assert.equal(again.signature, tx.signature);
    for (const encoding of ['json', 'jsonParsed', 'base64', 'base58'] as const) {
      showEntryAsKept(tx.entryText, { encoding, details: 'full', maxVersion: 255, rewards: true });
      try {
        showEntry(tx.entryText, { encoding, details: 'full', maxVersion: 255, rewards: true });
      } catch (error) {
        assert.ok(error instanceof EncodingMissing, String(error));
      }
    }
  }
}

/** The neighbours of a form are what they are without it. */
function checkNeighbours(block: ChainBlock): void {
  assert.equal(block.transactions.length, 3);
  const plain = scanned(answerOf([before, after]));
  for (const [own, other] of [
    [block.transactions[0]!, plain.transactions[0]!],
    [block.transactions[2]!, plain.transactions[1]!],
  ] as const)
    assert.deepEqual({ ...normalForm(own, block), index: 0 }, { ...normalForm(other, plain), index: 0 });
}

const formOf = (tx: NormalTransaction, block: ChainBlock) => {
  const { meta: _, ...rest } = normalForm(tx, block);
  return rest;
};

/** Each text of so many bytes in base58 takes a second. */
const SLOW = new Set(['40,000 bytes of data']);

function testForms(forms: readonly BlockForm[]): void {
  for (const form of forms) {
    test(form.name, async () => {
      const body = answerOf([before, form.entry(place), after]);
      const base = scanned(body);
      const [json] = [form.json?.(place)];
      const other = json === undefined ? null : scanned(answerOf([before, json, after]));
      const merged =
        other === null
          ? null
          : mergeJson({ result: scanBlockAnswer(body), block: base }, { result: null, block: other });
      const block = merged ?? base;
      const tx = block.transactions[1]!;
      assert.equal(tx.isOpaque, form.readable !== 'all' && form.readable !== 'unsigned', tx.fault?.reason);
      if (tx.isOpaque) assert.ok(tx.fault !== null);
      if (!['none', 'signature'].includes(form.readable))
        assert.equal(block.keys.base58(tx.keys[0]!), encode32(place.payer));
      if (['all', 'keys', 'signature'].includes(form.readable)) assert.equal(tx.signature, encode64(place.signature));
      if (form.readable === 'none') assert.ok(isPlaceholder(tx.signature) || tx.keys.length === 0);
      checkNeighbours(block);
      readEverything(block);
      if (merged === null) {
        const values = parsed(body);
        assert.deepEqual(formOf(tx, block), formOf(values.transactions[1]!, values));
        readEverything(values);
        // As sent, byte by byte.
        assert.equal(tx.entryText.toString(), form.entry(place));
      }
      // The ledger gives the same text back, and from it the same transaction.
      const text = block.answer!.text();
      const payload = await payloadOf(block, text, emptyDictionary(), rowsOf(block));
      assert.equal(payload.fault, null);
      if (payload.flags !== PARTS) return;
      const reader = await PayloadReader.open(
        async (at, length) => Buffer.from(payload.bytes.subarray(at, at + length)),
        async () => emptyDictionary(),
      );
      assert.deepEqual((await reader!.text())?.toString(), text.toString());
      assert.deepEqual((await reader!.transaction(1))?.toString(), tx.entryText.toString());
    });
  }
}

describe('forms of transactions beyond those of today', () =>
  testForms(BLOCK_FORMS.filter(({ name }) => !SLOW.has(name))));
inLongTier(() =>
  describe('long forms of transactions beyond those of today', () =>
    testForms(BLOCK_FORMS.filter(({ name }) => SLOW.has(name)))),
);

bySeed(10, (tenths) =>
  describe('any form', () => {
    test('bytes behind a version byte, as they come: the others are read, and nothing throws', () => {
      const bytes = fc.tuple(fc.integer({ min: 0, max: 255 }), fc.uint8Array({ maxLength: 300 }));
      const damage = fc.record({ at: fc.nat(200), byte: fc.nat(255), isCut: fc.boolean() });
      const good = wireOf({ message, signatures: [place.signature] });
      const damaged = fc.array(damage, { minLength: 1, maxLength: 3 }).map((damages) => {
        let wire = Buffer.from(good);
        for (const { at, byte, isCut } of damages) {
          if (isCut) wire = wire.subarray(0, Math.max(1, at));
          else if (at < wire.length) wire[at] = byte;
        }
        return wire;
      });
      const wires = fc.oneof(
        bytes.map(([version, rest]) => Buffer.concat([Buffer.of(version), rest])),
        damaged,
      );
      fc.assert(
        fc.property(wires, (wire) => {
          const entry = JSON.stringify({ ...entryOf({ message }), transaction: [wire.toString('base64'), 'base64'] });
          const block = scanned(answerOf([before, entry, after]));
          checkNeighbours(block);
          readEverything(block);
          // However little was read of it, its bytes are there.
          assert.deepEqual(Buffer.from(block.transactions[1]!.wire!), wire);
        }),
        { numRuns: 40 * tenths.length },
      );
    });

    test('members of any value at any place: the others are read, and nothing throws', () => {
      const value = fc.oneof(
        fc.jsonValue({ maxDepth: 3 }),
        fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }),
        fc.constantFrom<unknown>(undefined, null, {}, [], [null], [[]], '', 0, -1, 1.5, 'later'),
      );
      const full = {
        transaction: {
          signatures: [encode64(place.signature)],
          message: {
            accountKeys: [1, 2, 3].map((byte) => encode32(new Uint8Array(32).fill(byte))),
            header: { numRequiredSignatures: 1, numReadonlySignedAccounts: 0, numReadonlyUnsignedAccounts: 1 },
            recentBlockhash: encode32(new Uint8Array(32).fill(9)),
            instructions: [{ programIdIndex: 2, accounts: [0, 1], data: '2', stackHeight: 1 }],
            addressTableLookups: [],
          },
        },
        version: 0,
        meta: {
          err: { InstructionError: [0, { Custom: 1 }] },
          status: { Ok: null },
          fee: 5_000,
          preBalances: [1, 2, 3],
          postBalances: [1, 2, 3],
          innerInstructions: [
            { index: 0, instructions: [{ programIdIndex: 2, accounts: [0], data: '2', stackHeight: 2 }] },
          ],
          logMessages: ['Program log: x'],
          preTokenBalances: [],
          postTokenBalances: [
            {
              accountIndex: 1,
              mint: encode32(new Uint8Array(32).fill(2)),
              owner: encode32(new Uint8Array(32).fill(3)),
              programId: encode32(new Uint8Array(32).fill(3)),
              uiTokenAmount: { amount: '12', decimals: 0, uiAmount: 12, uiAmountString: '12' },
            },
          ],
          rewards: [{ pubkey: encode32(new Uint8Array(32).fill(2)), lamports: 1, postBalance: 2, rewardType: 'Fee' }],
          loadedAddresses: { writable: [], readonly: [] },
          returnData: { programId: encode32(new Uint8Array(32).fill(2)), data: ['AA==', 'base64'] },
          computeUnitsConsumed: 150,
          costUnits: 100,
        },
      };
      const binary = { ...entryOf({ message, signatures: [place.signature] }), meta: full.meta };
      /** Every place of an entry, as a list of names and numbers. */
      const placesOf = (given: unknown): string[][] =>
        typeof given === 'object' && given !== null
          ? Object.entries(given).flatMap(([name, member]) => [
              [name],
              ...placesOf(member).map((rest) => [name, ...rest]),
            ])
          : [];
      const changed = (given: unknown, [name, ...rest]: readonly string[], to: unknown): unknown => {
        const copy: Record<string, unknown> | unknown[] = Array.isArray(given) ? [...given] : { ...(given as object) };
        const members = copy as Record<string, unknown>;
        members[name!] = rest.length === 0 ? to : changed(members[name!], rest, to);
        if (members[name!] === undefined && !Array.isArray(copy)) delete members[name!];
        return copy;
      };
      for (const entry of [full, binary]) {
        const places = placesOf(entry);
        fc.assert(
          fc.property(fc.constantFrom(...places), value, fc.string(), (at, to, name) => {
            const odd = { ...(changed(entry, at, to) as object), [`later ${name}`]: to };
            const block = scanned(answerOf([before, stringify(odd), after]));
            checkNeighbours(block);
            readEverything(block);
            const values = parsed(answerOf([before, stringify(odd), after]));
            readEverything(values);
          }),
          { numRuns: 60 * tenths.length },
        );
      }
    });

    test('unknown members of the block, and of its rewards, stay in its text', () => {
      fc.assert(
        fc.property(fc.jsonValue({ maxDepth: 3 }), (later) => {
          const body = answerOf([before, after], `,"later":${JSON.stringify(later)}`);
          const block = scanned(body);
          assert.equal(block.transactions.length, 2);
          assert.deepEqual(
            (JSON.parse(block.answer!.text().toString()) as { later: unknown }).later,
            JSON.parse(JSON.stringify(later)),
          );
        }),
      );
    });
  }),
);

test('large integers are exact in the raw element', () => {
  const form = BLOCK_FORMS.find(({ name }) => name === 'balances of 2^64 - 1')!;
  const block = scanned(answerOf([form.entry(place)]));
  assert.match(stringify(rawTransaction(block.transactions[0]!, block)), /"preBalances":\[18446744073709551615,1,2\]/);
  assert.equal(decode(block.transactions[0]!.signature)!.length, 64);
});
