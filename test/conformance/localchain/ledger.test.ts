import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { suite, test } from 'node:test';
import { Keypair, LAMPORTS_PER_SOL, SystemProgram, Transaction } from '@solana/web3.js';
import fc from 'fast-check';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';

const SYSTEM = '11111111111111111111111111111111';
const FAUCET = '3eNaXYCQ35HP4JekBK74s6EgaaVUgBySKrBeKWVAbgiZ';
const STRANGER = 'AmpfjJ65EdjzoVAMrP6s5p1RACDzxkctLkgtAZLR9Eyr';

interface Block {
  readonly blockhash: string;
  readonly previousBlockhash: string;
  readonly parentSlot: number;
  readonly blockHeight: number;
  readonly blockTime: number;
  readonly signatures: string[];
}

async function rpc(chain: TestChain, method: string, ...params: unknown[]) {
  const response = await fetch(chain.rpcUrl, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  return (await response.json()) as { result?: never; error?: { code: number; message: string } };
}

async function result<T>(chain: TestChain, method: string, ...params: unknown[]): Promise<T> {
  const answer = await rpc(chain, method, ...params);
  assert.equal(answer.error, undefined, `${method}: ${answer.error?.message}`);
  return answer.result as T;
}

const confirmed = { commitment: 'confirmed' };
const blockAt = (chain: TestChain, slot: number) =>
  result<Block>(chain, 'getBlock', slot, { ...confirmed, transactionDetails: 'signatures' });

async function allBlocks(chain: TestChain): Promise<(Block & { slot: number })[]> {
  const slots = await result<number[]>(chain, 'getBlocks', 0, null, confirmed);
  return Promise.all(slots.map(async (slot) => ({ slot, ...(await blockAt(chain, slot)) })));
}

/** Hash over every account of the system program in the slot under construction. */
async function stateHash(chain: TestChain): Promise<string> {
  const config = { commitment: 'processed', encoding: 'base64' };
  const accounts = await result<unknown[]>(chain, 'getProgramAccounts', SYSTEM, config);
  assert.ok(accounts.length > 0);
  return createHash('sha256').update(JSON.stringify(accounts)).digest('hex');
}

async function assertLinked(chain: TestChain): Promise<void> {
  const blocks = await allBlocks(chain);
  for (const [index, block] of blocks.entries()) {
    const parent = blocks[index - 1];
    if (parent === undefined) continue;
    assert.equal(block.previousBlockhash, parent.blockhash);
    assert.equal(block.parentSlot, parent.slot);
    assert.equal(block.blockHeight, parent.blockHeight + 1);
    assert.ok(block.blockTime >= parent.blockTime);
  }
  const hashes = new Set(blocks.map((block) => block.blockhash));
  assert.equal(hashes.size, blocks.length);
}

type Step =
  | { readonly kind: 'seal' | 'skip'; readonly count: number }
  | { readonly kind: 'pay'; readonly to: number; readonly lamports: number }
  | {
      readonly kind: 'fork';
      readonly depth: number;
      readonly replay: 'all' | 'none' | 'reverse';
      readonly gap: number;
    };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constantFrom('seal' as const, 'skip' as const), count: fc.integer({ min: 1, max: 4 }) }),
  fc.record({
    kind: fc.constant('pay' as const),
    to: fc.integer({ min: 0, max: 5 }),
    lamports: fc.integer({ min: 1_000_000, max: 50_000_000 }),
  }),
  fc.record({
    kind: fc.constant('fork' as const),
    depth: fc.integer({ min: 1, max: 8 }),
    replay: fc.constantFrom('all' as const, 'none' as const, 'reverse' as const),
    gap: fc.integer({ min: 0, max: 2 }),
  }),
);

const wallets = Array.from({ length: 6 }, (_, index) => Keypair.fromSeed(new Uint8Array(32).fill(index + 1)));

async function apply(chain: TestChain, item: Step): Promise<void> {
  if (item.kind === 'seal') await chain.seal(item.count);
  else if (item.kind === 'skip') await chain.skip(item.count);
  else if (item.kind === 'pay') await chain.fund(wallets[item.to]!.publicKey.toString(), item.lamports);
  else {
    const height = (await allBlocks(chain)).length - 1;
    if (height === 0) return;
    const { depth, replay, gap } = item as Extract<Step, { kind: 'fork' }>;
    await chain.fork({ depth: Math.min(depth, height), replay, gap });
  }
}

