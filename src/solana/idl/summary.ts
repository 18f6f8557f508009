/** What a transaction and its instructions did, in one sentence: only what balances, movements and names of instructions prove. */

import type { NormalTransaction } from '../../ports/block.ts';
import { plainAmount } from '../accounts/amounts.ts';
import type { Movement } from '../movements/movement.ts';
import {
  createTransactionView,
  DEFAULT_OPTIONS,
  type ParserBlock,
  solAmount,
  type TransactionView,
  type Words,
} from '../parsers/parser.ts';
import { classify, PARSERS } from '../parsers/registry.ts';
import {
  ASSOCIATED_TOKEN_PROGRAM,
  COMPUTE_BUDGET_PROGRAM,
  MEMO_PROGRAMS,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
  WRAPPED_SOL_MINT,
} from '../programs.ts';

/** What is read of a parsed instruction. */
interface NamedInstruction {
  readonly instructionIndex: number;
  readonly innerInstructionIndex: number | null;
  readonly programId: string;
  readonly programName: string | null;
  readonly instructionName: string | null;
  readonly decoded: { readonly accounts: readonly { readonly name: string; readonly pubkey: string }[] } | null;
}

type SummaryType =
  | 'add_liquidity'
  | 'create_account'
  | 'create_token_account'
  | 'remove_liquidity'
  | 'swap'
  | 'transfer';

export interface TransactionSummary {
  readonly type: SummaryType;
  readonly description: string;
  readonly parsedData: SwapData | null;
}

interface SwapLegs {
  /** Source name in lower case; null for a market that is not in the list. */
  readonly protocol: string | null;
  /** Raw units as text. */
  readonly in_amount: string;
  readonly actual_out_amount: string;
  readonly input_mint: string;
  readonly output_mint: string;
}

interface SwapData extends SwapLegs {
  /** Swaps with exactly one known token in and one out. */
  readonly inner_swaps: readonly SwapLegs[];
}

interface Summaries {
  readonly transaction: TransactionSummary | null;
  /** By `instructionKey`. */
  readonly instructions: ReadonlyMap<string, TransactionSummary>;
}

export const instructionKey = (outer: number, inner: number | null): string => `${outer}/${inner ?? -1}`;

const NOTHING: Summaries = { transaction: null, instructions: new Map() };

/** None of a failed transaction. */
export function summarizeMovements(
  tx: NormalTransaction,
  block: ParserBlock,
  instructions: readonly NamedInstruction[],
  words: Words,
): Summaries {
  if (tx.error !== null) return NOTHING;
  const view = createTransactionView(tx, block, DEFAULT_OPTIONS);
  return {
    transaction: wholeSummary(view, instructions, words),
    instructions: new Map(
      view.movements.moves.flatMap((move) => {
        const summary = moveSummary(view, move, words);
        return summary === null ? [] : [[instructionKey(move.outer, move.inner), summary] as const];
      }),
    ),
  };
}

/** Programs whose instructions say nothing about what a transaction is for. */
const BESIDE = new Set([COMPUTE_BUDGET_PROGRAM, ...MEMO_PROGRAMS]);

function wholeSummary(
  view: TransactionView,
  instructions: readonly NamedInstruction[],
  words: Words,
): TransactionSummary | null {
  const found = classify(view, PARSERS);
  const description = found.describe?.(words) ?? '';
  if (found.type === 'SWAP') return { type: 'swap', description, parsedData: swapData(view, found, words) };
  if (found.type === 'TRANSFER') return { type: 'transfer', description, parsedData: null };
  const outer = instructions.filter(
    ({ innerInstructionIndex, programId }) => innerInstructionIndex === null && !BESIDE.has(programId),
  );
  return creation(view, outer) ?? liquidity(view, outer);
}

