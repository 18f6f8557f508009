import type { ChainBlock } from './block.ts';
import { type ServiceToken, serviceToken } from './service.ts';

/** Which instructions are wanted. All members have to hold for one and the same instruction. */
export interface ParsedFilter {
  /** One of them is its program; empty: any. */
  readonly programs: readonly string[];
  /** It has one of these names, compared without case and separators, whether its arguments can be decoded or not; empty: any. */
  readonly instructionNames: readonly string[];
  /** One of them is among its accounts; empty: any. */
  readonly include: readonly string[];
  /** Accounts by the names that the interface gives them; all have to hold. */
  readonly roles: readonly (readonly [name: string, address: string])[];
  readonly includeFailed: boolean;
  /** Whether calls of other instructions count. */
  readonly includeCpi: boolean;
}

export type ParsedDetails = 'full' | 'matched' | 'raw';

export interface ParsedWanted {
  readonly filter: ParsedFilter;
  /** The project whose own interfaces take precedence; null: none. */
  readonly project: string | null;
}

/** A transaction of which at least one instruction is wanted. */
export interface ParsedMatch {
  /** Position in the block. */
  readonly index: number;
  readonly signature: string;
  /** JSON text of what is sent of it, made once for all that want the same. */
  text(details: ParsedDetails): string;
  /** Equal for equal texts of the same transaction. */
  key(details: ParsedDetails): string;
}

/** Many filters that are compared with a block together, however few of them it concerns. */
export interface ParsedBoard<Owner> {
  /** Adds the filter of an owner, or replaces it. */
  set(owner: Owner, wanted: ParsedWanted): void;
  remove(owner: Owner): void;
  /** How many transactions each owner may want, by what is known without interfaces: at least as many as `match` finds. */
  candidates(block: ChainBlock): ReadonlyMap<Owner, number>;
  /**
   * The matches of those owners that have any, in the order of the block. `isLive`: blocks come one after another, as they are released;
   * what a block changes of the interfaces is then known from it. Errors: the interfaces of programs cannot be read now; without
   * `costly`, also RequestError 400 for an owner whose project has interfaces that take too long.
   */
  match(block: ChainBlock, how: MatchOptions<Owner>): Promise<ReadonlyMap<Owner, readonly ParsedMatch[]>>;
}

export interface MatchOptions<Owner> {
  readonly isLive: boolean;
  /** How many transactions were decoded for an owner; called once at most. */
  decoded?(owner: Owner, transactions: number): void;
  /** The interfaces of its project take too long: of this block the owner gets nothing. `reason` is for the project. */
  costly?(owner: Owner, reason: string): void;
}

export type ReadFilter =
  | { readonly filter: ParsedFilter }
  /** Why it is refused; `isLimit`: it has too many of something. */
  | { readonly problem: string; readonly isLimit: boolean };

export interface ParsedTransactions {
  readFilter(value: unknown): ReadFilter;
  openBoard<Owner>(): ParsedBoard<Owner>;
}

/** Offered by `parsed`: transactions in words, for plugins that send them. */
export const parsedTransactions: ServiceToken<ParsedTransactions> = serviceToken('parsed.transactions');
