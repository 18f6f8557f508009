// All token accounts of an owner, page by page: also of one who has more than a node answers at once.
//   API_KEY=KEY node token-accounts.mjs OWNER
import { rpc, WALLET } from './client.mjs';

const owner = process.argv[2] ?? WALLET;
const TOKEN_PROGRAM = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA';
let paginationKey;
let count = 0;
do {
  const options = { encoding: 'jsonParsed', limit: 1_000, paginationKey };
  const { value } = await rpc('getTokenAccountsByOwnerV2', [owner, { programId: TOKEN_PROGRAM }, options]);
  for (const { pubkey, account } of value.accounts) {
    const { mint, tokenAmount } = account.data.parsed.info;
    console.log(`${pubkey}  ${tokenAmount.uiAmountString} of ${mint}`);
  }
  count += value.accounts.length;
  ({ paginationKey } = value);
} while (paginationKey !== null && paginationKey !== undefined);
console.log(`${count} token accounts`);
