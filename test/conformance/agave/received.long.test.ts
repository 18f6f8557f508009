/**
 * `receivedSignature`: a real node that leads every slot never tells it, by whatever commitment, and a daemon in front of it tells what the node
 * tells. The local chain tells it once, first, so that what waits for it can be tried there.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Connection, Keypair, LAMPORTS_PER_SOL, SystemProgram, Transaction } from '@solana/web3.js';
import bs58 from 'bs58';
import WebSocket from 'ws';
import { agaveMissing, namedNode, startAgave } from '../../helpers/agave.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { eventually } from './harness.ts';

const named = namedNode();
const NODES =
  named === null
    ? ([
        { release: '4.2', alpenglow: false },
        { release: '4.4', alpenglow: true },
        { release: '4.5', alpenglow: true },
      ] as const)
    : [named];
const COMMITMENTS = ['processed', 'confirmed', 'finalized'];
const PAYMENTS = 3;
const AFTERMATH_MS = 1_000;
const APART_MS = 700;

/** What each commitment is told about a signature, in its order; `heard` says that all have its status. */
async function listen(url: string, signature: string) {
  const socket = new WebSocket(url);
  await once(socket, 'open');
  const told = new Map<number, unknown[]>();
  const ids: number[] = [];
  socket.on('message', (data) => {
    type Message = { id?: number; result?: number; params?: { subscription: number; result: { value: unknown } } };
    const { id, result, params } = JSON.parse(String(data)) as Message;
    if (params === undefined) ids[id!] = result!;
    else told.set(params.subscription, [...(told.get(params.subscription) ?? []), params.result.value]);
  });
  for (const [id, commitment] of COMMITMENTS.entries()) {
    const params = [signature, { commitment, enableReceivedNotification: true }];
    socket.send(JSON.stringify({ jsonrpc: '2.0', id, method: 'signatureSubscribe', params }));
  }
  const all = () => COMMITMENTS.map((_, at) => told.get(ids[at]!) ?? []);
  await eventually(() => (ids.filter((id) => id !== undefined).length === COMMITMENTS.length ? null : 'no ids'));
  return {
    all,
    heard: () => all().every((values) => values.some((value) => typeof value === 'object')),
    close: () => socket.terminate(),
  };
}

for (const { release, alpenglow } of NODES)
  test(`receivedSignature: Agave ${release}, a daemon in front of it, the local chain`, {
    skip: (await chainMissing()) ?? agaveMissing(release) ?? false,
  }, async (t) => {
    const node = await startAgave({ release, alpenglow, slotMs: 200 });
    t.after(node.stop);
    const daemon = await startDaemon({ chain: node });
    t.after(() => daemon.stop());
    const consensus = alpenglow ? 'alpenglow' : 'towerbft';
    const chain = await startChain({ release, consensus, slotMs: 200, finalityDepth: 4, time: { kind: 'wall' } });
    t.after(() => chain.stop());
    const payer = Keypair.generate();
    await node.fund([payer.publicKey], LAMPORTS_PER_SOL);
    await chain.fund(payer.publicKey.toBase58(), LAMPORTS_PER_SOL);
    const ofDaemon = `${daemon.apiUrl.replace('http', 'ws')}/?api-key=${daemon.key}`;
    const status = [{ err: null }];
    const received = ['receivedSignature', { err: null }];
    const sides = [
      {
        rpcUrl: node.rpcUrl,
        listeners: [
          { name: 'node', url: node.wsUrl, wanted: status },
          { name: 'daemon', url: ofDaemon, wanted: status },
        ],
      },
      { rpcUrl: chain.rpcUrl, listeners: [{ name: 'local chain', url: chain.wsUrl, wanted: received }] },
    ];
    /** Pays, and gives what waits for all that is told of it and checks it. */
    const pay = async ({ rpcUrl, listeners }: (typeof sides)[number]): Promise<() => Promise<void>> => {
      const connection = new Connection(rpcUrl, { commitment: 'confirmed' });
      const { blockhash, lastValidBlockHeight } = await connection.getLatestBlockhash();
      const transaction = new Transaction({ feePayer: payer.publicKey, blockhash, lastValidBlockHeight }).add(
        SystemProgram.transfer({
          fromPubkey: payer.publicKey,
          toPubkey: Keypair.generate().publicKey,
          lamports: 1_000_000,
        }),
      );
      transaction.sign(payer);
      const signature = bs58.encode(transaction.signature!);
      const open = await Promise.all(listeners.map(({ url }) => listen(url, signature)));
      await connection.sendRawTransaction(transaction.serialize());
      return async () => {
        await eventually(() => (open.every((one) => one.heard()) ? null : `${rpcUrl}: no status`));
        await sleep(AFTERMATH_MS);
        for (const [at, { name, wanted }] of listeners.entries())
          assert.deepEqual(
            open[at]!.all(),
            COMMITMENTS.map(() => wanted),
            name,
          );
        for (const one of open) one.close();
      };
    };
    const checks: (() => Promise<void>)[] = [];
    // Slots apart; the wait until they are final is one for all.
    for (let payment = 0; payment < PAYMENTS; payment += 1) {
      if (payment > 0) await sleep(APART_MS);
      for (const side of sides) checks.push(await pay(side));
    }
    await Promise.all(checks.map((check) => check()));
  });
