import { encode } from '../../lib/base58.ts';
import type { NormalTransaction } from '../../ports/block.ts';
import { nativeChange, type TokenChange } from '../movements/balance-changes.ts';
import { authorityEvents } from './authority-events.ts';
import { classify, type ParserFault } from './classify.ts';
import type { Parsed, TransactionParser } from './parser.ts';
import { PARSERS } from './registry.ts';
import { tokenTransfer } from './token-transfer.ts';
import {
  createView,
  DEFAULT_OPTIONS,
  type ParserBlock,
  type ParserOptions,
  type TransactionView,
  type ViewStep,
} from './view.ts';
import { createWords, type KnownNames, type Words } from './words.ts';

/** An enhanced transaction; members in alphabetical order at every level. */
export type EnhancedTransaction = Readonly<Record<string, unknown>> & {
  readonly type: string;
  readonly source: string;
  readonly description: string;
  readonly signature: string;
};

export interface EnhanceParts {
  /** Default: the built-in ones. */
  readonly parsers?: readonly TransactionParser[];
  readonly options?: ParserOptions;
  /** Only changes words, never what a transaction is. */
  readonly names?: KnownNames | null;
  readonly onFault?: ParserFault;
}

/** A transaction that has been read and classified. */
export interface ReadTransaction {
  readonly type: string;
  readonly source: string;
  /** base58; whose names the element tells. */
  readonly mints: readonly string[];
  /** The element, made anew at each call, with the names that are known now. */
  element(): EnhancedTransaction;
}

/** Reads a transaction: pure, never throws for what its instructions hold. */
export function readTransaction(tx: NormalTransaction, block: ParserBlock, parts: EnhanceParts = {}): ReadTransaction {
  const view = createView(tx, block, parts.options ?? DEFAULT_OPTIONS);
  const parsed = classify(view, parts.parsers ?? PARSERS, parts.onFault);
  return {
    type: parsed.type,
    source: parsed.source,
    mints: [...new Set(view.tokens.map(({ mint }) => view.key(mint)))],
    element: () => elementOf(view, parsed, createWords(parts.names ?? null)),
  };
}

/** The element of one transaction. */
export function enhance(tx: NormalTransaction, block: ParserBlock, parts: EnhanceParts = {}): EnhancedTransaction {
  return readTransaction(tx, block, parts).element();
}

function elementOf(view: TransactionView, parsed: Parsed, words: Words): EnhancedTransaction {
  const { tx } = view;
  const hasFailed = tx.error !== null;
  const moved = !hasFailed;
  return {
    accountData: accountData(view),
    description: moved ? (parsed.describe?.(words) ?? '') : '',
    events: moved ? { ...parsed.events?.(words), ...authorityEvents(view) } : {},
    fee: tx.fee,
    feePayer: view.feePayer,
    instructions: instructions(view),
    nativeTransfers: moved && parsed.hidesNative !== true ? nativeTransfers(view) : [],
    signature: tx.signature,
    slot: view.slot,
    source: parsed.source,
    timestamp: view.timestamp,
    tokenTransfers: moved ? view.tokens.map((move) => tokenTransfer(view, words, move)) : [],
    transactionError: typeof tx.error === 'string' ? { error: tx.error } : (tx.error ?? null),
    type: parsed.type,
  };
}

function accountData({ tx, movements, account, key }: TransactionView) {
  const byAccount = new Map<number, TokenChange[]>();
  for (const change of movements.tokenChanges) {
    const known = byAccount.get(change.account);
    if (known === undefined) byAccount.set(change.account, [change]);
    else known.push(change);
  }
  return Array.from(tx.keys, (_, at) => ({
    account: account(at),
    nativeBalanceChange: nativeChange(tx, at),
    tokenBalanceChanges: (byAccount.get(at) ?? []).map(({ mint, owner, decimals, change }) => ({
      mint: key(mint),
      rawTokenAmount: { decimals, tokenAmount: change.toString() },
      tokenAccount: account(at),
      userAccount: key(owner),
    })),
  }));
}

function instructions(view: TransactionView) {
  const called = ({ accounts, data, programId }: ViewStep) => ({
    accounts: Array.from(accounts, (at) => view.account(at)),
    data: encode(data),
    programId,
  });
  const rows = view.outer.map((step) => {
    const { accounts, data, programId } = called(step);
    return { accounts, data, innerInstructions: [] as object[], programId };
  });
  for (const step of view.steps) if (step.inner >= 0) rows[step.outer]?.innerInstructions.push(called(step));
  return rows;
}

/** What accounts of wrapped SOL gave back when they were closed comes last. */
function nativeTransfers(view: TransactionView) {
  const closed = view.natives.filter(({ kind }) => kind === 'closeWrapped');
  const others = view.natives.filter(({ kind }) => kind !== 'closeWrapped');
  return [...others, ...closed].map(({ amount, from, to }) => ({
    amount: lamports(amount),
    fromUserAccount: view.account(from),
    toUserAccount: view.account(to),
  }));
}

/** More than a number holds exactly is written as a bare integer all the same. */
function lamports(amount: bigint): number | bigint {
  return amount <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(amount) : amount;
}
