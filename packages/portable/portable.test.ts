import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, type TestContext, test } from 'node:test';
import { CarReader } from '@ipld/car';
import { decode as decodeDagCbor } from '@ipld/dag-cbor';
import { createLedgerMeter, type Ledger, openLedger } from '../../src/ledger/index.ts';
import { decode32, encode32 } from '../../src/lib/base58.ts';
import { codeOf } from '../../src/lib/coded-error.ts';
import { hasZstd, zstdCompress, zstdDecompress } from '../../src/lib/zstd.ts';
import type { ChainBlock } from '../../src/ports/block.ts';
import { createMetricsRegistry } from '../../src/runtime/metrics.ts';
import { decodeBlock } from '../../src/solana/decode/decode-block.ts';
import { scanBlockAnswer } from '../../src/solana/decode/scan-block.ts';
import { listFixtures, readFixture, skipWithoutFixtures } from '../../test/helpers/fixtures.ts';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { blockOf, entryOf, sampleMessage } from '../../test/helpers/rpc-block.ts';
import { createSfc32 } from '../../test/helpers/sfc32.ts';
import { CarLink, createCarWriter, decodeNode, encodeNode, type Node, openCar } from './car.ts';
import { carFilesAt, exportBlocks, type Format, importBlocks } from './index.ts';
import { crc64, readBlocks } from './old-faithful.ts';

