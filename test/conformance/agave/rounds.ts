/**
 * Subscriptions through the daemon while sockets break on both of its sides, round after round. Whatever breaks, no subscription ever
 * hears of a transaction twice; once everything is whole again it hears of each.
 */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Connection, Keypair, SystemProgram, Transaction } from '@solana/web3.js';
import WebSocket from 'ws';
import type { AgaveNode } from '../../helpers/agave.ts';
import type { FaultProxy } from '../../helpers/fault-proxy.ts';
import type { Sfc32 } from '../../helpers/sfc32.ts';
import { eventually } from './harness.ts';

const PAYMENTS = 5;
const LAMPORTS = 1_000_000;
const RECONNECT_MS = 20;
const CUTS = ['client', 'node', 'both', 'none'] as const;

export interface RoundsBed {
  readonly node: AgaveNode;
  /** Between clients and the daemon, and between the daemon and the node's websocket port. */
  readonly clientSide: FaultProxy;
  readonly nodeSide: FaultProxy;
  readonly socketUrl: string;
  /** web3.js over the same broken way. */
  readonly connection: Connection;
  readonly random: Sfc32;
}

interface Notice {
  readonly subscription: number;
  readonly signature: string;
}

/** A client that connects again as soon as its socket broke, and subscribes to the same again; some of it twice, as careless ones do. */
interface StubbornClient {
  readonly notices: Notice[];
  /** Sockets so far. */
  readonly sockets: number;
  /** Answers to subscriptions that are errors. */
  readonly errors: string[];
  close(): void;
}

function stubbornClient(url: string, subscriptions: readonly (readonly unknown[])[]): StubbornClient {
  const notices: Notice[] = [];
  const errors: string[] = [];
  let [sockets, ended] = [0, false];
  let socket: WebSocket;
  const connect = (): void => {
    if (ended) return;
    sockets += 1;
    // What a socket brings counts for that socket alone.
    const number = sockets * 1_000_000;
    socket = new WebSocket(url);
    socket.on('open', () => {
      for (const [id, params] of subscriptions.entries())
        socket.send(JSON.stringify({ jsonrpc: '2.0', id, method: 'logsSubscribe', params }));
    });
    socket.on('message', (data) => {
      const { params, error } = JSON.parse(String(data)) as {
        error?: unknown;
        params?: { subscription: number; result: { value: { signature: string } } };
      };
      if (error !== undefined) errors.push(JSON.stringify(error));
      if (params === undefined) return;
      notices.push({ subscription: number + params.subscription, signature: params.result.value.signature });
    });
    socket.on('error', () => undefined);
    socket.on('close', () => setTimeout(connect, RECONNECT_MS));
  };
  connect();
  return {
    notices,
    errors,
    get sockets() {
      return sockets;
    },
    close() {
      ended = true;
      socket.terminate();
    },
  };
}

/** How often each subscription heard of each transaction. */
function countsOf(notices: readonly Notice[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { subscription, signature } of notices) {
    const name = `${subscription} ${signature}`;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return counts;
}

/** One round: cuts while payments are made, then payments with nothing broken. Answers how many notices came, over how many sockets, and how many
 * the node repeats to a client of its own. */
export async function round(
  bed: RoundsBed,
  number: number,
): Promise<{ readonly notices: number; readonly sockets: number; readonly repeats: number }> {
  const { node, random, connection } = bed;
  const cut = CUTS[number % CUTS.length] as (typeof CUTS)[number];
  const to = Keypair.generate().publicKey;
  const mentions = { mentions: [String(to)] };
  const wanted = [
    [mentions, { commitment: 'confirmed' }],
    // The same, the same in other words, and another commitment.
    [mentions, { commitment: 'confirmed' }],
    [mentions, { commitment: 'processed' }],
    [mentions],
    [mentions, { commitment: 'finalized' }],
  ];
  const client = stubbornClient(bed.socketUrl, wanted);
  // At the node itself, over a way that nothing breaks: what it notifies more than once is its own doing.
  const control = stubbornClient(node.wsUrl, wanted);
  const ofWeb3: string[] = [];
  const listener = connection.onLogs(to, ({ signature }) => ofWeb3.push(signature), 'confirmed');
  const payAll = async (count: number, from: number) => {
    const transactions = [];
    const { blockhash } = await node.connection.getLatestBlockhash();
    for (let at = 0; at < count; at += 1) {
      const parts = { fromPubkey: node.payer.publicKey, toPubkey: to, lamports: LAMPORTS + from + at };
      const transaction = new Transaction({ feePayer: node.payer.publicKey, recentBlockhash: blockhash });
      transaction.add(SystemProgram.transfer(parts)).sign(node.payer);
      transactions.push(transaction.serialize());
    }
    return Promise.all(transactions.map((bytes) => node.connection.sendRawTransaction(bytes)));
  };
  try {
    const broken = payAll(PAYMENTS, 0);
    for (let times = cut === 'none' ? 0 : 1 + random.below(4); times > 0; times -= 1) {
      await sleep(random.below(150));
      if (cut !== 'node') bed.clientSide.cut();
      if (cut !== 'client') bed.nodeSide.cut();
    }
    await broken;
    // Subscriptions that were broken come back by and by: a payment that all of them hear of shows that they are back.
    const kinds = 3;
    const hears = (signature: string) =>
      new Set(client.notices.filter((notice) => notice.signature === signature).map(({ subscription }) => subscription))
        .size >=
        kinds - 1 && ofWeb3.includes(signature);
    for (let tries = 0, back = false; !back; tries += 1) {
      const heard = `${client.notices.length} notices over ${client.sockets} sockets, web3.js ${ofWeb3.length}; ${client.errors.join(' ')}`;
      assert.ok(tries < 60, `round ${number} (${cut}): the subscriptions do not come back: ${heard}`);
      const [probe] = (await payAll(1, 1_000 + tries)) as [string];
      for (let waits = 0; waits < 20 && !back; waits += 1) {
        await sleep(50);
        back = hears(probe);
      }
    }
    const signatures = await payAll(PAYMENTS, 5_000);
    await eventually(() => {
      const missing = signatures.filter((signature) => !hears(signature));
      return missing.length === 0 ? null : `round ${number} (${cut}): no notice of ${missing.length} payments`;
    });
    await sleep(100);
    const repeated = countsOf(control.notices);
    const mostOfNode = (signature: string) =>
      Math.max(1, ...[...repeated].filter(([name]) => name.endsWith(signature)).map(([, count]) => count));
    const twice = [...countsOf(client.notices)].filter(
      ([name, count]) => count > mostOfNode(name.split(' ')[1] as string),
    );
    const repeats = [...repeated].filter(([, count]) => count > 1).length;
    assert.deepEqual(twice, [], `round ${number} (${cut}): notices came twice`);
    // web3.js keeps no account of its sockets: what it hears since the last cut is one each, or as often as the node repeats it.
    for (const signature of signatures) {
      const times = ofWeb3.filter((one) => one === signature).length;
      assert.ok(times <= mostOfNode(signature), `round ${number} (${cut}): web3.js heard ${signature} ${times} times`);
    }
    return { notices: client.notices.length + ofWeb3.length, sockets: client.sockets, repeats };
  } finally {
    client.close();
    control.close();
    await connection.removeOnLogsListener(listener);
  }
}
