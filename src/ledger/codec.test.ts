import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { syntheticBlock } from '../../test/bench/samples/synthetic-block.ts';
import { listFixtures, readFixture, skipWithoutFixtures } from '../../test/helpers/fixtures.ts';
import { bySeed } from '../../test/helpers/run-part.ts';
import { createSfc32 } from '../../test/helpers/sfc32.ts';
import { elementsOf } from '../solana/block-text.ts';
import { decodeBlock } from '../solana/decode/decode-block.ts';
import { scanBlockAnswer } from '../solana/decode/scan-block.ts';
import { BlockTables, decodePart, encodePart, ReadTables } from './codec.ts';
import { createTrainer, type Dictionary, emptyDictionary, readDictionary, writeDictionary } from './dictionary.ts';
import { PARTS } from './frame.ts';
import { PayloadReader, payloadOf } from './payload.ts';
import { rowsOf } from './rows.ts';
import { decodedBlock } from './stored-blocks.ts';

const signatures = () => ({ bytes: Buffer.alloc(64), stride: 64, at: 0 });

interface Encoded {
  readonly part: Buffer;
  readonly tables: BlockTables;
}

function encoded(text: Buffer, dictionary = emptyDictionary()): Encoded {
  const tables = new BlockTables(dictionary);
  return { part: encodePart(text, tables, signatures()), tables };
}

function decoded(part: Buffer, { tables }: Encoded): Buffer {
  const read = new ReadTables(tables.dictionary, tables.keys.used, tables.written());
  return decodePart(part, read, signatures());
}

function trained({ part, tables }: Encoded): Dictionary {
  const trainer = createTrainer(tables.dictionary);
  trainer.saw(tables.dictionary, tables.seen(part));
  return readDictionary(writeDictionary(trainer.make(1_000_000)));
}

/** Comes back as it was, without a dictionary and with one of this very text; returns the bytes it takes. */
function same(text: Buffer): number {
  const first = encoded(text);
  const second = encoded(text, trained(first));
  for (const each of [first, second])
    assert.equal(decoded(each.part, each).toString('latin1'), text.toString('latin1'));
  return first.part.length + first.tables.keys.length;
}

/** The recorded blocks as nodes send them, without the layout of the files. */
const blocks = () =>
  listFixtures('chain/blocks').map((name) => {
    const parsed = JSON.parse(readFixture(name).toString()) as { readonly result?: unknown };
    return Buffer.from(JSON.stringify(parsed.result ?? parsed));
  });