/** A message that does nothing but create accounts. */
function creation(view: TransactionView, outer: readonly NamedInstruction[]): TransactionSummary | null {
  const kinds = outer.map(({ programId, instructionName }) => `${CREATORS.get(programId)} ${instructionName}`);
  if (!kinds.every((kind) => CREATIONS.test(kind) || INITIALIZATIONS.test(kind))) return null;
  // One that was there before was not created.
  const before = new Map(Array.from(view.tx.keys, (_, at) => [view.account(at), view.tx.preBalances[at] ?? 0]));
  const created = outer.flatMap(({ decoded }, at) => {
    if (!CREATIONS.test(kinds[at]!)) return [];
    const account = decoded?.accounts.find(({ name }) => name === 'ata' || name === 'new_account')?.pubkey;
    return account !== undefined && before.get(account) === 0 ? [account] : [];
  });
  if (created.length === 0) return null;
  const isToken = kinds.some((kind) => TOKEN_CREATIONS.test(kind));
  const what = isToken ? 'token account' : 'account';
  const which = created.length === 1 ? `${what} ${created[0]}` : `${created.length} ${what}s`;
  return {
    type: isToken ? 'create_token_account' : 'create_account',
    description: `${view.feePayer} created ${which}.`,
    parsedData: null,
  };
}

/** By address: anybody can publish an interface that calls its program `associated_token`. */
const CREATORS: ReadonlyMap<string, string> = new Map([
  [SYSTEM_PROGRAM, 'system'],
  [ASSOCIATED_TOKEN_PROGRAM, 'associated_token'],
  [TOKEN_PROGRAM, 'token'],
  [TOKEN_2022_PROGRAM, 'token_2022'],
]);

const CREATIONS = /^(?:system create_account(?:_with_seed)?|associated_token create_associated_token(?:_idempotent)?)$/;
const INITIALIZATIONS = /^(?:token|token_2022) initialize_(?:account[23]?|immutable_owner)$/;
const TOKEN_CREATIONS = /^associated_token |^token(?:_2022)? initialize_account[23]?$/;

const ADDED = /^(?:add|increase|deposit)_(?:\w+_)?liquidity(?:_|$)/;
const REMOVED = /^(?:remove|decrease|withdraw)_(?:\w+_)?liquidity(?:_|$)/;

/** Liquidity added or removed: exactly one instruction has such a name, and the fee payer gave or got something within it. */
function liquidity(view: TransactionView, outer: readonly NamedInstruction[]): TransactionSummary | null {
  const named = outer.filter(({ instructionName: name }) => name !== null && (ADDED.test(name) || REMOVED.test(name)));
  const [only, ...more] = named;
  if (only === undefined || more.length > 0) return null;
  const isAdded = ADDED.test(only.instructionName!);
  const changes = payerChanges(view, only.instructionIndex);
  if (!changes.some((change) => (isAdded ? change < 0n : change > 0n))) return null;
  return {
    type: isAdded ? 'add_liquidity' : 'remove_liquidity',
    description: `${view.feePayer} ${isAdded ? 'added' : 'removed'} liquidity${only.programName === null ? '' : ` with ${only.programName}`}.`,
    parsedData: null,
  };
}

/** Raw units of SOL and of each token that the fee payer got from transfers within an instruction, less what they gave. */
function payerChanges(view: TransactionView, outer: number): readonly bigint[] {
  const changes = new Map<number | 'native', bigint>();
  for (const move of view.movements.moves) {
    if (move.outer !== outer || !/^transfer/.test(move.kind)) continue;
    const [asset, from, to] =
      move.asset === 'native'
        ? (['native', view.account(move.from), view.account(move.to)] as const)
        : ([move.mint, view.key(move.sourceOwner), view.key(move.destinationOwner)] as const);
    const signs = BigInt(to === view.feePayer) - BigInt(from === view.feePayer);
    changes.set(asset, (changes.get(asset) ?? 0n) + signs * move.amount);
  }
  return [...changes.values()];
}

interface TokenSide {
  readonly mint: string;
  readonly rawTokenAmount: { readonly tokenAmount: string };
}

interface InnerTransfer {
  readonly fromTokenAccount: string;
  readonly toTokenAccount: string;
  readonly mint: string;
  /** Whole tokens. */
  readonly tokenAmount: number;
}

