// What a wallet has, and what it did last.
//   API_KEY=KEY node wallet.mjs [ADDRESS]
import { ask, WALLET } from './client.mjs';

const wallet = process.argv[2] ?? WALLET;
const { balances, totalUsdValue } = await ask(`/v1/wallet/${wallet}/balances`);
for (const { symbol, mint, balance } of balances) console.log(`${symbol ?? mint}  ${balance}`);
if (totalUsdValue > 0) console.log(`worth $${totalUsdValue}`);

const { data } = await ask(`/v1/wallet/${wallet}/transfers?limit=5`);
for (const { timestamp, direction, amount, symbol, mint, counterparty } of data)
  console.log(
    `${new Date(timestamp * 1000).toISOString()}  ${direction} ${amount} ${symbol ?? mint}  ${counterparty ?? ''}`,
  );
