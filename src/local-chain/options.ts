import type { TimeSource } from './ledger/chain-time.ts';

export interface LocalChainOptions {
  /** Fixed loopback port, or 0 for any free one (default). With a fixed one, WebSocket is offered on port + 1 too. */
  readonly port?: number;
  /** Genesis seed; default random. */
  readonly seed?: string | null;
  /** Length of a slot; 0 (default) = one block per transaction and nothing by itself. */
  readonly slotMs?: number;
  readonly finalityDepth?: number;
  readonly firstSlot?: number;
  readonly maxBlocks?: number;
  /** Offer the `local_*` methods (default true). */
  readonly control?: boolean;
  /** Default wall clock. */
  readonly time?: TimeSource;
  /** Leave slots out by seeded chance, 0 to 1. */
  readonly skipEvery?: { readonly rate: number; readonly seed: number };
  /** Folder with Light Protocol programs and accounts; false = none; default: the development dependency if it is there. */
  readonly lightAssets?: string | false | null;
  /** Told in words when something that was asked for could not be had, such as a port. */
  readonly warn?: (text: string) => void;
}

export const DEFAULTS = { slotMs: 0, finalityDepth: 32, firstSlot: 1000, maxBlocks: 20_000 } as const;
