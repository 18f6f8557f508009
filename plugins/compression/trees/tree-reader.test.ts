import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { decode32, encode32 } from '../../../src/lib/base58.ts';
import { type ChainReader, CodedError } from '../../../src/plugin/plugin.ts';
import { listFixtures, readFixture, skipWithoutFixtures } from '../../../test/helpers/fixtures.ts';
import { createManualClock } from '../../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../../test/helpers/memory-log.ts';
import { createTreeReader, createTreeSource } from './tree-reader.ts';

const PROGRAM = 'compr6CUsB5m2jS4Y3831ztGSTnDpnKJTKS95d64XVq';
const SLOT = 77;

interface Recorded {
  readonly pubkey: string;
  readonly account: { readonly data: readonly [string, string]; readonly owner: string };
}
type Config = { readonly dataSlice: { offset: number; length: number }; readonly minContextSlot?: number };

const recorded = (): Recorded[] =>
  listFixtures('compression/accounts').map((path) => JSON.parse(gunzipSync(readFixture(path)).toString()) as Recorded);

/** A node with some accounts that fails its first calls. */
function bedWith(accounts: readonly Recorded[], failures = 0) {
  const calls: { readonly method: string; readonly config: Config }[] = [];
  const chain = {
    async call(method: string, [key, config]: [string, Config]) {
      calls.push({ method, config });
      if (calls.length <= failures)
        throw new CodedError('CHAIN_RPC_ERROR', 'Minimum context slot has not been reached');
      const { offset, length } = config.dataSlice;
      const cut = ({ account }: Recorded) => ({
        owner: account.owner,
        data: [
          Buffer.from(account.data[0], 'base64')
            .subarray(offset, offset + length)
            .toString('base64'),
          'base64',
        ],
      });
      if (method === 'getProgramAccounts') return accounts.map((one) => ({ pubkey: one.pubkey, account: cut(one) }));
      const found = accounts.find(({ pubkey }) => pubkey === key);
      return { context: { slot: SLOT }, value: found === undefined ? null : cut(found) };
    },
  } as unknown as ChainReader;
  const clock = createManualClock();
  const log = createMemoryLog();
  const reader = createTreeReader(chain, { programId: PROGRAM }, 'confirmed');
  const stop = new AbortController();
  const source = createTreeSource({ reader, clock, log, signal: stop.signal });
  const lookUp = (key: string) => source.lookUp(decode32(key)!, SLOT);
  return { calls, clock, log, reader, lookUp, stop };
}

const withRecordings = { skip: skipWithoutFixtures };

test('a tree is described by its account, read at the slot of the block', withRecordings, async () => {
  const { lookUp, calls } = bedWith(recorded());
  const tree = await lookUp('bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU');
  assert.ok(!('foreign' in tree));
  const { type, height, rootCapacity, queue } = tree;
  assert.deepEqual({ type, height, rootCapacity }, { type: 3, height: 32, rootCapacity: 200 });
  assert.equal(encode32(queue ?? new Uint8Array(32)), 'oq1na8gojfdUhsfCpyjNt6h4JaDWtHf1yQj4koBWfto');
  assert.ok(calls.every(({ config }) => config.minContextSlot === SLOT));
});

test('a queue leads to its tree, and an address tree of V2 is its own', withRecordings, async () => {
  const { lookUp } = bedWith(recorded());
  const tree = await lookUp('oq1na8gojfdUhsfCpyjNt6h4JaDWtHf1yQj4koBWfto');
  assert.ok(!('foreign' in tree));
  assert.equal(encode32(tree.key), 'bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU');
  const own = await lookUp('amt2kaJA14v3urZbZvnc5v2np8jqvc4Z8zDep5wbtzx');
  assert.ok(!('foreign' in own));
  assert.deepEqual(own.queue, own.key);
});

test('missing accounts and those of another program or group are foreign', withRecordings, async () => {
  const [first] = recorded().filter(({ pubkey }) => pubkey.startsWith('smt1')) as [Recorded];
  const data = Buffer.from(first.account.data[0], 'base64');
  data.writeUInt8((data[20] ?? 0) ^ 1, 20);
  const other: Recorded = { ...first, account: { ...first.account, data: [data.toString('base64'), 'base64'] } };
  const elsewhere: Recorded = { ...first, account: { ...first.account, owner: '11111111111111111111111111111111' } };
  for (const [accounts, reason] of [
    [[], /the account does not exist/],
    [[elsewhere], /its program is 1111/],
    [[other], /it belongs to /],
  ] as const) {
    const found = await bedWith(accounts).lookUp(first.pubkey);
    assert.ok('foreign' in found);
    assert.match(found.foreign, reason);
    assert.deepEqual(
      await bedWith(accounts).reader.all(),
      accounts[0] === elsewhere ? await bedWith([first]).reader.all() : [],
    );
  }
});

test('an unreadable account is requested five times, and then the block waits', withRecordings, async () => {
  const bed = bedWith(recorded(), 4);
  const looking = bed.lookUp('smt1NamzXdq4AMqS2fS2F1i5KTYPZRhoHgWx38d8WsT');
  for (const [index, pauseMs] of [500, 1_000, 2_000, 4_000].entries()) {
    await bed.clock.advance(pauseMs - 1);
    assert.equal(bed.calls.length, index + 1);
    await bed.clock.advance(1);
  }
  assert.ok(!('foreign' in (await looking)));
  const silent = bedWith([], 100);
  const refused = assert.rejects(silent.lookUp('smt1NamzXdq4AMqS2fS2F1i5KTYPZRhoHgWx38d8WsT'), {
    code: 'COMPRESSION_TREE_UNREADABLE',
  });
  await silent.clock.advance(60_000);
  await refused;
  assert.equal(silent.calls.length, 5);
});

test('a stop does not wait', async () => {
  const bed = bedWith([], 100);
  const looking = bed.lookUp('smt1NamzXdq4AMqS2fS2F1i5KTYPZRhoHgWx38d8WsT');
  const refused = assert.rejects(looking, /over/);
  await bed.clock.advance(100);
  bed.stop.abort(new Error('over'));
  await refused;
});

test('without an upstream the error names the setting', async () => {
  const parts = { reader: null, clock: createManualClock(), log: createMemoryLog() };
  const source = createTreeSource({ ...parts, signal: new AbortController().signal });
  await assert.rejects(source.lookUp(new Uint8Array(32), 1), {
    code: 'COMPRESSION_TREE_UNDECLARED',
    message: /compression\.trees/,
  });
});
