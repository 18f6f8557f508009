import { Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../src/plugin/plugin.ts';
import { JsonText, json, RequestError } from '../../src/plugin/request.ts';
import type { ChainBlock, NormalTransaction } from '../../src/ports/block.ts';
import type { MintFacts, MintTransferFee } from '../../src/ports/tokens.ts';
import { uiAmount } from '../../src/solana/accounts/amounts.ts';
import type { NativeMove, TokenAccountFacts, TokenMove } from '../../src/solana/movements/movement.ts';
import { type MovementKeys, readMovements } from '../../src/solana/movements/read-movements.ts';
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM, WRAPPED_SOL_MINT } from '../../src/solana/programs.ts';
import { count, EXAMPLES, oneOf, orNull, signature, text, unixTime } from '../../src/solana/schemas.ts';
import type { WalletConfig } from './config.ts';
import { CHANGED, NAMED, TOUCHED } from './store/tables.ts';
import { type DerivedKind, type DerivedRow, type DerivedRows, walkTransactions } from './tracking/derived-rows.ts';
import type { OpenWallet } from './tracking/tracker.ts';
import { incompleteHistory, type WalletView } from './tracking/view.ts';
import {
  isSignature,
  type MintFactsReader,
  pagination,
  positionOfCursor,
  unknownTime,
  WALLET_REFUSALS,
  WALLET_ROUTE,
  walletKey,
  walletParams,
} from './wallet-route.ts';

interface TransfersContext {
  readonly open: OpenWallet;
  readonly derivedRows: DerivedRows;
  readonly mintFacts: MintFactsReader;
  readonly config: Pick<WalletConfig, 'scanLimit'>;
}

interface DerivedTransfer {
  readonly derived: TransfersDigest;
  readonly transfer: Transfer;
  /** Index among the rows of its transaction. */
  readonly at: number;
}

const transfer = Type.Object(
  {
    signature: signature(),
    timestamp: orNull(unixTime()),
    direction: oneOf(['in', 'out'], 'Seen from the wallet'),
    counterparty: text('The other side; empty for mints and burns', EXAMPLES.counterparty),
    mint: text('Mint; wrapped SOL for SOL', WRAPPED_SOL_MINT),
    symbol: orNull(text('Symbol of the token', 'SOL')),
    amount: Type.Number({ description: 'Whole tokens', examples: [1.5] }),
    amountRaw: text('Raw units, as text', '1500000000'),
    decimals: count('Decimals of the mint', 9),
  },
  { title: 'Transfer', description: 'A transfer of SOL or a token' },
);

const CURSOR = /^([1-9A-HJ-NP-Za-km-z]{64,88})(?:-(\d{1,6}))?$/;

/** GET transfers: every movement of SOL and tokens to and from a wallet. */
export function transfersRoute({ open, derivedRows, mintFacts, config }: TransfersContext): Route {
  const read = derivedRows.of(transfersDigest);
  return defineRoute({
    ...WALLET_ROUTE,
    method: 'GET',
    path: '/v1/wallet/:wallet/transfers',
    summary: 'Transfers to and from a wallet',
    params: walletParams,
    query: Type.Object({
      limit: Type.Integer({ minimum: 1, maximum: 100, default: 50, description: 'Transfers of a page' }),
      cursor: Type.Optional(Type.String({ description: '`nextCursor` of the page before' })),
    }),
    replies: {
      200: Type.Object(
        { data: Type.Array(transfer, { description: 'Transfers, newest first' }), pagination },
        { description: 'A page of transfers' },
      ),
      ...WALLET_REFUSALS,
    },
    async handler({ params, query: { limit, cursor }, caller, signal }) {
      const key = walletKey(params.wallet);
      const place = cursor === undefined ? null : readCursor(cursor);
      const view = await open(key, params.wallet, { caller, signal });
      const start = place === null ? null : await positionOfCursor(view, place.signature, 'older');
      const skipped = place?.row ?? null;
      const found: DerivedTransfer[] = [];
      const range = {
        above: null,
        mask: NAMED | CHANGED | TOUCHED,
        order: 'desc' as const,
        // When rows were skipped, their transaction is read again.
        below: start === null ? null : skipped === null ? start : start + 1,
        most: config.scanLimit,
        expected: limit + 1,
      };
      const end = await walkTransactions(view, range, read, ({ row, derived }) => {
        const first = row.n === start ? (skipped ?? 0) : 0;
        derived.transfers.forEach((transfer, at) => {
          if (at >= first) found.push({ derived, transfer, at });
        });
        return found.length > limit;
      });
      const shown = found.slice(0, limit);
      if (shown.length === 0 && end.reason === 'pruned' && end.last === null)
        throw incompleteHistory(end.prunedBelow ?? 0);
      const hasMore = found.length > limit || end.reason !== 'complete';
      const page = { hasMore, nextCursor: hasMore ? nextCursor(found, limit, end.last) : null };
      const texts = await elementTexts(view, shown, mintFacts, signal);
      return json(new JsonText(`{"data":[${texts.join()}],"pagination":${JSON.stringify(page)}}`));
    },
  });
}

