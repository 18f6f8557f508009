import assert from 'node:assert/strict';
import {
  copyFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { syntheticBlock } from '../../test/bench/samples/synthetic-block.ts';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { blockOf, entryOf, sampleMessage } from '../../test/helpers/rpc-block.ts';
import { byCase, bySeed } from '../../test/helpers/run-part.ts';
import { createSfc32 } from '../../test/helpers/sfc32.ts';
import { encode32 } from '../lib/base58.ts';
import { codeOf } from '../lib/coded-error.ts';
import type { ChainBlock } from '../ports/block.ts';
import { createMetricsRegistry } from '../runtime/metrics.ts';
import { decodeBlock } from '../solana/decode/decode-block.ts';
import { scanBlockAnswer } from '../solana/decode/scan-block.ts';
import { createAhead } from './ahead.ts';
import { emptyDictionary } from './dictionary.ts';
import { PARTS, readFrame } from './frame.ts';
import {
  createLedgerMeter,
  createLedgerReader,
  type Ledger,
  type LedgerOptions,
  openLedger,
  verifyLedger,
} from './index.ts';

const HOUR_MS = 3_600_000;

function setUp(t: TestContext, given: Partial<LedgerOptions> = {}) {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-ledger-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const clock = createManualClock();
  const log = createMemoryLog();
  const openIn = (at = dir, changes: Partial<LedgerOptions> = {}) =>
    openLedger({
      dir: at,
      chain: 'main',
      clock,
      log,
      meter: createLedgerMeter(createMetricsRegistry().scope('ledger')),
      retainHours: 24,
      retainBytes: 1_073_741_824,
      ...given,
      ...changes,
    });
  const files = () =>
    readdirSync(dir)
      .toSorted()
      .map((name) => join(dir, name));
  return { dir, clock, log, open: openIn, files };
}

const hash = (branch: string, slot: number) => encode32(Buffer.from(`${branch}${slot}`.padEnd(32, '.')));

/** A block as it comes from a node that was asked for rewards. */
function block(slot: number, parent = slot - 1, branch = 'a', parentBranch = branch, filler = ''): ChainBlock {
  const signature = Buffer.alloc(64, `${branch}${slot}`);
  const result = {
    ...blockOf([entryOf({ message: sampleMessage(), signatures: [signature], meta: { logMessages: [filler] } })], slot),
    blockhash: hash(branch, slot),
    previousBlockhash: hash(parentBranch, parent),
    parentSlot: parent,
    rewards: [],
  };
  return decodeBlock(slot, scanBlockAnswer(Buffer.from(JSON.stringify({ jsonrpc: '2.0', result, id: 1 })))!);
}

async function appendAll(ledger: Ledger, blocks: readonly ChainBlock[]): Promise<void> {
  for (const each of blocks) await ledger.append(each);
}

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => block(from + at));

async function held(ledger: Ledger, from: number, to: number): Promise<string[]> {
  const found: string[] = [];
  for (let slot = from; slot <= to; slot++) {
    const header = await ledger.header(slot);
    const text = await ledger.text(slot);
    assert.equal(header === null, text === null);
    if (header === null) continue;
    assert.equal((JSON.parse(text!.toString()) as { blockhash: string }).blockhash, header.blockhash);
    found.push(`${slot}${header.blockhash}`);
  }
  return found;
}

const names = (slots: readonly number[], branch = 'a') => slots.map((slot) => `${slot}${hash(branch, slot)}`);

