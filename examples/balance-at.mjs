// What a wallet had at a time of the past: a minute ago, or when you say.
//   API_KEY=KEY node balance-at.mjs [ADDRESS] [2026-01-31T12:00:00Z]
import { ask, WALLET } from './client.mjs';

const wallet = process.argv[2] ?? WALLET;
const time = process.argv[3] === undefined ? Date.now() - 60_000 : Date.parse(process.argv[3]);
const SOL = 'So11111111111111111111111111111111111111111';
const found = await ask(`/v1/wallet/${wallet}/balance-at?mint=${SOL}&time=${Math.floor(time / 1000)}`);
console.log(JSON.stringify(found, null, 2));