function readCursor(text: string): { readonly signature: string; readonly row: number | null } {
  const [, signature = '', row] = CURSOR.exec(text) ?? [];
  if (!isSignature(signature))
    throw new RequestError(400, 'Invalid cursor', {
      details: 'pass pagination.nextCursor of the page before unchanged',
    });
  return { signature, row: row === undefined ? null : Number(row) };
}

/** After the last returned row, inside its transaction or behind it; or at the end of the search. */
function nextCursor(found: readonly DerivedTransfer[], limit: number, last: DerivedRow | null): string | null {
  const next = found[limit];
  const shown = found[limit - 1];
  if (next === undefined || shown === undefined) return last?.signature ?? null;
  const { signature } = shown.derived;
  return next.derived === shown.derived ? `${signature}-${next.at}` : signature;
}

async function elementTexts(
  view: WalletView,
  shown: readonly DerivedTransfer[],
  mintFacts: MintFactsReader,
  signal: AbortSignal,
) {
  const mints = [...new Set(shown.map(({ transfer }) => transfer.mint))].filter((mint) => mint !== WRAPPED_SOL_MINT);
  const needs = shown.some(
    ({ transfer }) => transfer.isFeeUnknown || transfer.decimals === null || transfer.mayBeScaled,
  );
  const facts = await (needs ? mintFacts.needed(mints, signal) : mintFacts.known(mints, signal));
  const times = new Map<number, number>();
  for (const { derived } of shown)
    if (!times.has(derived.slot))
      times.set(derived.slot, derived.time ?? (await view.timeNear(derived.slot)) ?? unknownTime(derived.slot));
  return shown.map(({ derived, transfer }) =>
    transferText(derived, transfer, times.get(derived.slot)!, facts.get(transfer.mint) ?? null),
  );
}

/** The transfers of a transaction to and from a wallet. */
interface TransfersDigest extends DerivedRow {
  readonly slot: number;
  /** Unix seconds; null when the block has no time. */
  readonly time: number | null;
  readonly transfers: readonly Transfer[];
}

interface Transfer extends TransferRow {
  /** Null when it needs the facts of its mint, or the time of another block. */
  readonly plain: Around | null;
}

/** An element as JSON, before and after the symbol: a name may change. */
type Around = readonly [before: string, behind: string];

const ROW_BYTES = 400;

export const transfersDigest: DerivedKind<TransfersDigest> = {
  name: 'm',
  make({ signature, slot, time, tx, block }, { address }) {
    const of = { signature, slot };
    const isPlain = (row: TransferRow) => time !== null && row.decimals !== null && !row.isFeeUnknown;
    const transfers = transferRows(tx, block, address).map((row) => ({
      ...row,
      plain: isPlain(row) ? around(of, row, time, null) : null,
    }));
    return { ...of, time, transfers };
  },
  bytesOf: ({ signature, transfers }) =>
    transfers.reduce((sum, { plain }) => sum + ROW_BYTES + (plain?.join('').length ?? 0), signature.length),
};

