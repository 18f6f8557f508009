/**
 * A chain at five blocks a second where every fifth transaction is of version 1: each block is asked for once, and everybody who
 * has to do with such a transaction gets it.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Connection, Keypair, LAMPORTS_PER_SOL, type PublicKey, SystemProgram, Transaction } from '@solana/web3.js';
import { encode } from '../../../src/lib/base58.ts';
import { type Api, apiOf } from '../../conformance/webhooks/daemon.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { startHttpServer } from '../../helpers/http-server.ts';
import { type Receiver, startReceiver } from '../../helpers/receiver.ts';
import { sendVersion1, signVersion1, USUAL_CONFIG } from '../../helpers/version-1.ts';
import { type HistoryItem, type Page, type TransferItem, walletClient } from '../../helpers/wallet-client.ts';

const SLOT_MS = 200;
const ROUNDS = 20;
const FEE = 5_777;

interface Call {
  readonly method: string;
  readonly params: readonly [number, { readonly transactionDetails?: string; readonly encoding?: string }];
}

/** Passes everything on and notes the calls. */
async function startWitness(target: string) {
  const calls: Call[] = [];
  const server = await startHttpServer(async (body, _request, response) => {
    calls.push(...([JSON.parse(body.toString())].flat() as Call[]));
    const answer = await fetch(target, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text());
  });
  return { calls, url: server.url, stop: server.close };
}