describe('blocks of the ledger', () => {
  test('are what came in, after a restart too', async (t) => {
    const { open: openIt } = setUp(t);
    const first = await openIt();
    const one = block(10);
    await first.append(one);
    for (const ledger of [first, await openIt()]) {
      assert.deepEqual(await ledger.text(10), one.answer!.text());
      const read = (await ledger.block(10))!;
      assert.equal(read.transactions[0]!.signature, one.transactions[0]!.signature);
      assert.deepEqual(read.transactions[0]!.meta, one.transactions[0]!.meta);
      const { slot, parentSlot, blockhash, previousBlockhash, blockHeight, blockTime } = one;
      assert.deepEqual(await ledger.header(10), {
        slot,
        parentSlot,
        blockhash,
        previousBlockhash,
        blockHeight,
        blockTime,
      });
    }
  });

  test('a block in another form is kept, and its text is not given as that of a node', async (t) => {
    const ledger = await setUp(t).open();
    const parsed = decodeBlock(5, blockOf([entryOf({ message: sampleMessage() })], 5));
    await ledger.append(parsed);
    assert.equal(await ledger.text(5), null);
    assert.equal((await ledger.block(5))!.blockhash, parsed.blockhash);
  });

  test('a slot is skipped only where a parent proves it, and unknown elsewhere', async (t) => {
    const ledger = await setUp(t).open();
    await appendAll(ledger, [block(10, 8), block(20, 19), block(21, 20)]);
    const states = Array.from({ length: 16 }, (_, at) => ledger.state(7 + at));
    assert.deepEqual(states, [
      'unknown',
      'unknown',
      'skipped',
      'block',
      ...new Array<string>(9).fill('unknown'),
      'block',
      'block',
      'unknown',
    ]);
    await ledger.append(block(15, 10));
    assert.equal(ledger.state(12), 'skipped');
    assert.equal(ledger.state(16), 'unknown');
  });

  test('a thread that ends, or cannot start, is logged, and its blocks are encoded as others are', async () => {
    const log = createMemoryLog();
    const { body } = syntheticBlock({ seed: 1, transactions: 160, slot: 7 });
    const large = decodeBlock(7, scanBlockAnswer(body)!);
    const start = () => new Worker('process.exit(3)', { eval: true });
    const ahead = createAhead({ threads: 1, hasIndex: true, chain: 'main', clock: createManualClock(), log, start });
    assert.equal(ahead.begin(large, emptyDictionary()), true);
    assert.equal(await ahead.take(large, emptyDictionary()), null);
    assert.equal(ahead.begin(large, emptyDictionary()), false);
    assert.deepEqual(
      log.lines.map(({ level, fields }) => [level, fields['reason']]),
      [['error', 'exit code 3']],
    );
    await ahead.close();
    const none = () => {
      throw new Error('no thread is left');
    };
    const without = createAhead({
      threads: 1,
      hasIndex: true,
      chain: 'main',
      clock: createManualClock(),
      log,
      start: none,
    });
    assert.equal(without.begin(large, emptyDictionary()), false);
    assert.equal(await without.take(large, emptyDictionary()), null);
    assert.equal(log.lines.at(-1)!.fields['reason'], 'no thread is left');
    await without.close();
  });

  test('written once: the same block again changes nothing', async (t) => {
    const { open: openIt, files } = setUp(t);
    const ledger = await openIt();
    await ledger.append(block(1));
    const { size } = statSync(files()[0]!);
    await ledger.append(block(1));
    assert.equal(statSync(files()[0]!).size, size);
  });
});

bySeed(90, ({ length: count }) => {
  test('encoded ahead on threads, in any order and beside forks, the files are the same', async (t) => {
    const seed = Math.floor(Math.random() * 2 ** 32);
    t.diagnostic(`seed ${seed}`);
    const draw = createSfc32(seed);
    const large = (slot: number) => {
      const { body } = syntheticBlock({ seed: draw.next(), transactions: draw.between(60, 160), slot });
      return decodeBlock(slot, scanBlockAnswer(body)!);
    };
    const blocks: ChainBlock[] = [];

    for (let slot = 1; slot <= count; slot++) blocks.push(slot % 8 === 0 ? large(slot) : block(slot));
    for (const each of blocks.slice(-Math.ceil(count / 4))) blocks[each.slot - 1] = large(each.slot);
    const plan = blocks.map((each, at) => ({
      each,
      isCut: draw.below(10) === 0,
      // Some are of a fork that does not come, some come from another node that writes them in another way.
      later: [2, 1, 3].flatMap((by) => {
        const [one] = blocks.slice(at + by, at + by + 1);
        if (one === undefined || draw.below(4) === 0) return [large(each.slot + by)];
        if (draw.below(4) > 0) return [one];
        const text = Buffer.from(JSON.stringify(JSON.parse(one.answer!.text().toString()), null, 1));
        return [{ ...one, answer: { isVerbatim: false, text: () => text } }];
      }),
    }));
    let ahead = 0;
    const written: string[][] = [];
    for (const threads of [0, 2]) {
      const { open: openIt, files } = setUp(t, { threads, retainBytes: 6_291_456 });
      const ledger = await openIt();
      for (const { each, isCut, later } of plan) {
        ahead += later.filter((one) => ledger.prepare(one)).length;
        await ledger.append(each);
        if (!isCut) continue;
        await ledger.cut(each.slot - 1);
        await ledger.append(each);
      }
      await ledger.close();
      written.push(files().map((path) => readFileSync(path).toString('latin1')));
    }
    assert.ok(ahead >= (count > 50 ? 20 : 1), `${ahead}`);
    if (count > 50) assert.ok(written[0]!.length > 1, 'the dictionary changes');
    assert.ok(written[0]!.every((bytes, at) => bytes === written[1]![at]));
  });
});

