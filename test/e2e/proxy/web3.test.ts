import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  Connection,
  Keypair,
  LAMPORTS_PER_SOL,
  SendTransactionError,
  SystemProgram,
  sendAndConfirmTransaction,
  Transaction,
} from '@solana/web3.js';
import { until } from '../../conformance/proxy/rpc-client.ts';
import { chainMissing } from '../../helpers/chain.ts';
import { type ChainBed, startChainBed } from './harness.ts';

const skip = (await chainMissing()) ?? false;

function connect({ url, socketUrl, before }: ChainBed): Connection {
  const connection = new Connection(url, { commitment: 'confirmed', wsEndpoint: socketUrl });
  before(() => {
    // The client has no way to end it, and would try to connect again for ever.
    const socket = (connection as unknown as { _rpcWebSocket: { reconnect: boolean; close(code: number): void } })
      ._rpcWebSocket;
    socket.reconnect = false;
    socket.close(1000);
  });
  return connection;
}

async function funded({ chain }: ChainBed): Promise<Keypair> {
  const pair = Keypair.generate();
  await chain.fund(pair.publicKey.toBase58(), 10 * LAMPORTS_PER_SOL);
  return pair;
}

const transfer = (from: Keypair, to: Keypair, lamports: number) =>
  new Transaction().add(SystemProgram.transfer({ fromPubkey: from.publicKey, toPubkey: to.publicKey, lamports }));

test('an unmodified Connection sends, confirms by websocket and reads', { skip }, async (t) => {
  const bed = await startChainBed(t);
  const connection = connect(bed);
  const [from, to] = [await funded(bed), Keypair.generate()];
  const signature = await sendAndConfirmTransaction(connection, transfer(from, to, 1_000_000), [from]);
  assert.equal(await connection.getBalance(to.publicKey), 1_000_000);
  const read = await connection.getTransaction(signature, { maxSupportedTransactionVersion: 0 });
  assert.equal(read?.transaction.signatures[0], signature);
  const second = await sendAndConfirmTransaction(connection, transfer(from, to, 2_000_000), [from]);
  const parsed = await connection.getParsedTransactions([signature, second], { maxSupportedTransactionVersion: 0 });
  assert.deepEqual(
    parsed.map((one) => one?.transaction.signatures[0]),
    [signature, second],
  );
  assert.deepEqual(
    (await connection.getSignaturesForAddress(to.publicKey)).map((one) => one.signature),
    [second, signature],
  );
});

test('a node’s error object reaches the client whole', { skip }, async (t) => {
  const bed = await startChainBed(t);
  const connection = connect(bed);
  const [poor, to] = [Keypair.generate(), Keypair.generate()];
  await assert.rejects(sendAndConfirmTransaction(connection, transfer(poor, to, 5), [poor]), (error: unknown) => {
    assert.ok(error instanceof SendTransactionError);
    assert.match(error.message, /imulation failed|debit an account/i);
    return true;
  });
});

test('account, log and slot subscriptions', { skip }, async (t) => {
  const bed = await startChainBed(t);
  const connection = connect(bed);
  const [from, to] = [await funded(bed), Keypair.generate()];
  const seen: string[] = [];
  const ids = [
    connection.onAccountChange(to.publicKey, ({ lamports }) => seen.push(`account ${lamports}`), 'confirmed'),
    connection.onLogs(from.publicKey, ({ err }) => seen.push(`logs ${err === null}`), 'confirmed'),
    connection.onSlotChange(() => seen.push('slot')),
  ];
  // A subscription is in place once its call is answered; the calls of one socket are answered in the order they were made.
  await until('subscriptions', async () => {
    await bed.chain.seal();
    return seen.includes('slot');
  });
  await sendAndConfirmTransaction(connection, transfer(from, to, 3_000_000), [from]);
  await until('notifications', () => seen.includes('account 3000000') && seen.includes('logs true'));
  await connection.removeAccountChangeListener(ids[0]!);
  await connection.removeOnLogsListener(ids[1]!);
  await connection.removeSlotChangeListener(ids[2]!);
});

test('confirmation survives the loss of the upstream’s sockets', { skip }, async (t) => {
  const bed = await startChainBed(t);
  const connection = connect(bed);
  const from = await funded(bed);
  const seen: number[] = [];
  connection.onSlotChange(({ slot }) => seen.push(slot));
  await until('slots', async () => {
    await bed.chain.seal();
    return seen.length > 0;
  });
  await bed.chain.dropSockets();
  await sendAndConfirmTransaction(connection, transfer(from, Keypair.generate(), 5_000_000), [from]);
  const before = seen.length;
  await until('slots again', async () => {
    await bed.chain.seal();
    return seen.length > before;
  });
});

test('finalized answers come from the cache, byte for byte', { skip }, async (t) => {
  const bed = await startChainBed(t);
  const slot = await bed.chain.seal();
  await bed.chain.seal(40);
  const ask = async (url: string) => {
    const body = JSON.stringify({
      jsonrpc: '2.0',
      id: 'i',
      method: 'getBlock',
      params: [slot, { encoding: 'base64' }],
    });
    const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    return { text: await response.text(), hit: response.headers.get('x-cache') };
  };
  const direct = await ask(bed.chain.rpcUrl);
  assert.ok(JSON.parse(direct.text).result !== null);
  assert.equal((await ask(bed.url)).text, direct.text);
  await until('a hit', async () => (await ask(bed.url)).hit === 'HIT');
  assert.equal((await ask(bed.url)).text, direct.text);
});
