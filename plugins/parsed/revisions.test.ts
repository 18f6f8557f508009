import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deflateSync, gzipSync } from 'node:zlib';
import { decode32, encode32 } from '../../src/lib/base58.ts';
import { OWN_WORK } from '../../src/ports/access.ts';
import { decodeEntries } from '../../src/solana/decode/decode-block.ts';
import { anchorAddress, programMetadataAddress } from '../../src/solana/idl/idl-accounts.ts';
import { PROGRAM_METADATA_PROGRAM } from '../../src/solana/programs.ts';
import { entryOf, sampleMessage } from '../../test/helpers/rpc-block.ts';
import { createSfc32 } from '../../test/helpers/sfc32.ts';
import type { TransactionWithKeys } from './fetch.ts';
import { type Revision, readRevisions, type SignaturePages } from './revisions.ts';

const PROGRAM = 'JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4';
const ACCOUNTS = { program: PROGRAM, metadata: programMetadataAddress(PROGRAM)!, anchor: anchorAddress(PROGRAM)! };
const SIGNAL = new AbortController().signal;
const FOREVER = Number.MAX_SAFE_INTEGER;

interface Row {
  readonly signature: string;
  readonly slot: number;
  readonly err: unknown;
  readonly addresses: readonly string[];
  readonly found: TransactionWithKeys;
}

/** A chain of transactions that call Program Metadata, one in each slot. */
function createHistory() {
  const rows: Row[] = [];
  /** Lists that were asked for, of buffers. */
  const asked = { lists: 0 };
  const lost = new Set<string>();

  function add(calls: readonly { readonly accounts: readonly string[]; readonly data: Buffer }[], err: unknown = null) {
    const addresses = [...new Set(calls.flatMap(({ accounts }) => accounts))].filter(
      (one) => one !== PROGRAM_METADATA_PROGRAM,
    );
    const all = ['11111111111111111111111111111112', ...addresses, PROGRAM_METADATA_PROGRAM];
    const message = sampleMessage({
      header: [1, 0, 1],
      keys: all.map((one) => Buffer.from(decode32(one)!)),
      instructions: calls.map(({ accounts, data }) => ({
        program: all.length - 1,
        data,
        accounts: Uint8Array.from(accounts, (one) => all.indexOf(one)),
      })),
    });
    const slot = rows.length + 1;
    const { transactions, keys } = decodeEntries(slot, [entryOf({ message })], new Uint8Array(32));
    const signature = `signature ${slot}`;
    const found = { signature, slot, blockTime: null, tx: transactions[0]!, keys, text: async () => Buffer.alloc(0) };
    rows.push({ signature, slot, err, addresses, found });
    return slot;
  }

  const listOf = (address: string, before = rows.length, keptFrom = 0): SignaturePages => {
    const own = rows.slice(keptFrom, before).filter(({ addresses }) => addresses.includes(address));
    return { rows: own.reverse(), isWhole: true };
  };
  return {
    rows,
    lost,
    asked,
    add,
    read: (keptFrom = 0, most = 32): Promise<readonly Revision[]> =>
      readRevisions(
        ACCOUNTS,
        {
          lists: [listOf(ACCOUNTS.metadata, rows.length, keptFrom), listOf(ACCOUNTS.anchor)],
          listBefore: async (address, signature) => {
            asked.lists += 1;
            return listOf(
              address,
              rows.findIndex((row) => row.signature === signature),
              keptFrom,
            );
          },
          fetch: async (signatures) =>
            new Map(
              signatures.map((one) => [
                one,
                lost.has(one) ? null : rows.find(({ signature }) => signature === one)!.found,
              ]),
            ),
        },
        { slot: rows.length, most, mostCharacters: 1_000_000 },
        { tenant: OWN_WORK, signal: SIGNAL },
      ),
  };
}

const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};
const SEED = Buffer.from('idl'.padEnd(16, '\0'));
const PACKS = [(text: string) => Buffer.from(text), gzipSync, deflateSync] as const;

