/** A ledger with blocks of many kinds, and what the suites of the archive ask of it. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { createSystemClock } from '../../src/adapters/clock.ts';
import { createArchiveMeter, startArchiveWriter } from '../../src/archive/writer.ts';
import { createLedgerMeter, type Ledger, openLedger } from '../../src/ledger/index.ts';
import { encode32 } from '../../src/lib/base58.ts';
import type { ArchiveEngine, ArchiveReader } from '../../src/ports/archive.ts';
import type { AddressQuery } from '../../src/ports/ledger.ts';
import { createMetricsRegistry } from '../../src/runtime/metrics.ts';
import { decodeBlock } from '../../src/solana/decode/decode-block.ts';
import { scanBlockAnswer } from '../../src/solana/decode/scan-block.ts';
import { createMemoryLog } from './memory-log.ts';
import { blockOf, entryOf, sampleMessage } from './rpc-block.ts';
import { createSfc32 } from './sfc32.ts';

/** Addresses of the transactions; the last one only owns token accounts. */
export const ADDRESSES = Array.from({ length: 8 }, (_, at) => Buffer.alloc(32, 40 + at));
const MEMO = 'MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr';
const VOTE = 'Vote111111111111111111111111111111111111111';

export async function emptyLedger(t: TestContext): Promise<Ledger> {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-archive-'));
  const ledger = await openLedger({
    ...{ dir, chain: 'main', retainHours: 24, retainBytes: 1e9, clock: createSystemClock(), log: createMemoryLog() },
    meter: createLedgerMeter(createMetricsRegistry().scope('ledger')),
  });
  t.after(async () => {
    await ledger.close();
    rmSync(dir, { recursive: true, force: true });
  });
  return ledger;
}

const hash = (slot: number) => encode32(Buffer.from(`a${slot}`.padEnd(32, '.')));

/** Adds final blocks from `from` to `to`; every seventh slot is skipped. */
export async function fill(ledger: Ledger, from: number, to: number, transactions = 6): Promise<void> {
  const { decode32 } = await import('../../src/lib/base58.ts');
  const [memo, vote] = [decode32(MEMO)!, decode32(VOTE)!];
  const isBlock = (slot: number) => slot % 7 !== 3;
  for (let slot = from; slot <= to; slot++) {
    if (!isBlock(slot)) continue;
    const random = createSfc32(slot);
    const entries = Array.from({ length: transactions }, (_, index) => {
      const isVote = random.below(4) === 0;
      const first = random.below(ADDRESSES.length - 1);
      const keys = [
        ADDRESSES[first]!,
        ADDRESSES[(first + 1 + random.below(5)) % (ADDRESSES.length - 1)]!,
        isVote ? vote : memo,
      ];
      const fails = random.below(5) === 0;
      const balance = (amount: number) => ({
        ...{ accountIndex: 1, mint: encode32(Buffer.alloc(32, 5)), owner: encode32(ADDRESSES.at(-1)!) },
        uiTokenAmount: { amount: String(amount), decimals: 6, uiAmount: null, uiAmountString: '0' },
      });
      return entryOf({
        message: sampleMessage({
          keys,
          instructions: [{ program: 2, accounts: Uint8Array.of(0), data: Buffer.from(`a\\b"\tmemo ü ${slot}`) }],
        }),
        signatures: [Buffer.concat([Buffer.alloc(56, slot & 255), Buffer.from(`${slot}.${index}`.padEnd(8, '\0'))])],
        meta: {
          err: fails ? { InstructionError: [0, { Custom: index }] } : null,
          logMessages: ['Program log: tab \t, line \n, "quotes", \\ and ü'],
          preTokenBalances: index % 3 === 0 ? [balance(1)] : [],
          postTokenBalances: index % 3 === 0 ? [balance(1 + (slot % 2))] : [],
        },
      });
    });
    const parent = isBlock(slot - 1) ? slot - 1 : slot - 2;
    const result = {
      ...{ ...blockOf(entries, slot), blockhash: hash(slot), previousBlockhash: hash(parent), parentSlot: parent },
      ...{ blockTime: slot % 5 === 0 ? null : 1_700_000_000 + slot, rewards: [] },
    };
    await ledger.append(
      decodeBlock(slot, scanBlockAnswer(Buffer.from(JSON.stringify({ jsonrpc: '2.0', result, id: 1 })))!),
    );
  }
  await ledger.finalize(ledger.newest());
}

