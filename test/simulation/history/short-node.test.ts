/** Parts of a list that neither the ledger nor a node has: below the ledger, and between what is final and its first block. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { createChainHistory } from '../../../plugins/wallet/tracking/chain-history.ts';
import { createAddressList } from '../../../plugins/wallet/tracking/gather.ts';
import { createSystemClock } from '../../../src/adapters/clock.ts';
import { createJoinedHistory, createPastReader } from '../../../src/joined-history/index.ts';
import { createLedgerMeter, type Ledger, openLedger } from '../../../src/ledger/index.ts';
import { CodedError } from '../../../src/lib/coded-error.ts';
import { OWN_WORK } from '../../../src/ports/access.ts';
import type { ChainReader } from '../../../src/ports/chain.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { scanBlockAnswer } from '../../../src/solana/decode/scan-block.ts';
import {
  blockJson,
  createBlock,
  type ModelBlock,
  type ModelChain,
  modelAddress,
  NodeError,
  NodeGone,
  type NodeView,
  nodeAnswer,
} from '../../helpers/list-model.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';

/** A chain of 60 blocks, and a ledger with the newest 20 of them. */
async function createBed(t: TestContext, finalAt: number) {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-short-'));
  const ledger: Ledger = await openLedger({
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
  const random = createSfc32(11);
  const blocks: ModelBlock[] = [];
  while (blocks.length < 60) blocks.push(createBlock(random, blocks.at(-1) ?? null, { firstSlot: 1_000 }));
  for (const block of blocks.slice(40)) {
    const answer = Buffer.from(JSON.stringify({ jsonrpc: '2.0', result: blockJson(block), id: 1 }));
    await ledger.append(decodeBlock(block.slot, scanBlockAnswer(answer)!));
  }
  if (finalAt >= 40) await ledger.finalize(blocks[finalAt]!.slot);
  const chain: ModelChain = { blocks, confirmedSlot: blocks.at(-1)!.slot, finalSlot: blocks[finalAt]!.slot };
  const past = createPastReader({ ledger: () => ledger, archive: () => null });
  const reader = (view: NodeView, codeOf = (code: number) => code): ChainReader =>
    ({
      call: async (method: string, params: readonly unknown[]) => answerOf(chain, view, method, params, codeOf),
      callText: async (method: string, params: readonly unknown[]) =>
        JSON.stringify(answerOf(chain, view, method, params, codeOf)),
    }) as unknown as ChainReader;
  return { blocks, chain, past, reader };
}

/** Errors: as those of the pool of upstreams, with the codes of the provider. */
function answerOf(
  chain: ModelChain,
  view: NodeView,
  method: string,
  params: readonly unknown[],
  codeOf = (code: number) => code,
): unknown {
  try {
    return nodeAnswer(chain, view, method, params);
  } catch (error) {
    if (error instanceof NodeGone)
      throw new CodedError('CHAIN_UNREACHABLE', 'no upstream answers', { retryable: true });
    if (!(error instanceof NodeError)) throw error;
    throw new CodedError('CHAIN_RPC_ERROR', error.message, { facts: { method, rpcCode: codeOf(error.code) } });
  }
}

test('a range below the ledger is not cut by a node that has not come so far', async (t) => {
  const { blocks, past, reader } = await createBed(t, 50);
  const query = { limit: Number.MAX_SAFE_INTEGER, commitment: 'finalized', tenant: OWN_WORK } as const;
  const [from, to] = [blocks[10]!.slot, blocks[30]!.slot];
  const ask = async (view: NodeView) =>
    await createJoinedHistory({ past, chain: reader(view), clock: createSystemClock() }).slots({ ...query, from, to });
  assert.equal(await ask({ kind: 'complete' }), null, 'a node that has it answers');
  const short = await ask({ kind: 'behind', slots: blocks[50]!.slot - blocks[20]!.slot });
  assert.equal(short?.end.kind, 'missing');
});

test('a history goes no further down than what is held, while a node without history names its first slot', async (t) => {
  const { blocks, past, reader } = await createBed(t, 35);
  // Providers say it with codes of their own.
  for (const codeOf of [undefined, () => -32_000, () => -32_008]) {
    const chain = reader({ kind: 'no-history' }, codeOf);
    const history = createChainHistory(chain, { concurrency: 2, historyFloorSlot: 0, past });
    const signal = AbortSignal.timeout(30_000);
    // Final is a slot below the ledger: what lies between is held by nobody.
    assert.equal(await history.firstSlot(modelAddress(0), signal), blocks[40]!.parentSlot + 1);
  }
});

test('the time of a block without one is unknown where nobody has the earlier block', async (t) => {
  const { blocks, past, reader } = await createBed(t, 50);
  const first = blocks[40]!.slot;
  const history = createChainHistory(reader({ kind: 'pruned', first }), { concurrency: 2, historyFloorSlot: 0, past });
  const signal = AbortSignal.timeout(30_000);
  for (const [at, { slot }] of blocks.entries()) {
    const known = blocks.slice(40, at + 1).findLast(({ time }) => time !== null);
    if (at >= 40) assert.equal(await history.blockTime(slot, signal), known?.time ?? null, `slot ${slot}`);
  }
});

test('rows that are held are the list where a pruned node does not know the oldest of them', async (t) => {
  const { blocks, past, reader } = await createBed(t, 50);
  const chain = reader({ kind: 'pruned', first: blocks[47]!.slot });
  const joined = createJoinedHistory({ past, chain, clock: createSystemClock() });
  const query = { limit: 1_000, commitment: 'finalized', tenant: OWN_WORK } as const;
  const list = await joined.signatures({
    ...query,
    address: modelAddress(0),
    before: null,
    until: null,
    minContextSlot: null,
  });
  const held = blocks.slice(40, 51).flatMap(({ transactions }) => transactions);
  const wanted = held.filter(({ addresses }) => addresses.includes(0)).map(({ signature }) => signature);
  assert.deepEqual([list?.rows.map(({ signature }) => signature), list?.end.kind], [wanted.toReversed(), 'pruned']);
});

test('a list that ended because no node answered is not complete once a node answers again', async (t) => {
  const { blocks, past, reader } = await createBed(t, 50);
  const kinds: NodeView[] = [{ kind: 'gone' }, { kind: 'no-history' }, { kind: 'pruned', first: blocks[45]!.slot }];
  for (const view of kinds) {
    const now: { view: NodeView } = { view };
    const chain = {
      call: (method: string, params: readonly unknown[]) => reader(now.view).call(method, params, undefined as never),
    } as unknown as ChainReader;
    const history = createChainHistory(chain, { concurrency: 2, historyFloorSlot: 0, past });
    const read = async () => {
      now.view = view;
      const { signal } = new AbortController();
      const ask = { commitment: 'finalized', signal } as const;
      const list = createAddressList({
        upstream: history,
        address: modelAddress(0),
        belowSlot: Number.MAX_SAFE_INTEGER,
        before: null,
        ask,
      });
      let lowest = Number.MAX_SAFE_INTEGER;
      for (let entry = await list.peek(); entry !== null; entry = await list.peek()) lowest = list.take().slot;
      now.view = { kind: 'complete' };
      const [first, missing] = [
        await history.firstSlot(modelAddress(0), signal),
        await history.missingBelow(modelAddress(0), signal),
      ];
      return { lowest, first, missing };
    };
    const { lowest, first, missing } = await read();
    const held = blocks[40]!.parentSlot + 1;
    assert.ok(lowest >= held, `${view.kind}: ${lowest}`);
    assert.deepEqual([first, missing], [held, held], view.kind);
  }
});

test('a node that is behind gives no block the time of its own tip', async (t) => {
  const { blocks, reader } = await createBed(t, 50);
  const at = blocks.findLastIndex(({ time }, index) => time === null && index < 58);
  const wanted = blocks.slice(0, at).findLast(({ time }) => time !== null)!.time;
  const { slot } = blocks[at]!;
  // Another node of the same upstream gives the times.
  const timeBehind = async (tip: number) => {
    const view = { kind: 'behind', slots: blocks.at(-1)!.slot - tip } as const;
    const history = createChainHistory(reader(view), { concurrency: 2, historyFloorSlot: 0 });
    return await history.blockTime(slot, AbortSignal.timeout(30_000));
  };
  assert.deepEqual(
    [await timeBehind(slot), await timeBehind(slot - 1), await timeBehind(slot - 10)],
    [wanted, null, null],
  );
});

test('while nothing that is held is final, a node that lacks what is held cuts no list of final blocks', async (t) => {
  const { blocks, past, reader } = await createBed(t, 35);
  const ask = async (view: NodeView) => {
    const joined = createJoinedHistory({ past, chain: reader(view), clock: createSystemClock() });
    const query = { limit: 1_000, commitment: 'finalized', tenant: OWN_WORK } as const;
    return [
      await joined.signatures({ ...query, address: modelAddress(0), before: null, until: null, minContextSlot: null }),
      await joined.slots({ ...query, from: blocks[10]!.slot, to: blocks[35]!.slot }),
    ];
  };
  assert.deepEqual(await ask({ kind: 'complete' }), [null, null], 'a node that has all answers');
  for (const list of await ask({ kind: 'behind', slots: 9 })) assert.equal(list?.end.kind, 'missing');
});

test('the order of a block that is not final is asked for again: a fork may have put another block into its slot', async (t) => {
  const { blocks, chain } = await createBed(t, 50);
  const now = { chain };
  const reader = {
    status: () => ({ finalizedSlot: now.chain.finalSlot }),
    call: async (method: string, params: readonly unknown[]) =>
      answerOf(now.chain, { kind: 'complete' }, method, params),
  } as unknown as ChainReader;
  const history = createChainHistory(reader, { concurrency: 2, historyFloorSlot: 0 });
  const at = blocks.findLastIndex(({ transactions }) => transactions.length > 1);
  const { slot, transactions } = blocks[at]!;
  const signatures = transactions.map(({ signature }) => signature);
  const order = () => history.order(slot, { commitment: 'confirmed', signal: AbortSignal.timeout(30_000) }, signatures);
  assert.equal((await order())?.get(signatures[0]!), 0);
  const moved = { ...blocks[at]!, transactions: transactions.toReversed() };
  now.chain = { ...chain, blocks: blocks.with(at, moved) };
  assert.equal((await order())?.get(signatures[0]!), signatures.length - 1);
});
