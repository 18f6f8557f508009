/** A ledger with blocks of many kinds, and what the suites of the archive ask of it. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { createArchiveMeter, startArchiveWriter } from '../../plugins/archive/writer.ts';
import { createStandardAnswers } from '../../plugins/history/standard.ts';
import { createChainHistory } from '../../plugins/wallet/tracking/chain-history.ts';
import { createAddressList } from '../../plugins/wallet/tracking/gather.ts';
import { createSystemClock } from '../../src/adapters/clock.ts';
import { createJoinedHistory, createPastReader } from '../../src/joined-history/index.ts';
import { createLedgerMeter, type Ledger, openLedger } from '../../src/ledger/index.ts';
import { encode32 } from '../../src/lib/base58.ts';
import { OWN_WORK } from '../../src/ports/access.ts';
import type { ChainReader } from '../../src/ports/chain.ts';
import type { AddressQuery, ArchiveEngine, ArchiveReader, PastReader } from '../../src/ports/ledger.ts';
import { createMetricsRegistry } from '../../src/runtime/metrics.ts';
import { decodeBlock } from '../../src/solana/decode/decode-block.ts';
import { scanBlockAnswer } from '../../src/solana/decode/scan-block.ts';
import { CORE_PROGRAM, SYSTEM_PROGRAM } from '../../src/solana/programs.ts';
import { createMemoryLog } from './memory-log.ts';
import { blockOf, entryOf, sampleMessage } from './rpc-block.ts';
import { createSfc32 } from './sfc32.ts';

/** Addresses of the transactions; the last one only owns token accounts. */
const ADDRESSES = Array.from({ length: 8 }, (_, at) => Buffer.alloc(32, 40 + at));
const MEMO = 'MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr';
/** Data of a transfer by the system program. */
const TRANSFER = Buffer.of(2, 0, 0, 0);
/** First byte of a transfer of a Core asset. */
const CORE_TRANSFER = 14;
const VOTE = 'Vote111111111111111111111111111111111111111';

export async function emptyLedger(t: TestContext): Promise<Ledger> {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-archive-'));
  const ledger = await openLedger({
    dir,
    chain: 'main',
    retainHours: 24,
    retainBytes: 1e9,
    clock: createSystemClock(),
    log: createMemoryLog(),
    meter: createLedgerMeter(createMetricsRegistry().scope('ledger')),
  });
  t.after(async () => {
    await ledger.close();
    rmSync(dir, { recursive: true, force: true });
  });
  return ledger;
}

const hash = (slot: number) => encode32(Buffer.from(`a${slot}`.padEnd(32, '.')));

/**
 * Adds final blocks from `from` to `to`; every seventh slot is skipped. A slot has the same block in every ledger. `hasTransfers`: each
 * transaction moves the largest number of lamports there is, and a Core asset.
 */