export function startWriter(engine: ArchiveEngine, ledger: Ledger) {
  const log = createMemoryLog();
  const metrics = createMetricsRegistry();
  const meter = createArchiveMeter(metrics.scope('archive'));
  const writer = startArchiveWriter({
    engine,
    ledger,
    clock: createSystemClock(),
    log,
    meter,
    batchAgeMs: 0,
    pollMs: 5,
  });
  return {
    writer,
    log,
    metrics,
    stop: () => writer.stop(),
    get slot() {
      return writer.slot;
    },
  };
}

export async function waitFor(what: string, check: () => boolean | Promise<boolean>, tries = 6_000): Promise<void> {
  for (let left = tries; left > 0; left--) {
    if (await check()) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`${what} did not happen`);
}

/** Everything that the ledger answers, the archive answers alike. */
export async function compare(reader: ArchiveReader, ledger: Ledger, from: number, to: number): Promise<void> {
  for (let slot = from; slot <= to; slot++) {
    assert.equal(await reader.state(slot), ledger.state(slot), `slot ${slot}`);
    assert.deepEqual(await reader.header(slot), await ledger.header(slot));
    assert.deepEqual((await reader.text(slot))?.toString(), (await ledger.text(slot))?.toString());
  }
  const some = [from, ledger.newest(from + 5), ledger.newest(to)];
  for (const slot of some) {
    const block = await ledger.block(slot);
    for (const { index, signatures } of block?.transactions ?? []) {
      const place = await reader.find(signatures[0]!);
      assert.deepEqual(place, { slot, index });
      const [ours, theirs] = [await reader.transaction(place), await ledger.transaction(place)];
      assert.equal(ours!.text.toString(), theirs!.text.toString());
      assert.equal(ours!.signature, theirs!.signature);
    }
  }
  assert.equal(await reader.find(Buffer.alloc(64, 1)), null);
  assert.equal(await reader.transaction({ slot: some[2]!, index: 1_000 }), null);
  const middle = Math.floor((from + to) / 2);
  const bounds: Partial<AddressQuery>[] = [
    ...[{}, { above: { slot: middle, index: 2 } }, { below: { slot: middle, index: 2 } }],
    ...[{ above: { slot: middle, index: -1 } }, { below: { slot: middle, index: Number.POSITIVE_INFINITY } }],
    { above: { slot: middle, index: Number.POSITIVE_INFINITY }, below: { slot: to, index: -1 } },
  ];
  for (const address of [...ADDRESSES.slice(0, 2), ADDRESSES.at(-1)!, Buffer.alloc(32, 9)])
    for (const reasons of ['keys', 'changed', 'all'] as const)
      for (const order of ['newest', 'oldest'] as const)
        for (const bound of bounds) {
          const query = { address, reasons, order, limit: 7, ...bound };
          const [ours, theirs] = [await reader.addressPage(query), await ledger.addressPage(query)];
          assert.deepEqual(ours!.rows, theirs!.rows, JSON.stringify({ ...query, address: address[0] }));
          assert.equal(ours!.hasMore, theirs!.hasMore);
        }
}

/** Rows of a table, each once; and how many of them are there more than once. */
export async function countOf(engine: ArchiveEngine, table: string, key: string): Promise<number> {
  const [row] = await engine.select<{ n: string }>(`SELECT uniqExact(${key}) AS n FROM ${engine.database}.${table}`);
  return Number(row!.n);
}