describe('look-ups', () => {
  test('a transaction by signature and place, with its text as the node sent it', async (t) => {
    const ledger = await setUp(t).open();
    await appendAll(ledger, range(1, 3));
    const { signatures } = block(2).transactions[0]!;
    assert.deepEqual(await ledger.find(signatures[0]!), { slot: 2, index: 0 });
    assert.equal(await ledger.find(Buffer.alloc(64, 7)), null);
    const found = (await ledger.transaction({ slot: 2, index: 0 }))!;
    assert.equal(found.signature, block(2).transactions[0]!.signature);
    assert.ok((await ledger.text(2))!.includes(found.text));
    assert.deepEqual(found.block().transactions[0]!.meta, block(2).transactions[0]!.meta);
    assert.equal(await ledger.transaction({ slot: 2, index: 1 }), null);
    assert.equal(await ledger.transaction({ slot: 9, index: 0 }), null);
  });

  test('each transaction of a block of several parts, also with the bytes of another one in its meta', async (t) => {
    const seed = Math.floor(Math.random() * 2 ** 32);
    console.log(`seed ${seed}`);
    const random = createSfc32(seed);
    type Entry = { transaction: [string, string]; meta: object };
    const made = syntheticBlock({ seed, transactions: 75, slot: 5, version1Share: 0.2 });
    const { result } = JSON.parse(made.body.toString()) as { result: { transactions: Entry[] } };
    const transactions = result.transactions.map(({ transaction, meta, ...rest }, at) => {
      // That of the next one is what the signatures continue with; behind the last one there is none.
      const other = result.transactions[random.float() < 0.5 ? (at + 1) % 75 : random.below(75)]!;
      const [wire] = other.transaction;
      const trick = at === 74 ? 0 : random.below(4);
      const more = trick === 0 ? { returnData: { programId: hash('a', 1), data: [wire, 'base64'] } } : {};
      const logs = trick === 1 ? { logMessages: [wire, '{"transaction":["', `Program data: ${wire}`] } : {};
      const withMeta = { meta: { ...meta, ...more, ...logs } };
      // Members may come in any order.
      return seed % 2 === 0 ? { transaction, ...withMeta, ...rest } : { ...withMeta, transaction, ...rest };
    });
    const answer = { result: { ...result, parentSlot: 4, transactions, rewards: [] } };
    const kept = decodeBlock(5, scanBlockAnswer(Buffer.from(JSON.stringify(answer)))!);
    const { open: openIt, files } = setUp(t);
    const ledger = await openIt();
    await ledger.append(kept);
    assert.ok((readFrame(readFileSync(files()[0]!))!.flags & PARTS) !== 0, 'it is kept in pieces');
    for (const [index, { signature }] of kept.transactions.entries()) {
      const found = (await ledger.transaction({ slot: 5, index }))!;
      assert.equal(found.text.toString(), JSON.stringify(transactions[index]), `transaction ${index}`);
      assert.equal(found.signature, signature);
    }
    assert.equal(await ledger.transaction({ slot: 5, index: 75 }), null);
    // Look-ups use the memory of earlier ones.
    const all: Awaited<ReturnType<typeof ledger.transaction>>[] = [];
    for (const index of transactions.keys()) all.push(await ledger.transaction({ slot: 5, index }));
    all.push(...(await Promise.all(transactions.map((_, index) => ledger.transaction({ slot: 5, index })))));
    for (const [at, found] of all.entries()) {
      const index = at % 75;
      assert.equal(found!.text.toString(), JSON.stringify(transactions[index]), `transaction ${index} among others`);
    }
  });

  test('pages of an address in both orders, between places', async (t) => {
    const ledger = await setUp(t).open();
    await appendAll(ledger, range(1, 9));
    await ledger.finalize(4);
    const [tx] = block(1).transactions;
    const address = block(1).keys.bytes(tx!.keys[0]!).slice();
    const page = async (query: object) => {
      const answer = (await ledger.addressPage({ address, reasons: 'keys', order: 'newest', limit: 3, ...query }))!;
      assert.deepEqual([answer.from, answer.to], [1, 9]);
      return [answer.rows.map(({ slot }) => slot), answer.hasMore];
    };
    assert.deepEqual(await page({}), [[9, 8, 7], true]);
    assert.deepEqual(await page({ order: 'oldest' }), [[1, 2, 3], true]);
    assert.deepEqual(await page({ below: { slot: 3, index: 0 } }), [[2, 1], false]);
    assert.deepEqual(await page({ below: { slot: 3, index: 1 }, above: { slot: 1, index: 0 } }), [[3, 2], false]);
    assert.deepEqual(await page({ order: 'oldest', above: { slot: 7, index: -1 } }), [[7, 8, 9], false]);
    const [row] = (await ledger.addressPage({ address, reasons: 'keys', order: 'oldest', limit: 1 }))!.rows;
    const { signature, blockTime } = { ...block(1), signature: tx!.signature };
    const place = { slot: 1, index: 0, signature, blockTime, isFinal: true };
    assert.deepEqual(row, { ...place, err: null, memo: null, key: 'static', owner: null });
  });
});

