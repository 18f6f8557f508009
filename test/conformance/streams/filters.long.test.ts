/** Filters: what they choose, how they are replaced, and which are refused. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer as createHttp2Server } from 'node:http2';
import { createServer, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { Keypair, SystemProgram, Transaction, TransactionInstruction, VoteProgram } from '@solana/web3.js';
import { encode64 } from '../../../src/lib/base58.ts';
import { chainMissing } from '../../helpers/chain.ts';
import { geyserMissing, startGeyser } from '../../helpers/geyser.ts';
import { until } from '../../helpers/until.ts';
import { signVersion1 } from '../../helpers/version-1.ts';
import { createEconomy } from '../../helpers/wallet-economy.ts';
import { type Json, type StreamBed, startBed, type Updates } from './harness.ts';

const skip = geyserMissing() ?? (await chainMissing()) ?? false;
const address = () => Keypair.generate().publicKey.toBase58();
const labelsBySignature = (updates: Updates, kind = 'transaction') => {
  const found = new Map<string, readonly string[]>();
  for (const update of updates.all) {
    const one = kind === 'transaction' ? update.transaction?.transaction : update.transactionStatus;
    if (one !== undefined) found.set(encode64(one.signature), update.filters.toSorted());
  }
  return found;
};

/** Waits until the updates of everything that happened so far are there. */
async function caughtUp({ chain }: StreamBed, updates: Updates): Promise<void> {
  const slot = await chain.seal();
  while (!updates.all.some(({ slot: one }) => Number(one?.slot) === slot)) await updates.settled();
}

/** Pays more than there is: sent without a check beforehand it lands and fails. */
async function makeFailing({ chain }: StreamBed): Promise<{ readonly signature: string; send(): Promise<string> }> {
  const payer = Keypair.generate();
  await chain.fund(payer.publicKey.toBase58(), 10_000_000);
  const { blockhash } = await chain.connection.getLatestBlockhash();
  const transaction = new Transaction({ feePayer: payer.publicKey, recentBlockhash: blockhash });
  transaction.add(SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: payer.publicKey, lamports: 1e12 }));
  transaction.sign(payer);
  return {
    signature: encode64(transaction.signature as Buffer),
    send: () => chain.connection.sendRawTransaction(transaction.serialize(), { skipPreflight: true }),
  };
}

/** Two transactions of one instruction of the Vote program each, in a legacy message and in one of version 1. Both fail. */
async function sendVoteInstructions({ chain }: StreamBed): Promise<readonly [string, string]> {
  const payer = Keypair.generate();
  await chain.fund(payer.publicKey.toBase58(), 10_000_000);
  const { blockhash } = await chain.connection.getLatestBlockhash();
  const instruction = new TransactionInstruction({
    programId: VoteProgram.programId,
    keys: [{ pubkey: payer.publicKey, isSigner: true, isWritable: true }],
    data: Buffer.alloc(12, 3),
  });
  const legacy = new Transaction({ feePayer: payer.publicKey, recentBlockhash: blockhash }).add(instruction);
  legacy.sign(payer);
  const versioned = await signVersion1(payer, blockhash, [instruction]);
  const send = (wire: Buffer) => chain.connection.sendRawTransaction(wire, { skipPreflight: true });
  return [await send(legacy.serialize()), await send(versioned.wire)];
}

