import type { Tenant } from './access.ts';
import type { BlockHeader, ChainBlock, ChainId } from './block.ts';
import type { ChainGap } from './following.ts';

export type { ChainId } from './block.ts';
export type Commitment = 'confirmed' | 'finalized';
/** A state of the chain that a node looks into. */
export type BankLevel = 'processed' | Commitment;

/** How a chain finalizes. `unknown`: no upstream has said anything that proves one or the other. */
export type Era = 'alpenglow' | 'towerbft' | 'unknown';

export interface ConsensusFacts {
  readonly era: Era;
  /** Last TowerBFT block of a chain that moved to Alpenglow: blocks above it are final at their root. Null: unknown, or not moved. */
  readonly genesisSlot: number | null;
  /** Where the facts come from; null while the era is unknown. */
  readonly source: 'certificate' | 'account' | 'configuration' | null;
}

/**
 * The answer of a source to a request for a block.
 * `skipped` is only a claim (the node may have lost the block); the follower proves it by the parent of a later block.
 */
export type BlockAnswer =
  | { readonly kind: 'block'; readonly block: ChainBlock; readonly upstream: string }
  | { readonly kind: 'skipped'; readonly upstream: string }
  | { readonly kind: 'not-yet'; readonly upstream: string }
  | { readonly kind: 'pruned'; readonly upstream: string };

export interface AskOptions {
  readonly commitment: Commitment;
  readonly signal: AbortSignal;
  /** Labels of upstreams that were proven wrong or useless for this request. */
  readonly avoid?: readonly string[];
}

/** One entry of an address's history. */
export interface AddressEntry {
  readonly signature: string;
  readonly slot: number;
}

/** Transaction histories of addresses, for ranges whose blocks upstreams no longer have. */
export interface NodeAddressHistory {
  /** The newest entries older than the signature `before`, newest first, from one upstream; empty at the end. */
  page(
    address: string,
    page: { readonly before: string | null; readonly limit: number },
    options: AskOptions,
  ): Promise<{ readonly upstream: string; readonly entries: readonly AddressEntry[] }>;
  /**
   * A synthetic block that contains only these transactions: in block order if an upstream reports it, otherwise in the given order. Its
   * hashes and parent are placeholders. Null if an upstream does not have one of the transactions in this slot.
   */
  partialBlock(slot: number, signatures: readonly string[], options: AskOptions): Promise<ChainBlock | null>;
  /**
   * What is known without an upstream: every transaction of an address from slot `from` to the end of a range, newest first, `most` at
   * least where there are more. Null where nothing is. Absent without a ledger.
   */
  kept?(address: string, range: HistoryRange): Promise<KeptHistory | null>;
}

export interface HistoryRange {
  readonly fromSlot: number;
  /** Inclusive. */
  readonly toSlot: number;
  /** Largest number of entries that the caller needs. */
  readonly most: number;
}

export interface KeptHistory {
  readonly from: number;
  readonly entries: readonly AddressEntry[];
}

/**
 * A source of blocks. It retries transport failures on other upstreams; an error that it throws is final for the call:
 * CHAIN_UNREACHABLE (no upstream answered), CHAIN_BAD_BLOCK (the block of every upstream contradicts itself).
 */