describe('a reader of the files', () => {
  test('follows appends, cuts and new files; nothing is known while the folder is missing', async (t) => {
    const { dir, open: openIt, clock, log } = setUp(t, { retainBytes: 100_000 });
    const folder = join(dir, 'ledger');
    const reader = createLedgerReader({ dir: folder, chain: 'main', clock, log, damaged: () => undefined });
    await reader.refresh();
    assert.equal(reader.newest(), -1);
    const ledger = await openIt(folder);
    const draw = createSfc32(9);
    for (let slot = 1; slot <= 60; slot++) {
      const filler = Buffer.from(Array.from({ length: 900 }, () => Math.floor(draw.float() * 256))).toString('base64');
      await ledger.append(block(slot, slot - 1, 'a', 'a', filler));
      if (slot % 7 !== 0) continue;
      await ledger.cut(slot - 2);
      assert.equal(await reader.header(slot), null);
      await appendAll(ledger, [block(slot - 1, slot - 2, 'b', 'a'), block(slot, slot - 1, 'b')]);
      await reader.refresh();
      assert.equal(reader.newest(), slot);
      assert.equal(reader.firstOfRun(), ledger.firstOfRun());
      assert.deepEqual(await reader.text(slot), await ledger.text(slot));
    }
    assert.ok(readdirSync(folder).length > 1);
  });

  test('blocks that are not final are not served from a ledger that nobody continues', async (t) => {
    const { dir, open: openIt, clock, log } = setUp(t);
    const reader = createLedgerReader({ dir, chain: 'main', clock, log, damaged: () => undefined });
    const ledger = await openIt();
    await appendAll(ledger, range(1, 5));
    await ledger.finalize(3);
    assert.notEqual(await reader.block(5), null);
    await clock.advance(120_000);
    assert.equal(await reader.block(5), null);
    assert.equal(reader.state(4), 'unknown');
    assert.equal(reader.newest(), 3);
    await ledger.append(block(6));
    assert.notEqual(await reader.block(5), null);
  });

  test('blocks that are not final are served as long as the chain is not known to have gone on', async (t) => {
    const { dir, open: openIt, clock, log } = setUp(t);
    let tip = 5;
    const isPassed = (slot: number) => tip > slot;
    const reader = createLedgerReader({ dir, chain: 'main', clock, log, damaged: () => undefined, isPassed });
    const ledger = await openIt();
    await appendAll(ledger, range(1, 5));
    await ledger.finalize(3);
    await clock.advance(3_600_000);
    assert.notEqual(await reader.block(5), null);
    assert.equal(reader.newest(), 5);
    tip = 6;
    assert.equal(await reader.block(5), null);
    assert.equal(reader.newest(), 3);
    tip = 5;
    assert.notEqual(await reader.block(5), null);
  });
});

