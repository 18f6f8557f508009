/** Makes a block of a transaction that only its parsed form is known of. */
import type { ChainBlock } from '../../src/ports/block.ts';
import { decodeBlock } from '../../src/solana/decode/decode-block.ts';

interface HostedCall {
  readonly programId: string;
  readonly accounts: readonly string[];
  readonly data: string;
}

export interface HostedTransfer {
  readonly fromTokenAccount: string;
  readonly toTokenAccount: string;
  readonly fromUserAccount: string;
  readonly toUserAccount: string;
  readonly tokenAmount: number;
  readonly mint: string;
  readonly tokenStandard: string;
}

/** An element as the hosted parser answers it. */
export interface HostedElement {
  readonly accountData: readonly {
    readonly account: string;
    readonly nativeBalanceChange: number;
    readonly tokenBalanceChanges: readonly {
      readonly userAccount: string;
      readonly tokenAccount: string;
      readonly mint: string;
      readonly rawTokenAmount: { readonly tokenAmount: string; readonly decimals: number };
    }[];
  }[];
  readonly description: string;
  readonly events: Record<string, unknown>;
  readonly fee: number;
  readonly feePayer: string;
  readonly instructions: readonly (HostedCall & { readonly innerInstructions: readonly HostedCall[] })[];
  readonly nativeTransfers: readonly {
    readonly amount: number;
    readonly fromUserAccount: string;
    readonly toUserAccount: string;
  }[];
  readonly signature: string;
  readonly slot: number;
  readonly source: string;
  readonly timestamp: number;
  readonly tokenTransfers: readonly HostedTransfer[];
  readonly transactionError: unknown;
  readonly type: string;
}

const ANY_HASH = '1'.repeat(32);

/** A block with nothing else in it. */
export function rebuildBlock(element: HostedElement, lamportsBefore?: (account: string) => number): ChainBlock {
  return decodeBlock(element.slot, {
    blockhash: ANY_HASH,
    previousBlockhash: ANY_HASH,
    parentSlot: element.slot - 1,
    blockHeight: null,
    blockTime: element.timestamp,
    transactions: [rebuildTransaction(element, lamportsBefore)],
  });
}

/**
 * What `getTransaction` with encoding json would answer. The balances before are 0, or what was taken, plus `lamportsBefore` of the
 * account (default: nothing more).
 */
export function rebuildTransaction(element: HostedElement, lamportsBefore: (account: string) => number = () => 0) {
  const accounts = element.accountData.map(({ account }) => account);
  const called = element.instructions.flatMap((outer) => [outer, ...(outer.innerInstructions ?? [])]);
  // An answer that was shortened by hand may name accounts in its instructions alone.
  const keys = [...new Set([...accounts, ...called.flatMap((call) => [call.programId, ...call.accounts])])];
  const at = new Map(keys.map((key, index) => [key, index]));
  const call = ({ programId, accounts: named, data }: HostedCall) => ({
    programIdIndex: at.get(programId)!,
    accounts: named.map((account) => at.get(account)!),
    data,
  });
  const changes = new Map(element.accountData.map((row) => [row.account, row.nativeBalanceChange]));
  const changeOf = (key: string): number => changes.get(key) ?? 0;
  const before = keys.map((key) => Math.max(0, -changeOf(key)) + lamportsBefore(key));
  return {
    slot: element.slot,
    blockTime: element.timestamp,
    version: 'legacy',
    transaction: {
      signatures: [element.signature],
      message: {
        accountKeys: keys,
        header: { numRequiredSignatures: 1, numReadonlySignedAccounts: 0, numReadonlyUnsignedAccounts: 0 },
        recentBlockhash: ANY_HASH,
        instructions: element.instructions.map(call),
      },
    },
    meta: {
      err: element.transactionError ?? null,
      fee: element.fee,
      logMessages: [],
      innerInstructions: element.instructions.flatMap(({ innerInstructions }, index) =>
        (innerInstructions ?? []).length > 0 ? [{ index, instructions: innerInstructions.map(call) }] : [],
      ),
      preBalances: before,
      postBalances: before.map((lamports, index) => lamports + changeOf(keys[index]!)),
      ...tokenBalances(element, at),
    },
  };
}

function tokenBalances(element: HostedElement, at: ReadonlyMap<string, number>) {
  const rows = element.accountData.flatMap(({ tokenBalanceChanges }) => tokenBalanceChanges);
  const side = (amountOf: (change: bigint) => bigint) =>
    rows.map(({ tokenAccount, mint, userAccount, rawTokenAmount: { tokenAmount, decimals } }) => ({
      accountIndex: at.get(tokenAccount)!,
      mint,
      owner: userAccount,
      uiTokenAmount: { amount: String(amountOf(BigInt(tokenAmount))), decimals },
    }));
  const positive = (value: bigint): bigint => (value > 0n ? value : 0n);
  return {
    preTokenBalances: side((change) => positive(-change)),
    postTokenBalances: side((change) => positive(change)),
  };
}
