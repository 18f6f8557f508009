// The newest transactions of an address, each with its instructions by name.
//   API_KEY=KEY node explain.mjs [ADDRESS]
import { ask, rpc, WALLET } from './client.mjs';

const address = process.argv[2] ?? WALLET;
const newest = await rpc('getSignaturesForAddress', [address, { limit: 5 }]);
const transactions = await ask('/v0/transactions', { transactions: newest.map(({ signature }) => signature) });
for (const { signature, type, source, description, fee } of transactions)
  console.log(`${signature}\n  ${type} by ${source}, fee ${fee}\n  ${description}`);
