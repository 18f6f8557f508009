import {
  type Keypair,
  PublicKey,
  SystemProgram,
  TransactionInstruction,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js';
import { CodedError } from '../lib/coded-error.ts';
import type { Submission } from './ledger/bank.ts';
import { type DecodedTransaction, decodeTransaction } from './vm/transaction.ts';

const MEMO_PROGRAM = 'MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr';

export interface FaucetOptions {
  readonly keypair: Keypair;
  recentBlockhash(): string;
  submit(transaction: DecodedTransaction): Submission;
}

/**
 * Sends real transfers, so that confirmation, history and the search for a first funder work. The counter in the memo
 * keeps two equal airdrops in one block apart.
 */
export function createFaucet({ keypair, recentBlockhash, submit }: FaucetOptions) {
  let counter = 0;
  return function airdrop(address: string, lamports: bigint): string {
    counter += 1;
    const message = new TransactionMessage({
      payerKey: keypair.publicKey,
      recentBlockhash: recentBlockhash(),
      instructions: [
        SystemProgram.transfer({ fromPubkey: keypair.publicKey, toPubkey: new PublicKey(address), lamports }),
        new TransactionInstruction({
          programId: new PublicKey(MEMO_PROGRAM),
          keys: [],
          data: Buffer.from(`faucet ${counter}`),
        }),
      ],
    }).compileToLegacyMessage();
    const transaction = new VersionedTransaction(message);
    transaction.sign([keypair]);
    const result = submit(decodeTransaction(transaction.serialize()));
    if (!result.landed || result.record.meta.err !== null) {
      throw new CodedError('LOCAL_FAUCET', `the faucet could not send ${lamports} lamports to ${address}`);
    }
    return result.record.signature;
  };
}
