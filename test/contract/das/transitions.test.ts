/** Every event of the table of followed keys in every state: what may come happens, all else changes nothing. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFillJobs, fillFollowed } from '../../../plugins/das/indexing/fill.ts';
import { createDasProcessor } from '../../../plugins/das/indexing/processor.ts';
import { type AssetDb, FILL, migrations } from '../../../plugins/das/indexing/tables.ts';
import { createSystemClock } from '../../../src/adapters/clock.ts';
import { decode32, encode32 } from '../../../src/lib/base58.ts';
import { stateAfter } from '../../../src/lib/transitions.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import type { Store } from '../../../src/ports/store.ts';
import { CORE_PROGRAM } from '../../../src/solana/programs.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { recordedSource } from '../../helpers/das-recorded.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { eachStore } from '../../helpers/store.ts';

const SLOT = 9;
const signal = new AbortController().signal;
const bytesOf = (key: string) => decode32(key) as Uint8Array;
const random = createSfc32(7);
const newKey = () => encode32(random.fill(new Uint8Array(32)));
/** Has three collections: one is not followed, one is being filled, one is ready. */
const AUTHORITY = newKey();
const KEYS = { none: newKey(), filling: newKey(), ready: newKey() };
const STATES = ['none', 'filling', 'ready'] as const;

const text = (value: string) => Buffer.concat([Buffer.of(value.length, 0, 0, 0), Buffer.from(value)]);
const collection = Buffer.concat([Buffer.of(5), bytesOf(AUTHORITY), text('G'), text(''), Buffer.alloc(8)]);
const source = recordedSource({
  name: '',
  accounts: Object.values(KEYS).map((pubkey) => ({
    pubkey,
    slot: SLOT,
    owner: CORE_PROGRAM,
    lamports: 1,
    dataBase64: collection.toString('base64'),
  })),
  transactions: [],
  requests: [],
});

async function createBed(store: Store, isAuthorityFollowed: boolean) {
  await migrate(store, [{ scope: 'das', migrations }]);
  const parts = { store, clock: createSystemClock(), log: createMemoryLog(), isFinal: true, source: () => source };
  const jobs = createFillJobs(parts, { requeue: async () => 0 }, async () => 0);
  const processor = createDasProcessor({ store, source: () => source, fill: async () => undefined });
  const followed = [
    ['collection', bytesOf(KEYS.filling), 'filling', null],
    ['collection', bytesOf(KEYS.ready), 'ready', null],
    ...(isAuthorityFollowed ? [['authority', bytesOf(AUTHORITY), 'filling', null]] : []),
  ];
  await store.write(async (tx) => {
    await tx.insertMany('das_followed', ['kind', 'key', 'state', 'parent'], followed, 'ignore');
    await (tx.db as AssetDb).updateTable('das_state').set({ slot: SLOT }).execute();
  });
  return {
    jobs,
    fill: (kind: 'collection' | 'authority', key: string) => fillFollowed(parts, { kind, key }, signal),
    /** Accounts of the collections are read with the next block. */
    async touch(): Promise<void> {
      const columns = ['address', 'slot', 'asset', 'program', 'data', 'token_owner', 'recheck'];
      const rows = Object.values(KEYS).map((key) => [bytesOf(key), 0, null, 0, new Uint8Array(), null, SLOT]);
      await store.write((tx) => tx.insertMany('das_accounts', columns, rows, 'ignore'));
    },
    async apply(slot: number, parentSlot: number): Promise<void> {
      const keys = { find: () => -1 };
      const block = { slot, parentSlot, blockTime: null, transactions: [], keys } as unknown as ChainBlock;
      await processor.prepare?.(block, 'main');
      await store.write((tx) => processor.apply(tx, block, 'main', { isFinal: true } as never));
    },
    async states() {
      const rows = await (store.read as AssetDb).selectFrom('das_followed').selectAll().execute();
      const of = (key: string) => rows.find((row) => row.kind === 'collection' && encode32(row.key) === key);
      return STATES.map((state) => of(KEYS[state])?.state ?? 'none');
    },
  };
}

type Bed = Awaited<ReturnType<typeof createBed>>;

const OCCURRENCES: Readonly<Record<keyof typeof FILL, (bed: Bed) => Promise<unknown>>> = {
  follow: ({ jobs }) => jobs.follow({ collection: Object.values(KEYS) }),
  async 'follow for its authority'(bed) {
    await bed.touch();
    await bed.apply(SLOT + 1, SLOT);
  },
  'follow with its authority': (bed) => bed.fill('authority', AUTHORITY),
  async filled(bed) {
    for (const key of Object.values(KEYS)) await bed.fill('collection', key);
  },
  'blocks passed over': (bed) => bed.apply(SLOT + 5, SLOT + 4),
  unfollow: ({ jobs }) => jobs.follow({}),
};

eachStore('transitions of followed keys', (engine) => {
  test('happen where the table has them, and nowhere else', async (t) => {
    for (const [event, occur] of Object.entries(OCCURRENCES) as [keyof typeof FILL, (bed: Bed) => Promise<unknown>][]) {
      const bed = await createBed(await engine.store(t), event.includes('authority'));
      assert.deepEqual(await bed.states(), STATES);
      await occur(bed);
      const expected = STATES.map((state) => stateAfter(FILL, event, state) ?? state);
      assert.deepEqual(await bed.states(), expected, event);
    }
  });
});
