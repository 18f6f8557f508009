import { createHash } from 'node:crypto';
import { encode, encode32 } from '../../../src/lib/base58.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';

/** A transaction as far as matching cares. Numbers stand for addresses. */
export interface TransactionPlan {
  /** Different names give different signatures. */
  readonly name: string;
  readonly keys?: readonly number[];
  readonly loaded?: readonly number[];
  /** Owners of token balances. */
  readonly owners?: readonly number[];
  readonly failed?: boolean;
  /** Makes the body about this much longer. */
  readonly padBytes?: number;
}

export interface BlockPlan {
  readonly slot: number;
  readonly parentSlot?: number;
  /** Tells blocks of one slot on different forks apart. */
  readonly fork?: string;
  readonly transactions: readonly TransactionPlan[];
}

export const signatureOf = (name: string): string => encode(Buffer.concat([sha256(`${name}/a`), sha256(`${name}/b`)]));
const hashOf = (slot: number, fork: string): string => encode(sha256(`${slot}/${fork}`));
const FEE_PAYER = 4_000_000_000;
const MINT = 4_000_000_001;
const PROGRAM = 4_000_000_002;

/** The block as the decoder makes it of a node's JSON answer. */
export function makeBlock({ slot, parentSlot = slot - 1, fork = '', transactions }: BlockPlan): ChainBlock {
  return decodeBlock(slot, {
    blockhash: hashOf(slot, fork),
    previousBlockhash: hashOf(parentSlot, fork),
    parentSlot,
    blockHeight: slot,
    blockTime: 1_700_000_000 + slot,
    transactions: transactions.map(transactionJson),
  });
}

function transactionJson(plan: TransactionPlan): object {
  const { name, keys = [], loaded = [], owners = [], failed = false, padBytes = 0 } = plan;
  const accountKeys = [FEE_PAYER, ...keys, PROGRAM].map(addressOf);
  const all = accountKeys.length + loaded.length;
  return {
    transaction: {
      signatures: [signatureOf(name)],
      message: {
        accountKeys,
        header: { numRequiredSignatures: 1, numReadonlySignedAccounts: 0, numReadonlyUnsignedAccounts: 1 },
        instructions: [{ programIdIndex: accountKeys.length - 1, accounts: [0], data: '3Bxs4h24hBtQy9rw' }],
        recentBlockhash: addressOf(7),
        addressTableLookups:
          loaded.length === 0
            ? []
            : [{ accountKey: addressOf(8), writableIndexes: loaded.map((_, at) => at), readonlyIndexes: [] }],
      },
    },
    meta: {
      err: failed ? { InstructionError: [0, { Custom: 1 }] } : null,
      fee: 5_000,
      innerInstructions: [],
      loadedAddresses: { writable: loaded.map(addressOf), readonly: [] },
      logMessages: padBytes === 0 ? [] : ['x'.repeat(padBytes)],
      preBalances: Array.from({ length: all }, () => 1),
      postBalances: Array.from({ length: all }, () => 1),
      preTokenBalances: [],
      postTokenBalances: owners.map((owner) => ({
        accountIndex: 0,
        mint: addressOf(MINT),
        owner: addressOf(owner),
        programId: addressOf(PROGRAM),
        uiTokenAmount: { amount: '1', decimals: 0, uiAmount: 1, uiAmountString: '1' },
      })),
      rewards: [],
    },
    version: 0,
  };
}

const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest();

/** The address with the number in its first bytes. */
export function addressOf(number: number): string {
  const key = Buffer.alloc(32, 1);
  key.writeUInt32BE(number, 0);
  return encode32(key);
}