async function until(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  for (const startedMs = performance.now(); !(await isSo()); ) {
    assert.ok(performance.now() - startedMs < 60_000, what);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describe('a chain with version 1 transactions', { skip: (await chainMissing()) ?? false }, () => {
  const payer = Keypair.generate();
  const watched = Keypair.generate().publicKey;
  const later = Keypair.generate().publicKey;
  let chain: TestChain;
  let witness: Awaited<ReturnType<typeof startWitness>>;
  let receiver: Receiver;
  let daemon: DaemonInProcess;
  let api: Api;
  let client: Connection;
  const sent: string[] = [];
  let first: number;

  const pay = (to: PublicKey, lamports: number) =>
    SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: to, lamports });

  before(async () => {
    chain = await startChain({ slotMs: SLOT_MS, time: { kind: 'wall' } });
    await chain.fund(payer.publicKey.toBase58(), 1_000 * LAMPORTS_PER_SOL);
    witness = await startWitness(chain.rpcUrl);
    receiver = await startReceiver();
    daemon = await startDaemon({
      chain: { rpcUrl: witness.url, wsUrl: chain.wsUrl },
      config: {
        follow: { pollMs: 50 },
        sender: { requireKey: true },
        webhooks: { allowCidrs: ['127.0.0.0/8'], allowHttp: true },
      },
    });
    api = apiOf(daemon.apiUrl, daemon.key);
    client = new Connection(`${daemon.apiUrl}/?api-key=${daemon.key}`, 'confirmed');
    for (const webhookType of ['raw', 'enhanced']) {
      const hook = {
        webhookURL: `${receiver.url}/${webhookType}`,
        webhookType,
        transactionTypes: ['ANY'],
        accountAddresses: [watched.toBase58()],
      };
      assert.equal((await api('POST', '/v0/webhooks', hook)).status, 200);
    }
    // The wallet is known before the first transaction, the other one only after all of them.
    await walletClient(daemon).get(`${watched.toBase58()}/transfers`);
    first = (await chain.connection.getSlot('confirmed')) + 1;
    for (let round = 0; round < ROUNDS; round += 1) {
      const { blockhash } = await chain.connection.getLatestBlockhash();
      const plain = [1, 2, 3, 4].map((number) => {
        const transaction = new Transaction({ feePayer: payer.publicKey, blockhash, lastValidBlockHeight: 1e6 });
        transaction.add(pay(Keypair.generate().publicKey, 1_000_000 + number)).sign(payer);
        return transaction.serialize();
      });
      const { wire, signature } = await signVersion1(payer, blockhash, [
        pay(watched, 2_000_000 + round),
        pay(later, 3_000_000 + round),
      ]);
      await Promise.all([...plain, wire].map((bytes) => chain.connection.sendRawTransaction(bytes)));
      sent.push(signature);
      await new Promise((resolve) => setTimeout(resolve, SLOT_MS / 2));
    }
  });
  after(async () => {
    await daemon?.stop();
    await Promise.all([receiver?.close(), witness?.stop(), chain?.stop()]);
  });

  const elements = (kind: string) =>
    receiver.received
      .filter(({ url }) => url === `/${kind}`)
      .flatMap(({ body }) => JSON.parse(body.toString()) as Record<string, never>[]);

  test('webhooks get each one once, raw and enhanced', async () => {
    await until('all arrive', () => ['raw', 'enhanced'].every((kind) => elements(kind).length >= sent.length));
    const raw = elements('raw') as unknown as {
      version: number;
      meta: { fee: number };
      transaction: { signatures: string[]; message: { transactionConfig: object } };
    }[];
    assert.deepEqual(raw.map(({ transaction }) => transaction.signatures[0]).toSorted(), sent.toSorted());
    for (const { version, meta, transaction } of raw) {
      assert.deepEqual([version, meta.fee], [1, FEE]);
      assert.deepEqual(transaction.message.transactionConfig, {
        computeUnitLimit: 200_000,
        heapSize: null,
        loadedAccountsDataSizeLimit: 2 ** 20,
        priorityFee: 777,
      });
    }
    const enhanced = elements('enhanced') as unknown as {
      signature: string;
      type: string;
      fee: number;
      nativeTransfers: { amount: number; toUserAccount: string }[];
    }[];
    assert.deepEqual(enhanced.map(({ signature }) => signature).toSorted(), sent.toSorted());
    for (const { signature, type, fee, nativeTransfers } of enhanced) {
      assert.deepEqual([type, fee], ['TRANSFER', FEE]);
      const amount = 2_000_000 + sent.indexOf(signature);
      assert.ok(nativeTransfers.some((one) => one.toUserAccount === watched.toBase58() && one.amount === amount));
    }
  });

  test('each block was asked for once', async () => {
    const slots = await chain.connection.getBlocks(first, await chain.connection.getSlot('confirmed'), 'confirmed');
    const isWhole = ({ method, params }: Call) => method === 'getBlock' && params[1].transactionDetails === 'full';
    const askedFor = () => witness.calls.filter(isWhole).map(({ params }) => params[0]);
    await until('all are read', () => slots.every((slot) => askedFor().includes(slot)));
    const own = askedFor().filter((slot) => slot >= first && slot <= slots.at(-1)!);
    assert.deepEqual(
      own.toSorted((a, b) => a - b),
      slots,
    );
    assert.ok(witness.calls.filter(isWhole).every(({ params }) => params[1].encoding === 'base64'));
    assert.ok(slots.length >= ROUNDS / 4, `${slots.length} blocks`);
  });

  test('wallets have them, from the blocks and from the past', async () => {
    const wallets = walletClient(daemon);
    for (const [wallet, base] of [
      [watched, 2_000_000],
      [later, 3_000_000],
    ] as const) {
      const path = `${wallet.toBase58()}/transfers`;
      const transfers = await wallets.all<TransferItem>(path, 'cursor', [7, 20]);
      assert.deepEqual(
        transfers.map(({ signature, amountRaw }) => [signature, amountRaw]).toSorted(),
        sent.map((signature, round) => [signature, String(base + round)]).toSorted(),
      );
      const history = await wallets.get<Page<HistoryItem>>(`${wallet.toBase58()}/history?limit=100`);
      assert.deepEqual(history.data.map(({ signature }) => signature).toSorted(), sent.toSorted());
      assert.ok(history.data.every(({ fee }) => fee === FEE / LAMPORTS_PER_SOL));
    }
  });

  test('they are read by signature, by address and from their bytes', async () => {
    const parsed = await api('POST', '/v0/transactions', { transactions: sent });
    assert.equal(parsed.status, 200);
    assert.deepEqual(
      parsed.body.map((one: { signature: string; type: string; fee: number }) => [one.signature, one.type, one.fee]),
      sent.map((signature) => [signature, 'TRANSFER', FEE]),
    );
    const page = await api('GET', `/v0/addresses/${watched.toBase58()}/transactions?limit=100`);
    assert.equal(page.status, 200);
    assert.deepEqual(page.body.map(({ signature }: { signature: string }) => signature).toSorted(), sent.toSorted());
    const params = [sent[0], { encoding: 'base64', commitment: 'confirmed', maxSupportedTransactionVersion: 1 }];
    const { body } = await api('POST', '/', { jsonrpc: '2.0', id: 1, method: 'getTransaction', params });
    const [byBytes] = (await api('POST', '/v0/transactions', { transactions: [body.result.transaction[0]] })).body;
    assert.equal(byBytes.signature, sent[0]);
  });

  test('they are sent and simulated through the daemon, by all of its ways', async () => {
    const config = { ...USUAL_CONFIG, heapSize: 64 * 1_024 };
    const over = await sendVersion1(client, payer, [pay(watched, 4_000_000)], config);
    const { blockhash } = await client.getLatestBlockhash();
    const { wire, signature } = await signVersion1(payer, blockhash, [pay(watched, 4_000_001)], config);
    const call = async (path: string, method: string, options: object = {}) => {
      const params = [wire.toString('base64'), { encoding: 'base64', ...options }];
      return (await api('POST', path, { jsonrpc: '2.0', id: 1, method, params })).body;
    };
    const simulated = await call('/', 'simulateTransaction', { sigVerify: true, commitment: 'confirmed' });
    assert.deepEqual([simulated.result.value.err, simulated.result.value.unitsConsumed], [null, 150]);
    assert.equal((await call('/fast', 'sendTransaction', { skipPreflight: true, maxRetries: 0 })).result, signature);
    await until('both arrive', () => elements('raw').length >= sent.length + 2);
    const signatures = (elements('raw') as unknown as { transaction: { signatures: string[] } }[]).map(
      ({ transaction }) => transaction.signatures[0],
    );
    assert.deepEqual(signatures.slice(sent.length).toSorted(), [over, signature].toSorted());
  });

  test('a transaction without fee and logs, calls eight deep and rewards of unknown types are kept', async () => {
    const before = elements('raw').length;
    const wire = async (amount: number) => {
      const { blockhash } = await client.getLatestBlockhash();
      return await signVersion1(payer, blockhash, [pay(watched, amount)]);
    };
    const [noOp, deep] = [await wire(5_000_001), await wire(5_000_002)];
    const shared = {
      preTokenBalances: [],
      postTokenBalances: [],
      loadedAddresses: { writable: [], readonly: [] },
      rewards: [
        {
          pubkey: payer.publicKey.toBase58(),
          lamports: -5,
          postBalance: 1,
          rewardType: 'VATDebit',
          commissionBps: 512,
        },
      ],
    };
    // A fee payer that cannot pay (SIMD-0290): in the block, failed, and without effect.
    await chain.appendRecorded({
      transaction: noOp.wire.toString('base64'),
      meta: {
        ...shared,
        err: 'InsufficientFundsForFee',
        status: { Err: 'InsufficientFundsForFee' },
        fee: 0,
        preBalances: [3, 7, 1],
        postBalances: [3, 7, 1],
        innerInstructions: null,
        logMessages: null,
        computeUnitsConsumed: 200_000,
      },
    });
    const heights = [2, 3, 4, 5, 6, 7, 8, 9];
    const data = encode(pay(watched, 1_000).data);
    const inner = heights.map((stackHeight) => ({ programIdIndex: 2, accounts: [0, 1], data, stackHeight }));
    await chain.appendRecorded({
      transaction: deep.wire.toString('base64'),
      meta: {
        ...shared,
        err: null,
        status: { Ok: null },
        fee: FEE,
        logMessages: [],
        preBalances: [9_000_000, 7, 1],
        postBalances: [9_000_000 - 5_008_002 - FEE, 5_008_009, 1],
        innerInstructions: [{ index: 0, instructions: inner }],
      },
    });
    await until('both arrive', () => elements('raw').length >= before + 2);
    const raw = elements('raw').slice(before) as unknown as {
      meta: {
        fee: number;
        err: unknown;
        logMessages: string[];
        rewards: object[];
        innerInstructions: { instructions: object[] }[];
      };
      transaction: { signatures: string[] };
    }[];
    const shown = (signature: string) => raw.find(({ transaction }) => transaction.signatures[0] === signature)!.meta;
    assert.deepEqual(shown(noOp.signature).rewards, shared.rewards);
    assert.deepEqual(
      [shown(noOp.signature).fee, shown(noOp.signature).err, shown(noOp.signature).logMessages],
      [0, 'InsufficientFundsForFee', []],
    );
    assert.equal(shown(deep.signature).innerInstructions[0]!.instructions.length, heights.length);
    const wallets = walletClient(daemon);
    let history: readonly HistoryItem[] = [];
    await until('the wallet has both', async () => {
      ({ data: history } = await wallets.get<Page<HistoryItem>>(`${watched.toBase58()}/history?limit=100`));
      return [noOp, deep].every(({ signature }) => history.some((one) => one.signature === signature));
    });
    const found = history.find(({ signature }) => signature === noOp.signature)!;
    assert.deepEqual([found.fee, found.balanceChanges], [0, []]);
    assert.match(String(found.error), /InsufficientFundsForFee/);
    const transfers = await wallets.all<TransferItem>(`${watched.toBase58()}/transfers`, 'cursor', [50]);
    const amounts = (signature: string) =>
      transfers.filter((one) => one.signature === signature).map((one) => one.amountRaw);
    assert.deepEqual(amounts(noOp.signature), []);
    assert.ok(amounts(deep.signature).length > 0);
    const { status, body } = await api('POST', '/v0/transactions', { transactions: [noOp.signature, deep.signature] });
    assert.equal(status, 200);
    assert.deepEqual([body[0].fee, body[0].transactionError !== null], [0, true]);
    assert.equal(body[1].nativeTransfers.length, 1 + heights.length);
    assert.equal(body[1].instructions[0].innerInstructions.length, heights.length);
  });
});
