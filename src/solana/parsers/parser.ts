import type { ChainBlock, NormalTransaction } from '../../ports/block.ts';
import type { ParserOptions } from '../../ports/parsers.ts';
import { plainAmount } from '../accounts/amounts.ts';
import type { NativeMove, TokenMove, WalkStep } from '../movements/movement.ts';
import { type Movements, readMovements } from '../movements/read-movements.ts';
import { WRAPPED_SOL_MINT } from '../programs.ts';

/** Classification of a transaction. */
export interface Parsed {
  /** A published transaction type, or `UNKNOWN`. */
  readonly type: string;
  /** A published source. */
  readonly source: string;
  /** One sentence; may be empty. Not called for a failed transaction. */
  describe?(words: Words): string;
  /** Members of `events`, keys in alphabetical order. Not called for a failed transaction. */
  events?(words: Words): Readonly<Record<string, unknown>>;
  /** The moved lamports are not transfers: `nativeTransfers` is empty. */
  readonly hidesNative?: boolean;
}

/** Recognizes transactions of some programs. Pure: neither network nor caches may change the type or the source. */
export interface TransactionParser {
  /** Unique; used in metrics and logs. */
  readonly name: string;
  /** The parser gets only transactions in which one of these programs (base58) runs; null: all. */
  readonly programs: readonly string[] | null;
  /** Whether a call by another program suffices; default false: only instructions of the message. */
  readonly isInnerEnough?: boolean;
  /** Possible results, when they form a table. */
  readonly outcomes?: readonly { readonly type: string; readonly source: string }[];
  /** Null: not recognized, also for damaged data. A throw is counted, and the next parser is called. */
  parse(view: TransactionView): Parsed | null;
}

export const UNKNOWN: Parsed = { type: 'UNKNOWN', source: 'UNKNOWN' };

/** The first eight bytes of instruction data in hex, the discriminator of Anchor programs; empty when there are fewer. */
export function discriminatorOf(data: Uint8Array, at = 0): string {
  if (data.length < at + 8) return '';
  return Buffer.from(data.buffer, data.byteOffset + at, 8).toString('hex');
}

/** The parts of a transaction's block that parsers use. */
export type ParserBlock = Pick<ChainBlock, 'slot' | 'blockTime' | 'keys'>;

export const DEFAULT_OPTIONS: ParserOptions = { preferSwapOverMint: false, setAuthorityEvents: false };

/** An instruction with derived values for parsers. */
export interface ViewStep extends WalkStep {
  /** base58 */
  readonly programId: string;
}

/** A transaction for parsers. Accounts are positions in `tx.keys`, keys are ids of `movements.keys`. */
export interface TransactionView {
  readonly tx: NormalTransaction;
  readonly block: ParserBlock;
  readonly slot: number;
  /** Unix seconds; 0 when the chain gives none. */
  readonly timestamp: number;
  readonly options: ParserOptions;
  readonly movements: Movements;
  /** Requested movements of each kind, also of a failed transaction. */
  readonly natives: readonly NativeMove[];
  readonly tokens: readonly TokenMove[];
  /** In order of execution. */
  readonly steps: readonly ViewStep[];
  /** Instructions of the message. */
  readonly outer: readonly ViewStep[];
  /** base58 */
  readonly feePayer: string;
  /** base58 of the account at a position; empty if the instruction has no such account. */
  account(position: number | undefined): string;
  /** base58 of a key; empty for -1. */
  key(id: number): string;
  isSigner(position: number): boolean;
}

export function createTransactionView(
  tx: NormalTransaction,
  block: ParserBlock,
  options: ParserOptions,
): TransactionView {
  const movements = readMovements(tx, block.keys);
  const { keys } = movements;
  const steps = movements.steps.map((step) => ({ ...step, programId: keys.base58(step.program) }));
  const account = (position: number | undefined): string =>
    position === undefined || position < 0 ? '' : keys.base58(tx.keys[position] ?? -1);
  return {
    tx,
    block,
    slot: block.slot,
    timestamp: block.blockTime ?? 0,
    options,
    movements,
    steps,
    account,
    natives: movements.asked.filter((move) => move.asset === 'native'),
    tokens: movements.asked.filter((move) => move.asset === 'token'),
    outer: steps.filter(({ inner }) => inner < 0),
    feePayer: account(0),
    key: (id) => keys.base58(id),
    isSigner: (position) => position >= 0 && position < tx.header.numRequiredSignatures,
  };
}

