/** From a block that the local chain has to the first attempt at the receiver. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Keypair, LAMPORTS_PER_SOL, SystemProgram, Transaction } from '@solana/web3.js';
import { apiOf, startWebhookDaemon } from '../../conformance/webhooks/daemon.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { type Arrivals, startArrivals } from '../samples/arrivals.ts';

const COUNT = { smoke: 3, quick: 60, full: 300 };
/** Longer than the follower's pause: blocks come at any point of it. */
const LONGEST_PAUSE_MS = 500;

async function run(options: RunOptions): Promise<RowResult[]> {
  const missing = await chainMissing();
  if (missing !== null) {
    options.say(missing);
    return [];
  }
  const [chain, arrivals] = [await startChain(), await startArrivals()];
  const daemon = await startWebhookDaemon({ allowCidrs: ['127.0.0.0/8'], allowHttp: true }, { chain });
  try {
    const to = Keypair.generate();
    const { status } = await apiOf(daemon.apiUrl, daemon.key)('POST', '/v0/webhooks', {
      webhookURL: `${arrivals.url}/hook`,
      webhookType: 'raw',
      accountAddresses: [to.publicKey.toBase58()],
    });
    if (status !== 200) throw new Error(`the webhook was answered with ${status}`);
    return [await measure(chain, to, arrivals, options)];
  } finally {
    await daemon.stop();
    arrivals.close();
    await chain.stop();
  }
}

async function measure(
  chain: TestChain,
  to: Keypair,
  arrivals: Arrivals,
  { size, seed, say }: RunOptions,
): Promise<RowResult> {
  const draw = createSfc32(seed);
  const payer = Keypair.generate();
  await chain.fund(payer.publicKey.toBase58(), 100 * LAMPORTS_PER_SOL);
  const waited: number[] = [];
  for (let at = 0; at < COUNT[size]; at += 1) {
    await sleep(draw.below(LONGEST_PAUSE_MS));
    const pay = SystemProgram.transfer({
      fromPubkey: payer.publicKey,
      toPubkey: to.publicKey,
      lamports: 1_000_000 + at,
    });
    const arrived = arrivals.take(1);
    // The chain makes a block of each transaction before it answers.
    await chain.connection.sendTransaction(new Transaction().add(pay), [payer], { skipPreflight: true });
    const available = performance.now();
    const [first] = await arrived;
    waited.push(Math.max(0, (first?.at ?? Number.NaN) - available));
  }
  waited.sort((a, b) => a - b);
  const at = (share: number): string => (waited[Math.ceil(waited.length * share) - 1] ?? Number.NaN).toFixed(1);
  say(`p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`);
  return {
    row: 'webhook-wait',
    name: 'from a block to the first attempt',
    unit: 'ms',
    ours: waited,
    baseline: [],
    ratio: null,
    goal: 'a report: p50 and p99',
    verdict: 'not assessed',
    sizes: { blocks: waited.length },
    seed,
    notes: [
      `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`,
      'from the answer of the node that has made the block to the arrival of the request; one webhook, one block at a time, default settings, SQLite',
    ],
  };
}

export const row: Row = { id: 'webhook-wait', name: 'from a block to the first attempt', run };