describe('forks', () => {
  for (const depth of [1, 2, 31])
    test(`${depth} blocks are taken back, and stay so after a restart`, async (t) => {
      const { open: openIt } = setUp(t);
      const ledger = await openIt();
      await appendAll(ledger, range(100, 140));
      const ancestor = 140 - depth;
      await ledger.cut(ancestor);
      assert.equal(ledger.newest(), ancestor);
      assert.equal(ledger.state(ancestor + 1), 'unknown');
      await ledger.append(block(ancestor + 2, ancestor, 'b', 'a'));
      const expected = [...names(range(100, ancestor).map(({ slot }) => slot)), ...names([ancestor + 2], 'b')];
      for (const each of [ledger, await openIt()]) {
        assert.deepEqual(await held(each, 90, 150), expected);
        assert.equal(each.state(ancestor + 1), 'skipped');
      }
    });

  test('final blocks are not taken back, unless they are of another chain', async (t) => {
    const { open: openIt } = setUp(t);
    const ledger = await openIt();
    await appendAll(ledger, range(1, 10));
    await ledger.finalize(7);
    await ledger.cut(3);
    assert.equal(ledger.newest(), 7);
    assert.equal((await openIt()).finalSlot, 7);
    await ledger.cut(-1, true);
    assert.equal(ledger.newest(), -1);
    assert.equal(ledger.finalSlot, -1);
  });

  test('random blocks, cuts, marks, filled ranges, restarts and small files equal a map', async (t) => {
    const seed = Math.floor(Math.random() * 2 ** 32);
    t.diagnostic(`seed ${seed}`);
    const draw = createSfc32(seed);
    const { open: openIt } = setUp(t, { retainBytes: 16_000 * 8 });
    const truth = new Map<number, ChainBlock>();
    let ledger = await openIt(undefined, { retainBytes: 40_000 });
    let [top, final, branch] = [1_000, -1, 0];
    const noise = () =>
      Buffer.from(Array.from({ length: 600 }, () => Math.floor(draw.float() * 256))).toString('base64');
    for (let turn = 0; turn < 250; turn++) {
      const dice = draw.float();
      if (dice < 0.6) {
        const slot = top + 1 + Math.floor(draw.float() * 3);
        const made = block(slot, top, `${branch}-`, undefined, noise());
        await ledger.append(made);
        truth.set(slot, made);
        top = slot;
      } else if (dice < 0.75) {
        const to = Math.max(final, top - Math.floor(draw.float() * 31));
        await ledger.cut(to);
        for (const slot of [...truth.keys()]) if (slot > to) truth.delete(slot);
        top = Math.max(to, ...truth.keys());
        branch += 1;
      } else if (dice < 0.85) {
        final = Math.max(final, top - Math.floor(draw.float() * 40));
        await ledger.finalize(final);
      } else if (dice < 0.95) {
        const slot = Math.floor(draw.float() * 900);
        const made = block(slot, Math.max(0, slot - 1), 'f', undefined, noise());
        await ledger.append(made);
        truth.set(slot, made);
      } else {
        await ledger.close();
        ledger = await openIt(undefined, { retainBytes: 40_000 });
      }
    }
    let kept = 0;
    for (let slot = 0; slot <= top + 5; slot++) {
      const read = await ledger.block(slot);
      if (read === null) continue;
      kept += 1;
      // What the retention removed is unknown; what is there is right.
      assert.equal(read.blockhash, truth.get(slot)?.blockhash, `slot ${slot}`);
    }
    assert.ok(kept > 0);
    for (let slot = 0; slot <= top + 5; slot++)
      if (truth.has(slot)) assert.notEqual(ledger.state(slot), 'skipped', `slot ${slot}`);
    const full = await openIt(mkdtempSync(join(tmpdir(), 'parhelion-ledger-')), { retainBytes: 1e9 });
    await appendAll(full, [...truth.values()]);
    assert.equal(full.newest(), Math.max(...truth.keys()));
  });
});

