import { LRUCache } from 'lru-cache';
import { decode32 } from '../../../src/lib/base58.ts';
import type { ChainReader } from '../../../src/plugin/plugin.ts';
import type { PastReader } from '../../../src/ports/ledger.ts';
import type { OwnedAccount } from '../store/wallets.ts';
import {
  badResponse,
  type FetchedTransaction,
  type HistoryEntry,
  listed,
  listedRow,
  PAGE_ENTRIES,
} from './history-entries.ts';
import {
  type FoundBlock,
  firstKept,
  keptAccounts,
  keptBlockIn,
  keptFrom,
  keptList,
  keptOrder,
  keptSlot,
  keptTime,
  keptTransaction,
  releasedList,
} from './kept-history.ts';
import {
  type FirstSlot,
  type HistoryAskOptions,
  isNotFound,
  isRefusal,
  isSilentNode,
  NodeHistory,
} from './node-history.ts';
import { behind } from './patience.ts';
import { incompleteHistory } from './view.ts';

export type { FetchedTransaction, HistoryEntry } from './history-entries.ts';
export { type HistoryAskOptions, isNotFound } from './node-history.ts';

/**
 * Reads the lists and transactions of wallets. What is final comes from the ledger and its archive as far as they go; the rest from nodes:
 * from archive upstreams only, if any are configured, so that no list ends early because a node has pruned it. While no node answers,
 * everything that is kept goes on: lists end where it begins. At most `concurrency` calls are in flight. Errors: those of `ChainReader.call`, and
 * CHAIN_BAD_RESPONSE.
 */
export interface ChainHistory {
  /** Newest first; empty at the end. The node must have reached `minSlot`. */
  signatures(
    address: string,
    page: { readonly before: string | null; readonly minSlot?: number },
    options: HistoryAskOptions,
  ): Promise<readonly HistoryEntry[]>;
  /**
   * Where the lists of the upstream have ended: what the ledger and its archive have below the first slot of the upstream. Never an
   * entry from `belowSlot` on; `signatures` continues after the last one. Errors: also those of `PastReader`, because no node can answer
   * instead.
   */
  keptBelow(address: string, belowSlot: number, options: HistoryAskOptions): Promise<readonly HistoryEntry[]>;
  /** Null when no upstream has it. */
  transaction(signature: string, options: HistoryAskOptions): Promise<FetchedTransaction | null>;
  /** Signatures of a block by place; null when unavailable. A cached one is read again when it lacks one of `signatures`. */
  order(
    slot: number,
    options: HistoryAskOptions,
    signatures?: Iterable<string>,
  ): Promise<ReadonlyMap<string, number> | null>;
  /**
   * The lowest slot with a block, of a range whose ends are inclusive; null without one. Errors: also WALLET_BEHIND, and 503 where an upstream
   * that lists the range has pruned its beginning.
   */
  blockFrom(from: number, to: number, options: HistoryAskOptions): Promise<number | null>;
  /** The newest slot of an upstream that serves histories. */
  slot(options: HistoryAskOptions): Promise<number>;
  /** The slot from which on the lists of an address have everything: of the upstream, or of what is kept below it. */
  firstSlot(address: string, signal: AbortSignal): Promise<number>;
  /** Whether the transactions of an address in this slot are kept, so that nothing is missing there. Never rejects. */
  isKept(address: string, slot: number): Promise<boolean>;
  /**
   * The slot below which transactions of an address are missing; null when nothing is. What the ledger and its archive have below the
   * first slot of the upstream counts. A chain may start at any slot: whoever has its first block has everything.
   */
  missingBelow(address: string, signal: AbortSignal): Promise<number | null>;
  /** Unix seconds of a block; one without a time has that of the nearest earlier block. Null when nobody knows it. */
  blockTime(slot: number, signal: AbortSignal): Promise<number | null>;
  /** Whether a node says what it has; false while none answers. */
  isReachable(signal: AbortSignal): Promise<boolean>;
  /** Whether an address is a program, and who owns it; null for an account that does not exist. */
  account(
    address: string,
    options: HistoryAskOptions,
  ): Promise<{ readonly isExecutable: boolean; readonly owner: string } | null>;
  /** Current token accounts of the wallet, of both token programs. The node must have reached `minSlot`. */
  tokenAccounts(
    address: string,
    options: HistoryAskOptions & { readonly minSlot?: number },
  ): Promise<readonly OwnedAccount[]>;
}

