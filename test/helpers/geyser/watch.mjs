import Client, { CommitmentLevel } from '@triton-one/yellowstone-grpc';

const client = new Client('http://127.0.0.1:10000', 'KEY', {});
await client.connect();
const stream = await client.subscribe();
stream.on('data', ({ transaction }) => transaction && console.log(transaction.slot, transaction.transaction.signature));
stream.on('error', ({ message, cause }) => {
  console.error(`the subscription has ended: ${cause?.message ?? message}`);
  process.exitCode = 1;
});
stream.write({
  transactions: { mine: { accountInclude: ['ADDRESS'], accountExclude: [], accountRequired: [], failed: false } },
  accounts: {},
  slots: {},
  transactionsStatus: {},
  blocks: {},
  blocksMeta: {},
  entry: {},
  accountsDataSlice: [],
  commitment: CommitmentLevel.CONFIRMED,
});
