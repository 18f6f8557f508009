import { CodedError } from '../../../../lib/coded-error.ts';
import { decodeTransaction } from '../vm/transaction.ts';
import { type Bank, land, refreshClock } from './bank.ts';
import { memoOf } from './memo.ts';
import { wireOf } from './recorded-wire.ts';
import type { RecordedTransaction, TransactionMeta, TransactionRecord } from './types.ts';

/** Puts a recorded transaction into the open slot without running it; its meta is served unchanged. */
export function appendRecorded(bank: Bank, recorded: RecordedTransaction): TransactionRecord {
  const transaction = decodeTransaction(wireOf(recorded.transaction));
  const meta = recorded.meta as TransactionMeta | null;
  if (typeof meta !== 'object' || meta === null) {
    throw new CodedError('LOCAL_BAD_TRANSACTION', 'a recorded transaction needs its meta');
  }
  const signature = transaction.signatures[0]!;
  if (bank.state.record(signature) !== undefined) {
    throw new CodedError('LOCAL_BAD_TRANSACTION', `transaction ${signature} is in the ledger already`);
  }
  const loaded = meta.loadedAddresses ?? { writable: [], readonly: [] };
  const keys = [...transaction.staticKeys, ...loaded.writable, ...loaded.readonly];
  refreshClock(bank);
  const record: TransactionRecord = {
    signature,
    slot: bank.pending.slot,
    transaction,
    keys,
    meta,
    memo: memoOf(transaction, keys),
    recorded: true,
  };
  bank.fixtures += 1;
  land(bank, record, []);
  return record;
}
