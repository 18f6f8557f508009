/** A transaction in words, as Parsed Events shows it: instructions decoded by the interfaces of their programs, and what they moved. */
import { encode } from '../../lib/base58.ts';
import { isPlainObject } from '../../lib/json.ts';
import type { KeyTable, Lamports, NormalInstruction, NormalTransaction } from '../../ports/block.ts';
import type { NativeMove, TokenMove } from '../movements/movement.ts';
import { type Movements, readMovements } from '../movements/read-movements.ts';
import type { Words } from '../parsers/parser.ts';
import type { AccountUse, InstructionCall, NamedAccount, ProgramError, ProgramInterface } from './interface.ts';
import { instructionKey, summarizeMovements, type TransactionSummary } from './summary.ts';

/** The interface of a program that was valid in a slot; null when none is known. */
export type FindInterface = (programId: string, slot: number) => ProgramInterface | null;

export interface ParsedInstruction {
  readonly instructionIndex: number;
  readonly innerInstructionIndex: number | null;
  readonly stackHeight: number | null;
  readonly programId: string;
  readonly rawAccounts: readonly string[];
  /** base58 */
  readonly rawData: string;
  readonly summary: TransactionSummary | null;
  readonly programName: string | null;
  /** Null where `decoded` is. */
  readonly instructionName: string | null;
  readonly decoded: { readonly args: unknown; readonly accounts: readonly NamedAccount[] } | null;
  /** The instruction by its discriminator, also where the arguments do not fit. Filters use it; answers do not show it. */
  readonly call: InstructionCall | null;
}

interface DecodedError extends ProgramError {
  readonly instructionIndex: number;
  readonly programId: string;
  /** The address of a program without a name. */
  readonly programName: string;
  readonly code: number;
}

export interface ParsedTransaction {
  readonly slot: number;
  /** Unix seconds. */
  readonly blockTime: number | null;
  /** Lamports. */
  readonly fee: Lamports;
  readonly feePayer: string | null;
  readonly transactionStatus: 'OK' | 'ERROR';
  /** Only for failed transactions. */
  readonly error?: unknown;
  readonly decodedError?: DecodedError;
  readonly nativeTransfers: readonly {
    readonly fromUserAccount: string | null;
    readonly toUserAccount: string | null;
    readonly amount: number | bigint;
  }[];
  readonly tokenTransfers: readonly {
    readonly fromUserAccount: string | null;
    readonly toUserAccount: string | null;
    readonly fromTokenAccount: string | null;
    readonly toTokenAccount: string | null;
    readonly rawTokenAmount: number | bigint;
    readonly decimals: number;
    readonly tokenStandard: string;
    readonly mint: string;
  }[];
  readonly summary: TransactionSummary | null;
  readonly instructions: readonly ParsedInstruction[];
}

interface BlockFacts {
  readonly slot: number;
  readonly blockTime: number | null;
  readonly keys: KeyTable;
}

export interface ParseParts {
  readonly find: FindInterface;
  readonly words: Words;
}

/** Pure, and never throws for what instructions contain. */
export function parseTransaction(tx: NormalTransaction, block: BlockFacts, parts: ParseParts): ParsedTransaction {
  const uses = usesOf(tx, block.keys);
  const instructions = instructionsOf(tx, block.slot, uses, parts.find);
  const hasFailed = tx.error !== null;
  const summaries = summarizeMovements(tx, block, instructions, parts.words);
  const decodedError = hasFailed ? decodeError(tx, block.slot, uses, parts.find) : null;
  return {
    slot: block.slot,
    blockTime: block.blockTime,
    fee: tx.fee,
    feePayer: uses[0]?.pubkey ?? null,
    transactionStatus: hasFailed ? 'ERROR' : 'OK',
    ...(hasFailed && { error: tx.error }),
    ...(decodedError !== null && { decodedError }),
    ...transfersOf(tx, block.keys, parts),
    summary: summaries.transaction,
    instructions: instructions.map((one) => {
      const summary = summaries.instructions.get(instructionKey(one.instructionIndex, one.innerInstructionIndex));
      return summary === undefined ? one : { ...one, summary };
    }),
  };
}

/** The accounts of a transaction with their rights in the message. */
function usesOf(tx: NormalTransaction, keys: KeyTable): readonly AccountUse[] {
  const { numRequiredSignatures: signers } = tx.header;
  return Array.from(tx.keys, (id, at): AccountUse => {
    return { pubkey: keys.base58(id), isSigner: at < signers, isWritable: isWritableAt(tx, at) };
  });
}

/** Whether the message lets the transaction write the account at a position of its keys; false at -1. */
export function isWritableAt(tx: NormalTransaction, at: number): boolean {
  const { numRequiredSignatures: signers, numReadonlySignedAccounts, numReadonlyUnsignedAccounts } = tx.header;
  if (at < 0 || at >= tx.keys.length) return false;
  if (at >= tx.staticKeyCount) return at < tx.staticKeyCount + tx.loadedWritableCount;
  return at < signers ? at < signers - numReadonlySignedAccounts : at < tx.staticKeyCount - numReadonlyUnsignedAccounts;
}

