import { encode, encode32 } from '../../lib/base58.ts';
import type { NormalTransaction } from '../../ports/block.ts';
import type { ParserOptions } from '../../ports/parsers.ts';
import { nativeChange, type TokenChange } from '../movements/movement.ts';
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../programs.ts';
import {
  createTransactionView,
  createWords,
  DEFAULT_OPTIONS,
  type KnownNames,
  type Parsed,
  type ParserBlock,
  type TransactionParser,
  type TransactionView,
  tokenTransfer,
  type ViewStep,
  type Words,
} from './parser.ts';
import { classify, PARSERS, type ParserFault } from './registry.ts';

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
  /** Only changes texts, never the type of a transaction. */
  readonly names?: KnownNames | null;
  readonly onFault?: ParserFault;
}

/** A parsed and classified transaction. */
export interface ReadTransaction {
  readonly type: string;
  readonly source: string;
  /** base58; mints whose names occur in the element. */
  readonly mints: readonly string[];
  /** The element, rebuilt on each call with the names known at that time. */
  element(): EnhancedTransaction;
}

/** Reads a transaction: pure, never throws for the content of instructions. */
export function readTransaction(tx: NormalTransaction, block: ParserBlock, parts: EnhanceParts = {}): ReadTransaction {
  const view = createTransactionView(tx, block, parts.options ?? DEFAULT_OPTIONS);
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

/** Lamports returned by closed accounts of wrapped SOL come last. */
function nativeTransfers(view: TransactionView) {
  const closed = view.natives.filter(({ kind }) => kind === 'closeWrapped');
  const others = view.natives.filter(({ kind }) => kind !== 'closeWrapped');
  return [...others, ...closed].map(({ amount, from, to }) => ({
    amount: lamports(amount),
    fromUserAccount: view.account(from),
    toUserAccount: view.account(to),
  }));
}

/** Amounts beyond 2^53 are written as bare integers too. */
function lamports(amount: bigint): number | bigint {
  return amount <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(amount) : amount;
}

const SET_AUTHORITY = 6;

/** `setAuthority` of `events`, when enabled and present. */
function authorityEvents(view: TransactionView): Readonly<Record<string, unknown>> {
  if (!view.options.setAuthorityEvents) return {};
  const changes = view.steps.filter(
    ({ programId, data, accounts }) =>
      (programId === TOKEN_PROGRAM || programId === TOKEN_2022_PROGRAM) &&
      data[0] === SET_AUTHORITY &&
      data.length >= 3 &&
      accounts.length >= 2,
  );
  return changes.length === 0 ? {} : { setAuthority: changes.map((step) => entry(view, step)) };
}

function entry(view: TransactionView, { accounts, data, outer, inner }: ViewStep) {
  return {
    account: view.account(accounts[0]),
    from: view.account(accounts[1]),
    innerInstructionIndex: inner < 0 ? null : inner,
    instructionIndex: outer,
    to: data[2] === 1 && data.length >= 35 ? encode32(data, 3) : null,
  };
}

/** A parser contributed by a plugin: it sees only transactions and blocks. */
interface SimpleParser {
  readonly name: string;
  readonly programs: readonly string[];
  readonly isInnerEnough?: boolean;
  parse(
    transaction: NormalTransaction,
    block: ParserBlock,
  ): {
    readonly type: string;
    readonly source: string;
    readonly description?: string;
    readonly events?: Readonly<Record<string, unknown>>;
  } | null;
}

/** Wraps a parser of a plugin. */
export function contributedParser(parser: SimpleParser): TransactionParser {
  return {
    name: parser.name,
    programs: parser.programs,
    isInnerEnough: parser.isInnerEnough ?? false,
    parse({ tx, block }) {
      const parsed = parser.parse(tx, block);
      if (parsed === null) return null;
      const { type, source, description = '', events = {} } = parsed;
      return { type, source, describe: () => description, events: () => events };
    },
  };
}
