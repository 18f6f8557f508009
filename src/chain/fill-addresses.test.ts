import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { AddressEntry, NodeAddressHistory } from '../ports/chain.ts';
import { collectHistory } from './fill-addresses.ts';

const ask = { commitment: 'confirmed', signal: new AbortController().signal } as const;

/** Entries newest first; each upstream orders those of one slot in its own way, and pages as nodes do. */
function fakeHistory(views: readonly (readonly AddressEntry[])[], pick: () => number, pageEntries: number) {
  const seen: { readonly upstream: string; readonly before: string | null; readonly commitment: string }[] = [];
  const history: NodeAddressHistory = {
    async page(_address, { before, limit }, { avoid = [], commitment }) {
      const able = views.map((_, index) => index).filter((index) => !avoid.includes(`upstream-${index}`));
      const index = able[pick() % able.length]!;
      seen.push({ upstream: `upstream-${index}`, before, commitment });
      const view = views[index]!;
      // Like a node: pages below the place of `before` in this node's own order; an unknown signature gives an empty page.
      const at = before === null ? -1 : view.findIndex(({ signature }) => signature === before);
      const entries = before !== null && at < 0 ? [] : view.slice(at + 1, at + 1 + Math.min(limit, pageEntries));
      return { upstream: `upstream-${index}`, entries };
    },
    partialBlock: async () => null,
  };
  return { history, seen };
}

const collect = async (
  history: NodeAddressHistory,
  upstreams: number,
  fromSlot: number,
  toSlot: number,
  most = 10_000,
) => {
  const found = new Map<string, number>();
  const isWhole = await collectHistory(history, upstreams, 'address', { fromSlot, toSlot, most }, ask, found);
  return { isWhole, found };
};

test('nodes that order a slot differently, pages of any size: nothing of the range is missing, nothing comes twice', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 0, maxLength: 60 }),
      fc.integer({ min: 6, max: 20 }),
      fc.array(fc.nat(), { minLength: 1, maxLength: 50 }),
      fc.tuple(fc.nat(60), fc.nat(60)),
      async (perSlot, pageEntries, draws, [a, b]) => {
        const bySlot = perSlot.map((count, index) =>
          Array.from({ length: count }, (_, at) => ({ signature: `${index}-${at}`, slot: 1_000 + index * 3 })),
        );
        const newestFirst = bySlot.toReversed();
        const views = [newestFirst.flat(), newestFirst.flatMap((entries) => entries.toReversed())];
        let turn = 0;
        const { history } = fakeHistory(views, () => draws[turn++ % draws.length]!, pageEntries);
        const [fromSlot, toSlot] = [1_000 + Math.min(a, b) * 3, 1_000 + Math.max(a, b) * 3];
        const { isWhole, found } = await collect(history, 2, fromSlot, toSlot);
        assert.ok(isWhole);
        const expected = bySlot.flat().filter(({ slot }) => slot >= fromSlot && slot <= toSlot);
        assert.deepEqual([...found.keys()].sort(), expected.map(({ signature }) => signature).sort());
      },
    ),
    { numRuns: 200 },
  );
});

test('an empty page is the end only when the other upstream says so too; the commitment is that of the cursor', async () => {
  const all = Array.from({ length: 30 }, (_, index) => ({ signature: `s${index}`, slot: 2_000 - index }));
  // The first upstream has lost everything old.
  const views = [all.slice(0, 10), all];
  const { history, seen } = fakeHistory(views, () => 0, 10);
  const { found } = await collect(history, 2, 1_960, 2_000);
  assert.equal(found.size, 30);
  assert.deepEqual(new Set(seen.map(({ commitment }) => commitment)), new Set(['confirmed']));
  // It went on to the page that is empty everywhere.
  assert.deepEqual(
    seen.slice(-2).map(({ upstream }) => upstream),
    ['upstream-0', 'upstream-1'],
  );
});

test('paging ends below the range and its overlap, not at its edge', async () => {
  const all = Array.from({ length: 2_000 }, (_, index) => ({ signature: `s${index}`, slot: 10_000 - index }));
  const { history, seen } = fakeHistory([all], () => 0, 100);
  const { found } = await collect(history, 1, 9_700, 9_800);
  assert.equal(found.size, 101);
  assert.ok(seen.length < 10);
});

test('the part of a range that the ledger has is not listed again, and nothing is missing below it', async () => {
  const all = Array.from({ length: 400 }, (_, at) => ({ signature: `s${at}`, slot: 10_000 - (at >> 1) }));
  for (const from of [9_990, 9_900, 9_803, 9_802]) {
    const { history, seen } = fakeHistory([all], () => 0, 20);
    const within = (low: number, high: number) => all.filter(({ slot }) => slot >= low && slot <= high);
    const kept = { ...history, kept: async () => ({ from, entries: within(from, 9_995) }) };
    const { found } = await collect(kept, 1, 9_802, 9_995);
    assert.deepEqual(
      [...found.keys()].sort(),
      within(9_802, 9_995)
        .map(({ signature }) => signature)
        .sort(),
    );
    const least = from <= 9_802 ? 0 : Math.ceil(within(9_802, from - 1).length / 20);
    assert.ok(seen.length <= (least === 0 ? 0 : least + 10), `${seen.length} pages from ${from}`);
  }
});

test('too many transactions end it', async () => {
  const all = Array.from({ length: 500 }, (_, index) => ({ signature: `s${index}`, slot: 10_000 - index }));
  const { history } = fakeHistory([all], () => 0, 50);
  assert.equal((await collect(history, 1, 0, 20_000, 120)).isWhole, false);
});