describe('filters', { skip }, () => {
  test('accounts that are included, excluded or required; votes, failures and a signature', async (t) => {
    const bed = await startBed(t);
    const [one, other] = [address(), address()];
    const { signature: failing, send } = await makeFailing(bed);
    const filters = {
      one: { accountInclude: [one] },
      any: { accountInclude: [one, other, address()] },
      not: { accountExclude: [one] },
      both: { accountInclude: [one, other], accountExclude: [other] },
      required: { accountRequired: [one, SystemProgram.programId.toBase58()] },
      never: { accountRequired: [one, other] },
      votes: { vote: true },
      plain: { vote: false },
      failed: { failed: true },
      good: { failed: false, accountInclude: [one] },
      signature: { signature: failing },
    };
    const updates = await bed.subscribe({
      transactions: filters,
      transactionsStatus: filters,
      slots: { s: {} },
      commitment: 1,
    });
    const toOne = await bed.chain.fund(one, 2_000_000);
    const toOther = await bed.chain.fund(other, 3_000_000);
    assert.equal(await send(), failing);
    const [legacyVote, versionedVote] = await sendVoteInstructions(bed);
    await caughtUp(bed, updates);
    for (const kind of ['transaction', 'transactionStatus']) {
      const labels = labelsBySignature(updates, kind);
      assert.deepEqual(labels.get(toOne), ['any', 'both', 'good', 'one', 'plain', 'required']);
      assert.deepEqual(labels.get(toOther), ['any', 'not', 'plain']);
      assert.deepEqual(labels.get(failing), ['failed', 'not', 'plain', 'signature']);
      assert.deepEqual(labels.get(legacyVote), ['failed', 'not', 'votes']);
      assert.deepEqual(labels.get(versionedVote), ['failed', 'not', 'plain']);
    }
    for (const { transaction, transactionStatus } of updates.all) {
      const info = transaction?.transaction ?? transactionStatus;
      if (info !== undefined) assert.equal(info.isVote, encode64(info.signature) === legacyVote);
    }
    updates.close();
  });

  test('token_accounts: owners of token accounts count too, all of them or those whose balance changed', async (t) => {
    const seed = Math.floor(Math.random() * 2 ** 32);
    console.log(`seed ${seed}`);
    const bed = await startBed(t);
    const economy = await createEconomy(bed.chain, seed, 3);
    const filter = (wallet: string, mode?: number) => ({ accountInclude: [wallet], tokenAccounts: mode });
    const transactions = Object.fromEntries(
      economy.wallets.flatMap((wallet) => [
        [`${wallet} plain`, filter(wallet)],
        [`${wallet} all`, filter(wallet, 0)],
        [`${wallet} changed`, filter(wallet, 1)],
      ]),
    );
    const updates = await bed.subscribe({
      transactions: { ...transactions, every: {} },
      slots: { s: {} },
      commitment: 1,
    });
    let byOwner = 0;
    const check = async ({ transaction, filters }: Json): Promise<void> => {
      if (transaction === undefined) return;
      const { signature } = transaction.transaction;
      const theirs: Json = await bed.chain.connection.getParsedTransaction(encode64(signature), {
        commitment: 'confirmed',
        maxSupportedTransactionVersion: 1,
      });
      const keys = theirs.transaction.message.accountKeys.map(({ pubkey }: Json) => pubkey.toBase58());
      const [before, after] = [theirs.meta.preTokenBalances, theirs.meta.postTokenBalances];
      const amountOf = (list: Json[], index: number) =>
        list.find(({ accountIndex }) => accountIndex === index)?.uiTokenAmount.amount;
      const expected = ['every'];
      for (const wallet of economy.wallets) {
        const owned = [...before, ...after].filter(({ owner }: Json) => owner === wallet);
        const changed = owned.filter(({ accountIndex: at }) => amountOf(before, at) !== amountOf(after, at));
        if (keys.includes(wallet)) expected.push(`${wallet} plain`);
        if (keys.includes(wallet) || owned.length > 0) expected.push(`${wallet} all`);
        if (keys.includes(wallet) || changed.length > 0) expected.push(`${wallet} changed`);
        if (!keys.includes(wallet) && owned.length > 0) byOwner += 1;
      }
      assert.deepEqual(filters.toSorted(), expected.toSorted());
    };
    // Not every seed has one among the first.
    for (let done = 0; byOwner === 0 && done < 500; ) {
      await economy.run(15);
      await caughtUp(bed, updates);
      const news = updates.all.slice(done);
      for (const update of news) await check(update);
      done += news.length;
    }
    assert.ok(byOwner > 0, 'some matched by an owner only');
    updates.close();
  });

  test('cuckoo filters of the clients choose what plain lists choose', async (t) => {
    const bed = await startBed(t);
    const wallets = Array.from({ length: 6 }, address);
    const set = new bed.yellowstone.CompressedAccountFilterSet(5_000);
    for (const wallet of wallets.slice(0, 3)) set.insert(wallet);
    for (let i = 0; i < 3_000; i++) set.insert(address());
    const updates = await bed.subscribe({
      transactions: { list: { accountInclude: wallets.slice(0, 3) }, cuckoo: set.toTransactionFilter() },
      blocks: { chosen: { ...set.toBlockFilter(), includeTransactions: true } },
      slots: { s: {} },
      commitment: 1,
    });
    const sent: string[] = [];
    for (const wallet of wallets) sent.push(await bed.chain.fund(wallet, 1_000_000));
    await caughtUp(bed, updates);
    const labels = labelsBySignature(updates);
    for (const signature of sent.slice(0, 3)) assert.deepEqual(labels.get(signature), ['cuckoo', 'list']);
    const inBlocks = updates.all
      .flatMap(({ block }) => block?.transactions ?? [])
      .map(({ signature }: Json) => encode64(signature));
    assert.deepEqual(inBlocks, sent.slice(0, 3));
    updates.close();
  });

  test('blocks: without transactions, with some, with all; each filter has an update of its own', async (t) => {
    const bed = await startBed(t);
    const wallet = address();
    const updates = await bed.subscribe({
      blocks: {
        bare: { includeTransactions: false },
        all: { includeTransactions: true },
        usual: {},
        some: { accountInclude: [wallet] },
      },
      slots: { s: {} },
    });
    await bed.chain.fund(wallet, 1_000_000);
    await bed.chain.fund(address(), 1_000_000);
    await caughtUp(bed, updates);
    const sizes = new Map<string, number[]>();
    for (const { block, filters } of updates.all) {
      if (block === undefined || Number(block.executedTransactionCount) === 0) continue;
      assert.equal(filters.length, 1);
      sizes.set(filters[0], [...(sizes.get(filters[0]) ?? []), block.transactions.length]);
    }
    assert.deepEqual(Object.fromEntries(sizes), { bare: [0, 0], all: [1, 1], usual: [1, 1], some: [1, 0] });
    updates.close();
  });

  for (const commitment of [1, 2])
    test(`a request on a running stream replaces the filters without loss, at level ${commitment}`, async (t) => {
      const bed = await startBed(t);
      const wallets = [address(), address()];
      const request = (label: string, wallet: string) => ({
        transactions: { [label]: { accountInclude: [wallet] } },
        slots: { s: { filterByCommitment: true } },
        commitment,
      });
      const updates = await bed.subscribe(request('before', wallets[0] as string));
      const watch = await bed.subscribe({ slots: { s: {} }, commitment: 1 });
      const first = await bed.chain.fund(wallets[0] as string, 1_000_000);
      const early = await bed.chain.fund(wallets[1] as string, 1_000_000);
      await caughtUp(bed, watch);
      updates.write(request('after', wallets[1] as string));
      await updates.settled();
      const missed = await bed.chain.fund(wallets[0] as string, 2_000_000);
      const second = await bed.chain.fund(wallets[1] as string, 3_000_000);
      await bed.chain.seal(40);
      await updates.of('transaction', 2);
      const last = await bed.chain.seal(40);
      while (!updates.all.some(({ slot }) => Number(slot?.slot) > last - 40)) await updates.settled();
      const labels = labelsBySignature(updates);
      // The filters that stand when an update is sent decide: at `finalized` that is when its block becomes final.
      const expected = [commitment === 1 ? [first, ['before']] : [early, ['after']], [second, ['after']]];
      assert.deepEqual([...labels], expected);
      assert.ok(!labels.has(missed));
      updates.close();
      watch.close();
    });

  test('a ping is answered and leaves the filters as they are; the server pings too', async (t) => {
    // A third of the window: a ping is written in the turn of each look at how fast the client reads.
    const bed = await startBed(t, { grpc: { pingIntervalMs: 100 }, config: { http: { readWindowMs: 300 } } });
    const updates = await bed.subscribe({ transactions: { all: {} } });
    updates.write({ ping: { id: 7 } });
    await updates.of('ping', 2);
    const pongs = await updates.of('pong', 2);
    assert.equal(pongs.at(-1).pong.id, 7);
    await bed.chain.fund(address(), 1_000_000);
    const [{ filters }] = await updates.of('transaction', 1);
    assert.deepEqual(filters, ['all']);
    await updates.of('ping', 20);
    assert.equal(updates.error, null);
    updates.close();
  });
});

