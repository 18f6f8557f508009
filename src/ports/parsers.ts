import type { ChainBlock, NormalTransaction } from './block.ts';
import { type ServiceToken, serviceToken } from './service.ts';

/** The parts of a block that a parser needs. */
export type ParsedBlock = Pick<ChainBlock, 'slot' | 'blockTime' | 'keys'>;

/** A plugin's classification of a transaction. */
export interface ContributedParse {
  /** One of the published transaction types. */
  readonly type: string;
  /** Upper case with underscores, such as `MY_MARKET`. */
  readonly source: string;
  /** One sentence; optional. */
  readonly description?: string;
  /** Members of `events`; optional. */
  readonly events?: Readonly<Record<string, unknown>>;
}

/** Classifies transactions of some programs, for enhanced transactions and the type filters of webhooks. */
export interface ContributedParser {
  /** Unique across all plugins; used in metrics and logs. */
  readonly name: string;
  /** Programs in base58; `parse` is called only for transactions that run one of them. */
  readonly programs: readonly string[];
  /** Whether inner instructions count too; default false: only instructions of the message count. */
  readonly isInnerEnough?: boolean;
  /**
   * Null: not recognized. Must be pure: the same transaction must always give the same result. Runs before the built-in parsers. A throw
   * is counted and logged with the signature, and the next parser is tried.
   */
  parse(transaction: NormalTransaction, block: ParsedBlock): ContributedParse | null;
}

/** `parsers` of the configuration; a reload changes it in place. */
export interface ParserOptions {
  /** A route over one market that mints shares of its fee is a SWAP instead of a TOKEN_MINT as in the hosted parser. */
  readonly preferSwapOverMint: boolean;
  /** Include changes of authority in `events`. */
  readonly setAuthorityEvents: boolean;
}

/** The parsers of all plugins. */
export interface PluginParsers {
  readonly options: ParserOptions;
  /** In plugin order. Complete once all plugins are provisioned, so do not call it before `start`. */
  all(): readonly ContributedParser[];
}

export const kernelParsers: ServiceToken<PluginParsers> = serviceToken('kernel.parsers');