suite('ledger', { skip: (await chainMissing()) ?? false }, () => {
  test('published vectors of genesis and block hashes', async () => {
    const chain = await startChain();
    assert.equal(chain.genesisHash, '5daJNMtPGd5Hmdgbgx2zcSHkag6Ja2k8U1drnPq5VwLg');
    assert.equal((await blockAt(chain, 1000)).blockhash, 'DPoXWuUvcWgSsos6VRaMzXcEShmTyn18Rqs1JRe8nveD');
    await chain.seal();
    assert.equal((await blockAt(chain, 1001)).blockhash, '8knNmUdEzZWd91dYyMhyjkfoagKEszbDb5TTZLD31H81');
    await chain.fork({ depth: 1, extraBlocks: 0 });
    assert.equal((await blockAt(chain, 1001)).blockhash, '4pVjPvA8sPiYesmxDD67DLsxASCQJJkQG1GQq92w6SdD');
    assert.equal(await result(chain, 'getBalance', FAUCET).then((item) => (item as { value: number }).value), 5e15);
    await chain.stop();
  });

  test('any seals, skips, payments and forks leave a linked chain, the same one in every run', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 14 }), async (steps) => {
        const texts: string[] = [];
        for (let round = 0; round < 2; round += 1) {
          const chain = await startChain();
          for (const item of steps) await apply(chain, item);
          await assertLinked(chain);
          texts.push(JSON.stringify([await allBlocks(chain), await stateHash(chain)]));
          await chain.stop();
        }
        assert.equal(texts[0], texts[1]);
      }),
      { numRuns: 20 },
    );
  });

  test('a fork without replay restores every account; with replay nothing is lost', async () => {
    const chain = await startChain();
    for (const wallet of wallets) await chain.fund(wallet.publicKey.toString(), LAMPORTS_PER_SOL);
    const before = await stateHash(chain);
    const base = await result<number>(chain, 'getSlot', confirmed);
    const fresh = Keypair.generate().publicKey.toString();
    const paid = [await chain.fund(fresh, LAMPORTS_PER_SOL), await chain.fund(fresh, LAMPORTS_PER_SOL)];
    const [first] = wallets;
    const close = new Transaction().add(
      SystemProgram.transfer({
        fromPubkey: first!.publicKey,
        toPubkey: wallets[1]!.publicKey,
        lamports: LAMPORTS_PER_SOL - 5000,
      }),
    );
    paid.push(await chain.connection.sendTransaction(close, [first!]));
    await chain.setAccount(Keypair.generate().publicKey.toString(), {
      lamports: 1_000_000,
      data: new Uint8Array(3),
      owner: SYSTEM,
    });
    const after = await stateHash(chain);
    assert.notEqual(after, before);
    const kept = await chain.fork({ depth: 3, replay: 'all', extraBlocks: 2 });
    assert.deepEqual([kept.commonAncestor, kept.lost], [base, []]);
    assert.deepEqual(
      kept.moved.map((item) => item.signature),
      paid,
    );
    assert.ok(kept.moved.every((item) => item.from !== item.to));
    for (const { signature, to } of kept.moved) {
      assert.equal((await result<{ slot: number }>(chain, 'getTransaction', signature, confirmed)).slot, to);
    }
    const tip = await result<number>(chain, 'getSlot', confirmed);
    const gone = await chain.fork({ depth: kept.added.length, replay: 'none' });
    assert.deepEqual(new Set(gone.lost), new Set(paid));
    assert.equal(await stateHash(chain), before);
    assert.equal(await result(chain, 'getTransaction', paid[0], confirmed), null);
    assert.deepEqual(await result(chain, 'getSignaturesForAddress', fresh, confirmed), []);
    assert.ok((await result<number>(chain, 'getSlot', confirmed)) > tip);
    await chain.stop();
  });

  test('a fork never reaches the finalized block', async () => {
    const chain = await startChain();
    await chain.seal(40);
    await assert.rejects(chain.fork({ depth: 32 }), { code: 'LOCAL_FORK_DEPTH' });
    await assert.rejects(chain.fork({ depth: 0 }), { code: 'LOCAL_FORK_DEPTH' });
    const { commonAncestor } = await chain.fork({ depth: 31, extraBlocks: 0 });
    assert.equal(commonAncestor, 1009);
    await chain.stop();
  });

  test('each commitment sees its own state', async () => {
    const chain = await startChain();
    const key = wallets[0]!.publicKey.toString();
    await chain.fund(key, LAMPORTS_PER_SOL);
    await chain.seal(20);
    await chain.fund(key, LAMPORTS_PER_SOL);
    const balance = async (commitment: string) =>
      (await result<{ value: number }>(chain, 'getBalance', key, { commitment })).value / LAMPORTS_PER_SOL;
    assert.deepEqual([await balance('finalized'), await balance('confirmed')], [0, 2]);
    await chain.seal(12);
    assert.deepEqual([await balance('finalized'), await balance('confirmed')], [1, 2]);
    await chain.seal(20);
    assert.equal(await balance('finalized'), 2);
    await chain.setAccount(key, { lamports: 7 * LAMPORTS_PER_SOL, data: new Uint8Array(0), owner: SYSTEM });
    assert.deepEqual([await balance('finalized'), await balance('processed')], [7, 7]);
    await chain.stop();
  });

  test('errors of slots that have no block', async () => {
    const chain = await startChain();
    await chain.seal(2);
    await chain.skip(3);
    await chain.seal();
    const code = async (method: string, ...params: unknown[]) => (await rpc(chain, method, ...params)).error?.code;
    assert.equal(await code('getBlock', 1004, confirmed), -32007);
    assert.equal(await code('getBlockTime', 1004), -32007);
    assert.equal(await code('getBlock', 1007, confirmed), -32004);
    assert.equal(await code('getBlock', 1006), -32004);
    assert.equal(await code('getBlock', 1006, { commitment: 'processed' }), -32602);
    assert.equal(await code('getSlot', { minContextSlot: 5000 }), -32016);
    assert.deepEqual(await result(chain, 'getBlocks', 1000, 1010, confirmed), [1000, 1001, 1002, 1006]);
    assert.deepEqual(await result(chain, 'getBlocksWithLimit', 1001, 2, confirmed), [1001, 1002]);
    await chain.prune(1002);
    assert.equal(await code('getBlock', 1001, confirmed), -32001);
    assert.equal(await result(chain, 'getFirstAvailableBlock'), 1002);
    await chain.stop();
  });

  test('the form of requests and answers: batch, notification of errors, bare integers', async (t) => {
    const chain = await startChain();
    t.after(() => chain.stop());
    const post = async (body: string, type = 'application/json') => {
      const response = await fetch(chain.rpcUrl, { method: 'POST', headers: { 'content-type': type }, body });
      return { status: response.status, text: await response.text() };
    };
    const code = async (body: string) =>
      (JSON.parse((await post(body)).text) as { error: { code: number } }).error.code;
    assert.equal(await code('{'), -32700);
    // A node sends nothing without a response: an empty batch, and notifications.
    assert.equal((await post('[]')).text, '');
    assert.equal((await post('{"jsonrpc":"2.0","method":"getHealth"}')).text, '');
    // One element that is no call spoils the whole batch.
    assert.equal(await code('[{"jsonrpc":"2.0","id":1,"method":"getSlot"},3]'), -32700);
    assert.equal(await code('{"jsonrpc":"2.0","id":1,"method":"constructor"}'), -32601);
    const item = (id: number, method: string) => ({ jsonrpc: '2.0', id, method });
    const batch = await post(JSON.stringify([item(1, 'getSlot'), {}, item(2, 'nope'), item(3, 'getHealth')]));
    const answers = JSON.parse(batch.text) as { id: number | null; result?: unknown; error?: { code: number } }[];
    assert.deepEqual(
      answers.map(({ id, result: value, error }) => [id, value ?? error?.code]),
      [
        [1, 1000],
        [null, -32600],
        [2, -32601],
        [3, 'ok'],
      ],
    );
    assert.equal((await post('{}', 'text/plain')).status, 415);
    assert.equal((await post(' '.repeat(1024 * 1024 + 1))).status, 413);
    const info = await post(JSON.stringify({ ...item(1, 'getAccountInfo'), params: [FAUCET] }));
    assert.match(info.text, /"rentEpoch":18446744073709551615[,}]/);
    // What is set is exempt from rent, as every account that a node makes.
    const set = { lamports: 5_000_000, owner: FAUCET, data: new Uint8Array(3) };
    await chain.setAccount(STRANGER, set);
    const given = await post(JSON.stringify({ ...item(1, 'getAccountInfo'), params: [STRANGER] }));
    assert.match(given.text, /"rentEpoch":18446744073709551615[,}]/);
    assert.equal(await (await fetch(`${chain.rpcUrl}/health`)).text(), 'ok');
  });
});