bySeed(10, (tenths) => {
  describe('the text of a block comes back byte by byte', () => {
    test('recorded blocks, in fewer bytes than their text', { skip: skipWithoutFixtures }, () => {
      for (const text of blocks()) assert.ok(same(text) < text.length * 0.6);
    });

    test('numbers that are not written as this program would write them', () => {
      for (const number of [
        '0',
        '-1',
        '-0',
        '00',
        '1.0',
        '1e5',
        '1E+5',
        '9007199254740993',
        '18446744073709551615',
        '0.10',
      ])
        for (const text of [`{"a":${number},"b":[${number},1,${number}]}`, `[${number}]`, `"${number}"`])
          same(Buffer.from(text));
    });

    test('texts: escapes, quotes, control characters, other alphabets, base64 and base58 that almost is', () => {
      const texts = [
        '',
        'a',
        '\\"',
        '\\\\',
        '\\\\\\"',
        '\\u0000',
        'ü😀',
        '1111',
        '=',
        'QQ==',
        'QR==',
        'QQ=',
        '\u0001\u0002',
      ];
      const logs = [
        'Program data: QQ== QR==',
        'Program data: ',
        'Program data: QQ== QQ==',
        'Program 1'.padEnd(60, '1'),
      ];
      const key = 'So11111111111111111111111111111111111111112';
      for (const text of [...texts, ...logs, key, `${key} ${key}`, key.slice(1), 'l'.repeat(44)])
        same(Buffer.from(`{"k":"${key}","logs":["${text}","${text}"],"x":"${text}"}`));
    });

    test('amounts of tokens, also those that nodes would write otherwise', () => {
      const amount = (amount: string, decimals: number, ui: string, text: string) =>
        same(Buffer.from(`{"amount":"${amount}","decimals":${decimals},"uiAmount":${ui},"uiAmountString":"${text}"}`));
      amount('0', 6, 'null', '0');
      amount('1500000', 6, '1.5', '1.5');
      amount('1000000', 6, '1.0', '1');
      amount('1000000', 6, '1', '1.0');
      amount('1', 9, '1e-9', '0.000000001');
      amount('18446744073709551615', 0, '1.8446744073709552e19', '18446744073709551615');
      amount('007', 2, '0.07', '0.07');
      amount('5', 255, '0.0', '0');
    });

    test('lines of logs, also those that do not follow from each other', () => {
      const [a, b] = ['So11111111111111111111111111111111111111112', 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA'];
      const lines = [
        `Program ${a} invoke [1]`,
        `Program ${b} invoke [2]`,
        `Program ${b} invoke [5]`,
        `Program ${b} invoke [02]`,
        `Program ${b} consumed 10 of 200 compute units`,
        `Program ${b} consumed 010 of 200 compute units`,
        `Program ${b} success`,
        `Program ${a} success`,
        `Program ${a} success`,
        `Program ${a} failed: custom program error: 0x1`,
        `Program ${a} failed: ${b} `,
        'Program failed to complete: x',
        `Program return: ${a} AQAAAAAAAAA=`,
        `Program return: ${a} AQ`,
        `Program return: ${a}`,
        'Program log: Instruction: Swap',
        'Program log: ray_log: AwAAAAAAAAAAAAAAAAAAAA==',
        'Program log: ray_log: AwAAAAAAAAAAAAAAAAAAAB==',
        'Program data: ',
        'Program ',
        'Log truncated',
      ];
      const draw = createSfc32(11);
      for (let tries = 0; tries < 30 * tenths.length; tries++) {
        const drawn = Array.from({ length: 12 }, () => lines[Math.floor(draw.float() * lines.length)]);
        same(Buffer.from(JSON.stringify({ logMessages: drawn })));
      }
    });

    test('transactions of every version: no signature and no key stands in a part', () => {
      for (const version1Share of [0, 0.1, 0.34])
        for (const seed of tenths.slice(0, 3)) {
          const { body } = syntheticBlock({ seed, transactions: 60, slot: 5, version1Share });
          const { transactions } = decodeBlock(5, scanBlockAnswer(body)!);
          const table = () => ({
            bytes: Buffer.concat(transactions.map((tx) => tx.signatures[0]!)),
            stride: 64,
            at: 0,
          });
          const tables = new BlockTables(emptyDictionary());
          const used = table();
          const part = encodePart(body, tables, used);
          assert.equal(used.at, transactions.length * 64, 'each signature is taken from the table');
          for (const tx of transactions) assert.equal(part.indexOf(tx.signatures[0]!), -1, `version ${tx.version}`);
          const read = new ReadTables(tables.dictionary, tables.keys.used, tables.written());
          assert.ok(decodePart(part, read, table()).equals(body), `seed ${seed}, ${version1Share} of version 1`);
        }
    });

    test('a block of transactions of every version is kept in pieces', async () => {
      const block = decodeBlock(
        5,
        scanBlockAnswer(syntheticBlock({ seed: 9, transactions: 60, slot: 5, version1Share: 0.2 }).body)!,
      );
      const dictionary = emptyDictionary();
      const { flags } = await payloadOf(block, block.answer!.text(), dictionary, rowsOf(block));
      assert.equal(flags, PARTS);
    });

    test('each transaction of recorded blocks is read alone as it is in its block', {
      skip: skipWithoutFixtures,
    }, async () => {
      let count = 0;
      // The follower asks for base64.
      for (const text of blocks().filter((each) => each.includes('"base64"]'))) {
        const { parentSlot } = JSON.parse(text.toString()) as { parentSlot: number };
        const block = decodedBlock(parentSlot + 1, text);
        const first = await payloadOf(block, text, emptyDictionary(), null);
        const trainer = createTrainer(emptyDictionary());
        trainer.saw(emptyDictionary(), first.seen!);
        for (const dictionary of [emptyDictionary(), readDictionary(writeDictionary(trainer.make(1_000_000)))]) {
          const { bytes } = await payloadOf(block, text, dictionary, null);
          const read = async (at: number, length: number) => Buffer.from(bytes).subarray(at, at + length);
          const payload = (await PayloadReader.open(read, async () => dictionary))!;
          const texts = elementsOf(text);
          assert.equal(payload.count, texts.length);
          for (const [index, whole] of texts.entries()) {
            assert.equal((await payload.transaction(index))!.toString(), whole.toString(), `${index}`);
            count += 1;
          }
        }
      }
      assert.ok(count > 400, `${count}`);
    });

    test('any bytes', () => {
      const draw = createSfc32(Math.floor(Math.random() * 2 ** 32));
      const alphabet = Buffer.from('"[]{},:\\0123456789.eE-+ ABCxyz/=\u0000\u0001\u0002ü');
      for (let tries = 0; tries < 3_000; tries++) {
        const text = Buffer.alloc(Math.floor(draw.float() * 80));
        for (let at = 0; at < text.length; at++) text[at] = alphabet[Math.floor(draw.float() * alphabet.length)]!;
        same(text);
      }
    });

    test('broken bytes are refused or give another text, and always end', () => {
      const draw = createSfc32(5);
      const whole = encoded(
        Buffer.from(`{"a":[1,2,300],"b":"So11111111111111111111111111111111111111112","c":["x y",1.5]}`),
      );
      const { part } = whole;
      for (let length = 0; length < part.length; length++)
        assert.throws(() => decoded(part.subarray(0, length), whole), RangeError, `${length} bytes`);
      for (let tries = 0; tries < 2_000; tries++) {
        const broken = Buffer.from(part);
        const at = Math.floor(draw.float() * broken.length);
        broken[at] = broken[at]! ^ (1 << Math.floor(draw.float() * 8));
        try {
          decoded(broken, whole);
        } catch (error) {
          assert.ok(error instanceof RangeError);
        }
      }
    });
  });
});
