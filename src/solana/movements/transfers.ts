import type { KeyTable, NormalTransaction } from '../../ports/block.ts';
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM, WRAPPED_SOL_2022_MINT, WRAPPED_SOL_MINT } from '../programs.ts';
import type { NativeMove, TokenMove } from './movement.ts';
import { type Movements, type OtherChange, readMovements } from './read-movements.ts';

export type TransferType = 'transfer' | 'mint' | 'burn' | 'wrap' | 'unwrap' | 'changeOwner' | 'withdrawWithheldFee';

/** A movement between two owners by one instruction. Keys are base58; null: there is none, or it is unknown. */
export interface TransferRow {
  readonly type: TransferType;
  /** Index of the instruction in the message; of the one within it, or -1 for the instruction itself. */
  readonly outer: number;
  readonly inner: number;
  readonly from: string | null;
  readonly to: string | null;
  /** Token accounts. */
  readonly fromAccount: string | null;
  readonly toAccount: string | null;
  /** Null: native SOL; empty when unknown. */
  readonly mint: string | null;
  readonly isWrapped: boolean;
  /** Raw units, gross of a transfer fee. */
  readonly amount: bigint;
  /** Null when the transaction does not contain them. */
  readonly decimals: number | null;
  /** Withheld at `toAccount`; null when the transaction does not contain it. */
  readonly fee: bigint | null;
  /** The mint may scale shown amounts (Token-2022). */
  readonly mayBeScaled: boolean;
}

const SOL_DECIMALS = 9;

/** All transfers of a transaction in the order of execution; none of a failed one. Amounts of 0 are left out, but for changes of owner. */
export function readTransfers(tx: NormalTransaction, table: KeyTable): readonly TransferRow[] {
  if (tx.error !== null) return [];
  const movements = readMovements(tx, table);
  const { moves, others } = movements;
  const balances = new Map(tx.preTokenBalances.map(({ accountIndex, amount }) => [accountIndex, BigInt(amount)]));
  const add = (account: number, amount: bigint) => {
    if (account >= 0) balances.set(account, (balances.get(account) ?? 0n) + amount);
  };
  const withheld = withheldAmounts(tx, movements);
  const rows: TransferRow[] = [];
  const take = (row: TransferRow | null) => {
    if (row !== null && (row.amount > 0n || row.type === 'changeOwner')) rows.push(row);
  };
  let next = 0;
  for (let at = 0; at <= moves.length; at++) {
    for (; next < others.length && others[next]!.behind === at; next++) {
      const other = others[next]!;
      take(otherRow(other, tx, movements, balances.get(other.account) ?? 0n, withheld.get(next) ?? 0n));
    }
    const move = moves[at];
    if (move === undefined) break;
    if (move.asset === 'token') {
      add(move.source, -move.amount);
      add(move.destination, move.amount - (move.fee ?? 0n));
      take(tokenRow(move, tx, movements));
    } else {
      if (move.toToken?.isWrapped === true) add(move.to, move.amount);
      take(nativeRow(move, tx, movements));
    }
  }
  return rows;
}

/** What each withdrawal moved, by its index in `others`: the rest of the change of its account; of several to one account, the first. */
function withheldAmounts(tx: NormalTransaction, { moves, others }: Movements): ReadonlyMap<number, bigint> {
  const amounts = new Map<number, bigint>();
  const seen = new Set<number>();
  others.forEach(({ kind, account }, index) => {
    if (kind !== 'withdrawWithheldFee' || seen.has(account)) return;
    seen.add(account);
    const of = (list: NormalTransaction['preTokenBalances']) =>
      BigInt(list.find(({ accountIndex }) => accountIndex === account)?.amount ?? '0');
    let rest = of(tx.postTokenBalances) - of(tx.preTokenBalances);
    for (const move of moves) {
      if (move.asset !== 'token') continue;
      if (move.source === account) rest += move.amount;
      if (move.destination === account) rest -= move.amount - (move.fee ?? 0n);
    }
    amounts.set(index, rest);
  });
  return amounts;
}