const UNKNOWN: AccountUse = { pubkey: '', isSigner: false, isWritable: false };

/** In order of execution: the first of the message, its calls, the second, … */
function instructionsOf(
  tx: NormalTransaction,
  slot: number,
  uses: readonly AccountUse[],
  find: FindInterface,
): ParsedInstruction[] {
  const parse = (item: NormalInstruction, at: number, inner: number | null, stackHeight: number | null) => {
    const programId = (uses[item.programIndex] ?? UNKNOWN).pubkey;
    const accounts = Array.from(item.accounts, (index) => uses[index] ?? UNKNOWN);
    const program = find(programId, slot);
    const decoded = program?.decode(item.data, accounts, programId) ?? null;
    const call = decoded ?? program?.callOf(item.data, accounts, programId) ?? null;
    return {
      instructionIndex: at,
      innerInstructionIndex: inner,
      stackHeight,
      programId,
      rawAccounts: accounts.map(({ pubkey }) => pubkey),
      rawData: encode(item.data),
      summary: null,
      programName: program?.name ?? null,
      instructionName: decoded?.name ?? null,
      decoded: decoded === null ? null : { args: decoded.args, accounts: decoded.accounts },
      call,
    };
  };
  const parsed: ParsedInstruction[] = [];
  const groups = tx.innerInstructions;
  tx.instructions.forEach((item, at) => {
    parsed.push(parse(item, at, null, 1));
    for (const group of groups) {
      if (group.index !== at) continue;
      group.instructions.forEach((inner, place) => {
        parsed.push(parse(inner, at, place, inner.stackHeight));
      });
    }
  });
  return parsed;
}

const FAILED = /^Program ([1-9A-HJ-NP-Za-km-z]{32,44}) failed: /;

/** The error of a program by the name that its interface gives the code; null when it is no such error. */
function decodeError(
  tx: NormalTransaction,
  slot: number,
  uses: readonly AccountUse[],
  find: FindInterface,
): DecodedError | null {
  const [instructionIndex, reason] = isPlainObject(tx.error) ? ((tx.error['InstructionError'] ?? []) as unknown[]) : [];
  const code = isPlainObject(reason) ? reason['Custom'] : undefined;
  if (typeof instructionIndex !== 'number' || typeof code !== 'number') return null;
  const programId = failedProgram(tx, instructionIndex, uses);
  if (programId === null) return null;
  const program = find(programId, slot);
  const error = program?.errorOf(code) ?? null;
  if (program === null || error === null) return null;
  // Clients read a text; a program without a name has its address.
  return { instructionIndex, programId, programName: program.name ?? programId, code, ...error };
}

/** A call that fails makes its callers fail after it. Without logs only an instruction that called nothing is certain. */
function failedProgram(tx: NormalTransaction, instruction: number, uses: readonly AccountUse[]): string | null {
  for (const line of tx.logMessages ?? []) {
    const found = FAILED.exec(line)?.[1];
    if (found !== undefined) return found;
  }
  if (tx.innerInstructions.some(({ index, instructions }) => index === instruction && instructions.length > 0))
    return null;
  return uses[tx.instructions[instruction]?.programIndex ?? -1]?.pubkey ?? null;
}

/** None of a failed one. */
function transfersOf(
  tx: NormalTransaction,
  table: KeyTable,
  { words }: ParseParts,
): Pick<ParsedTransaction, 'nativeTransfers' | 'tokenTransfers'> {
  const { moves, keys } = readMovements(tx, table);
  const account = (position: number) => addressOf(keys, position < 0 ? -1 : (tx.keys[position] ?? -1));
  const native = moves.filter((move): move is NativeMove => move.asset === 'native');
  const tokens = moves.filter((move): move is TokenMove => move.asset === 'token');
  return {
    nativeTransfers: native.map(({ from, to, amount }) => ({
      fromUserAccount: account(from),
      toUserAccount: account(to),
      amount: exact(amount),
    })),
    tokenTransfers: tokens.map((move) => {
      const mint = addressOf(keys, move.mint) ?? '';
      return {
        fromUserAccount: move.source < 0 ? null : addressOf(keys, move.sourceOwner),
        toUserAccount: move.destination < 0 ? null : addressOf(keys, move.destinationOwner),
        fromTokenAccount: account(move.source),
        toTokenAccount: account(move.destination),
        rawTokenAmount: exact(move.amount),
        decimals: move.decimals ?? 0,
        tokenStandard: words.standard(mint, move.decimals, move.amount),
        mint,
      };
    }),
  };
}

const addressOf = (keys: Movements['keys'], id: number): string | null => (id < 0 ? null : keys.base58(id));

/** Amounts beyond 2^53 are written as bare integers too. */
const exact = (amount: bigint): number | bigint =>
  amount <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(amount) : amount;
