// Every transfer of a wallet since its beginning as CSV, oldest first, for a spreadsheet or a tax program.
//   API_KEY=KEY node accounting.mjs [ADDRESS] > transfers.csv
import { rpc, WALLET } from './client.mjs';

const wallet = process.argv[2] ?? WALLET;
const cell = (value) => (/[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? ''));
const COLUMNS = ['time', 'direction', 'amount', 'mint', 'counterparty', 'type', 'signature'];
console.log(COLUMNS.join(','));

let paginationToken;
do {
  const page = await rpc('getTransfersByAddress', [wallet, { sortOrder: 'asc', limit: 100, paginationToken }]);
  for (const { blockTime, fromUserAccount, toUserAccount, uiAmount, mint, type, signature } of page.data) {
    const isOut = fromUserAccount === wallet;
    const time = new Date(blockTime * 1000).toISOString();
    const counterparty = isOut ? toUserAccount : fromUserAccount;
    console.log([time, isOut ? 'out' : 'in', uiAmount, mint, counterparty, type, signature].map(cell).join(','));
  }
  ({ paginationToken } = page);
} while (paginationToken !== null && paginationToken !== undefined);
