import { Message, MessageV0, PublicKey } from '@solana/web3.js';
import { decode } from '../../lib/base58.ts';
import { CodedError, messageOf } from '../../lib/coded-error.ts';
import { wireFromJson } from '../../solana/decode/wire-bytes.ts';
import { decodeTransaction } from '../vm/transaction.ts';
import { type Bank, land, refreshClock } from './bank.ts';
import { memoOf } from './record.ts';
import type {
  JsonTransaction,
  RecordedTransaction,
  TransactionMeta,
  TransactionRecord,
  UnplacedRecord,
} from './types.ts';

/** Adds a recorded transaction to the open slot without running it; its meta is served unchanged. */
export function appendRecorded(bank: Bank, recorded: RecordedTransaction): TransactionRecord {
  const transaction = decodeTransaction(wireOf(recorded.transaction));
  const meta = recorded.meta as TransactionMeta | null;
  if (typeof meta !== 'object' || meta === null) {
    throw new CodedError('LOCAL_BAD_TRANSACTION', 'a recorded transaction needs its meta');
  }
  const signature = transaction.signatures[0]!;
  if (bank.state.record(signature) !== undefined) {
    throw new CodedError('LOCAL_BAD_TRANSACTION', `transaction ${signature} is already in the ledger`);
  }
  const loaded = meta.loadedAddresses ?? { writable: [], readonly: [] };
  const keys = [...transaction.staticKeys, ...loaded.writable, ...loaded.readonly];
  refreshClock(bank);
  const record: UnplacedRecord = {
    signature,
    slot: bank.pending.slot,
    transaction,
    keys,
    meta,
    memo: memoOf(transaction, keys),
    recorded: true,
  };
  bank.fixtures += 1;
  return land(bank, record, []);
}

/** Wire bytes of a recorded transaction in any form of `getTransaction` except parsed ones. */
function wireOf(recorded: RecordedTransaction['transaction']): Uint8Array {
  if (typeof recorded === 'string') return Buffer.from(recorded, 'base64');
  try {
    if (!('message' in recorded)) return Buffer.from(recorded[0], recorded[1] as 'base64');
    if (recorded.message.transactionConfig !== undefined) return version1Wire(recorded);
    return Buffer.concat([
      Uint8Array.from([recorded.signatures.length]),
      ...recorded.signatures.map((signature) => decode(signature)!),
      messageBytes(recorded.message),
    ]);
  } catch (error) {
    throw new CodedError('LOCAL_BAD_TRANSACTION', `not a recorded transaction: ${messageOf(error)}`, { cause: error });
  }
}

function version1Wire(recorded: JsonTransaction): Uint8Array {
  const bytes = wireFromJson(recorded, 1);
  if (typeof bytes === 'string') throw new Error(bytes);
  return bytes;
}

function messageBytes(message: JsonTransaction['message']): Uint8Array {
  const { header, accountKeys, recentBlockhash, instructions, addressTableLookups } = message;
  if (addressTableLookups === undefined) {
    const plain = instructions.map(({ programIdIndex, accounts, data }) => ({
      programIdIndex,
      accounts: [...accounts],
      data,
    }));
    return new Message({ header, accountKeys: [...accountKeys], recentBlockhash, instructions: plain }).serialize();
  }
  return new MessageV0({
    header,
    staticAccountKeys: accountKeys.map((key) => new PublicKey(key)),
    recentBlockhash,
    compiledInstructions: instructions.map(({ programIdIndex, accounts, data }) => ({
      programIdIndex,
      accountKeyIndexes: [...accounts],
      data: decode(data)!,
    })),
    addressTableLookups: addressTableLookups.map(({ accountKey, writableIndexes, readonlyIndexes }) => ({
      accountKey: new PublicKey(accountKey),
      writableIndexes: [...writableIndexes],
      readonlyIndexes: [...readonlyIndexes],
    })),
  }).serialize();
}