describe('what only a Yellowstone server has', { skip }, () => {
  const accounts = { account: [address()], owner: [], filters: [] };

  test('a subscription is passed on whole; other filters are written to the same stream there', async (t) => {
    const upstream = await startGeyser();
    t.after(() => upstream.stop());
    const bed = await startBed(t, { grpc: { upstream: { url: upstream.url, token: 'of-the-upstream' } } });
    const updates = await bed.subscribe({
      accounts: { mine: accounts },
      entry: { all: {} },
      slots: { status: { filterByCommitment: true } },
      commitment: 1,
      accountsDataSlice: [{ offset: '4', length: '8' }],
    });
    while (upstream.subscriptions.length === 0) await updates.settled();
    const one = upstream.subscriptions[0]!;
    assert.equal(one.token, 'of-the-upstream');
    const { accounts: passed, accountsDataSlice, slots, commitment } = one.request as Json;
    assert.deepEqual(passed.mine.account, accounts.account);
    assert.deepEqual(accountsDataSlice, [{ offset: '4', length: '8' }]);
    assert.deepEqual([Object.keys(slots), commitment], [['status'], 1]);
    const account = {
      pubkey: Buffer.alloc(32, 1),
      lamports: '5',
      owner: Buffer.alloc(32, 2),
      data: Buffer.from('abc'),
    };
    one.push({ filters: ['mine'], account: { slot: '7', isStartup: false, account } });
    one.push({ filters: ['all'], entry: { slot: '7', index: '3', hash: Buffer.alloc(32, 4) } });
    one.push({ filters: ['status'], slot: { slot: '7', status: 1 } });
    one.push({ filters: [], ping: {} });
    await updates.of('slot', 1);
    const sent = updates.all.filter(({ filters }) => filters.length > 0);
    assert.deepEqual(
      sent.map((update) => [update.filters, Object.keys(update).find((name) => update[name]?.slot !== undefined)]),
      [
        [['mine'], 'account'],
        [['all'], 'entry'],
        [['status'], 'slot'],
      ],
      'in the order of that server, and no slot of this one between them',
    );
    assert.equal(Buffer.from(sent[0].account.account.data).toString(), 'abc');
    while (one.later.length === 0) await updates.settled();
    assert.equal((one.later[0] as Json).ping.id, 1);

    updates.write({ accounts: { other: { ...accounts, owner: [address()] } }, slots: { status: {} } });
    updates.write({ blocks: { whole: { includeAccounts: true } } });
    while (one.later.length < 3) await updates.settled();
    assert.deepEqual(Object.keys((one.later[1] as Json).accounts), ['other']);
    assert.equal((one.later[2] as Json).blocks.whole.includeAccounts, true);
    one.push({
      filters: ['whole'],
      block: { slot: '8', blockhash: 'b', updatedAccountCount: '1', accounts: [account] },
    });
    const [{ block }] = await updates.of('block', 1);
    assert.deepEqual([block.slot, block.accounts.length], ['8', 1]);
    assert.equal(upstream.subscriptions.length, 1);

    // What this server has by itself ends the stream there.
    updates.write({ slots: { own: {} } });
    while (upstream.open().length > 0) await updates.settled();
    await caughtUp(bed, updates);
    assert.equal(updates.error, null);
  });

  test('its end is that of the subscription, with what the client can do about it', async (t) => {
    const upstream = await startGeyser();
    t.after(() => upstream.stop());
    const bed = await startBed(t, { grpc: { upstream: { url: upstream.url } } });
    const lost = /^the Yellowstone server behind this one has ended the stream: updates may be missing/;
    for (const [code, message, wanted, details] of [
      [11, 'broadcast from 1 is not available', 11, /^broadcast from 1 is not available$/],
      [7, 'secret of the operator', 14, lost],
      [undefined, '', 14, lost],
    ] as const) {
      const call = bed.raw('Subscribe', [{ entry: { a: {} }, fromSlot: '1' }]);
      await until(() => upstream.open().length > 0);
      const [open] = upstream.open();
      assert.deepEqual([open!.fromSlot, Object.keys(open!.request['entry'] as object)], [1, ['a']]);
      open!.end(code, message);
      const status = await call.status;
      assert.equal(status.code, wanted);
      assert.match(status.details, details);
    }
    await upstream.stop();
    assert.equal((await bed.raw('Subscribe', [{ entry: { a: {} } }]).status).code, 14);
  });

  test('a project has so many streams there and no more; what waits for that server counts for it', async (t) => {
    // It takes the connection and nothing else: what is written waits.
    const sockets = new Set<Socket>();
    const silent = createServer((socket) => void sockets.add(socket)).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    t.after(() => {
      for (const socket of sockets) socket.destroy();
      silent.close();
    });
    const { port } = silent.address() as { port: number };
    const bed = await startBed(t, {
      grpc: { upstream: { url: `http://127.0.0.1:${port}` } },
      config: { budgets: { passedStreams: 1, streamFilterBytes: 400_000 } },
    });
    const large = {
      accounts: { a: { ...accounts, account: Array.from({ length: 2_000 }, () => accounts.account[0]) } },
    };
    const first = bed.raw('Subscribe', [large]);
    await until(() => sockets.size > 0);
    const refused = await bed.raw('Subscribe', [{ entry: { a: {} } }]).status;
    assert.equal(refused.code, 8);
    assert.match(refused.details, /gRPC streams that are passed on to a Yellowstone server/);
    for (let more = 0; more < 8; more += 1) first.stream.write(first.bytesOf(large));
    const status = await first.status;
    assert.equal(status.code, 8);
    assert.match(status.details, /bytes of requests and filters/);
    // Its place is free again.
    const next = bed.raw('Subscribe', [{ entry: { a: {} } }]);
    await Promise.race([
      next.status.then(({ details }) => assert.fail(details)),
      new Promise((r) => setTimeout(r, 200)),
    ]);
    next.stream.cancel();
  });

  test('a second connection where the server allows no more streams on the first', async (t) => {
    const server = createHttp2Server({ settings: { maxConcurrentStreams: 2 } }).listen(0, '127.0.0.1');
    let sessions = 0;
    let streams = 0;
    server.on('session', () => {
      sessions += 1;
    });
    server.on('stream', (stream) => {
      streams += 1;
      stream.on('error', () => undefined);
    });
    await once(server, 'listening');
    const { port } = server.address() as { port: number };
    const bed = await startBed(t, { grpc: { upstream: { url: `http://127.0.0.1:${port}` } } });
    t.after(() => void server.close());
    const calls = Array.from({ length: 5 }, () => bed.raw('Subscribe', [{ entry: { a: {} } }]));
    await until(() => streams >= 5);
    assert.equal(sessions, 3);
    for (const { stream } of calls) stream.cancel();
  });
});

