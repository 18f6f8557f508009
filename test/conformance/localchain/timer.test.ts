import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Keypair, SystemProgram } from '@solana/web3.js';
import { WebSocket } from 'ws';
import type { LocalChainOptions } from '../../../packages/local-chain/index.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { until } from '../../helpers/until.ts';

interface Message {
  readonly id?: number;
  readonly result?: unknown;
  readonly error?: { readonly code: number };
  readonly params?: { readonly subscription: number; readonly result: never };
}

/** A bare client: what it hears, and how it ended. */
async function listen({ wsUrl }: TestChain) {
  const socket = new WebSocket(wsUrl);
  const heard: Message[] = [];
  const ends: string[] = [];
  socket.on('message', (data) => heard.push(JSON.parse(String(data)) as Message));
  socket.on('error', (error) => ends.push(error.message));
  socket.on('close', (code) => ends.push(`close ${code}`));
  await new Promise((resolve) => socket.once('open', resolve));
  const until = async <T>(find: () => T | undefined): Promise<T> => {
    for (let round = 0; round < 2_000; round += 1) {
      const found = find();
      if (found !== undefined) return found;
      await sleep(5);
    }
    throw new Error(`waited in vain; heard ${JSON.stringify(heard.slice(-5))}`);
  };
  let id = 0;
  return {
    heard,
    ends,
    until,
    socket,
    async call(method: string, ...params: unknown[]): Promise<Message> {
      const own = ++id;
      socket.send(JSON.stringify({ jsonrpc: '2.0', id: own, method, params }));
      return until(() => heard.find((item) => item.id === own));
    },
    results: <T>(subscription: unknown): T[] =>
      heard.flatMap(({ params }) =>
        params !== undefined && params.subscription === subscription ? [params.result as T] : [],
      ),
  };
}

suite('slots by the clock, and what a socket tells of them', { skip: (await chainMissing()) ?? false }, () => {
  /** Slots that have a block among the first `count`. */
  async function produced(options: LocalChainOptions, count: number): Promise<number[]> {
    const chain = await startChain({ slotMs: 5, ...options });
    try {
      await until(async () => (await chain.connection.getSlot('processed')) > 1000 + count);
      return (await chain.connection.getBlocks(1000, 1000 + count)).filter((slot) => slot <= 1000 + count);
    } finally {
      await chain.stop();
    }
  }

  test('every slot has a linked block; the chance that leaves some out comes from the seed', async () => {
    const all = await produced({}, 30);
    assert.deepEqual(
      all,
      Array.from({ length: 31 }, (_, index) => 1000 + index),
    );
    const skipEvery = { rate: 0.4, seed: 7 };
    const some = await produced({ skipEvery }, 60);
    assert.ok(some.length > 20 && some.length < 55, `${some.length} blocks`);
    assert.deepEqual(await produced({ skipEvery }, 60), some);
    assert.notDeepEqual(await produced({ skipEvery: { rate: 0.4, seed: 8 } }, 60), some);
  });

  test('a transaction waits for its slot to end, and no slot with one is left out', async (t) => {
    const chain = await startChain({ slotMs: 20, skipEvery: { rate: 1, seed: 1 } });
    t.after(() => chain.stop());
    const { connection } = chain;
    const address = Keypair.generate().publicKey;
    const first = await connection.getSlot('confirmed');
    assert.equal(first, 1000, 'every slot without a transaction is left out');
    const signature = await chain.fund(address.toBase58(), 1_000_000);
    const landed = await until(() => connection.getTransaction(signature));
    assert.equal(await connection.getSlot('confirmed'), landed.slot);
    const block = (await connection.getBlockSignatures(landed.slot, 'confirmed')) as { parentSlot?: number };
    assert.equal(block.parentSlot, 1000);
  });

  test('slot updates come in the order of a slot’s life', async (t) => {
    const chain = await startChain();
    t.after(() => chain.stop());
    const client = await listen(chain);
    const { result } = await client.call('slotsUpdatesSubscribe');
    const slot = await chain.seal(40);
    const updates = () => client.results<{ type: string; slot: number; parent?: number; stats?: object }>(result);
    await client.until(() => updates().find((one) => one.type === 'optimisticConfirmation' && one.slot === slot));
    const types = (of: number) => updates().flatMap((one) => (one.slot === of ? [one.type] : []));
    const early = ['createdBank', 'frozen', 'completed', 'optimisticConfirmation'];
    assert.deepEqual(types(slot), early);
    assert.deepEqual(types(slot - 32), [...early, 'root']);
    const created = updates().find((one) => one.type === 'createdBank' && one.slot === slot);
    assert.equal(created?.parent, slot - 1);
    assert.equal((await client.call('slotsUpdatesUnsubscribe', result)).result, true);
    client.socket.close();
  });

  test('a program’s accounts, by filters, at their commitment', async (t) => {
    const chain = await startChain();
    t.after(() => chain.stop());
    const client = await listen(chain);
    const program = Keypair.generate().publicKey.toBase58();
    const config = { commitment: 'confirmed', encoding: 'base64' };
    const all = (await client.call('programSubscribe', SystemProgram.programId.toBase58(), config)).result;
    const few = (
      await client.call('programSubscribe', program, {
        ...config,
        filters: [{ dataSize: 4 }, { memcmp: { offset: 1, bytes: '3' } }],
      })
    ).result;
    const address = Keypair.generate().publicKey.toBase58();
    await chain.fund(address, 2_000_000);
    type Told = { context: { slot: number }; value: { pubkey: string; account: { lamports: number; data: unknown } } };
    const paid = await client.until(() => client.results<Told>(all).find(({ value }) => value.pubkey === address));
    assert.equal(paid.value.account.lamports, 2_000_000);
    assert.equal(paid.context.slot, await chain.connection.getSlot('confirmed'));
    const put = async (data: number[]) => {
      const key = Keypair.generate().publicKey.toBase58();
      await chain.setAccount(key, { lamports: 1_000_000, data: Uint8Array.from(data), owner: program });
      return key;
    };
    await put([9, 1, 9, 9]);
    await put([9, 2, 9]);
    const right = await put([9, 2, 9, 9]);
    await client.until(() => client.results<Told>(few)[0]);
    assert.deepEqual([...new Set(client.results<Told>(few).map(({ value }) => value.pubkey))], [right]);
    assert.equal((await client.call('programSubscribe', 'no key')).error?.code, -32602);
    assert.equal((await client.call('programUnsubscribe', few)).result, true);
    client.socket.close();
  });

  test('half a frame swallows what follows until it is full, then breaks the socket', async (t) => {
    const chain = await startChain();
    t.after(() => chain.stop());
    const client = await listen(chain);
    const { result } = await client.call('slotSubscribe');
    chain.faults.set([{ match: { subscription: 'slot' }, action: 'wsHalf', times: 1 }]);
    await chain.seal(100);
    await client.until(() => client.ends[0]);
    assert.deepEqual(client.results(result), []);
    assert.deepEqual(
      chain.faults.log().map(({ action }) => action),
      ['wsHalf'],
    );
  });
});