const ORDERS_KEPT = 256;
/** Slots that are searched for a block at first, and at most in one call. */
const FIRST_SEARCHED = 64;
const MAX_SEARCHED = 500_000;
interface ChainHistoryOptions {
  /** Calls in flight. */
  readonly concurrency: number;
  /** An upstream whose first slot is at most this one is complete. */
  readonly historyFloorSlot: number;
  /** Null without a ledger. */
  readonly past?: PastReader | null;
}

/** What an upstream answers, with what the ledger and its archive have below its first slot, and in its place while none answers. */
export function createChainHistory(chain: ChainReader, options: ChainHistoryOptions): ChainHistory {
  return new NodeAndPast(chain, options);
}

class NodeAndPast implements ChainHistory {
  private readonly chain: ChainReader;
  private readonly node: NodeHistory;
  private readonly past: PastReader | null;
  private readonly historyFloorSlot: number;
  private readonly orders = new LRUCache<number, ReadonlyMap<string, number>>({ max: ORDERS_KEPT });
  /**
   * Calls in which a list ended where what is kept begins, because no node answered, or one that has less. What a node says later, which may
   * have more, is no end of such a list.
   */
  private readonly cut = new WeakSet<AbortSignal>();

  constructor(chain: ChainReader, { concurrency, historyFloorSlot, past = null }: ChainHistoryOptions) {
    this.chain = chain;
    this.node = new NodeHistory(chain, concurrency);
    this.past = past;
    this.historyFloorSlot = historyFloorSlot;
  }

  async signatures(
    address: string,
    { before, minSlot }: Parameters<ChainHistory['signatures']>[1],
    { commitment, signal, lane }: HistoryAskOptions,
  ): Promise<readonly HistoryEntry[]> {
    const { node, past, cut } = this;
    const found = before === null ? null : await this.fromPast((one) => keptList(one, address, before));
    const kept = found ?? [];
    if (kept.length === PAGE_ENTRIES) return kept;
    const last = kept.at(-1)?.signature ?? before;
    let silentTop: readonly HistoryEntry[] | null = null;
    const config = {
      limit: PAGE_ENTRIES - kept.length,
      commitment,
      ...(last === null ? {} : { before: last }),
      ...(minSlot === undefined ? {} : { minContextSlot: minSlot }),
    };
    const answeredBy = node.noteLister(signal);
    const result = await node
      .call<unknown>('getSignaturesForAddress', [address, config], signal, {
        lane,
        answeredBy,
      })
      .catch(async (error: unknown) => {
        const isShort = found !== null && isNotFound(error);
        if (!isShort && (past === null || !isSilentNode(error))) throw error;
        cut.add(signal);
        // A node that has pruned what is kept here has nothing older either. While no node answers, the list ends where what is kept begins.
        if (found !== null) return [];
        const top = await this.fromPast((one) => releasedList(one, address, before, commitment));
        if (top === null) throw error;
        silentTop = top;
        return [];
      });
    if (silentTop !== null) return silentTop;
    if (!Array.isArray(result)) throw badResponse('getSignaturesForAddress', 'is not a list of signatures');
    return [...kept, ...result.map(listed)];
  }

