import { Keypair } from '@solana/web3.js';
import type { TestChain } from '../../helpers/chain.ts';

/** Every signature that touched a watched wallet, by wallet. */
export interface BusyWallets {
  readonly addresses: readonly string[];
  readonly sent: ReadonlyMap<string, readonly string[]>;
  stop(): Promise<void>;
}

/** Sends real transfers to a few wallets in turn, one each `everyMs`, until it is stopped. */
export function keepBusy(chain: TestChain, wallets: number, everyMs: number): BusyWallets {
  const addresses = Array.from({ length: wallets }, () => Keypair.generate().publicKey.toBase58());
  const sent = new Map<string, string[]>(addresses.map((address) => [address, []]));
  let running = true;
  const loop = (async () => {
    for (let turn = 0; running; turn += 1) {
      const address = addresses[turn % wallets] as string;
      sent.get(address)?.push(await chain.fund(address, 1_000_000 + turn));
      await new Promise((resolve) => setTimeout(resolve, everyMs));
    }
  })();
  return {
    addresses,
    sent,
    async stop() {
      running = false;
      await loop;
    },
  };
}
