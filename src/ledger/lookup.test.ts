import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { blockOf, entryOf, sampleMessage } from '../../test/helpers/rpc-block.ts';
import { createSfc32 } from '../../test/helpers/sfc32.ts';
import { decode32, encode32 } from '../lib/base58.ts';
import { codeOf } from '../lib/coded-error.ts';
import type { ChainBlock } from '../ports/block.ts';
import type { AddressPage, AddressQuery, AddressRow, LedgerReader } from '../ports/ledger.ts';
import { createMetricsRegistry } from '../runtime/metrics.ts';
import { decodeBlock } from '../solana/decode/decode-block.ts';
import { scanBlockAnswer } from '../solana/decode/scan-block.ts';
import { memoOf } from '../solana/memo.ts';
import { createLedgerMeter, createLedgerReader, type Ledger, openLedger } from './index.ts';
import type { IndexMode } from './lookup/index.ts';

const FLUSH_BLOCKS = 4;

function setUp(t: TestContext) {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-ledger-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const [clock, log] = [createManualClock(), createMemoryLog()];
  const opened: Ledger[] = [];
  t.after(async () => {
    for (const ledger of opened) await ledger.close();
  });
  const open = async (options: { readonly index?: IndexMode } = {}) => {
    const ledger = await openLedger({
      dir,
      chain: 'main',
      clock,
      log,
      retainHours: 24,
      retainBytes: 1_000_000_000,
      flushBlocks: FLUSH_BLOCKS,
      meter: createLedgerMeter(createMetricsRegistry().scope('ledger')),
      ...options,
    });
    opened.push(ledger);
    return ledger;
  };
  const reader = (index: IndexMode = 'window') =>
    createLedgerReader({ dir, chain: 'main', clock, log, index, damaged: () => undefined });
  return { dir, open, reader };
}

const keyOf = (number: number) => encode32(Buffer.alloc(32, `key ${number} `));

/** A block of random transactions of few keys, some of which own token accounts. */
function drawnBlock(draw: { float(): number }, slot: number, parent: number, branch: string, keys: number): ChainBlock {
  const some = (count: number) => Math.floor(draw.float() * count);
  const entries = Array.from({ length: 1 + some(4) }, (_, at) => {
    const owner = () => keyOf(some(keys));
    const balance = (accountIndex: number, amount: number, of: string) => ({
      accountIndex,
      mint: keyOf(0),
      owner: of,
      programId: 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA',
      uiTokenAmount: {
        uiAmount: amount === 0 ? null : amount,
        decimals: 0,
        amount: `${amount}`,
        uiAmountString: `${amount}`,
      },
    });
    const drawn = [...new Set([1 + some(keys), 1 + some(keys), 1 + some(keys)])];
    const loaded = draw.float() < 0.3 ? [keyOf(1 + some(keys))] : [];
    const message = sampleMessage({
      version: 0,
      header: [1, 0, 1],
      keys: [Buffer.alloc(32, 'payer'), ...drawn.map((each) => decode32(keyOf(each))!), Buffer.alloc(32, 'program')],
      lookups:
        loaded.length === 0
          ? []
          : [{ table: Buffer.alloc(32, 'table'), writable: Uint8Array.of(4), readonly: new Uint8Array() }],
      instructions: [{ program: drawn.length + 1, accounts: Uint8Array.of(0), data: Uint8Array.of(1) }],
    });
    const of = owner();
    return entryOf({
      message,
      loaded: { writable: loaded, readonly: [] },
      signatures: [Buffer.alloc(64, `${branch} ${slot} ${at} `)],
      meta: {
        err: draw.float() < 0.2 ? { InstructionError: [0, { Custom: some(9) }] } : null,
        preTokenBalances: draw.float() < 0.5 ? [balance(0, 1, of)] : [],
        postTokenBalances: draw.float() < 0.5 ? [balance(0, some(3), of)] : [],
      },
    });
  });
  const result = {
    ...blockOf(entries, slot),
    blockhash: encode32(Buffer.alloc(32, `${branch} ${slot} `)),
    parentSlot: parent,
    rewards: [],
  };
  return decodeBlock(slot, scanBlockAnswer(Buffer.from(JSON.stringify({ jsonrpc: '2.0', result, id: 1 })))!);
}