byCase([1, 2, 3, 4, 5, 6, 7, 8, 9, 0], (own) =>
  describe('crashes and damage', () => {
    test('a file cut off at any byte holds the whole frames before, and takes new blocks', async (t) => {
      const { dir, open: openIt, files } = setUp(t);
      const ledger = await openIt();
      const ends: number[] = [];
      for (const each of range(1, 3)) {
        await ledger.append(each);
        ends.push(statSync(files()[0]!).size);
      }
      await ledger.cut(2);
      ends.push(statSync(files()[0]!).size);
      await ledger.close();
      const whole = join(dir, 'whole');
      copyFileSync(files()[0]!, whole);
      const torn = mkdtempSync(join(tmpdir(), 'parhelion-ledger-'));
      t.after(() => rmSync(torn, { recursive: true, force: true }));
      for (let bytes = 0; bytes <= ends[3]!; bytes++) {
        if (!own.includes(bytes % 10)) continue;
        const path = join(torn, '0000000001.ledger');
        copyFileSync(whole, path);
        truncateSync(path, bytes);
        const opened = await openIt(torn);
        const frames = ends.filter((end) => end <= bytes).length;
        const expected = names([1, 2, 3].slice(0, frames === 4 ? 2 : frames));
        if (bytes % 7 === 0 || ends.some((end) => Math.abs(end - bytes) < 3)) {
          await opened.append(block(9, 8));
          await opened.close();
          const again = await openIt(torn);
          assert.deepEqual(await held(again, 0, 20), [...expected, ...names([9])], `${bytes} bytes`);
          assert.deepEqual((await verifyLedger(torn)).faults, []);
        } else assert.equal(opened.newest(), expected.length === 0 ? -1 : expected.length, `${bytes} bytes`);
        await opened.close();
        rmSync(path);
      }
    });

    test('a flipped bit is never served, and the block can be written again', async (t) => {
      const { open: openIt, files, dir } = setUp(t);
      const blocks = range(1, 4);
      const ledger = await openIt();
      await appendAll(ledger, blocks);
      await ledger.close();
      const path = files()[0]!;
      const whole = readFileSync(path);
      const step = 5;
      for (let at = 0; at < whole.length; at += step) {
        if (!own.includes((at / step) % 10)) continue;
        const broken = Buffer.from(whole);
        broken[at] = broken[at]! ^ (1 << (at % 8));
        writeFileSync(path, broken);
        const opened = await openIt();
        for (const each of blocks) {
          const text = await opened.text(each.slot);
          if (text !== null) assert.deepEqual(text, each.answer!.text(), `bit in byte ${at}`);
        }
        assert.equal((await verifyLedger(dir)).faults.length > 0, true, `bit in byte ${at} is found`);
        await appendAll(opened, blocks);
        assert.deepEqual(await held(opened, 0, 9), names([1, 2, 3, 4]), `bit in byte ${at} is repaired`);
        await opened.close();
      }
    });

    test('a write that fails leaves nothing behind, and the next one works', async (t) => {
      for (const failing of ['ENOSPC', 'EIO']) {
        let left = Number.POSITIVE_INFINITY;
        const openFile: typeof open = async (...args) => {
          const file = await open(...args);
          const write = file.write.bind(file) as (...parts: unknown[]) => Promise<{ bytesWritten: number }>;
          const limited = async (bytes: Buffer, offset: number, length: number, at: number) => {
            if (left <= 0) throw Object.assign(new Error('refused'), { code: failing });
            // A short write first, as a full disk does.
            const done = await write(bytes, offset, Math.min(length, left), at);
            left -= done.bytesWritten;
            return done;
          };
          return Object.assign(file, { write: limited }) as unknown as typeof file;
        };
        const { open: openIt, dir } = setUp(t, { openFile });
        const ledger = await openIt();
        await ledger.append(block(1));
        left = 100;
        await assert.rejects(
          ledger.append(block(2)),
          (error) => codeOf(error) === (failing === 'EIO' ? 'LEDGER_IO' : 'LEDGER_FULL'),
        );
        assert.equal(ledger.state(2), 'unknown');
        // A reader that opens now sees what a crash at this moment would leave.
        assert.deepEqual(await held(await openIt(), 0, 9), names([1]));
        left = Number.POSITIVE_INFINITY;
        await ledger.append(block(2));
        for (const each of [ledger, await openIt()]) assert.deepEqual(await held(each, 0, 9), names([1, 2]));
        assert.deepEqual((await verifyLedger(dir)).faults, []);
      }
    });
  }),
);

