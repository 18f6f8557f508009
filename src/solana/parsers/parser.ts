import type { ChainBlock, NormalTransaction } from '../../ports/block.ts';
import type { NativeMove, TokenMove, WalkStep } from '../movements/movement.ts';
import { type Movements, readMovements } from '../movements/read-movements.ts';
import { plainAmount, type Words } from './words.ts';

/** What a transaction turned out to be. */
export interface Parsed {
  /** A published transaction type; `UNKNOWN` when there is none for it. */
  readonly type: string;
  /** A published source. */
  readonly source: string;
  /** One sentence; empty when there is nothing to say. Not asked for when the transaction failed. */
  describe?(words: Words): string;
  /** Members of `events`, keys in alphabetical order. Not asked for when the transaction failed. */
  events?(words: Words): Readonly<Record<string, unknown>>;
  /** The lamports that it moves are no transfers: `nativeTransfers` is empty. */
  readonly hidesNative?: boolean;
}

/** Recognises transactions of some programs. Pure: neither the network nor what is cached may change the type or the source. */
export interface TransactionParser {
  /** Unique; metrics and logs name it. */
  readonly name: string;
  /** It is asked only about transactions in which one of these programs (base58) runs; null: about all. */
  readonly programs: readonly string[] | null;
  /** Whether a call by another program counts; default false, only instructions of the message do. */
  readonly isInnerEnough?: boolean;
  /** What it can tell, where that is a plain table. */
  readonly outcomes?: readonly { readonly type: string; readonly source: string }[];
  /** Null: not one of mine. Damaged data is not mine either; a throw is counted, and the next parser is asked. */
  parse(view: TransactionView): Parsed | null;
}

export const UNKNOWN: Parsed = { type: 'UNKNOWN', source: 'UNKNOWN' };

/** The first eight bytes of instruction data in hex, by which Anchor programs tell their instructions; empty when there are fewer. */
export function discriminatorOf(data: Uint8Array, at = 0): string {
  if (data.length < at + 8) return '';
  return Buffer.from(data.buffer, data.byteOffset + at, 8).toString('hex');
}

/** The block of a transaction, as far as parsers need it. */
export type ParserBlock = Pick<ChainBlock, 'slot' | 'blockTime' | 'keys'>;

export interface ParserOptions {
  /** A route over one market that mints shares of its fee is a SWAP, and not a TOKEN_MINT as the hosted parser says. */
  readonly preferSwapOverMint: boolean;
  /** Tell changes of authority in `events`. */
  readonly setAuthorityEvents: boolean;
}

export const DEFAULT_OPTIONS: ParserOptions = { preferSwapOverMint: false, setAuthorityEvents: false };

/** An instruction with what parsers ask of it. */
export interface ViewStep extends WalkStep {
  /** base58 */
  readonly programId: string;
}

/** A transaction as parsers see it. Accounts are positions in `tx.keys`, keys ids of `movements.keys`. */
export interface TransactionView {
  readonly tx: NormalTransaction;
  readonly block: ParserBlock;
  readonly slot: number;
  /** Unix seconds; 0 when the chain gives none. */
  readonly timestamp: number;
  readonly options: ParserOptions;
  readonly movements: Movements;
  /** Asked-for movements of each kind, also of a failed transaction. */
  readonly natives: readonly NativeMove[];
  readonly tokens: readonly TokenMove[];
  /** In order of execution. */
  readonly steps: readonly ViewStep[];
  /** Those of the message. */
  readonly outer: readonly ViewStep[];
  /** base58 */
  readonly feePayer: string;
  /** base58 of the account at a position; empty when there is none. */
  account(position: number | undefined): string;
  /** base58 of a key; empty for -1. */
  key(id: number): string;
  isSigner(position: number): boolean;
}

export function createView(tx: NormalTransaction, block: ParserBlock, options: ParserOptions): TransactionView {
  const movements = readMovements(tx, block.keys);
  const { keys } = movements;
  const steps = movements.steps.map((step) => ({ ...step, programId: keys.base58(step.program) }));
  const account = (position: number | undefined): string =>
    position === undefined || position < 0 ? '' : keys.base58(tx.keys[position] ?? -1);
  return {
    ...{ tx, block, slot: block.slot, timestamp: block.blockTime ?? 0, options, movements, steps, account },
    natives: movements.asked.filter((move) => move.asset === 'native'),
    tokens: movements.asked.filter((move) => move.asset === 'token'),
    outer: steps.filter(({ inner }) => inner < 0),
    feePayer: account(0),
    key: (id) => keys.base58(id),
    isSigner: (position) => position >= 0 && position < tx.header.numRequiredSignatures,
  };
}

/** An entry of `tokenTransfers`. Unknown sides are empty texts. */
export function tokenTransfer(view: TransactionView, words: Words, move: TokenMove) {
  const { source, destination, amount, decimals } = move;
  const mint = view.key(move.mint);
  return {
    fromTokenAccount: view.account(source),
    fromUserAccount: source < 0 ? '' : view.key(move.sourceOwner),
    mint,
    toTokenAccount: view.account(destination),
    toUserAccount: view.key(move.destinationOwner),
    // By way of the text: dividing would not give the number that is nearest to the amount.
    tokenAmount: Number(plainAmount(amount, decimals ?? 0)),
    tokenStandard: words.standard(mint, decimals, amount),
  };
}

export interface NftFacts {
  /** Lamports. */
  readonly amount: bigint;
  /** base58; empty where there is none or it is not known. */
  readonly buyer: string;
  readonly seller: string;
  /** base58 */
  readonly mints: readonly string[];
  readonly saleType: string;
}

/** `events` with the one about NFTs, as it stands in an element of this type. */
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
