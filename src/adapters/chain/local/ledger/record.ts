import { encode } from '../../../../lib/base58.ts';
import type { DecodedTransaction } from '../vm/transaction.ts';
import type { VmOutcome } from '../vm/vm.ts';
import type { Accounts } from './accounts.ts';
import type { ResolvedKeys } from './keys.ts';
import { memoOf } from './memo.ts';
import type { TokenState } from './token-state.ts';
import type { TokenBalanceEntry, TransactionMeta, TransactionRecord } from './types.ts';
import { uiAmountOf } from './ui-amount.ts';

/** Balances of all keys of a transaction at one moment. */
export interface BalanceSheet {
  readonly lamports: readonly bigint[];
  readonly tokens: readonly (TokenState | null)[];
}

/** Reads the sheet; `after` the run only what may have been written is read anew. */
export function readBalances(accounts: Accounts, keys: ResolvedKeys, after: boolean): BalanceSheet {
  return {
    lamports: keys.all.map((key) => accounts.balance(key)),
    tokens: keys.all.map((key, index) => accounts.token(key, after && keys.writable[index] === true)),
  };
}

export interface RecordInput {
  readonly transaction: DecodedTransaction;
  readonly keys: ResolvedKeys;
  readonly slot: number;
  readonly unixSeconds: number;
  readonly outcome: VmOutcome;
  readonly before: BalanceSheet;
  readonly after: BalanceSheet;
}

export function makeRecord(input: RecordInput, accounts: Accounts): TransactionRecord {
  const { transaction, keys, slot } = input;
  return {
    signature: transaction.signatures[0]!,
    slot,
    transaction,
    keys: keys.all,
    meta: makeMeta(input, accounts),
    memo: memoOf(transaction, keys.all),
    recorded: false,
  };
}

function makeMeta({ keys, outcome, before, after, unixSeconds }: RecordInput, accounts: Accounts): TransactionMeta {
  const { err, returnData } = outcome;
  return {
    err,
    status: err === null ? { Ok: null } : { Err: err },
    fee: Number(feeOf(keys.all, before.lamports, after.lamports)),
    preBalances: before.lamports.map(exact),
    postBalances: after.lamports.map(exact),
    preTokenBalances: tokenBalances(before.tokens, accounts, unixSeconds),
    postTokenBalances: tokenBalances(after.tokens, accounts, unixSeconds),
    innerInstructions: outcome.inner.flatMap((group, index) =>
      group.length === 0 ? [] : [{ index, instructions: group.map((item) => ({ ...item, data: encode(item.data) })) }],
    ),
    logMessages: outcome.logs,
    rewards: [],
    loadedAddresses: keys.loaded,
    computeUnitsConsumed: outcome.computeUnits,
    ...(returnData === null
      ? {}
      : { returnData: { programId: returnData.programId, data: [base64(returnData.data), 'base64'] as const } }),
  };
}

/** The engine conserves lamports apart from the fee, so the fee is what is missing afterwards. */
function feeOf(keys: readonly string[], before: readonly bigint[], after: readonly bigint[]): bigint {
  const seen = new Set<string>();
  let fee = 0n;
  keys.forEach((key, index) => {
    if (seen.has(key)) return;
    seen.add(key);
    fee += before[index]! - after[index]!;
  });
  return fee;
}

function tokenBalances(
  states: readonly (TokenState | null)[],
  accounts: Accounts,
  unixSeconds: number,
): TokenBalanceEntry[] {
  return states.flatMap((state, accountIndex) => {
    if (state === null) return [];
    const { mint, owner, programId, amount } = state;
    return [
      { accountIndex, mint, owner, programId, uiTokenAmount: uiAmountOf(amount, accounts.get(mint), unixSeconds) },
    ];
  });
}

/** A number where it is exact, else a bigint, which the JSON writer prints as a bare integer. */
export function exact(value: bigint): number | bigint {
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value;
}

export function base64(data: Uint8Array): string {
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64');
}
