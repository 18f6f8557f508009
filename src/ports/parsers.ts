import type { ChainBlock, NormalTransaction } from './block.ts';
import { type ServiceToken, serviceToken } from './service.ts';

/** The block of a transaction, as far as a parser needs it. */
export type ParsedBlock = Pick<ChainBlock, 'slot' | 'blockTime' | 'keys'>;

/** What a parser of a plugin makes of a transaction. */
export interface ContributedParse {
  /** One of the published transaction types. */
  readonly type: string;
  /** In capitals and underscores, like `MY_MARKET`. */
  readonly source: string;
  /** One sentence; default none. */
  readonly description?: string;
  /** Members of `events`; default none. */
  readonly events?: Readonly<Record<string, unknown>>;
}

/** Tells what transactions of some programs are, in enhanced transactions and where webhooks filter by type. */
export interface ContributedParser {
  /** Unique over all plugins; metrics and logs name it. */
  readonly name: string;
  /** It is asked only about transactions in which one of these programs (base58) runs. */
  readonly programs: readonly string[];
  /** Whether a call by another program counts; default false, only instructions of the message do. */
  readonly isInnerEnough?: boolean;
  /**
   * Null: not one of mine. Has to be pure: the same transaction must always be the same. It is asked before the built-in ones; a
   * throw is counted, logged with the signature, and the next one is asked.
   */
  parse(transaction: NormalTransaction, block: ParsedBlock): ContributedParse | null;
}

/** The parsers of all plugins. */
export interface ParserBook {
  /** In the order of the plugins; complete once all are provisioned, so not before `start`. */
  all(): readonly ContributedParser[];
}

export const kernelParsers: ServiceToken<ParserBook> = serviceToken('kernel.parsers');
