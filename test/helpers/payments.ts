import { Keypair } from '@solana/web3.js';
import type { TestChain } from './chain.ts';

/** Payments to a few wallets, one after the other. */
export interface Payments {
  readonly addresses: readonly string[];
  /** Signatures by wallet, in order. */
  readonly sent: ReadonlyMap<string, readonly string[]>;
  /** Payments of a wallet that were begun so far: what is sent later has a higher position in `sent`. */
  begun(address: string): number;
  /** Lamports of the first so many payments of a wallet. */
  sumOf(address: string, count: number): number;
  /** No more payments until `resume`; resolves when the last one has landed. */
  pause(): Promise<void>;
  resume(): void;
  stop(): Promise<void>;
}

const MIN_LAMPORTS = 1_000_000;

/** Sends real transfers to new wallets in turn, one each `everyMs`, until it is stopped. */
export function startPayments(chain: TestChain, wallets: number, everyMs: number): Payments {
  const addresses = Array.from({ length: wallets }, () => Keypair.generate().publicKey.toBase58());
  const sent = new Map<string, string[]>(addresses.map((address) => [address, []]));
  const begun = new Map<string, number>();
  let turn = 0;
  let running = false;
  let loop: Promise<void> = Promise.resolve();

  async function pay(): Promise<void> {
    while (running) {
      const address = addresses[turn % wallets] as string;
      begun.set(address, (begun.get(address) ?? 0) + 1);
      sent.get(address)?.push(await chain.fund(address, MIN_LAMPORTS + turn));
      turn += 1;
      await new Promise((resolve) => setTimeout(resolve, everyMs));
    }
  }
  const pause = () => {
    running = false;
    return loop;
  };
  const resume = () => {
    if (running) return;
    running = true;
    loop = loop.then(pay);
  };
  resume();
  return {
    addresses,
    sent,
    pause,
    resume,
    stop: pause,
    begun: (address) => begun.get(address) ?? 0,
    sumOf(address, count) {
      const first = addresses.indexOf(address);
      // Its payments are those of every so manieth turn.
      return count * (MIN_LAMPORTS + first) + (wallets * count * (count - 1)) / 2;
    },
  };
}
