import assert from 'node:assert/strict';
import { test } from 'node:test';
import { blockOf, entryOf, sampleMessage, wireOf } from '../../test/helpers/rpc-block.ts';
import { decode32 } from '../lib/base58.ts';
import { decodeBlock } from './decode/decode-block.ts';
import { memoOf } from './memo.ts';
import { MEMO_PROGRAMS } from './programs.ts';
import { memoOfWire as memoOfShown, readWire } from './show-transaction.ts';

test('a memo is the same from a block and from a transaction, and as nodes write it', () => {
  const texts: readonly (readonly [data: Uint8Array, memo: string])[] = [
    [Buffer.from('hello'), '[5] hello'],
    [Buffer.alloc(0), '[0] '],
    [Buffer.from('\ufeffmarked'), '[9] \ufeffmarked'],
    [Buffer.of(0x68, 0xff), '[2] (unparseable)'],
  ];
  for (const program of MEMO_PROGRAMS) {
    for (const [data, memo] of texts) {
      const keys = [new Uint8Array(32).fill(1), decode32(program)!];
      const instruction = { program: 1, accounts: new Uint8Array(0), data };
      const message = sampleMessage({ keys, instructions: [instruction, instruction] });
      const block = decodeBlock(100, blockOf([entryOf({ message })]));
      assert.equal(memoOf(block.transactions[0]!, block.keys), `${memo}; ${memo}`, program);
      const wire = readWire(wireOf({ message }));
      assert.equal(memoOfShown(wire, wire.staticKeys), `${memo}; ${memo}`, program);
    }
  }
});
