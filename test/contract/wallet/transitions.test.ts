/** Every event of the table of wallets in every state: what may come happens, all else changes nothing. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { followCommands } from '../../../plugins/wallet/operator.ts';
import { RANGE, type RangeEvent, type RangeState, rangeOf } from '../../../plugins/wallet/store/range.ts';
import { migrations, type WalletDb, type WalletRow } from '../../../plugins/wallet/store/tables.ts';
import { dropWallets, readWalletById, registerWallet, unfollowWallets } from '../../../plugins/wallet/store/wallets.ts';
import { backfillWallet } from '../../../plugins/wallet/tracking/backfill.ts';
import type { ChainHistory } from '../../../plugins/wallet/tracking/chain-history.ts';
import { createWalletProcessor } from '../../../plugins/wallet/tracking/processor.ts';
import { createSystemClock, createSystemRandom } from '../../../src/adapters/clock.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import { stateAfter } from '../../../src/lib/transitions.ts';
import type { Store } from '../../../src/ports/store.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { blockOf } from '../../helpers/rpc-block.ts';
import { eachStore } from '../../helpers/store.ts';

/** The newest block, the first one of wallets that are live, and the end of stored ranges that do not touch it. */
const [LIVE_SLOT, LIVE_FROM, HEAD] = [100, 80, 50];
const NOTHING = { floor: null, head: null, live_from: null };
const STORED = { ...NOTHING, floor: 10, head: HEAD, is_complete: 1 };

const STATES: Readonly<Record<RangeState, Partial<WalletRow>>> = {
  dropped: { ...NOTHING, is_followed: 0 },
  left: { ...STORED, is_followed: 0 },
  new: NOTHING,
  live: { ...NOTHING, live_from: LIVE_FROM },
  stored: STORED,
  apart: { ...STORED, live_from: LIVE_FROM },
  joined: { ...STORED, head: LIVE_FROM + 5, live_from: LIVE_FROM },
};

interface Wallet {
  readonly store: Store;
  readonly id: number;
  readonly key: Uint8Array;
}

interface Occurrence {
  /** The events of each step; one of them at most may come in a state. */
  readonly steps: readonly (readonly RangeEvent[])[];
  readonly row?: Partial<Record<RangeState, Partial<WalletRow>>>;
  readonly occur: (wallet: Wallet) => Promise<unknown>;
}

const block =
  (slot: number, parentSlot: number) =>
  async ({ store }: Wallet) => {
    const seen = () => undefined;
    const processor = createWalletProcessor({
      random: createSystemRandom(),
      isFull: false,
      matched: seen,
      merged: seen,
    });
    const made = decodeBlock(slot, { ...blockOf([], slot), parentSlot } as never);
    await store.write((tx) => processor.apply(tx, made, 'main'));
  };

const job =
  (finalSlot: number) =>
  async ({ store, id }: Wallet) => {
    const upstream: Partial<ChainHistory> = {
      slot: async () => finalSlot,
      signatures: async () => [],
      keptBelow: async () => [],
      tokenAccounts: async () => [],
      firstSlot: async () => 0,
    };
    const parts = { store, upstream: upstream as ChainHistory, clock: createSystemClock(), lane: 'lane' };
    const more = { mayContinue: async () => true, kept: () => undefined };
    await backfillWallet({ ...parts, ...more }, id, Number.POSITIVE_INFINITY, new AbortController().signal);
  };

const OCCURRENCES: Readonly<Record<string, Occurrence>> = {
  'a request': {
    steps: [['register']],
    occur: ({ store, key }) => store.write((tx) => registerWallet(tx, { key, address: encode32(key), now: 1 })),
  },
  'a block': { steps: [['block']], occur: block(LIVE_SLOT + 1, LIVE_SLOT) },
  'a block right above what is stored': {
    steps: [['block touches head']],
    row: { stored: { head: LIVE_SLOT } },
    occur: block(LIVE_SLOT + 1, LIVE_SLOT),
  },
  'a block after others that were passed over': {
    steps: [['blocks passed over']],
    occur: block(LIVE_SLOT + 50, LIVE_SLOT + 49),
  },
  'the job, when blocks are final': {
    steps: [['job begins', 'head reaches the blocks', 'head moves']],
    occur: job(LIVE_FROM + 10),
  },
  'the job, while finality is below the blocks': {
    steps: [['job begins below the blocks', 'head moves']],
    occur: job(LIVE_FROM - 10),
  },
  'the command that reads the past again': {
    steps: [['register'], ['start again']],
    async occur({ store, key }) {
      const backfill = followCommands(createSystemClock()).at(-1);
      await backfill?.run({ address: encode32(key), json: true }, { store, json() {}, line() {} } as never);
    },
  },
  'no request for long, with the full index': {
    steps: [['unfollow']],
    occur: ({ store, id }) => store.write((tx) => unfollowWallets(tx, [id])),
  },
  'no request for long': { steps: [['drop']], occur: ({ store, id }) => store.write((tx) => dropWallets(tx, [id], 1)) },
};

eachStore('transitions of wallets', (engine) => {
  test('happen where the table has them, and nowhere else', async (t) => {
    const tried = new Set(Object.values(OCCURRENCES).flatMap(({ steps }) => steps.flat()));
    assert.deepEqual([...tried].sort(), Object.keys(RANGE).sort());
    for (const [what, { steps, row, occur }] of Object.entries(OCCURRENCES)) {
      const store = await engine.store(t);
      await migrate(store, [{ scope: 'wallet', migrations }]);
      const wallets: [RangeState, Wallet][] = [];
      for (const [at, state] of (Object.keys(STATES) as RangeState[]).entries()) {
        const key = new Uint8Array(32).fill(at + 1);
        await store.write(async (tx) => {
          const id = await registerWallet(tx, { key, address: encode32(key), now: 1 });
          const columns = { ...STATES[state], ...row?.[state] };
          await (tx.db as WalletDb).updateTable('wallet_wallets').set(columns).where('id', '=', id).execute();
          await (tx.db as WalletDb).updateTable('wallet_state').set({ live_slot: LIVE_SLOT }).execute();
          wallets.push([state, { store, id, key }]);
        });
      }
      const now = async ({ id }: Wallet) => (await readWalletById(store.read as WalletDb, id)) as WalletRow;
      const before = new Map<RangeState, WalletRow>();
      for (const [, wallet] of wallets) before.set(rangeOf(await now(wallet)), await now(wallet));
      assert.deepEqual([...before.keys()], Object.keys(STATES));
      const isForAll = what.startsWith('a block');
      for (const [, wallet] of isForAll ? wallets.slice(0, 1) : wallets) await occur(wallet);
      for (const [state, wallet] of wallets) {
        let expected: RangeState | null = null;
        for (const events of steps) {
          const may = events.map((event) => stateAfter(RANGE, event, expected ?? state));
          expected = may.find((after) => after !== null) ?? expected;
        }
        const row = await now(wallet);
        assert.equal(rangeOf(row), expected ?? state, `${what}, in ${state}`);
        // Nor do its positions: they would count as soon as it is followed again.
        const positions = ({ floor, head, live_from }: WalletRow) => [floor, head, live_from];
        if (expected === null)
          assert.deepEqual(positions(row), positions(before.get(state) as WalletRow), `${what}, in ${state}`);
      }
    }
  });
});