/** An entry of `tokenTransfers`. Unknown sides are empty strings. */
export function tokenTransfer(view: TransactionView, words: Words, move: TokenMove) {
  const { source, destination, amount, decimals } = move;
  const mint = view.key(move.mint);
  return {
    fromTokenAccount: view.account(source),
    fromUserAccount: source < 0 ? '' : view.key(move.sourceOwner),
    mint,
    toTokenAccount: view.account(destination),
    toUserAccount: view.key(move.destinationOwner),
    // Parsed from text: a division does not always give the nearest number.
    tokenAmount: Number(plainAmount(amount, decimals ?? 0)),
    tokenStandard: words.standard(mint, decimals, amount),
  };
}

export interface NftFacts {
  /** Lamports. */
  readonly amount: bigint;
  /** base58; empty when absent or unknown. */
  readonly buyer: string;
  readonly seller: string;
  /** base58 */
  readonly mints: readonly string[];
  readonly saleType: string;
}

/** `events` with the NFT event in the form for this type. */
export function nftEvents(
  view: TransactionView,
  words: Words,
  { type, source, describe }: { readonly type: string; readonly source: string; describe?(words: Words): string },
  facts: NftFacts,
): Readonly<Record<string, unknown>> {
  return {
    nft: {
      amount: Number(facts.amount),
      buyer: facts.buyer,
      description: describe?.(words) ?? '',
      fee: view.tx.fee,
      feePayer: view.feePayer,
      nfts: facts.mints.map((mint) => ({ mint, tokenStandard: words.standard(mint, 0, 1n) })),
      saleType: facts.saleType,
      seller: facts.seller,
      signature: view.tx.signature,
      slot: view.slot,
      source,
      staker: '',
      timestamp: view.timestamp,
      type,
    },
  };
}

/** Known facts of tokens. */
export interface KnownNames {
  /** By mint in base58; null when unknown. */
  peek(mint: string): {
    readonly name: string | null;
    readonly symbol: string | null;
    /** Token standard as named by Metaplex. */
    readonly tokenStandard: string | null;
    /** Null when unknown. */
    readonly decimals: number | null;
  } | null;
}

/** Names of tokens in responses. */
export interface Words {
  /** In a sentence: the name of an NFT, the symbol of other tokens, the mint when unknown. */
  token(mint: string, decimals: number | null, amount: bigint): string;
  /** `tokenStandard`, guessed from the amount when unknown. */
  standard(mint: string, decimals: number | null, amount: bigint): string;
}

const NFT = 'NonFungible';
const NFTS = [NFT, 'NonFungibleEdition', 'ProgrammableNonFungible', 'ProgrammableNonFungibleEdition'];

/** `names` only changes texts, never the type of a transaction. */
export function createWords(names: KnownNames | null): Words {
  const standard = (mint: string, decimals: number | null, amount: bigint): string => {
    const known = names?.peek(mint) ?? null;
    if (known !== null && known.tokenStandard !== null) return known.tokenStandard;
    // For a known token the standard follows from its supply, which was checked; else only the amount can tell.
    const isKnown = known !== null && known.decimals !== null;
    return !isKnown && (decimals ?? 0) === 0 && amount === 1n ? NFT : 'Fungible';
  };
  return {
    standard,
    token(mint, decimals, amount) {
      if (mint === WRAPPED_SOL_MINT) return 'SOL';
      const known = names?.peek(mint) ?? null;
      const isNft = NFTS.includes(standard(mint, decimals, amount));
      const order = isNft ? [known?.name, known?.symbol] : [known?.symbol, known?.name];
      return order.find((word) => word !== undefined && word !== null && word !== '') ?? mint;
    },
  };
}

/** Lamports as SOL. */
export const solAmount = (lamports: bigint | number): string => plainAmount(BigInt(lamports), 9);