interface SwapEvent {
  readonly innerSwaps: readonly {
    readonly programInfo: { readonly source: string };
    readonly tokenInputs: readonly InnerTransfer[];
    readonly tokenOutputs: readonly InnerTransfer[];
  }[];
  readonly nativeInput: { readonly amount: string } | null;
  readonly nativeOutput: { readonly amount: string } | null;
  readonly tokenInputs: readonly TokenSide[];
  readonly tokenOutputs: readonly TokenSide[];
}

/** Null unless exactly one token went out and one came in. */
function swapData(view: TransactionView, found: ReturnType<typeof classify>, words: Words): SwapData | null {
  const event = found.events?.(words)['swap'] as SwapEvent | undefined;
  if (event === undefined) return null;
  const side = (native: SwapEvent['nativeInput'], tokens: readonly TokenSide[]) => {
    const all = [
      ...(native === null ? [] : [{ mint: WRAPPED_SOL_MINT, amount: native.amount }]),
      ...tokens.map(({ mint, rawTokenAmount }) => ({ mint, amount: rawTokenAmount.tokenAmount })),
    ];
    return all.length === 1 ? all[0]! : null;
  };
  const [input, output] = [side(event.nativeInput, event.tokenInputs), side(event.nativeOutput, event.tokenOutputs)];
  if (input === null || output === null) return null;
  return {
    ...legs(found.source, input, output),
    inner_swaps: event.innerSwaps.flatMap(({ programInfo, tokenInputs, tokenOutputs }) => {
      const [into, out] = [rawSide(view, tokenInputs), rawSide(view, tokenOutputs)];
      return into === null || out === null ? [] : [legs(programInfo.source, into, out)];
    }),
  };
}

interface Side {
  readonly mint: string;
  /** Raw units. */
  readonly amount: string;
}

const legs = (source: string, input: Side, output: Side): SwapLegs => ({
  protocol: source === 'UNKNOWN' ? null : source.toLowerCase(),
  in_amount: input.amount,
  actual_out_amount: output.amount,
  input_mint: input.mint,
  output_mint: output.mint,
});

/** The only transfer, in raw units: those of the movement that was shown as it. */
function rawSide(view: TransactionView, [only, ...more]: readonly InnerTransfer[]): Side | null {
  if (only === undefined || more.length > 0) return null;
  const { fromTokenAccount, toTokenAccount, mint, tokenAmount } = only;
  const move = view.tokens.find(
    ({ source, destination, mint: id, amount, decimals }) =>
      view.account(source) === fromTokenAccount &&
      view.account(destination) === toTokenAccount &&
      view.key(id) === mint &&
      Number(plainAmount(amount, decimals ?? 0)) === tokenAmount,
  );
  return move === undefined ? null : { mint, amount: move.amount.toString() };
}

/** Summary of an instruction that moved SOL or tokens. */
function moveSummary(view: TransactionView, move: Movement, words: Words): TransactionSummary | null {
  if (move.asset === 'native') {
    const [from, to] = [view.account(move.from), view.account(move.to)];
    if (move.kind === 'closeWrapped') return null;
    if (move.kind.startsWith('create'))
      return { type: 'create_account', description: `${from} created account ${to}.`, parsedData: null };
    return {
      type: 'transfer',
      description: `${from} transferred ${solAmount(move.amount)} SOL to ${to}.`,
      parsedData: null,
    };
  }
  if (move.kind === 'mint' || move.kind === 'burn' || move.decimals === null) return null;
  const [mint, from, to] = [view.key(move.mint), view.key(move.sourceOwner), view.key(move.destinationOwner)];
  if (mint === '' || from === '' || to === '') return null;
  const amount = `${plainAmount(move.amount, move.decimals)} ${words.token(mint, move.decimals, move.amount)}`;
  return { type: 'transfer', description: `${from} transferred ${amount} to ${to}.`, parsedData: null };
}
