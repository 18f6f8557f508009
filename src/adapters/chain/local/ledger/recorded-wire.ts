import { Message, MessageV0, PublicKey } from '@solana/web3.js';
import { decode } from '../../../../lib/base58.ts';
import { CodedError, messageOf } from '../../../../lib/coded-error.ts';
import type { JsonTransaction, RecordedTransaction } from './types.ts';

/** Wire bytes of a recorded transaction in any form that `getTransaction` gives, parsed ones excepted. */
export function wireOf(recorded: RecordedTransaction['transaction']): Uint8Array {
  if (typeof recorded === 'string') return Buffer.from(recorded, 'base64');
  try {
    if (!('message' in recorded)) return Buffer.from(recorded[0], recorded[1] as 'base64');
    return Buffer.concat([
      Uint8Array.from([recorded.signatures.length]),
      ...recorded.signatures.map((signature) => decode(signature)!),
      messageBytes(recorded.message),
    ]);
  } catch (error) {
    throw new CodedError('LOCAL_BAD_TRANSACTION', `not a recorded transaction: ${messageOf(error)}`, { cause: error });
  }
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
