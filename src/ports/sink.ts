import type { BlockHeader, ChainId } from './block.ts';
import { type ServiceToken, serviceToken } from './service.ts';
import type { StoreTx } from './store.ts';

/**
 * How a target of rows, or of whole blocks, is written, for third parties too. The daemon makes rows of final blocks and hands them over in batches; the target
 * stores the rows of a batch and the position behind it at once, or nothing of it. What the target says of its position is all that the
 * daemon knows of it, so neither side can lose a row or write one twice, whichever of them is restarted.
 */

/**
 * What a column holds. `slot`: up to 2^53 (number); `int`: up to 2^31 - 1 (number); `u64`: 0 to 2^64 - 1 (bigint), never rounded; `text`: without
 * U+0000; `bool`; `time`: unix seconds of the years 1970 to 9999 (number); `bytes`: Uint8Array; `json`: JSON text; `texts`: list of `text`.
 */
export type SinkColumnKind = 'slot' | 'int' | 'u64' | 'text' | 'bool' | 'time' | 'bytes' | 'json' | 'texts';

export interface SinkColumn {
  /** In snake_case. */
  readonly name: string;
  readonly kind: SinkColumnKind;
  readonly isNullable: boolean;
  readonly description: string;
}

export interface SinkTable {
  readonly name: string;
  readonly description: string;
  /** The first one is `slot`. */
  readonly columns: readonly SinkColumn[];
  /** Columns that together occur once; rows come in their order. */
  readonly key: readonly string[];
}

export type SinkValue = number | bigint | string | boolean | Uint8Array | readonly string[] | null;

/** A value per column of its table, in their order. */
export type SinkRow = readonly SinkValue[];

/**
 * What a target has of one part: all rows of the slots from `first` to `last`, both inclusive. The parts of a sink share no slot: `live`
 * follows the chain, the others are back-fills.
 */
export interface SinkPosition {
  readonly part: string;
  readonly first: number;
  readonly last: number;
  /** Hash (base58) of the newest block at or below `last`. It tells another chain apart. */
  readonly blockhash: string;
}

/** Rows, or blocks, of consecutive slots. */
export interface SinkBatch {
  /** What the target has to have before it; null: nothing of this part. Another writer may have been faster: throw SINKS_MOVED then. */
  readonly after: SinkPosition | null;
  /** What it has with this batch. */
  readonly position: SinkPosition;
  /** The lowest slot of the batch. */
  readonly first: number;
  /** Rows by the name of their table; tables without rows may be absent. Empty for a kind that takes blocks. */
  readonly rows: ReadonlyMap<string, readonly SinkRow[]>;
  /** Whole blocks, ascending, for a kind that takes them; otherwise none. */
  readonly blocks: readonly SinkBlock[];
}

/** A final block as a whole. */
export interface SinkBlock extends BlockHeader {
  /** JSON text of the result of `getBlock`, in base64 with full transactions. */
  readonly text: Uint8Array;
  /** The text is that of a node, byte by byte, with rewards; else it says the same in another form. */
  readonly isVerbatim: boolean;
}

/**
 * One place that is written. Its methods are never called concurrently. Only final blocks are written, so nothing is ever taken back.
 */
export interface SinkTarget {
  /** What the target has, one entry per part; read from the target itself. */
  positions(): Promise<readonly SinkPosition[]>;
  /**
   * Stores the rows and the position together: when it rejects, or the process dies, either both are there or none. Resolves when they
   * survive a crash of the target, with the position that the target keeps. Errors: SINKS_MOVED if its position is not `batch.after`. After
   * any error the target is closed and opened again, and the position is read from it.
   */
  write(batch: SinkBatch): Promise<SinkPosition>;
  /** The rows of a table in these slots, both inclusive, in any order. Needed by `sinks verify`. */
  read?(table: string, first: number, last: number): Promise<readonly SinkRow[]>;
  /** The blocks in these slots, both inclusive, in any order. Needed by `sinks verify` for a kind that takes blocks. */
  texts?(first: number, last: number): Promise<readonly Pick<SinkBlock, 'slot' | 'text'>[]>;
  /** Never throws. */
  close(): Promise<void>;
}

export interface OpenSink {
  /** Name of the sink in the configuration. */
  readonly name: string;
  /** The tables that this sink gets; none for a kind that takes blocks. */
  readonly tables: readonly SinkTable[];
  /** Version of `tables`. A target that has rows of a newer version refuses with SINKS_REFUSED. */
  readonly version: number;
  /** `target` of the configuration: an address, a folder, or what the kind wants. May contain secrets. */
  readonly target: string;
  /** `options` of the configuration. */
  readonly options: Readonly<Record<string, string>>;
}

export interface SinkKind {
  /** `kind` in the configuration: `^[a-z][a-z0-9-]{0,31}$`. */
  readonly kind: string;
  /** Rows of tables, or whole blocks; default: rows. With blocks, `tables` and `filter` of the configuration do not apply. */
  readonly takes?: 'rows' | 'blocks';
  /** A batch ends with the first bound that is reached. */
  readonly batch: { readonly slots: number; readonly seconds: number };
  /** Connects, and creates or migrates what is missing. Errors are tried again for ever, with growing pauses. */
  open(sink: OpenSink): Promise<SinkTarget>;
}

export interface SinkKinds {
  /** Adds a kind of target. While plugins are provisioned. Errors: PLUGIN_CONFLICT for a kind that exists. */
  define(kind: SinkKind): void;
}

/** Offered by `sinks`. */
export const sinkKinds: ServiceToken<SinkKinds> = serviceToken('sinks.kinds');

/** What operators see of a sink. */
export interface SinkView {
  readonly name: string;
  readonly kind: string;
  /** `waiting`: nothing is known of the target yet. */
  readonly state: 'running' | 'waiting' | 'paused' | 'failing';
  readonly firstSlot: number | null;
  readonly lastSlot: number | null;
  /** Final slots that the target does not have yet; null: not known. */
  readonly lagSlots: number | null;
  /** Why it does not go on. */
  readonly error: string | null;
  /** What is not done yet. */
  readonly tasks: readonly {
    readonly id: string;
    readonly kind: 'backfill' | 'verify';
    /** Slots, both inclusive. */
    readonly from: number;
    readonly to: number;
    /** Everything below is done. */
    readonly next: number;
    /** Unix milliseconds. */
    readonly createdAt: number;
  }[];
  /** Slots, both inclusive, whose rows of `account_writes` or `deliveries` the target lacks for ever: `sinks.keptBytes` was reached. */
  readonly holes: readonly { readonly table: string; readonly from: number; readonly to: number }[];
}

/**
 * Rows of what the daemon itself does, which no block contains. They are kept in the store until every sink that writes them has them, at
 * most `sinks.keptBytes` of them; each belongs to the first final slot that is known once its transaction has committed.
 */
export interface SinkEvents {
  /** Whether a sink writes this table: rows of others need not be made. */
  wants(chain: ChainId, table: string): boolean;
  /** In the transaction of what they tell: all columns of their table but the first two (`slot`, `entry`). */
  add(tx: StoreTx, chain: ChainId, table: string, rows: readonly SinkRow[]): Promise<void>;
}

/** Offered by `sinks`. */
export const sinkEvents: ServiceToken<SinkEvents> = serviceToken('sinks.events');
