export { transactionTypes } from '../../../src/solana/transaction-types.ts';
