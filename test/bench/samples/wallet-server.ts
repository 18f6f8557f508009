/** The daemon of rows G5c and G5d, in a process of its own, beside a chain on which an economy of some wallets went on for a while. */
import { startChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { walletClient } from '../../helpers/wallet-client.ts';
import { createEconomy } from '../../helpers/wallet-economy.ts';
import { PROXY_KEY } from './proxy-answers.ts';

const FOR_THE_RUN_MS = 3_600_000;

const [seed, blocks] = process.argv.slice(2).map(Number) as [number, number];
const chain = await startChain();
const economy = await createEconomy(chain, seed);
await economy.run(blocks);
const daemon = await startDaemon({
  chain,
  key: PROXY_KEY,
  config: { wallet: { balances: { cacheMs: FOR_THE_RUN_MS, pagesMs: FOR_THE_RUN_MS } } },
});
const client = walletClient(daemon);
let best = { wallet: '', rows: -1 };
for (const wallet of economy.wallets) {
  const { data } = await client.get<{ data: readonly unknown[] }>(`${wallet}/history?limit=100`);
  if (data.length > best.rows) best = { wallet, rows: data.length };
}
process.once('disconnect', () => process.exit(0));
process.send?.({ port: Number(new URL(daemon.apiUrl).port), wallet: best.wallet });