/** Instructions of Program Metadata. */
const call = {
  allocate: (target: string) => ({ accounts: [target], data: Buffer.concat([Buffer.of(7), SEED]) }),
  extend: (target: string, length: number) => ({ accounts: [target], data: Buffer.of(8, length, 0) }),
  write: (target: string, offset: number, content: Buffer) => ({
    accounts: [target, target, PROGRAM_METADATA_PROGRAM],
    data: Buffer.concat([Buffer.of(0), u32(offset), content]),
  }),
  copy: (target: string, source: string, offset = 0) => ({
    accounts: [target, target, source],
    data: Buffer.concat([Buffer.of(0), u32(offset)]),
  }),
  initialize: (compression: number, content = Buffer.alloc(0)) => ({
    accounts: [ACCOUNTS.metadata],
    data: Buffer.concat([Buffer.of(1), SEED, Buffer.of(1, compression, 1, 0), content]),
  }),
  set: (compression: number, content: Buffer | string | null) => ({
    accounts: [ACCOUNTS.metadata, PROGRAM, typeof content === 'string' ? content : PROGRAM_METADATA_PROGRAM],
    data: Buffer.concat([
      Buffer.of(3, 1, compression, 1, ...(content === null ? [] : [0])),
      typeof content === 'string' ? Buffer.alloc(0) : (content ?? Buffer.alloc(0)),
    ]),
  }),
  /** Changes of an account that leave its content: a new authority, no change ever again, less room. */
  other: (kind: 2 | 4 | 5) => ({ accounts: [ACCOUNTS.metadata], data: Buffer.of(kind, 0) }),
  close: (target: string) => ({ accounts: [target], data: Buffer.of(6) }),
};

const textAt = (revisions: readonly Revision[], slot: number) =>
  revisions.find(({ from, to }) => slot >= from && slot < to)?.text;

test('a replay of Program Metadata instructions equals the account, whatever instructions wrote it', async (t) => {
  const seed = Math.floor(Math.random() * 2 ** 32);
  t.diagnostic(`seed ${seed}`);
  const draw = createSfc32(seed);
  for (let round = 0; round < 60; round += 1) {
    const history = createHistory();
    const shown: (string | null)[] = [null];
    let current: string | null = null;
    const step = (...calls: Parameters<typeof history.add>[0]) => {
      history.add(calls);
      shown.push(null);
    };
    const settle = () => {
      shown[shown.length - 1] = current;
    };
    const keep = () => {
      shown[shown.length - 1] = shown.at(-2)!;
    };
    let buffers = 0;
    for (let turn = 0; turn < 12; turn += 1) {
      const compression = draw.below(3);
      const text = JSON.stringify({ name: `n${draw.below(5)}`, docs: 'x'.repeat(draw.below(60)) });
      const packed = Buffer.from(PACKS[compression]!(text));
      const buffer = programMetadataAddress(`${'1'.repeat(31)}${'23456789ABCDEFGHJKLMNPQRSTUVWXYZ'[buffers++ % 31]}`)!;
      /** Fills an account from its start; the interface stays what it is. */
      const fill = (target: string, stays: boolean) => {
        step(call.allocate(target));
        if (stays) keep();
        if (draw.below(2) === 0) {
          step(call.extend(target, Math.min(packed.length, 200)));
          if (stays) keep();
        }
        for (let at = 0; at < packed.length; at += 40) {
          step(call.write(target, at, packed.subarray(at, at + 40)));
          if (stays) keep();
        }
      };
      if (current === null) {
        if (draw.below(2) === 0) {
          fill(ACCOUNTS.metadata, false);
          step(call.initialize(compression));
        } else step(call.initialize(compression, packed));
        current = text;
        settle();
        continue;
      }
      switch (draw.below(7)) {
        case 0:
          step(call.close(ACCOUNTS.metadata));
          current = null;
          settle();
          break;
        case 1:
          step(call.set(compression, packed));
          current = text;
          settle();
          break;
        case 2:
          fill(buffer, true);
          step(call.set(compression, buffer), call.close(buffer));
          current = text;
          settle();
          break;
        case 3: {
          // From a buffer that another one filled.
          fill(buffer, true);
          const second = anchorAddress(buffer)!;
          step(call.allocate(second), call.copy(second, buffer));
          keep();
          step(call.set(compression, second));
          current = text;
          settle();
          break;
        }
        case 4:
          // All in one transaction.
          step(call.allocate(buffer), call.write(buffer, 0, packed), call.set(compression, buffer), call.close(buffer));
          current = text;
          settle();
          break;
        case 5:
          history.add([call.set(compression, packed)], 'it failed');
          shown.push(shown.at(-1)!);
          break;
        default:
          step(call.other(([2, 4, 5] as const)[draw.below(3)]!));
          keep();
      }
    }
    const revisions = await history.read(0, 1_000);
    for (const [slot, text] of shown.entries())
      assert.equal(textAt(revisions, slot), text, `round ${round}, slot ${slot}`);
    // Each begins where the one before ends.
    assert.deepEqual(
      revisions.map(({ from }) => from),
      [0, ...revisions.slice(0, -1).map(({ to }) => to)],
    );
    assert.ok(revisions.at(-1)!.to === history.rows.length + 1 && revisions.at(-1)!.to < FOREVER);
  }
});

