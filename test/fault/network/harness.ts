import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Keypair, LAMPORTS_PER_SOL, SystemProgram, Transaction } from '@solana/web3.js';
import { startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { type FaultPlan, type FaultProxy, startFaultProxy } from '../../helpers/fault-proxy.ts';
import { type Receiver, startReceiver } from '../../helpers/receiver.ts';

export interface NetworkBed {
  readonly chain: TestChain;
  readonly daemon: DaemonInProcess;
  readonly receiver: Receiver;
  /** Between the daemon and the node. */
  readonly upstreamSide: FaultProxy;
  /** Between the daemon and the receiver of its webhooks. */
  readonly receiverSide: FaultProxy;
  /** A payment straight to the chain, in a block of its own, to the address that the webhook watches. */
  pay(): Promise<string>;
  /** Signatures as they arrived, repeated ones too. */
  arrived(): readonly string[];
  /** Waits until each of them has arrived. */
  untilArrived(signatures: readonly string[]): Promise<void>;
}

/** Every fault that a network has, each with what it befalls; the parts that daemons never get over must end. */
export const FAULTS: Readonly<Record<string, FaultPlan>> = {
  latency: { up: { latencyMs: 30, jitterMs: 30 }, down: { latencyMs: 30, jitterMs: 30 } },
  'little bandwidth': { up: { bytesPerSecond: 20_000 }, down: { bytesPerSecond: 20_000 } },
  'bytes in slices': { up: { sliceBytes: 7 }, down: { sliceBytes: 7 } },
  'resets at once': { up: { resetAfterBytes: 0 } },
  'resets before the answer': { down: { resetAfterBytes: 0 } },
  'resets in the answer': { down: { resetAfterBytes: 150 } },
  'ends in the question': { up: { endAfterBytes: 60 } },
  'ends in the answer': { down: { endAfterBytes: 150 } },
  'ends in the body of the answer': { down: { endAfterBytes: 700 } },
  'a slow close': { up: { slowCloseMs: 200 }, down: { slowCloseMs: 200 } },
  'questions that vanish': { up: { blackhole: true } },
  'answers that vanish': { down: { blackhole: true } },
  'half of the connections reset': { down: { resetAfterBytes: 300 }, probability: 0.5 },
};

/** A chain, a daemon and a receiver, with a fault proxy on either side of the daemon. */
export async function startNetworkBed(t: TestContext): Promise<NetworkBed> {
  const chain = await startChain();
  const receiver = await startReceiver();
  const upstreamSide = await startFaultProxy(Number(new URL(chain.rpcUrl).port), 11);
  const receiverSide = await startFaultProxy(receiver.port, 12);
  const at = ({ port }: FaultProxy, scheme: string) => `${scheme}://127.0.0.1:${port}`;
  const daemon = await startDaemon({
    chain: { rpcUrl: at(upstreamSide, 'http'), wsUrl: at(upstreamSide, 'ws') },
    config: {
      upstream: {
        urls: [{ url: at(upstreamSide, 'http'), websocketUrl: at(upstreamSide, 'ws') }],
        healthIntervalMs: 100,
        coolDownMs: 100,
        distrustMs: 100,
      },
      follow: { pollMs: 50, requestTimeoutMs: 400 },
      rpc: { upstreamTimeoutMs: 400 },
      webhooks: {
        allowHttp: true,
        allowCidrs: ['127.0.0.0/8'],
        autoDisable: { enabled: false },
        retry: { durable: { steps: Array.from({ length: 40 }, () => 0.1), jitter: 0, timeoutMs: 400 } },
      },
    },
  });
  t.after(async () => {
    upstreamSide.clear();
    receiverSide.clear();
    await daemon.stop();
    await Promise.all([upstreamSide.close(), receiverSide.close()]);
    await receiver.close();
    await chain.stop();
  });
  const payer = Keypair.generate();
  const to = Keypair.generate().publicKey;
  await chain.fund(payer.publicKey.toBase58(), 100 * LAMPORTS_PER_SOL);
  const response = await fetch(`${daemon.apiUrl}/v0/webhooks?api-key=${daemon.key}`, {
    method: 'POST',
    body: JSON.stringify({
      webhookURL: `${at(receiverSide, 'http')}/`,
      webhookType: 'raw',
      accountAddresses: [to.toBase58()],
    }),
  });
  assert.equal(response.status, 200, await response.clone().text());
  let lamports = 1_000_000;
  const arrived = () =>
    receiver.received.map(({ body }) => {
      const [element] = JSON.parse(body.toString()) as { transaction: { signatures: string[] } }[];
      return element?.transaction.signatures[0] ?? '';
    });
  return {
    chain,
    daemon,
    receiver,
    upstreamSide,
    receiverSide,
    arrived,
    pay: async () => {
      // Another amount each time: no two of them have the same signature.
      const transfer = SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: to, lamports: lamports++ });
      return chain.connection.sendTransaction(new Transaction().add(transfer), [payer]);
    },
    untilArrived: async (signatures) => {
      const missing = () => {
        const there = new Set(arrived());
        return signatures.filter((signature) => !there.has(signature));
      };
      for (let round = 0; round < 1_500 && missing().length > 0; round += 1) await sleep(20);
      assert.deepEqual(missing(), []);
    },
  };
}