  async keptBelow(
    address: string,
    belowSlot: number,
    { signal, lane }: HistoryAskOptions,
  ): Promise<readonly HistoryEntry[]> {
    const { node, past } = this;
    const key = decode32(address);
    if (past === null || key === null) return [];
    // Read after the list: the node may have removed its oldest entries meanwhile.
    const first = await this.whileSilent(
      async () => (await node.firstOfListers(signal, lane)).slot,
      async () => belowSlot,
    );
    const slot = Math.min(belowSlot, first);
    if (slot > (await past.finalSlot())) return [];
    const query = { address: key, reasons: 'keys', below: { slot, index: -1 }, limit: PAGE_ENTRIES } as const;
    const { rows, inVotes } = await past.page(query);
    return inVotes ? [] : rows.map(listedRow);
  }

  async transaction(signature: string, options: HistoryAskOptions): Promise<FetchedTransaction | null> {
    const { node } = this;
    const kept = await this.fromPast(async (one) => keptTransaction(one, signature, await one.finalSlot()));
    if (kept !== null) return kept;
    return await this.whileSilent(
      () => node.transaction(signature, options),
      async (released) => keptTransaction(released, signature, await keptSlot(released, options.commitment)),
    );
  }

  async order(
    slot: number,
    options: HistoryAskOptions,
    signatures: Iterable<string> = [],
  ): Promise<ReadonlyMap<string, number> | null> {
    const { node, past, orders } = this;
    const known = orders.get(slot);
    if (known !== undefined && [...signatures].every((signature) => known.has(signature))) return known;
    const kept = await this.fromPast(async (one) => keptOrder(one, slot, await one.finalSlot()));
    if (kept !== null) {
      orders.set(slot, kept);
      return kept;
    }
    try {
      const order = await node.order(slot, options);
      if (order !== null) this.remember(slot, order);
      return order;
    } catch (error) {
      if (isRefusal(error)) return null;
      if (past === null || !isSilentNode(error)) throw error;
      return await this.fromPast(async (one) => keptOrder(one, slot, await keptSlot(one, options.commitment)));
    }
  }

  async blockFrom(from: number, to: number, { commitment, signal, lane }: HistoryAskOptions): Promise<number | null> {
    for (
      let [start, length] = [from, FIRST_SEARCHED];
      start <= to;
      start += length, length = Math.min(length * 16, MAX_SEARCHED)
    ) {
      const end = Math.min(to, start + length - 1);
      const slot = await this.firstBlockIn(start, end, { commitment, signal, ...(lane === undefined ? {} : { lane }) });
      if (slot !== null) return slot;
    }
    return null;
  }

  slot({ commitment, signal, lane }: HistoryAskOptions): Promise<number> {
    return this.whileSilent(
      () => this.node.call<number>('getSlot', [{ commitment }], signal, { lane }),
      (kept) => keptSlot(kept, commitment),
    );
  }

  async firstSlot(address: string, signal: AbortSignal): Promise<number> {
    const { slot } = await this.firstKnown(signal);
    return (await this.fromPast((kept) => keptFrom(kept, address, slot - 1)))?.slot ?? slot;
  }

  isReachable(signal: AbortSignal): Promise<boolean> {
    return this.node.firstAvailable(signal).then(
      () => true,
      (error: unknown) => !isSilentNode(error),
    );
  }

  async isKept(address: string, slot: number): Promise<boolean> {
    return (await this.fromPast((kept) => keptFrom(kept, address, slot))) !== null;
  }

  async missingBelow(address: string, signal: AbortSignal): Promise<number | null> {
    const { node, historyFloorSlot } = this;
    const first = await this.firstKnown(signal);
    if (first.slot <= historyFloorSlot) return null;
    if (
      await this.whileSilent(
        () => node.isFirstBlock(first, signal),
        async () => false,
      )
    )
      return null;
    const kept = await this.fromPast((one) => keptFrom(one, address, first.slot - 1));
    if (kept === null) return first.slot;
    return kept.isFirst || kept.slot <= historyFloorSlot ? null : kept.slot;
  }

  async blockTime(slot: number, signal: AbortSignal): Promise<number | null> {
    const { node, past } = this;
    const kept = await this.fromPast((one) => keptTime(one, slot));
    if (kept !== null) return kept;
    try {
      return await node.blockTime(slot, signal);
    } catch (error) {
      if (past === null || !isSilentNode(error)) throw error;
      return null;
    }
  }