/** An element as JSON. `facts` null: the mint is unknown. */
export function transferText(
  derived: TransfersDigest,
  transfer: Transfer,
  time: number | null,
  facts: MintFacts | null,
): string {
  const isScaled = facts !== null && facts.scale !== null;
  const [before, behind] = (isScaled ? null : transfer.plain) ?? around(derived, transfer, time, facts);
  const symbol = transfer.mint === WRAPPED_SOL_MINT ? 'SOL' : (facts?.symbol ?? null);
  return before + JSON.stringify(symbol) + behind;
}

function around(
  { signature, slot }: Pick<TransfersDigest, 'signature' | 'slot'>,
  row: TransferRow,
  time: number | null,
  facts: MintFacts | null,
): Around {
  const { direction, counterparty, mint } = row;
  const decimals = row.decimals ?? facts?.decimals ?? 0;
  const withheld = row.isFeeUnknown ? withheldFee(row.amount, facts?.transferFee ?? null, slot) : 0n;
  const raw = row.amount - withheld;
  const amount = Number(uiAmount(raw, decimals, facts?.scale ?? null, time ?? 0));
  const before = JSON.stringify({ signature, timestamp: time, direction, counterparty, mint });
  const behind = JSON.stringify({ amount, amountRaw: raw.toString(), decimals });
  return [`${before.slice(0, -1)},"symbol":`, `,${behind.slice(1)}`];
}

/** A movement to or from a wallet. Amounts are raw units. */
interface TransferRow {
  readonly direction: 'in' | 'out';
  /** base58; empty for mints and burns. */
  readonly counterparty: string;
  readonly mint: string;
  readonly amount: bigint;
  /** Null when the transaction does not contain them. */
  readonly decimals: number | null;
  /** The transaction does not contain the transfer fee: `amount` is gross. */
  readonly isFeeUnknown: boolean;
  /** Its mint may scale amounts with interest or a multiplier (Token-2022). */
  readonly mayBeScaled: boolean;
}

interface Sides {
  readonly from: string;
  readonly to: string;
}

const SOL_DECIMALS = 9;

/** The rows of a transaction for a wallet (base58), in order of execution; none for a failed transaction. */
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

/** One side is the wallet's; when both are, it moved nothing. */
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
  // An unknown owner is represented by the token account itself.
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
  // Rent of a token account is not a transfer, nor are later additions to it; the lamports of wrapped SOL belong to its owner.
  if (kind !== 'closeWrapped' && isTokenProgram(createdFor < 0 ? '' : keys.base58(createdFor))) return [];
  if (toToken !== null && !toToken.isWrapped) return [];
  const sides = { from: ownerOr(fromToken, keys, account(from)), to: ownerOr(toToken, keys, account(to)) };
  return rowsOf(sides, wallet, () => ({
    mint: WRAPPED_SOL_MINT,
    amount,
    decimals: SOL_DECIMALS,
    isFeeUnknown: false,
    mayBeScaled: false,
  }));
}

const ownerOr = (token: TokenAccountFacts | null, keys: MovementKeys, otherwise: string): string =>
  token === null || token.owner < 0 ? otherwise : keys.base58(token.owner);

const isTokenProgram = (program: string): boolean => program === TOKEN_PROGRAM || program === TOKEN_2022_PROGRAM;

const SLOTS_PER_EPOCH = 432_000n;
const ONE_IN_BASIS_POINTS = 10_000n;

/** The fee that a mint withholds from a transfer of `amount` raw units in the epoch of a slot. */
function withheldFee(amount: bigint, config: MintTransferFee | null, slot: number): bigint {
  if (config === null) return 0n;
  const epoch = BigInt(slot) / SLOTS_PER_EPOCH;
  const { maximum, basisPoints } = epoch >= config.newer.epoch ? config.newer : config.older;
  const fee = (amount * BigInt(basisPoints) + ONE_IN_BASIS_POINTS - 1n) / ONE_IN_BASIS_POINTS;
  return fee < maximum ? fee : maximum;
}
