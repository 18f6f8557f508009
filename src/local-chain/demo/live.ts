import { SystemProgram } from '@solana/web3.js';
import type { Chain } from '../chain.ts';
import { fork } from '../ledger/forks.ts';
import { demoWallets } from './scenario.ts';
import { createSender } from './sender.ts';

const PAUSE_MS = 3_000;
const FORK_DEPTH = 2;
const SMALL_LAMPORTS = 10_000;

/**
 * What keeps the demo moving once somebody follows it: one fork, so that recovery is seen, then a small payment every few
 * seconds, round and round, so that nobody runs dry but for the fees. Answers what stops it. The fork waits for the first
 * pause to end: a follower that has read no block yet would not notice it.
 */
export function goLive(chain: Chain): () => void {
  const { alice, bob, carol, dave } = demoWallets();
  const ring = [alice, bob, carol, dave];
  const send = createSender(chain);
  let turn = 0;
  let forked = false;
  const timer = setInterval(() => {
    if (!forked) {
      forked = true;
      fork(chain.bank, { depth: FORK_DEPTH, replay: 'all' });
      return;
    }
    const from = ring[turn % ring.length]!;
    const to = ring[(turn + 1) % ring.length]!;
    // Equal payments under one blockhash would be one transaction: the amount counts them.
    const lamports = SMALL_LAMPORTS + turn;
    turn += 1;
    const payment = SystemProgram.transfer({ fromPubkey: from.publicKey, toPubkey: to.publicKey, lamports });
    send([payment], [from], { mayFail: true });
  }, PAUSE_MS);
  return () => clearInterval(timer);
}