export async function fill(
  ledger: Ledger,
  from: number,
  to: number,
  { transactions = 6, hasVotes = true, hasTransfers = false } = {},
): Promise<void> {
  const { decode32 } = await import('../../src/lib/base58.ts');
  const [memo, vote, system, core] = [MEMO, VOTE, SYSTEM_PROGRAM, CORE_PROGRAM].map((key) => decode32(key)!) as [
    Buffer,
    Buffer,
    Buffer,
    Buffer,
  ];
  const isBlock = (slot: number) => slot % 7 !== 3;
  for (let slot = from; slot <= to; slot++) {
    if (!isBlock(slot)) continue;
    const random = createSfc32(slot);
    const entries = Array.from({ length: transactions }, (_, index) => {
      const isVote = random.below(4) === 0 && hasVotes;
      const first = random.below(ADDRESSES.length - 1);
      const keys = [
        ADDRESSES[first]!,
        ADDRESSES[(first + 1 + random.below(5)) % (ADDRESSES.length - 1)]!,
        isVote ? vote : memo,
        ...(hasTransfers ? [system, core] : []),
      ];
      const text = { program: 2, accounts: Uint8Array.of(0), data: Buffer.from(`a\\b"\tmemo ü ${slot}`) };
      const transfer = {
        program: 3,
        accounts: Uint8Array.of(0, 1),
        data: Buffer.concat([TRANSFER, Buffer.alloc(8, 255)]),
      };
      const given = { program: 4, accounts: Uint8Array.of(0, 4, 0, 4, 1), data: Buffer.of(CORE_TRANSFER, 0) };
      const fails = random.below(5) === 0;
      const balance = (amount: number) => ({
        accountIndex: 1,
        mint: encode32(Buffer.alloc(32, 5)),
        owner: encode32(ADDRESSES.at(-1)!),
        uiTokenAmount: { amount: String(amount), decimals: 6, uiAmount: null, uiAmountString: '0' },
      });
      return entryOf({
        message: sampleMessage({
          keys,
          instructions: hasTransfers ? [text, transfer, given] : [text],
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
      ...blockOf(entries, slot),
      blockhash: hash(slot),
      previousBlockhash: hash(parent),
      parentSlot: parent,
      blockTime: slot % 5 === 0 ? null : 1_700_000_000 + slot,
      rewards: [],
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
  assert.deepEqual(await reader.states(from, to), ledger.states(from, to));
  for (let slot = from; slot <= to; slot++) {
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
    {},
    { above: { slot: middle, index: 2 } },
    { below: { slot: middle, index: 2 } },
    { above: { slot: middle, index: -1 } },
    { below: { slot: middle, index: Number.POSITIVE_INFINITY } },
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

/** Blocks of `compareOverSeams`: an upstream has all, an archive those of the middle, and the ledger the newest. */
const SEAMS = { first: 1_000, archiveFrom: 1_030, archiveTo: 1_066, ledgerFrom: 1_059, last: 1_090 };

export const fillMiddle = (ledger: Ledger): Promise<void> =>
  fill(ledger, SEAMS.archiveFrom, SEAMS.archiveTo, { hasVotes: false });

/**
 * The ledger holds only the newest blocks and the archive the middle: every answer equals that of the whole chain, and only
 * what is older is asked of the upstream.
 */
export async function compareOverSeams(t: TestContext, archive: ArchiveReader): Promise<void> {
  const [whole, newest] = [await emptyLedger(t), await emptyLedger(t)];
  await fill(whole, SEAMS.first, SEAMS.last, { hasVotes: false });
  await fill(newest, SEAMS.ledgerFrom, SEAMS.last, { hasVotes: false });
  const asked: string[] = [];
  // Below its first block this chain has nothing.
  const upstream = answersOf(
    createPastReader({ ledger: () => whole, archive: () => null }),
    async () => '[]',
    SEAMS.first,
  );
  const ask = async (method: string, params: readonly unknown[]) => {
    asked.push(method);
    return (await upstream(method, params)) ?? '[]';
  };
  const past = createPastReader({ ledger: () => newest, archive: () => archive });
  const ours = answersOf(past, ask, SEAMS.first);
  const address = encode32(ADDRESSES[0]!);
  const listed: { readonly signature: string; readonly slot: number }[] = [];
  for (let slot = SEAMS.first; slot <= whole.finalSlot; slot++) {
    const isKept = slot >= SEAMS.archiveFrom;
    const block = await whole.block(slot);
    const options = { maxSupportedTransactionVersion: 0 };
    for (const [method, params] of [
      ['getBlock', [slot, options]],
      ['getBlockTime', [slot]],
      ...(block?.transactions ?? [])
        .slice(0, 2)
        .map(({ signature }) => ['getTransaction', [signature, options]] as const),
    ] as const) {
      const wanted = isKept ? await upstream(method, params) : null;
      assert.equal(await ours(method, params), wanted, `${method} of slot ${slot}`);
      assert.ok(!isKept || wanted !== null || method === 'getBlockTime' || block === null, `${method} of slot ${slot}`);
    }
    for (const { signature, keys } of block?.transactions ?? [])
      if ([...keys].some((id) => block!.keys.base58(id) === address)) listed.unshift({ signature, slot });
  }
  assert.deepEqual(asked, []);
  assert.deepEqual(
    await ours('getBlocks', [SEAMS.archiveFrom, whole.finalSlot]),
    await upstream('getBlocks', [SEAMS.archiveFrom, whole.finalSlot]),
  );
  const oldest = listed.findIndex(({ slot }) => slot < SEAMS.archiveFrom);
  assert.ok(oldest > 50 && listed.length > oldest + 20);
  for (const limit of [1, 7, 60, 1_000])
    for (let at = 0; at <= oldest; at += 1 + Math.floor(limit / 10)) {
      asked.length = 0;
      const params = [address, { limit, ...(at === 0 ? {} : { before: listed[at - 1]!.signature }) }];
      const answer = await ours('getSignaturesForAddress', params);
      const wanted = await upstream('getSignaturesForAddress', params);
      assert.equal(answer, wanted, `${limit} from ${at}`);
      assert.equal(asked.length > 0, at + limit > oldest, `${limit} from ${at}`);
    }
  await compareLists(past, { address, listed, oldest, ask, upstreamFrom: SEAMS.first });
  await comparePruned(past, { address, listed, oldest, whole });
}

/** An upstream that has less than the archive: lists go on below its first slot, down to where the archive begins. */
async function comparePruned(
  past: PastReader,
  {
    address,
    listed,
    oldest,
    whole,
  }: {
    readonly address: string;
    readonly listed: readonly { readonly signature: string; readonly slot: number }[];
    readonly oldest: number;
    readonly whole: Ledger;
  },
): Promise<void> {
  const options = { commitment: 'finalized', signal: AbortSignal.timeout(60_000) } as const;
  const read = async (from: number, historyFloorSlot: number, isFirst = false) => {
    const kept = listed.filter(({ slot }) => slot >= from);
    const reader = {
      async call(method: string, params: readonly unknown[]) {
        if (method === 'getFirstAvailableBlock') return from;
        if (method === 'getBlock') return { blockHeight: isFirst ? 1 : 1_000 };
        const { before } = params[1] as { readonly before?: string };
        const at = before === undefined ? 0 : kept.findIndex(({ signature }) => signature === before) + 1;
        return at === 0 && before !== undefined ? [] : kept.slice(at, at + 5);
      },
    } as unknown as ChainReader;
    const history = createChainHistory(reader, { concurrency: 2, historyFloorSlot, past });
    const list = createAddressList({
      upstream: history,
      address,
      belowSlot: Number.MAX_SAFE_INTEGER,
      before: null,
      ask: options,
    });
    const found: string[] = [];
    for (let entry = await list.peek(); entry !== null; entry = await list.peek()) found.push(list.take().signature);
    return { found, below: await history.missingBelow(address, options.signal) };
  };
  const all = listed.map(({ signature }) => signature);
  // Within the ledger, in the archive, above everything that was listed: the past of this daemon goes on below it.
  for (const from of [SEAMS.ledgerFrom + 10, SEAMS.ledgerFrom, SEAMS.archiveFrom + 10, whole.finalSlot]) {
    const { found, below } = await read(from, 0);
    assert.deepEqual(found, all.slice(0, oldest), `from ${from}`);
    assert.equal(below, SEAMS.archiveFrom, `from ${from}`);
    assert.equal((await read(from, SEAMS.archiveFrom)).below, null, 'the archive begins where histories begin');
  }
  // What neither has is missing: the archive does not reach the first slot of the upstream.
  const gap = await read(SEAMS.archiveFrom - 1, 0);
  assert.equal(gap.below, SEAMS.archiveFrom - 1);
  assert.equal((await read(SEAMS.archiveFrom - 1, 0, true)).below, null);
}

/** The lists and transactions from which the histories of addresses are made: each once. */
async function compareLists(
  past: PastReader,
  chain: {
    readonly address: string;
    readonly listed: readonly { readonly signature: string; readonly slot: number }[];
    readonly oldest: number;
    readonly ask: (method: string, params: readonly unknown[]) => Promise<string>;
    /** Its first slot. */
    readonly upstreamFrom: number;
  },
): Promise<void> {
  const { address, listed, oldest } = chain;
  const asked: [method: string, what: unknown][] = [];
  const reader = {
    async callText(method: string, params: readonly unknown[]) {
      asked.push([method, params[0]]);
      return await chain.ask(method, params);
    },
    async call(method: string, params: readonly unknown[]) {
      if (method === 'getFirstAvailableBlock') return chain.upstreamFrom;
      asked.push([method, (params[1] as { readonly before?: string }).before ?? null]);
      return JSON.parse(await chain.ask(method, params)) as unknown;
    },
    status: () => ({ finalizedSlot: null }),
  } as unknown as ChainReader;
  const history = createChainHistory(reader, { concurrency: 2, historyFloorSlot: 0, past });
  const ask = { commitment: 'finalized', signal: AbortSignal.timeout(60_000) } as const;
  const list = createAddressList({
    upstream: history,
    address,
    belowSlot: Number.MAX_SAFE_INTEGER,
    before: listed[0]!.signature,
    ask,
  });
  const found: string[] = [];
  for (let entry = await list.peek(); entry !== null; entry = await list.peek()) found.push(list.take().signature);
  assert.deepEqual(
    found,
    listed.slice(1).map(({ signature }) => signature),
  );
  assert.deepEqual(asked[0], ['getSignaturesForAddress', listed[oldest - 1]!.signature]);
  asked.length = 0;
  for (const { signature, slot } of listed.slice(0, oldest + 3)) {
    const one = await history.transaction(signature, ask);
    assert.deepEqual([one!.block.slot, one!.block.transactions[0]!.signature], [slot, signature]);
    assert.equal(one!.place, (await history.order(slot, ask))?.get(signature) ?? one!.place);
  }
  assert.deepEqual(
    asked.filter(([method]) => method === 'getTransaction').map(([, signature]) => signature),
    listed.slice(oldest, oldest + 3).map(({ signature }) => signature),
  );
}

/** The standard methods over a past; null: an upstream has to answer. The upstream is not ahead of it and begins at `first`. */
function answersOf(past: PastReader, ask: (method: string, params: readonly unknown[]) => Promise<string>, first = 0) {
  const chain = {
    async call(method: string, params: readonly unknown[]) {
      if (method === 'getFirstAvailableBlock') return first;
      if (method === 'getSlot') return await past.finalSlot();
      return JSON.parse(await ask(method, params)) as unknown;
    },
    callText: ask,
  } as unknown as ChainReader;
  const answers = createStandardAnswers({
    past: () => past,
    joined: createJoinedHistory({ past, chain, clock: createSystemClock() }),
    finalizedSlot: () => null,
    clock: createSystemClock(),
    log: createMemoryLog(),
    answered: () => undefined,
  });
  return async (method: string, params: readonly unknown[]): Promise<string | null> => {
    const found = await answers.answer({ method, params: () => JSON.stringify(params), tenant: OWN_WORK });
    return found === null ? null : (found as { readonly resultText: string }).resultText;
  };
}

/** Rows of a table, each once; and how many of them are there more than once. */
export async function countOf(engine: ArchiveEngine, table: string, key: string): Promise<number> {
  const [row] = await engine.select<{ n: string }>(`SELECT uniqExact(${key}) AS n FROM ${engine.database}.${table}`);
  return Number(row!.n);
}