test('data that an upstream has pruned or lost is unknown, not absent', async () => {
  const history = createHistory();
  const texts = ['{"name":"a"}', '{"name":"b"}', '{"name":"c"}'].map((text) => Buffer.from(text));
  history.add([call.initialize(0, texts[0])]);
  history.add([call.allocate(PROGRAM), call.write(PROGRAM, 0, texts[1]!)]);
  history.add([call.set(0, PROGRAM)]);
  history.add([call.set(0, texts[2]!)]);
  const texted = async (keptFrom = 0) => {
    const revisions = await history.read(keptFrom);
    return [0, 1, 2, 3, 4].map((slot) => textAt(revisions, slot));
  };
  const [a, b, c] = texts.map(String);
  assert.deepEqual(await texted(), [null, a, a, b, c]);
  // The first transaction is pruned: the list looks whole.
  assert.deepEqual(await texted(1), [undefined, undefined, undefined, b, c]);
  // The buffer too.
  assert.deepEqual(await texted(2), [undefined, undefined, undefined, undefined, c]);
  history.lost.add('signature 2');
  assert.deepEqual(await texted(), [null, a, a, undefined, c]);
  history.lost.add('signature 3');
  assert.deepEqual(await texted(), [null, a, a, undefined, c]);
  history.lost.clear();
  // The newest versions are kept if there are too many.
  const kept = await history.read(0, 2);
  assert.deepEqual(
    [0, 1, 2, 3, 4].map((slot) => textAt(kept, slot)),
    [undefined, undefined, undefined, b, c],
  );
});

test('a program that writes more than an account holds, or what nobody knows, leaves it unknown until it is replaced', async () => {
  const history = createHistory();
  const text = Buffer.from('{"name":"a"}');
  history.add([call.allocate(ACCOUNTS.metadata), call.write(ACCOUNTS.metadata, 4_000_000_000, text)]);
  history.add([{ accounts: [ACCOUNTS.metadata], data: Buffer.of(99) }]);
  history.add([call.set(0, text)]);
  history.add([{ accounts: [ACCOUNTS.metadata], data: Buffer.of(3) }, call.set(0, null)]);
  const revisions = await history.read();
  assert.deepEqual(
    [0, 1, 2, 3, 4].map((slot) => textAt(revisions, slot)),
    [null, undefined, undefined, String(text), String(text)],
  );
});

test('hostile transactions cost a bounded number of calls and bytes', async () => {
  const history = createHistory();
  const text = Buffer.from('{"name":"a"}');
  history.add([call.initialize(0, text)]);
  const buffers = Array.from({ length: 8 }, (_, at) => encode32(Buffer.alloc(32, at + 1)));
  // The chain would refuse them; the program of an IDL account of Anchor, which is the author's, would not.
  const fill = buffers.flatMap((one) => [call.allocate(one), call.write(one, 9_000_000, text)]);
  for (let turn = 0; turn < 200; turn += 1)
    history.add([...fill, ...buffers.map((one) => call.set(0, one)), call.set(0, Buffer.from(`{"name":"n${turn}"}`))]);
  const { arrayBuffers } = process.memoryUsage();
  const revisions = await history.read();
  assert.ok(history.asked.lists <= 500, String(history.asked.lists));
  assert.ok(process.memoryUsage().arrayBuffers - arrayBuffers < 200_000_000);
  assert.equal(textAt(revisions, history.rows.length), '{"name":"n199"}');
});
