import {
  type AddressLookupTableAccount,
  type Keypair,
  type TransactionInstruction,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js';
import { CodedError } from '../../lib/coded-error.ts';
import type { Chain } from '../chain.ts';
import { seal } from '../ledger/bank.ts';
import { decodeTransaction } from '../vm/transaction.ts';

export type Send = ReturnType<typeof createSender>;

/** Signs and sends through the chain's own entrance; the first signer pays. */
export function createSender({ bank, node }: Chain) {
  return function send(
    instructions: TransactionInstruction[],
    signers: readonly Keypair[],
    { tables = [], mayFail = false }: { tables?: AddressLookupTableAccount[]; mayFail?: boolean } = {},
  ): string {
    const message = new TransactionMessage({
      payerKey: signers[0]!.publicKey,
      recentBlockhash: bank.state.tip().blockhash,
      instructions,
    });
    const compiled = tables.length > 0 ? message.compileToV0Message(tables) : message.compileToLegacyMessage();
    const transaction = new VersionedTransaction(compiled);
    transaction.sign([...signers]);
    const result = node.submit(decodeTransaction(transaction.serialize()));
    const err = result.landed ? result.record.meta.err : result.err;
    if (!result.landed || (err !== null && !mayFail)) {
      throw new CodedError('LOCAL_BAD_TRANSACTION', `a demo transaction failed: ${JSON.stringify(err)}`);
    }
    // With a slot timer several transactions would share a block: the demo wants a history that spreads.
    if (bank.pending.records.length > 0) seal(bank);
    return result.record.signature;
  };
}