/** The page by reading all transactions. */
function expected(
  blocks: Iterable<ChainBlock>,
  query: AddressQuery,
  page: AddressPage,
  finalSlot: number,
): AddressRow[] {
  const rows: AddressRow[] = [];
  for (const block of [...blocks].sort((a, b) => a.slot - b.slot)) {
    const { slot, blockTime, keys } = block;
    const id = keys.find(query.address);
    if (id < 0 || slot < page.from || slot > page.to) continue;
    for (const tx of block.transactions) {
      const { index, signature } = tx;
      const at = tx.keys.indexOf(id);
      const amounts = (list: typeof tx.preTokenBalances) =>
        list.filter(({ ownerKey }) => ownerKey === id).map(({ amount }) => amount);
      const isOwner = tx.tokenOwners.includes(id);
      const hasChanged = (amounts(tx.preTokenBalances)[0] ?? '0') !== (amounts(tx.postTokenBalances)[0] ?? '0');
      const key = at < 0 ? null : at < tx.staticKeyCount ? 'static' : 'loaded';
      const owner =
        !isOwner || query.reasons === 'keys' || (query.reasons === 'changed' && !hasChanged)
          ? null
          : hasChanged
            ? 'changed'
            : 'unchanged';
      const isIn = (bound: AddressQuery['above'], sign: number) =>
        bound === undefined || sign * (slot - bound.slot || index - bound.index) > 0;
      if ((key !== null || owner !== null) && isIn(query.above, 1) && isIn(query.below, -1))
        rows.push({
          slot,
          index,
          signature,
          blockTime,
          isFinal: slot <= finalSlot,
          key,
          owner,
          err: tx.error,
          memo: memoOf(tx, keys),
        });
    }
  }
  return query.order === 'newest' ? rows.reverse() : rows;
}

async function assertPages(
  ledger: LedgerReader,
  truth: ReadonlyMap<number, ChainBlock>,
  draw: { float(): number },
  keys: number,
) {
  await ledger.refresh();
  const slots = [...truth.keys()];
  const place = () => ({
    slot: slots[Math.floor(draw.float() * slots.length)] ?? 0,
    index: Math.floor(draw.float() * 4) - 1,
  });
  for (let tries = 0; tries < 3; tries++) {
    const query: AddressQuery = {
      address: decode32(keyOf(Math.floor(draw.float() * (keys + 1))))!,
      reasons: (['keys', 'changed', 'all'] as const)[Math.floor(draw.float() * 3)]!,
      order: draw.float() < 0.5 ? 'newest' : 'oldest',
      limit: 1 + Math.floor(draw.float() * 8),
      ...(draw.float() < 0.4 ? { above: place() } : {}),
      ...(draw.float() < 0.4 ? { below: place() } : {}),
    };
    const page = (await ledger.addressPage(query))!;
    const all = expected(truth.values(), query, page, ledger.finalSlot);
    assert.deepEqual(page.rows, all.slice(0, query.limit), JSON.stringify(query));
    assert.equal(page.hasMore, all.length > query.limit);
  }
}

test('pages and signatures equal a walk through all blocks, over forks, runs, restarts and readers', async (t) => {
  const seed = Math.floor(Math.random() * 2 ** 32);
  t.diagnostic(`seed ${seed}`);
  const draw = createSfc32(seed);
  const { dir, open, reader } = setUp(t);
  const keys = 12;
  const truth = new Map<number, ChainBlock>();
  let ledger = await open();
  const other = reader();
  let [top, final, branch] = [1_000, -1, 0];
  for (let turn = 0; turn < 160; turn++) {
    const dice = draw.float();
    if (dice < 0.62) {
      const slot = top + 1 + Math.floor(draw.float() * 3);
      const made = drawnBlock(draw, slot, top, `b${branch}`, keys);
      await ledger.append(made);
      truth.set(slot, made);
      top = slot;
    } else if (dice < 0.72) {
      const to = Math.max(final, top - Math.floor(draw.float() * 31), 1_000);
      await ledger.cut(to);
      for (const slot of [...truth.keys()]) if (slot > to) truth.delete(slot);
      top = Math.max(to, ...truth.keys());
      branch += 1;
    } else if (dice < 0.9) {
      final = Math.max(final, top - Math.floor(draw.float() * 40));
      await ledger.finalize(final);
    } else if (dice < 0.93) {
      await ledger.close();
      ledger = await open();
    }
    if (truth.size === 0) continue;
    await assertPages(ledger, truth, draw, keys);
    if (turn % 5 === 0) await assertPages(other, truth, draw, keys);
    const some = [...truth.values()][Math.floor(draw.float() * truth.size)]!;
    const tx = some.transactions[Math.floor(draw.float() * some.transactions.length)]!;
    for (const each of [ledger, other])
      assert.deepEqual(await each.find(tx.signatures[0]!), { slot: some.slot, index: tx.index });
  }
  const page = (await ledger.addressPage({
    address: decode32(keyOf(1))!,
    reasons: 'keys',
    order: 'newest',
    limit: 1,
  }))!;
  assert.equal(page.to, Math.max(...truth.keys()));
  // Complete from the first block of the run on: nothing was lost on the way.
  assert.equal(page.from, ledger.firstOfRun());
  assert.ok(readdirSync(dir).some((name) => name.endsWith('.run')));
});