describe('retention', () => {
  test('whole files go by age; their slots are unknown, never skipped', async (t) => {
    const { open: openIt, clock, files } = setUp(t, { retainHours: 8 });
    const ledger = await openIt();
    await appendAll(ledger, range(1, 3));
    await clock.advance(HOUR_MS);
    await appendAll(ledger, range(4, 6));
    assert.equal(files().length, 2);
    await clock.advance(9 * HOUR_MS);
    await appendAll(ledger, range(7, 9));
    for (const each of [ledger, await openIt()]) {
      assert.equal(each.state(2), 'unknown');
      assert.equal(each.newest(), 9);
    }
    assert.ok(files().length <= 2);
  });

  test('the files together stay below the bound', async (t) => {
    const retainBytes = 60_000;
    const { open: openIt, files } = setUp(t, { retainBytes });
    const ledger = await openIt();
    const draw = createSfc32(3);
    for (let slot = 1; slot <= 200; slot++) {
      const filler = Buffer.from(Array.from({ length: 900 }, () => Math.floor(draw.float() * 256))).toString('base64');
      await ledger.append(block(slot, slot - 1, 'a', 'a', filler));
      const bytes = files().reduce((sum, path) => sum + statSync(path).size, 0);
      assert.ok(bytes <= retainBytes + 8_000, `${bytes} bytes at slot ${slot}`);
    }
    assert.equal(ledger.state(1), 'unknown');
    assert.equal(ledger.state(200), 'block');
    assert.equal((await openIt()).newest(), 200);
  });

  test('blocks that are not archived yet are kept longer, up to twice the bound', async (t) => {
    const retainBytes = 60_000;
    let archivedTo = -1;
    const { open: openIt, files, log } = setUp(t, { retainBytes, heldAbove: [() => 1_000, () => archivedTo] });
    const ledger = await openIt();
    const draw = createSfc32(3);
    const append = async (from: number, to: number) => {
      for (let slot = from; slot <= to; slot++) {
        const filler = Buffer.from(Array.from({ length: 900 }, () => Math.floor(draw.float() * 256))).toString(
          'base64',
        );
        await ledger.append(block(slot, slot - 1, 'a', 'a', filler));
      }
    };
    const total = () => files().reduce((sum, path) => sum + statSync(path).size, 0);
    await append(1, 60);
    assert.ok(total() > retainBytes);
    assert.equal(ledger.state(1), 'block');
    assert.ok(log.lines.some(({ message }) => message.includes('kept longer')));
    archivedTo = 60;
    await append(61, 80);
    assert.ok(total() <= retainBytes + 8_000);
    assert.equal(
      log.lines.some(({ level }) => level === 'error'),
      false,
    );
    await append(81, 300);
    assert.ok(total() <= 2 * retainBytes + 8_000, `${total()} bytes`);
    assert.ok(log.lines.some(({ level, message }) => level === 'error' && message.includes('before the archive')));
  });
});
