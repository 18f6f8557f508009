import type { ChainBlock, NormalTransaction } from '../../../src/ports/block.ts';
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM, WRAPPED_SOL_MINT } from '../../../src/solana/address/known-programs.ts';
import type { MovementKeys } from '../../../src/solana/movements/keys-beyond.ts';
import type { NativeMove, TokenAccountFacts, TokenMove } from '../../../src/solana/movements/movement.ts';
import { readMovements } from '../../../src/solana/movements/read-movements.ts';

/** A movement to or from a wallet. Amounts are raw units. */
export interface TransferRow {
  readonly direction: 'in' | 'out';
  /** base58; empty for mints and burns. */
  readonly counterparty: string;
  readonly mint: string;
  readonly amount: bigint;
  /** Null when the transaction does not tell. */
  readonly decimals: number | null;
  /** The transfer fee is not told by the transaction: `amount` is gross. */
  readonly isFeeUnknown: boolean;
  /** Its mint may show amounts with interest or a multiplier: it is no plain SPL token. */
  readonly mayBeScaled: boolean;
}

interface Sides {
  readonly from: string;
  readonly to: string;
}

const SOL_DECIMALS = 9;

/** The rows of a transaction for a wallet (base58), in order of execution. A failed one has none. */
export function transferRows(
  tx: NormalTransaction,
  { keys: table }: Pick<ChainBlock, 'keys'>,
  wallet: string,
): TransferRow[] {
  if (tx.error !== null) return [];
  const { moves, keys } = readMovements(tx, table);
  return moves.flatMap((move) =>
    move.asset === 'native' ? nativeRows(move, tx, keys, wallet) : tokenRows(move, tx, keys, wallet),
  );
}

/** One side is the wallet's; both: it moved nothing. */
function rowsOf(
  { from, to }: Sides,
  wallet: string,
  row: (direction: 'in' | 'out') => Omit<TransferRow, 'direction' | 'counterparty'>,
): TransferRow[] {
  if (from === to || (from !== wallet && to !== wallet)) return [];
  const direction = from === wallet ? 'out' : 'in';
  const made = { direction, counterparty: direction === 'out' ? to : from, ...row(direction) } as const;
  return made.amount === 0n ? [] : [made];
}

function tokenRows(move: TokenMove, tx: NormalTransaction, keys: MovementKeys, wallet: string): TransferRow[] {
  const { kind, amount, fee, decimals } = move;
  // An owner that nobody tells is the token account itself.
  const ownerOf = (owner: number, account: number) =>
    owner >= 0 ? keys.base58(owner) : keys.base58(tx.keys[account] ?? -1);
  const from = kind === 'mint' ? '' : ownerOf(move.sourceOwner, move.source);
  const to = kind === 'burn' ? '' : ownerOf(move.destinationOwner, move.destination);
  const moved = kind !== 'mint' && kind !== 'burn';
  return rowsOf({ from, to }, wallet, (direction) => ({
    mint: keys.base58(move.mint),
    amount: direction === 'in' && moved ? amount - (fee ?? 0n) : amount,
    decimals,
    isFeeUnknown: direction === 'in' && moved && fee === null,
    mayBeScaled: keys.base58(move.program) !== TOKEN_PROGRAM,
  }));
}

function nativeRows(move: NativeMove, tx: NormalTransaction, keys: MovementKeys, wallet: string): TransferRow[] {
  const { from, to, toToken, fromToken, createdFor, kind, amount } = move;
  const account = (position: number) => keys.base58(tx.keys[position] ?? -1);
  // Rent of a token account is no transfer, and neither is what tops it up; the lamports of wrapped SOL are its owner's.
  if (kind !== 'closeWrapped' && isTokenProgram(createdFor < 0 ? '' : keys.base58(createdFor))) return [];
  if (toToken !== null && !toToken.isWrapped) return [];
  const sides = { from: ownerOr(fromToken, keys, account(from)), to: ownerOr(toToken, keys, account(to)) };
  return rowsOf(sides, wallet, () => ({
    ...{ mint: WRAPPED_SOL_MINT, amount, decimals: SOL_DECIMALS, isFeeUnknown: false, mayBeScaled: false },
  }));
}

const ownerOr = (token: TokenAccountFacts | null, keys: MovementKeys, otherwise: string): string =>
  token === null || token.owner < 0 ? otherwise : keys.base58(token.owner);

const isTokenProgram = (program: string): boolean => program === TOKEN_PROGRAM || program === TOKEN_2022_PROGRAM;
