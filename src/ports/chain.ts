import type { Tenant } from './access.ts';
import type { BlockHeader, ChainBlock } from './block.ts';
import type { ChainId } from './chain-id.ts';
import type { ChainGap } from './gaps.ts';

export type { ChainId } from './chain-id.ts';
export type Commitment = 'confirmed' | 'finalized';

/**
 * What a source says when it is asked for a block.
 * `skipped` is only a claim (the node may have lost the block); the follower proves it by a later block's parent.
 */
export type BlockAnswer =
  | { readonly kind: 'block'; readonly block: ChainBlock; readonly upstream: string }
  | { readonly kind: 'skipped'; readonly upstream: string }
  | { readonly kind: 'not-yet'; readonly upstream: string }
  | { readonly kind: 'pruned'; readonly upstream: string };

export interface AskOptions {
  readonly commitment: Commitment;
  readonly signal: AbortSignal;
  /** Labels of upstreams that have been proven wrong or useless for this question. */
  readonly avoid?: readonly string[];
}

/** One entry of an address's history. */
export interface AddressEntry {
  readonly signature: string;
  readonly slot: number;
}

/** Where blocks are gone: what upstreams still tell of single transactions. */
export interface AddressHistory {
  /** The newest entries below the signature `before`, newest first, as one upstream has them; empty at the end. */
  page(
    address: string,
    page: { readonly before: string | null; readonly limit: number },
    options: AskOptions,
  ): Promise<{ readonly upstream: string; readonly entries: readonly AddressEntry[] }>;
  /**
   * The transactions as a block that holds nothing else, in the order of their block where upstreams tell it, else as given. Its hashes
   * and parent are made up. Null when an upstream does not have one of them in this slot.
   */
  partialBlock(slot: number, signatures: readonly string[], options: AskOptions): Promise<ChainBlock | null>;
}

/**
 * Where blocks come from. Transport failures are retried over the upstreams inside; what is thrown is final for this call:
 * CHAIN_UNREACHABLE (no upstream answered), CHAIN_BAD_BLOCK (every upstream's block contradicts itself).
 */
export interface ChainSource {
  readonly chain: ChainId;
  /** Newest slot of the commitment that the healthiest upstream knows. May go backwards between calls. */
  tip(options: AskOptions): Promise<number>;
  /** Slots with a block in [from, to], ascending, as one upstream lists them: a candidate list, never proof of absence. */
  produced(from: number, to: number, options: AskOptions): Promise<readonly number[]>;
  block(slot: number, options: AskOptions): Promise<BlockAnswer>;
  /** Header only (no transactions are asked for); null when no upstream has that block. */
  header(slot: number, options: AskOptions): Promise<BlockHeader | null>;
  /** Lowest slot that any upstream still has, cached for some minutes. */
  firstAvailable(signal: AbortSignal): Promise<number>;
  /** Marks an upstream whose answer contradicted the chain. */
  distrust(upstream: string, reason: string): void;
  /**
   * Asks every upstream now which chain it serves, before something is believed that no link to a released block proves. False when that
   * took one out of service, or none is left: then what is at hand may be another chain's. Only the signal's reason is thrown.
   */
  confirmChain(signal: AbortSignal): Promise<boolean>;
  /** Labels of the upstreams that are out of service because they serve another chain, or have not said yet which one. */
  outOfService(): readonly string[];
  /** Number of upstreams that are configured; tells when all of them have been asked. */
  readonly upstreamCount: number;
  /** Whether an upstream asks for fewer calls at this moment: work that can wait should. */
  isLimited?(): boolean;
  /** Absent where a source has no such thing. */
  readonly history?: AddressHistory;
  /** Calls `wake` when something may have happened (a websocket slot notice). The returned function stops it. */
  onHint(wake: () => void): () => void;
  /** Pushes blocks, where one is configured. */
  readonly stream?: BlockStream;
  start(): Promise<void>;
  stop(): Promise<void>;
}

