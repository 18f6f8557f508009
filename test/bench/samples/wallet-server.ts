/** The daemon of rows G5c and G5d, in a process of its own, beside a chain on which an economy of some wallets went on for a while. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ChainStatus } from '../../../src/ports/chain.ts';
import { startChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { walletClient } from '../../helpers/wallet-client.ts';
import { createEconomy } from '../../helpers/wallet-economy.ts';
import { PROXY_KEY } from './proxy-answers.ts';

const FOR_THE_RUN_MS = 3_600_000;
/** A wallet is kept current once what was read of its past is final and meets the blocks that are followed. */
const ROUNDS = 4;
/** Blocks above a final one. */
const FINALITY = 32;

const [seed, blocks] = process.argv.slice(2).map(Number) as [number, number];
const chain = await startChain({ finalityDepth: FINALITY });
const economy = await createEconomy(chain, seed);
await economy.run(blocks);
const daemon = await startDaemon({
  chain,
  key: PROXY_KEY,
  config: { wallet: { balances: { cacheMs: FOR_THE_RUN_MS, pagesMs: FOR_THE_RUN_MS } } },
});
const client = walletClient(daemon);
let best = { wallet: '', rows: -1 };
for (let round = 0; round < ROUNDS; round += 1) {
  for (const wallet of economy.wallets) {
    const { data } = await client.get<{ data: readonly unknown[] }>(`${wallet}/history?limit=100`);
    if (data.length > best.rows) best = { wallet, rows: data.length };
  }
  await economy.run(20);
  await sleep(500);
}
// What is final is kept in memory: of a page that is asked for again all is.
const played = await chain.connection.getSlot('confirmed');
await chain.seal(FINALITY + 8);
for (;;) {
  const { chain: chains } = (await (await fetch(`${daemon.adminUrl}/readyz`)).json()) as { chain: ChainStatus[] };
  if ((chains[0]?.finalizedSlot ?? -1) >= played && chains[0]?.lagSlots === 0) break;
  await sleep(100);
}
process.once('disconnect', () => process.exit(0));
process.send?.({ port: Number(new URL(daemon.apiUrl).port), wallet: best.wallet });