export interface ChainSource {
  readonly chain: ChainId;
  /** Newest slot of the commitment on the healthiest upstream. May decrease between calls. */
  tip(options: AskOptions): Promise<number>;
  /** How the chain finalizes, from what all upstreams say. Never throws but the signal's reason: without answers the era is unknown. */
  consensus(signal: AbortSignal): Promise<ConsensusFacts>;
  /** The highest of the tips of all upstreams: for a tip that does not rise, because one of them may hang. */
  highestTip(options: AskOptions): Promise<number>;
  /** Slots with a block in [from, to], ascending, from one upstream: a list of candidates, not a proof of absence. */
  produced(from: number, to: number, options: AskOptions): Promise<readonly number[]>;
  block(slot: number, options: AskOptions): Promise<BlockAnswer>;
  /** Only the header, requested without transactions; null if no upstream has the block. */
  header(slot: number, options: AskOptions): Promise<BlockHeader | null>;
  /** Lowest slot that any upstream still has; cached for some minutes. */
  firstAvailable(signal: AbortSignal): Promise<number>;
  /** Marks an upstream whose answer contradicted the chain. */
  distrust(upstream: string, reason: string): void;
  /**
   * Asks an upstream again for a final block that it served and that was taken back; it is distrusted when it names another one now. Never
   * throws.
   */
  recheck?(upstream: string, served: BlockHeader, signal: AbortSignal): Promise<void>;
  /**
   * Checks now which chain every upstream serves, before data is trusted that has no link to a released block. False if the check took an
   * upstream out of service, or none is left: data already received may then belong to another chain. Throws only the signal's reason.
   */
  confirmChain(signal: AbortSignal): Promise<boolean>;
  /** Why upstreams that have to agree (`upstream.quorum`) contradict each other on a block above this slot; null: they do not. */
  disagreement?(aboveSlot: number): string | null;
  /** Texts about upstreams that are left out for a while because an answer of theirs was proven wrong. */
  distrusted?(): readonly string[];
  /** Labels of the upstreams that are out of service because they serve another chain, or have not reported theirs yet. */
  outOfService(): readonly string[];
  /** Number of configured upstreams; a reload changes it. */
  upstreamCount(): number;
  /** Whether an upstream is limiting calls now: work that can wait should wait. */
  isLimited?(): boolean;
  /** Absent if the source does not support it. */
  readonly history?: NodeAddressHistory;
  /** Calls `wake` when a new block may exist (a slot notification on the websocket). The returned function unsubscribes. */
  onHint(wake: () => void): () => void;
  /** Source of pushed blocks, if configured. */
  readonly stream?: BlockStream;
  /** Absent if the source cannot check certificates. */
  readonly finality?: FinalityChecks;
  start(): Promise<void>;
  stop(): Promise<void>;
}

export type StreamEnd =
  /** The server cannot replay from `fromSlot`. */
  | { readonly kind: 'out-of-range' }
  /** `reason` is one word without secrets. */
  | { readonly kind: 'failed'; readonly reason: string };

export interface StreamOptions {
  /** First slot, if the server can replay it; null: start at the newest block. */
  readonly fromSlot: number | null;
  readonly commitment: Commitment;
  readonly signal: AbortSignal;
  /** Called in the order of the server, which may repeat or omit blocks: only the parent links are proof. Must not throw. */
  onBlock(block: ChainBlock): void;
  /** The block of this slot will never become part of the chain. Must not throw. */
  onDead(slot: number): void;
}

/** Pushed blocks: faster than polling, but no proof that no block is missing. */
export interface BlockStream {
  /** Loads the packages that it needs. Errors: STREAM_PACKAGE_MISSING. */
  start(): Promise<void>;
  /** Opens one subscription; resolves when it ends, also by `signal`. */
  open(options: StreamOptions): Promise<StreamEnd>;
}

/** Footers of blocks, pushed by a Yellowstone server of proto 14. They carry the certificates that make earlier blocks final. */
export interface FooterStream {
  /**
   * Opens one subscription; resolves when it ends, also by `signal`. `onFooter` gets the bytes of a `SubscribeUpdateBlockFooter` and must not
   * throw.
   */
  open(options: { readonly signal: AbortSignal; onFooter(bytes: Buffer): void }): Promise<StreamEnd>;
}

/** A slot whose block is proven final by the signatures of validators. */
export interface VerifiedSlot {
  readonly slot: number;
  /** Share of the ranked stake that signed, in percent, rounded down to hundredths; of two rounds the smaller one. */
  readonly stakePercent: number;
  /** `fast`: one round of votes; `slow`: two. */
  readonly rounds: 'fast' | 'slow';
}

export interface FinalityAlarm {
  /** Slot that the certificate names. */
  readonly slot: number;
  readonly reason: string;
  /** Unix milliseconds. */
  readonly at: number;
}

/** What is known from certificates that were checked here. It never decides what is released, nor what counts as finalized. */
export interface FinalityStatus {
  /** `off`: not configured; `waiting`: nothing could be checked yet; `checking`; `failed`: the thread that checks has ended. */
  readonly state: 'off' | 'waiting' | 'checking' | 'failed';
  /** Why certificates are not checked; null while they are. */
  readonly reason: string | null;
  /** The highest slot; its ancestors are final with it. Null: none yet. */
  readonly verified: VerifiedSlot | null;
  /** The newest verified slots, highest first, a bounded number. */
  readonly recent: readonly VerifiedSlot[];
  /** The last certificate that does not hold, or that contradicts the released blocks; null: none since the start. */
  readonly alarm: FinalityAlarm | null;
}

/**
 * `verified`: of a released block; `refused`: it does not hold; `contradicted`: it holds, and the released chain has no block in its slot;
 * `sampled`: not checked, because checks are slower than blocks; `unchecked`: not checked, because ranks or shred version are unknown;
 * `unfollowed`: it holds, and its slot is outside of what was released since the start.
 */
