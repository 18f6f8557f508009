import { Parhelion, ParhelionError } from 'parhelion-sdk';

const { PARHELION_BASE: baseUrl, PARHELION_KEY: apiKey } = process.env; // http://127.0.0.1:8787 and KEY
const parhelion = new Parhelion({ baseUrl, apiKey });
const wallet = '11111111111111111111111111111111';

console.log('slot', await parhelion.rpc.getSlot()); // a method of JSON-RPC
console.log('lamports', (await parhelion.rpc.getBalance(wallet)).value);
console.log('rows', (await parhelion.getWalletBalances(wallet, { limit: 10 })).balances.length); // a route

try {
  await parhelion.getWebhook('5e1a3c1e-4f0b-4b6f-9d55-0c8a2f6f7d11');
} catch (error) {
  if (!(error instanceof ParhelionError)) throw error;
  console.log(error.kind, error.status, error.message); // http 404 webhook not found
}
