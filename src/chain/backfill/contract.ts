import type { CoreConfig } from '../../config/core.ts';
import type { BlockProcessor } from '../../plugin/plugin.ts';
import type { ChainId, ChainSource } from '../../ports/chain.ts';
import type { Clock, Random } from '../../ports/clock.ts';
import type { Log } from '../../ports/log.ts';
import type { Store } from '../../ports/store.ts';
import type { Turn } from '../turn.ts';
import type { GapFill } from './gap-record.ts';

export interface FillOptions {
  readonly chain: ChainId;
  readonly source: ChainSource;
  readonly store: Store;
  /** Those of this chain. */
  readonly processors: readonly BlockProcessor[];
  readonly follow: CoreConfig['follow'];
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Every write takes its turn. */
  readonly turn: Turn;
  /** What was given for a slot is not believed. */
  readonly forget?: (slot: number) => void;
  /** Blocks fetched at once. */
  readonly concurrency: number;
  /** Why filling has to wait at this moment; null when it has not. */
  hindrance(): string | null;
  /** Newest final slot. What is filled cannot be taken back, so only slots below it are. */
  finalSlot(): Promise<number>;
  /** Told after each commit. */
  filled(progress: { readonly blocks: number; readonly slots: number }): void;
}

/** A processor with its place in the gap. */
export interface FillMember {
  readonly processor: BlockProcessor;
  readonly fill: GapFill;
}

/** How a try to fill a gap ended. */
export type FillOutcome =
  /** There is more to do at once. */
  | { readonly kind: 'more' }
  | { readonly kind: 'filled' }
  /** It goes on by itself when that is over. */
  | { readonly kind: 'waits'; readonly reason: string }
  /** Something outside has to change. */
  | { readonly kind: 'stuck'; readonly reason: string };