const base58 = (keys: Movements['keys'], id: number | undefined): string | null =>
  id === undefined || id < 0 ? null : keys.base58(id);

function otherRow(
  other: OtherChange,
  tx: NormalTransaction,
  { keys }: Movements,
  balance: bigint,
  withheld: bigint,
): TransferRow {
  const { outer, inner } = other;
  const account = base58(keys, tx.keys[other.account]);
  const common = {
    outer,
    inner,
    mint: base58(keys, other.mint) ?? '',
    isWrapped: WRAPPED.has(base58(keys, other.mint) ?? ''),
    decimals: decimalsOf(tx, other.account),
    fee: 0n,
    mayBeScaled: true,
    toAccount: account,
  };
  if (other.kind === 'withdrawWithheldFee')
    return {
      type: 'withdrawWithheldFee',
      from: null,
      to: base58(keys, other.owner),
      fromAccount: null,
      ...common,
      amount: withheld,
    };
  return {
    type: 'changeOwner',
    from: base58(keys, other.from),
    to: base58(keys, other.to),
    fromAccount: account,
    ...common,
    amount: balance,
  };
}

const WRAPPED = new Set([WRAPPED_SOL_MINT, WRAPPED_SOL_2022_MINT]);

const decimalsOf = ({ preTokenBalances, postTokenBalances }: NormalTransaction, account: number): number | null =>
  [...preTokenBalances, ...postTokenBalances].find(({ accountIndex }) => accountIndex === account)?.decimals ?? null;

function tokenRow(move: TokenMove, tx: NormalTransaction, { keys }: Movements): TransferRow {
  const { kind, amount, decimals, fee, outer, inner } = move;
  const mint = base58(keys, move.mint) ?? '';
  return {
    type: kind === 'mint' || kind === 'burn' ? kind : 'transfer',
    outer,
    inner,
    mint,
    amount,
    decimals,
    fee,
    isWrapped: WRAPPED.has(mint),
    from: kind === 'mint' ? null : base58(keys, move.sourceOwner),
    to: kind === 'burn' ? null : base58(keys, move.destinationOwner),
    fromAccount: base58(keys, tx.keys[move.source]),
    toAccount: base58(keys, tx.keys[move.destination]),
    mayBeScaled: keys.base58(move.program) !== TOKEN_PROGRAM,
  };
}

/** SOL between accounts, into an account of wrapped SOL, or out of one. The rent of other token accounts is no transfer. */
function nativeRow(move: NativeMove, tx: NormalTransaction, { keys }: Movements): TransferRow | null {
  const { kind, outer, inner, amount, fromToken, toToken } = move;
  const key = (position: number) => base58(keys, tx.keys[position]);
  const common = { outer, inner, amount, decimals: SOL_DECIMALS, fee: 0n, mayBeScaled: false };
  const from = fromToken === null ? key(move.from) : base58(keys, fromToken.owner);
  const to = toToken === null ? key(move.to) : base58(keys, toToken.owner);
  if (kind === 'closeWrapped')
    return {
      ...common,
      type: 'unwrap',
      from,
      to,
      fromAccount: key(move.from),
      toAccount: toToken === null ? null : key(move.to),
      mint: base58(keys, fromToken?.mint) ?? '',
      isWrapped: true,
    };
  if (toToken?.isWrapped === true)
    return {
      ...common,
      type: 'wrap',
      from,
      to,
      fromAccount: null,
      toAccount: key(move.to),
      mint: base58(keys, toToken.mint) ?? '',
      isWrapped: true,
    };
  const program = base58(keys, move.createdFor);
  if (toToken !== null || program === TOKEN_PROGRAM || program === TOKEN_2022_PROGRAM) return null;
  return { ...common, type: 'transfer', from, to, fromAccount: null, toAccount: null, mint: null, isWrapped: false };
}