describe('refused filters', { skip }, () => {
  const cuckoo = {
    data: Buffer.alloc(8),
    bucketCount: 1,
    entriesPerBucket: 4,
    fingerprintBits: 16,
    hashSeed: '1',
    hashAlgorithm: 0,
  };
  const cases: readonly (readonly [string, Json, number, RegExp])[] = [
    [
      'no address',
      { transactions: { a: { accountInclude: ['nothing'] } } },
      3,
      /^an address of the filters is not 32 bytes in base58$/,
    ],
    [
      'no signature',
      { transactions: { a: { signature: 'x'.repeat(1_000_000) } } },
      3,
      /^a signature of the filters is not 64 bytes/,
    ],
    [
      'too many filters',
      { slots: { a: {}, b: {}, c: {}, d: {} } },
      3,
      /^Max amount of filters\/data_slices reached, only 3 allowed$/,
    ],
    [
      'too many addresses',
      { transactions: { a: { accountInclude: Array.from({ length: 6 }, address) } } },
      3,
      /^Max amount of Pubkeys reached, only 5 allowed$/,
    ],
    [
      'no condition',
      { transactions: { a: {} } },
      3,
      /^Subscribe on full stream with `any` is not allowed, at least one filter required$/,
    ],
    ['a level', { slots: { a: {} }, commitment: 5 }, 3, /^failed to create CommitmentLevel from 5$/],
    [
      'token_accounts',
      { transactions: { a: { tokenAccounts: 2 } } },
      3,
      /^invalid token_accounts mode value 2; expected ALL \(0\) or BALANCE_CHANGED \(1\)$/,
    ],
    [
      'accounts',
      { accounts: { a: { account: [], owner: [], filters: [] } } },
      3,
      /^updates of accounts \(accounts\) are not available from this server$/,
    ],
    ['entries', { entry: { a: {} } }, 3, /^updates of entries \(entry\) are not available from this server$/],
    [
      'accounts of blocks',
      { blocks: { a: { includeAccounts: true } } },
      3,
      /^blocks with accounts \(include_accounts\) are not available/,
    ],
    [
      'entries of blocks',
      { blocks: { a: { includeEntries: true } } },
      3,
      /^blocks with entries \(include_entries\) are not available/,
    ],
    ['from_slot without a ledger', { slots: { a: {} }, fromSlot: '5' }, 13, /^from_slot is not supported$/],
    [
      'bits of a cuckoo filter',
      { transactions: { a: { cuckooAccountInclude: { ...cuckoo, fingerprintBits: 12 } } } },
      3,
      /cuckoo filter: 12 bits a fingerprint; only 16 are supported/,
    ],
    [
      'size of a cuckoo filter',
      { transactions: { a: { cuckooAccountInclude: { ...cuckoo, bucketCount: 2 } } } },
      3,
      /8 bytes do not hold 2 buckets/,
    ],
    [
      'buckets of a cuckoo filter',
      { transactions: { a: { cuckooAccountInclude: { ...cuckoo, bucketCount: 3 } } } },
      3,
      /no power of two/,
    ],
  ];
  test('each with its status and text, at the start and on a running stream', async (t) => {
    const bed = await startBed(t, { grpc: { maxFilters: 3, maxAddresses: 5, allowFullStream: false } });
    for (const [what, request, code, text] of cases) {
      for (const first of [[], [{ slots: { fine: {} } }]]) {
        const call = bed.raw('Subscribe', [...first, request]);
        const { code: found, details } = await call.status;
        assert.equal(found, code, `${what}: ${details}`);
        assert.match(details, text, what);
      }
    }
    const damaged = await bed.raw('Subscribe', [Buffer.from('ffffffffff', 'hex')]).status;
    assert.equal(damaged.code, 3);
  });
});