function folder(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-portable-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

const opened: Ledger[] = [];
after(() => Promise.all(opened.map((ledger) => ledger.close())));

async function openIn(dir: string): Promise<Ledger> {
  const ledger = await openLedger({
    dir,
    chain: 'main',
    retainHours: 24,
    retainBytes: 1e9,
    clock: createManualClock(),
    log: createMemoryLog(),
    meter: createLedgerMeter(createMetricsRegistry().scope('ledger')),
  });
  opened.push(ledger);
  return ledger;
}

const hash = (slot: number, branch = 'a') => encode32(Buffer.from(`${branch}${slot}`.padEnd(32, '.')));

function answered(slot: number, result: object): ChainBlock {
  return decodeBlock(slot, scanBlockAnswer(Buffer.from(JSON.stringify({ jsonrpc: '2.0', result, id: 1 })))!);
}

/** A block with one transaction, as a node answers it. */
function block(slot: number, parent = slot - 1, branch = 'a'): ChainBlock {
  const signature = Buffer.alloc(64, `${branch}${slot}`);
  return answered(slot, {
    ...blockOf([entryOf({ message: sampleMessage(), signatures: [signature] })], slot),
    blockhash: hash(slot, branch),
    previousBlockhash: hash(parent),
    parentSlot: parent,
    rewards: [],
  });
}

/** A ledger with final blocks at these slots; each follows the one before. */
async function ledgerOf(dir: string, slots: readonly number[]): Promise<Ledger> {
  const ledger = await openIn(dir);
  for (const [at, slot] of slots.entries()) await ledger.append(block(slot, slots[at - 1] ?? slot - 1));
  await ledger.finalize(slots.at(-1)!);
  return ledger;
}

const exported = (ledger: Ledger, output: string, range: readonly [number, number], format: Format = 'car') =>
  exportBlocks({ ledger, format, amounts: 'integer', range, slotsPerFile: 10, output });

async function imported(ledger: Ledger, path: string) {
  return await importBlocks({ ledger, roomBytes: () => 1, files: await carFilesAt(path) });
}

/** The recorded blocks; each has a result in base64 with rewards. */
const recorded = () =>
  listFixtures('chain/blocks')
    .filter((name) => !/json/.test(name.replace(/\.json$/, '')))
    .map((name) => {
      const parsed = JSON.parse(readFixture(name).toString()) as { readonly result?: object };
      return { slot: Number(/\d+/.exec(name)?.[0] ?? 147_078_735), result: (parsed.result ?? parsed) as Answer };
    });

interface Answer {
  readonly parentSlot: number;
  readonly transactions: readonly object[];
}

async function readBack(path: string): Promise<Map<number, string>> {
  const file = await open(path, 'r');
  const found = new Map<number, string>();
  try {
    for await (const stored of readBlocks(await openCar(file)))
      found.set(stored.slot, stored.text(stored.previousBlockhash!).toString());
  } finally {
    await file.close();
  }
  return found;
}

describe('CAR files', () => {
  test('recorded blocks come back as their nodes sent them', { skip: skipWithoutFixtures }, async (t) => {
    for (const { slot: named, result } of recorded()) {
      const slot = named > result.parentSlot ? named : result.parentSlot + 1;
      const dir = folder(t);
      const ledger = await openIn(join(dir, 'ledger'));
      await ledger.append(answered(slot, result));
      await ledger.finalize(slot);
      const done = await exported(ledger, join(dir, 'out'), [slot, slot]);
      assert.deepEqual([done.blocks, done.transactions, done.holes], [1, result.transactions.length, []]);
      const text = (await readBack(join(dir, 'out', `${slot}-${slot}.car`))).get(slot)!;
      assert.deepEqual(withoutNodeVersion(text), withoutNodeVersion(JSON.stringify(result)));
    }
  });

  test('rewards of every type come back with both forms of the commission', async (t) => {
    const reward = { pubkey: hash(1), lamports: 5, postBalance: 9 };
    const types = [
      'Fee',
      'Rent',
      'Staking',
      'Voting',
      'DeactivatedStake',
      'VATDebit',
      'BlockRevenueSharing',
      'Later',
      '8',
    ];
    const rewards = [...types, null].flatMap((rewardType) => [
      { ...reward, rewardType, commission: null },
      { ...reward, lamports: -800_000_000, rewardType, commission: 7, commissionBps: 650 },
      { ...reward, rewardType, commission: null, commissionBps: 0 },
    ]);
    const dir = folder(t);
    const ledger = await openIn(join(dir, 'ledger'));
    const entry = entryOf({ message: sampleMessage(), meta: { rewards } });
    const result = {
      ...blockOf([entry], 100),
      blockhash: hash(100),
      previousBlockhash: hash(99),
      parentSlot: 99,
      rewards,
    };
    await ledger.append(answered(100, { ...result, numRewardPartitions: 3 }));
    await ledger.finalize(100);
    await exported(ledger, join(dir, 'out'), [100, 100]);
    const path = join(dir, 'out', '100-100.car');
    const read = JSON.parse((await readBack(path)).get(100)!) as {
      readonly rewards: unknown;
      readonly numRewardPartitions: number;
      readonly transactions: readonly { readonly meta: { readonly rewards: unknown } }[];
    };
    assert.deepEqual(read.rewards, rewards);
    assert.equal(read.numRewardPartitions, 3);
    assert.deepEqual(read.transactions[0]!.meta.rewards, rewards);
    const target = await openIn(join(dir, 'target'));
    assert.equal((await imported(target, path)).blocks, 1);
    const kept = JSON.parse((await target.block(100))!.answer!.text().toString()) as { readonly rewards: unknown };
    assert.deepEqual(kept.rewards, rewards);
  });

  test('an independent reader finds the same nodes behind their hashes', async (t) => {
    const dir = folder(t);
    const ledger = await ledgerOf(join(dir, 'ledger'), [100, 101, 103]);
    await exported(ledger, join(dir, 'out'), [100, 103]);
    const reader = await CarReader.fromBytes(readFileSync(join(dir, 'out', '100-103.car')));
    const get = async (cid: unknown) =>
      decodeDagCbor<unknown[]>((await reader.get(cid as Parameters<typeof reader.get>[0]))!.bytes);
    const [root] = await reader.getRoots();
    const epoch = await get(root);
    assert.deepEqual(epoch.slice(0, 2), [4, 0]);
    const subset = await get((epoch[2] as unknown[])[0]);
    assert.deepEqual(subset.slice(0, 3), [3, 100, 103]);
    const blocks = await Promise.all((subset[3] as unknown[]).map(get));
    assert.deepEqual(
      blocks.map((each) => [each[0], each[1], each[4]]),
      [100, 101, 103].map((slot, at) => [2, slot, [[99, 100, 101][at], blockTimeOf(slot), blockHeightOf(slot)]]),
    );
    for (const each of blocks) {
      const [before, entry] = await Promise.all((each[3] as unknown[]).map(get));
      assert.deepEqual(before!.slice(0, 2), [1, 0]);
      assert.equal(encode32(entry![2] as Uint8Array), hash(each[1] as number));
      const transaction = await get((entry![3] as unknown[])[0]);
      const frame = transaction[1] as unknown[];
      assert.equal(BigInt.asUintN(64, BigInt(frame[1] as number)), crc64(frame[4] as Uint8Array));
      assert.deepEqual([transaction[0], transaction[3], transaction[4]], [0, each[1], 0]);
    }
  });

  test('a ledger goes out and comes back: blocks, skipped slots and holes', async (t) => {
    const dir = folder(t);
    const slots = [100, 101, 103, 104, 109, 110, 112];
    const from = await ledgerOf(join(dir, 'a'), slots);
    // Slots 120 and on: between them and the others is a hole.
    await from.append(block(121));
    await from.append(block(122));
    await from.finalize(122);
    const done = await exported(from, join(dir, 'out'), [100, 122]);
    assert.deepEqual([done.blocks, done.parts, done.holes], [9, 3, [[113, 120]]]);
    const to = await openIn(join(dir, 'b'));
    assert.deepEqual(await imported(to, join(dir, 'out')), { blocks: 9, known: 0, refused: [] });
    for (let slot = 100; slot <= 122; slot++) {
      assert.equal(to.state(slot), from.state(slot), `slot ${slot}`);
      assert.deepEqual(await to.header(slot), await from.header(slot));
    }
    assert.equal(to.finalSlot, 122);
    assert.deepEqual(await imported(to, join(dir, 'out')), { blocks: 0, known: 9, refused: [] });
  });

  test('an interrupted export goes on, and parts whose holes were filled are written again', async (t) => {
    const dir = folder(t);
    const ledger = await ledgerOf(join(dir, 'a'), [100, 101, 112, 113]);
    const output = join(dir, 'out');
    let calls = 0;
    const stopAt = {
      ...ledger,
      finalSlot: ledger.finalSlot,
      block: (slot: number) => {
        calls += 1;
        if (slot === 113) throw new Error('stop');
        return ledger.block(slot);
      },
    };
    await assert.rejects(exported(stopAt, output, [100, 113]), (error) => codeOf(error) === 'LEDGER_EXPORT');
    assert.deepEqual(readdirSync(output).toSorted(), ['100-109.car', '100-109.car.json', '110-113.car.partial']);
    assert.equal(calls, 4);
    const second = await exported(ledger, output, [100, 113]);
    assert.deepEqual([second.blocks, second.reused, second.holes], [4, 1, []]);
    assert.equal(
      readdirSync(output).some((name) => name.endsWith('.partial')),
      false,
    );
    // A file that was changed is not taken for complete.
    writeFileSync(join(output, '100-109.car'), 'x');
    assert.equal((await exported(ledger, output, [100, 113])).reused, 1);
    const holed = await ledgerOf(join(dir, 'b'), [100]);
    await holed.append(block(105));
    await holed.finalize(105);
    assert.deepEqual((await exported(holed, join(dir, 'out2'), [100, 105])).holes, [[101, 104]]);
    for (const slot of [101, 102, 103]) await holed.append(block(slot));
    const filled = await exported(holed, join(dir, 'out2'), [100, 105]);
    assert.deepEqual([filled.reused, filled.holes, filled.blocks], [0, [[104, 104]], 5]);
  });

  test('damaged, truncated and foreign files are refused, and what was sound before them stays', async (t) => {
    const dir = folder(t);
    const ledger = await ledgerOf(join(dir, 'a'), [100, 101, 102, 103]);
    await exported(ledger, join(dir, 'out'), [100, 103]);
    const bytes = readFileSync(join(dir, 'out', '100-103.car'));
    const random = createSfc32(7);
    const path = join(dir, 'bad.car');
    for (let round = 0; round < 60; round++) {
      const bad = Buffer.from(bytes);
      const at = random.below(bad.length);
      bad[at] = bad[at]! ^ (1 << random.below(8));
      writeFileSync(path, round % 2 === 0 ? bad : bytes.subarray(0, at));
      const target = await openIn(join(dir, `bad-${round}`));
      await assert.rejects(
        imported(target, path),
        (error) => codeOf(error) === 'LEDGER_IMPORT',
        `round ${round} at ${at}`,
      );
      for (let slot = 100; slot <= 103; slot++) {
        const header = await target.header(slot);
        if (header !== null) assert.equal(header.blockhash, hash(slot));
      }
    }
    for (const junk of ['', 'no car file at all', '\u00ff'.repeat(100)]) {
      writeFileSync(path, junk);
      await assert.rejects(
        imported(await openIn(join(dir, 'junk')), path),
        (error) => codeOf(error) === 'LEDGER_IMPORT',
      );
    }
    await assert.rejects(carFilesAt(join(dir, 'missing')), /there is no/);
  });

  test('blocks of another fork are refused', async (t) => {
    const dir = folder(t);
    const ledger = await ledgerOf(join(dir, 'a'), [100, 101, 102, 104]);
    await exported(ledger, join(dir, 'out'), [100, 104]);
    const rejects = async (slots: readonly ChainBlock[], pattern: RegExp) => {
      const target = await openIn(join(dir, `fork-${pattern.source.length}`));
      for (const each of slots) await target.append(each);
      await target.finalize(slots.at(-1)!.slot);
      await assert.rejects(imported(target, join(dir, 'out')), pattern);
    };
    await rejects([block(101, 100, 'b')], /the ledger has another block 101/);
    await rejects([block(99, 98, 'b')], /block 100 does not follow block 99/);
    await rejects([block(103), block(104)], /contradicts the ledger/);
    const unfinal = await openIn(join(dir, 'unfinal'));
    await unfinal.append(block(90));
    await assert.rejects(imported(unfinal, join(dir, 'out')), /not final yet/);
    const full = await openIn(join(dir, 'full'));
    const files = await carFilesAt(join(dir, 'out'));
    await assert.rejects(importBlocks({ ledger: full, roomBytes: () => 0, files }), /the ledger is full/);
  });

  test('a file of Old Faithful: entries of its own, no height, metas of bincode, checksums of the first version', async (t) => {
    const dir = folder(t);
    const path = join(dir, 'theirs.car');
    const wire = Buffer.from(
      (entryOf({ message: sampleMessage() }) as { transaction: string[] }).transaction[0]!,
      'base64',
    );
    const keys = sampleMessage().keys.length;
    const file = await open(path, 'w+');
    const car = createCarWriter(file);
    const frame = (data: Buffer, sum: bigint | null = null): Node => [6, sum, 0, 1, data, null];
    const u64 = (value: bigint) => {
      const bytes = Buffer.alloc(8);
      bytes.writeBigUInt64LE(value);
      return bytes;
    };
    const balances = Buffer.concat([
      u64(BigInt(keys)),
      ...Array.from({ length: keys }, () => u64(500_000_000_000_000_001n)),
    ]);
    // InstructionError [2, Custom 6], fee 5000, balances.
    const failure = Buffer.from('0100000008000000021900000006000000', 'hex');
    const old = Buffer.concat([failure, u64(5_000n), balances, balances]);
    const blocks: CarLink[] = [];
    for (const [at, slot] of [200, 201].entries()) {
      const halves = [wire.subarray(0, 100), wire.subarray(100)];
      const second = car.add([6, crc64(wire), 1, 2, halves[1]!, null]);
      const transaction = car.add([
        0,
        [6, crc64(wire), 0, 2, halves[0]!, [second]],
        frame(zstdCompress(old), fnv(zstdCompress(old))),
        slot,
        0,
      ]);
      const tick = car.add([1, 12_500, decode32(hash(1_000 + at))!, []]);
      const last = car.add([1, 800, decode32(hash(slot))!, [transaction]]);
      const rewards = car.add([5, slot, frame(zstdCompress(Buffer.from('0a0b0a03616263100118022001', 'hex')))]);
      const shredding: Node = [
        [0, -1],
        [1, 3],
      ];
      blocks.push(car.add([2, slot, shredding, [tick, last], [slot - 1, 0, null], at === 0 ? CarLink.none : rewards]));
    }
    await car.end(car.add([4, 0, [car.add([3, 200, 201, blocks])]]));
    await file.close();
    const target = await openIn(join(dir, 'target'));
    const done = await imported(target, path);
    assert.equal(done.blocks, 1);
    assert.deepEqual(done.refused, [{ slot: 200, reason: 'block 199 is missing, and its hash is not in the file' }]);
    assert.deepEqual(
      [200, 201].map((slot) => target.state(slot)),
      ['unknown', 'block'],
    );
    const read = (await target.block(201))!;
    assert.equal(read.previousBlockhash, hash(200));
    assert.deepEqual(read.transactions[0]!.error, { InstructionError: [2, { Custom: 6 }] });
    assert.equal(read.blockTime, null);
    const text = read.answer!.text().toString();
    assert.match(text, /"postBalances":\[500000000000000001,/);
    assert.match(
      text,
      /"rewards":\[\{"pubkey":"abc","lamports":1,"postBalance":2,"rewardType":"Fee","commission":null\}\]/,
    );
  });
});

function fnv(bytes: Uint8Array): bigint {
  let sum = 0xcbf29ce484222325n;
  for (const byte of bytes) sum = BigInt.asUintN(64, (sum ^ BigInt(byte)) * 0x100000001b3n);
  return BigInt.asIntN(64, sum);
}

const blockTimeOf = (slot: number) => block(slot).blockTime;
const blockHeightOf = (slot: number) => block(slot).blockHeight;

/** Without what older nodes leave out: heights of the stack that nobody knows, and `version` of what has none. */
const withoutNodeVersion = (text: string): unknown =>
  JSON.parse(text, (name, value: unknown) =>
    (name === 'stackHeight' && value === null) || (name === 'version' && value === 'legacy') ? undefined : value,
  );

describe('parts of the formats', () => {
  test('CBOR as another encoder writes it, and no other', () => {
    const nodes: Node[] = [0, 23, 24, 255, 256, 65_535, 65_536, 2 ** 32, 2n ** 63n, -1, -24, -25, -(2n ** 63n), null];
    const all: Node[] = [...nodes, Buffer.alloc(300, 1), [], [[], [nodes]]];
    for (const node of all) {
      const bytes = encodeNode(node);
      assert.deepEqual(plain(decodeDagCbor(bytes)), plain(node));
      assert.deepEqual(plain(decodeNode(bytes)), plain(node));
    }
    for (const bad of [
      '',
      '1c',
      '8201',
      '5820',
      'd82b4100',
      '9f01ff',
      '0000',
      '81818181818181818181818101',
      'fb3ff0000000000000',
    ])
      assert.throws(() => decodeNode(Buffer.from(bad, 'hex')), /./, bad);
  });

  test('CRC-64 of ISO 3309 has its published check value', () => {
    assert.equal(crc64(Buffer.from('123456789')), 0xb90956c775a41001n);
  });

  test('zstd: frames of a compressor, of others and of our own; bounded', () => {
    const text = Buffer.from('parhelion '.repeat(2_000));
    assert.deepEqual(zstdDecompress(zstdCompress(text), 1e6), text);
    assert.deepEqual(zstdDecompress(zstdCompress(Buffer.alloc(0)), 1e6), Buffer.alloc(0));
    // Made by zstd 1.5: 20,000 bytes in 31.
    const frame = Buffer.from('28b52ffd04689500005070617268656c696f6e200100134ef782043326b3f5', 'hex');
    assert.deepEqual(zstdDecompress(frame, 1e6), text);
    assert.throws(() => zstdDecompress(frame, 1_000));
    assert.throws(() => zstdDecompress(frame.subarray(0, -5), 1e6));
    assert.throws(() => zstdDecompress(Buffer.from('nothing'), 1e6));
    assert.equal(typeof hasZstd, 'boolean');
  });
});

function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex');
  if (Array.isArray(value)) return value.map(plain);
  return typeof value === 'number' || typeof value === 'bigint' ? BigInt(value) : value;
}
