import type { SinkPosition, SinkTarget } from '../../src/ports/sink.ts';

/** The part that follows the chain. */
export const LIVE = 'live';

/** An open target with the positions that were read from it, or that it acknowledged since. */
export interface OpenTarget {
  readonly target: SinkTarget;
  readonly positions: Map<string, SinkPosition>;
}