export type CertificateResult = 'verified' | 'refused' | 'contradicted' | 'sampled' | 'unchecked' | 'unfollowed';

/** Checks the certificates of the blocks that are followed, beside the follower. */
export interface FinalityChecks {
  start(counted: (result: CertificateResult) => void): void;
  /** A block was released. */
  released(header: BlockHeader): void;
  status(): FinalityStatus;
  stop(): Promise<void>;
}

/** Transactions of released blocks that were not read completely, since the start of the process that follows. */
export interface UnreadTransactions {
  /** Kept as the node sent them, without instructions. */
  readonly opaque: number;
  /** Read but for some members, or for bits whose meaning is unknown. */
  readonly partial: number;
  /** `signature`: base58; null where none could be read. */
  readonly last: { readonly slot: number; readonly signature: string | null; readonly reason: string };
}

export interface ChainStatus {
  readonly chain: ChainId;
  /** `local` for the local chain, `rpc` for a real cluster. */
  readonly kind: 'local' | 'rpc';
  /** `mainnet`, `devnet`, `local` or `unknown`, from the genesis hash. */
  readonly cluster: string;
  readonly engine?: string;
  readonly genesisHash: string | null;
  /** Number of accounts and transactions that were set, not executed (local chain only). */
  readonly fixtures?: number;
  /** Address of the chain's RPC server (local chain only). */
  readonly rpcUrl?: string;
  readonly tipSlot: number | null;
  /** Slot of the last released block. */
  readonly cursorSlot: number | null;
  readonly finalizedSlot: number | null;
  /** Milliseconds since upstreams were asked and nothing newer was final; null: not since the start; absent where the chain is not followed. */
  readonly finalizedAgeMs?: number | null;
  /** Commitment of the blocks that are followed, and why; absent where the chain is not followed. */
  readonly commitment?: Commitment;
  readonly consensus?: ConsensusFacts;
  /** What certificates prove; absent where the chain is not followed. */
  readonly finality?: FinalityStatus;
  readonly lagSlots: number | null;
  /** Measured milliseconds per slot; null until enough blocks were seen. */
  readonly slotMs: number | null;
  /** Why the follower is stalled, or null. */
  readonly stalled: string | null;
  /** Milliseconds since the last released block, or since the start; absent where the chain is not followed. */
  readonly silentMs?: number;
  /** The leader, if several processes could follow the chain; `name` is null while there is no leader. */
  readonly leader?: { readonly name: string | null; readonly epoch: number };
  /** This process is a standby: another one follows the chain. */
  readonly isStandby?: boolean;
  /** Texts about failing processors that were skipped (`follow.onError: skip-plugin`); they catch up once they work again. */
  readonly leftBehind?: readonly string[];
  /** Texts about upstreams that are left out for a while because an answer of theirs was proven wrong. */
  readonly distrusted?: readonly string[];
  /** Absent while all were read. */
  readonly unread?: UnreadTransactions;
  readonly openGaps: number;
  /** The oldest open gaps, a bounded number. */
  readonly gaps?: readonly ChainGap[];
}

export interface ChainCallOptions {
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
  /** For whom the call is; `OWN_WORK`: the daemon itself. Throws GateRefusal if too many calls of the tenant wait for the upstream. */
  readonly tenant: Tenant;
  /** Use only upstreams marked as archives, if any is marked. */
  readonly archive?: boolean;
  /** Label of the only upstream to ask: what one node says about itself holds for the answers of that node alone. */
  readonly only?: string;
  /** Called with the label of the upstream that answered, or refused, before the call ends. */
  readonly answeredBy?: (upstream: string) => void;
}

/** Reads chain state for plugins with JSON-RPC calls through the upstream pool. */
export interface ChainReader {
  readonly chain: ChainId;
  status(): ChainStatus;
  /**
   * One JSON-RPC call. Errors of the node: CHAIN_RPC_ERROR with facts {rpcCode, method}; of the transport: CHAIN_UNREACHABLE,
   * CHAIN_TIMEOUT. Integers above 2^53 lose precision; use `callText` where that matters.
   */
  call<T>(method: string, params: readonly unknown[], options: ChainCallOptions): Promise<T>;
  /**
   * Like `call`, but returns the result as the JSON text of the node, with numbers of any size intact. A null result is returned only if
   * no upstream has another one. Additional error: CHAIN_BAD_RESPONSE.
   */
  callText(method: string, params: readonly unknown[], options: ChainCallOptions): Promise<string>;
  /** Calls `listener` after the commit of each released block. The returned function unsubscribes. */
  onReleased(listener: (header: BlockHeader) => void): () => void;
}