test('an index that is new, damaged or half written is made from the blocks', async (t) => {
  const draw = createSfc32(7);
  const { dir, open } = setUp(t);
  const truth = new Map<number, ChainBlock>();
  const without = await open({ index: 'none' });
  for (let slot = 1; slot <= 40; slot++) {
    const made = drawnBlock(draw, slot, slot - 1, 'a', 8);
    truth.set(slot, made);
    await without.append(made);
  }
  await without.finalize(35);
  const query = { address: decode32(keyOf(3))!, reasons: 'all', order: 'newest', limit: 5 } as const;
  assert.equal(await without.addressPage(query), null);
  assert.deepEqual(await without.find(truth.get(9)!.transactions[0]!.signatures[0]!), { slot: 9, index: 0 });
  await without.close();
  const first = await open();
  await assertPages(first, truth, draw, 8);
  await first.close();
  const runs = () => readdirSync(dir).filter((name) => name.endsWith('.run'));
  assert.ok(runs().length > 0);
  writeFileSync(join(dir, '0000000099.run.tmp'), 'half');
  for (const name of runs()) {
    const path = join(dir, name);
    const whole = readFileSync(path);
    for (let at = 0; at < whole.length; at += 611) {
      const broken = Buffer.from(whole);
      broken[at] = broken[at]! ^ (1 << (at % 8));
      writeFileSync(path, broken);
      const again = await open();
      // Either an error, after which it is made again, or the truth.
      for (let tries = 0; ; tries++)
        try {
          await assertPages(again, truth, draw, 8);
          break;
        } catch (error) {
          if (codeOf(error) !== 'LEDGER_DAMAGED' || tries > 20) throw error;
        }
      await again.close();
      writeFileSync(path, whole);
    }
  }
  assert.ok(!readdirSync(dir).includes('0000000099.run.tmp'));
});

test('an index of signatures alone finds every transaction and says nothing of addresses; one with addresses never takes it for its own', async (t) => {
  const draw = createSfc32(Math.floor(Math.random() * 2 ** 32));
  const { dir, open, reader } = setUp(t);
  const truth = new Map<number, ChainBlock>();
  const query = { address: decode32(keyOf(3))!, reasons: 'all', order: 'newest', limit: 5 } as const;
  const runs = () => readdirSync(dir).filter((name) => name.endsWith('.run'));
  let slot = 1;
  for (const index of ['followed', 'window', 'followed', 'none', 'window'] as const) {
    const ledger = await open({ index });
    for (const end = slot + 15; slot < end; slot++) {
      const made = drawnBlock(draw, slot, slot - 1, 'a', 8);
      truth.set(slot, made);
      await ledger.append(made);
    }
    await ledger.finalize(slot - 3);
    const own = index === 'none' ? null : reader(index);
    for (const each of own === null ? [ledger] : [ledger, own]) {
      for (const { slot: at, transactions } of truth.values())
        for (const tx of transactions)
          assert.deepEqual(await each.find(tx.signatures[0]!), { slot: at, index: tx.index });
      if (index === 'window') await assertPages(each, truth, draw, 8);
      else assert.equal(await each.addressPage(query), null);
    }
    await ledger.close();
    if (index !== 'none') assert.ok(runs().length > 0);
    if (index !== 'none') assert.ok(runs().every((name) => name.includes('signatures') === (index === 'followed')));
  }
});

test('addresses that nearly every transaction has are left out', async (t) => {
  const { open } = setUp(t);
  const ledger = await open();
  await ledger.append(drawnBlock(createSfc32(1), 1, 0, 'a', 3));
  const page = (address: string) =>
    ledger.addressPage({ address: decode32(address)!, reasons: 'keys', order: 'newest', limit: 1 });
  assert.equal(await page('11111111111111111111111111111111'), null);
  assert.equal(await page('Vote111111111111111111111111111111111111111'), null);
  assert.deepEqual(await page(keyOf(77)), { rows: [], hasMore: false, from: 1, to: 1, inVotes: false });
});

test('a withdrawal from a vote account in a versioned message has rows of its own; a vote marks its accounts', async (t) => {
  const { open } = setUp(t);
  const ledger = await open();
  const vote = decode32('Vote111111111111111111111111111111111111111')!;
  const transaction = (version: 'legacy' | 0, account: number, fill: number) =>
    entryOf({
      message: sampleMessage({
        version,
        keys: [Buffer.alloc(32, 'payer'), decode32(keyOf(account))!, vote],
        instructions: [{ program: 2, accounts: Uint8Array.of(1), data: Uint8Array.of(3, 0, 0, 0) }],
      }),
      signatures: [new Uint8Array(64).fill(fill)],
    });
  const result = { ...blockOf([transaction('legacy', 1, 1), transaction(0, 2, 2)], 1), parentSlot: 0, rewards: [] };
  const answer = Buffer.from(JSON.stringify({ jsonrpc: '2.0', result, id: 1 }));
  await ledger.append(decodeBlock(1, scanBlockAnswer(answer)!));
  const page = async (account: number) =>
    (await ledger.addressPage({ address: decode32(keyOf(account))!, reasons: 'all', order: 'newest', limit: 5 }))!;
  const [voter, paid] = [await page(1), await page(2)];
  assert.deepEqual([voter.rows.length, voter.inVotes], [0, true]);
  assert.deepEqual([paid.rows.map(({ index }) => index), paid.inVotes], [[1], false]);
});