  account(address: string, options: HistoryAskOptions): ReturnType<ChainHistory['account']> {
    return this.node.account(address, options);
  }

  tokenAccounts(address: string, options: HistoryAskOptions): Promise<readonly OwnedAccount[]> {
    return this.whileSilent(
      () => this.node.tokenAccounts(address, options),
      (kept) => keptAccounts(kept, address),
    );
  }

  /** A fork may put another block into the slot: what is not final is not kept, where the follower knows what is. */
  private remember(slot: number, order: ReadonlyMap<string, number>): void {
    const { finalizedSlot } = this.chain.status();
    if (finalizedSlot === null || slot <= finalizedSlot) this.orders.set(slot, order);
  }

  /** What the ledger and its archive know; null: a node has to answer, also when they fail. */
  private async fromPast<T>(read: (kept: PastReader) => Promise<T | null>): Promise<T | null> {
    return this.past === null ? null : await read(this.past).catch(() => null);
  }

  /** What is kept, while no node answers; else the error of the node. Errors: also those of `read`. */
  private async whileSilent<T>(work: () => Promise<T>, read: (kept: PastReader) => Promise<T | null>): Promise<T> {
    const { past } = this;
    try {
      return await work();
    } catch (error) {
      if (past === null || !isSilentNode(error)) throw error;
      const { newestSlot } = await past.heads();
      const found = newestSlot < 0 ? null : await read(past);
      if (found === null) throw error;
      return found;
    }
  }

  /**
   * The lowest slot with a block, of a range; null without one. A node that has pruned the beginning lists the rest, and one that is behind what
   * it has, and neither says so. Errors: also WALLET_BEHIND, and 503 where an upstream that lists the range has pruned its beginning.
   */
  private async firstBlockIn(start: number, end: number, options: HistoryAskOptions): Promise<number | null> {
    const { node } = this;
    const { commitment, signal, lane } = options;
    const kept = await this.fromPast(async (one) => keptBlockIn(one, start, end, await one.finalSlot()));
    if (kept !== null) return kept.slot;
    let only: string | undefined;
    const ofNode = async (): Promise<FoundBlock> => {
      let [slot] = await node.blocks(start, end, options, { answeredBy: (upstream) => (only = upstream) });
      if (slot === start) return { slot };
      if (slot === undefined) {
        // Asked before the list: a tip only moves on.
        const tip = await node.call<number>('getSlot', [{ commitment }], signal, { lane, only });
        if (tip < end) throw behind();
        [slot] = await node.blocks(start, end, options, { only });
      }
      const first = await node.firstAvailable(signal, { lane, only });
      if (first <= start) return { slot: slot ?? null };
      const below = await this.fromPast(async (one) =>
        keptBlockIn(one, start, Math.min(end, first - 1), await one.finalSlot()),
      );
      if (below === null) throw incompleteHistory(first);
      return { slot: below.slot ?? slot ?? null };
    };
    const found = await this.whileSilent(ofNode, async (silent) =>
      keptBlockIn(silent, start, end, await keptSlot(silent, commitment)),
    );
    return found.slot;
  }

  /** The first slot of the upstreams of the call; while none answers, and where a list of the call was cut, that of what is kept. */
  private async firstKnown(signal: AbortSignal): Promise<FirstSlot> {
    const { past, node, cut } = this;
    return await this.whileSilent<FirstSlot>(
      async () => {
        if (past !== null && cut.has(signal)) return { slot: await firstKept(past) };
        const first = await node.firstOfListers(signal);
        const { slot, only } = first;
        // A node without history names a first slot too, and gives nothing from there on.
        if (past !== null)
          await node.call('getBlocks', [slot, slot], signal, { only }).catch((error: unknown) => {
            if (isSilentNode(error)) throw error;
          });
        return first;
      },
      async (kept) => ({ slot: await firstKept(kept) }),
    );
  }
}