export type StreamEnd =
  /** The server does not go back to `fromSlot`. */
  | { readonly kind: 'out-of-range' }
  /** `reason` is one word without secrets. */
  | { readonly kind: 'failed'; readonly reason: string };

export interface StreamOptions {
  /** Where to begin, if the server goes back so far; null for its newest block. */
  readonly fromSlot: number | null;
  readonly commitment: Commitment;
  readonly signal: AbortSignal;
  /** In the order of the server, which may repeat and leave out: links are the only proof. Must not throw. */
  onBlock(block: ChainBlock): void;
  /** The block of this slot will never be of the chain. Must not throw. */
  onDead(slot: number): void;
}

/** Blocks that are pushed: sooner than by asking, and never proof that nothing is missing. */
export interface BlockStream {
  /** Loads what it needs. Errors: STREAM_PACKAGE_MISSING. */
  start(): Promise<void>;
  /** One subscription; resolves when it has ended, also by `signal`. */
  open(options: StreamOptions): Promise<StreamEnd>;
}

export interface ChainStatus {
  readonly chain: ChainId;
  /** `local` for the throw-away chain, `rpc` for a real cluster. */
  readonly kind: 'local' | 'rpc';
  /** `mainnet`, `devnet`, `local` or `unknown`, from the genesis hash. */
  readonly cluster: string;
  readonly engine?: string;
  readonly genesisHash: string | null;
  /** Accounts and transactions that were set and not executed (local chain only). */
  readonly fixtures?: number;
  /** Where the chain answers (local chain only). */
  readonly rpcUrl?: string;
  readonly tipSlot: number | null;
  /** Slot of the last released block. */
  readonly cursorSlot: number | null;
  readonly finalizedSlot: number | null;
  readonly lagSlots: number | null;
  /** Measured milliseconds per slot; null until enough was seen of the chain. */
  readonly slotMs: number | null;
  /** Why the loop stands still, or null. */
  readonly stalled: string | null;
  /** Which process follows the chain, where several could; `name` is null while nobody does. */
  readonly leader?: { readonly name: string | null; readonly epoch: number };
  /** This process could follow the chain, and waits while another one does. */
  readonly isStandby?: boolean;
  /** Processors that fail and were left behind (`follow.onError: skip-plugin`), in words; they catch up once they work. */
  readonly leftBehind?: readonly string[];
  readonly openGaps: number;
  /** The oldest of them, a bounded number. */
  readonly gaps?: readonly ChainGap[];
}

export interface ChainCallOptions {
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
  /** On whose behalf; absent: that of the signal, else the daemon's own. Throws GateRefusal when too many of its calls wait for the upstream. */
  readonly tenant?: Tenant | undefined;
  /** Only upstreams that keep the whole history are asked, where any is marked so. */
  readonly archive?: boolean;
}

/** Reads of chain state for plugins: parsed JSON-RPC answers through the upstream pool. */
export interface ChainReader {
  readonly chain: ChainId;
  status(): ChainStatus;
  /**
   * One JSON-RPC call. Errors of the node: CHAIN_RPC_ERROR with facts {rpcCode, method}; transport: CHAIN_UNREACHABLE,
   * CHAIN_TIMEOUT. Integers above 2^53 lose precision here: use the proxy's byte path where that matters.
   */
  call<T>(method: string, params: readonly unknown[], options?: ChainCallOptions): Promise<T>;
  /**
   * The same, with the result as the JSON text that the node sent: numbers of any size stay as they are. A null result is believed only
   * when no upstream has another. Errors besides: CHAIN_BAD_RESPONSE.
   */
  callText(method: string, params: readonly unknown[], options?: ChainCallOptions): Promise<string>;
  /** Calls `listener` after each released block's commit. The returned function stops it. */
  onReleased(listener: (header: BlockHeader) => void): () => void;
}
