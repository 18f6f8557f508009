// Watches deposits: prints each transfer to a wallet once, also those that came while the program was not running.
//   API_KEY=KEY node deposits.mjs [ADDRESS]
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { rpc, WALLET } from './client.mjs';

const wallet = process.argv[2] ?? WALLET;
const file = process.env.STATE ?? 'deposits.json';
// Where to go on. A real program stores it in one transaction with what it does for a deposit.
let place = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {};

// Ends between two turns, so that what it has printed is stored.
let isEnding = false;
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => (isEnding = true));

while (!isEnding) {
  const options = { direction: 'in', sortOrder: 'asc', limit: 100, ...place };
  const { data, paginationToken } = await rpc('getTransfersByAddress', [wallet, options]);
  for (const { signature, uiAmount, mint, fromUserAccount } of data)
    console.log(`${signature}  ${uiAmount} of ${mint} from ${fromUserAccount}`);
  const last = data.at(-1);
  // At the end of the list, what comes later is in later slots: the list has final blocks only, each as a whole.
  if (paginationToken != null) place = { ...place, paginationToken };
  else if (last !== undefined) place = { filters: { slot: { gt: last.slot } } };
  // Under another name first: a program that is killed while it writes leaves the old one.
  writeFileSync(`${file}.new`, JSON.stringify(place));
  renameSync(`${file}.new`, file);
  if (paginationToken == null) await new Promise((resolve) => setTimeout(resolve, 1000));
}
