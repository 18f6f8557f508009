import { LRUCache } from 'lru-cache';
import { decode, decode32 } from '../../../src/lib/base58.ts';
import { parseExact } from '../../../src/lib/json.ts';
import { type ChainReader, CodedError } from '../../../src/plugin/plugin.ts';
import { tenantOf } from '../../../src/ports/access.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import type { ChainCallOptions, Commitment } from '../../../src/ports/chain.ts';
import { type AddressRow, ceilingOf, type PastReader } from '../../../src/ports/ledger.ts';
import { createSemaphore } from '../../../src/runtime/semaphore.ts';
import { decodeEntries, decodeTransaction } from '../../../src/solana/decode/decode-block.ts';
import { meaningOfRefusal } from '../../../src/solana/node-errors.ts';
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../../src/solana/programs.ts';
import type { OwnedAccount } from '../store/wallets.ts';
import { behind } from './patience.ts';
import { incompleteHistory } from './view.ts';

/** An entry of an address's list. */
export interface Listed {
  readonly signature: string;
  readonly slot: number;
  readonly hasFailed: boolean;
  /** Unix seconds; null when the node does not return it. */
  readonly time: number | null;
  /** Place in the block; null when the node does not return it. */
  readonly place: number | null;
}

export interface FetchedTransaction {
  /** JSON text of the transaction, unchanged from the node. */
  readonly text: string;
  /** A block with only this transaction. */
  readonly block: ChainBlock;
  /** Place in its block; null when the node does not return it. */
  readonly place: number | null;
}

export interface AskOptions {
  readonly commitment: Commitment;
  readonly signal: AbortSignal;
  /** Lanes share the calls evenly; default: that of the tenant of the signal. */
  readonly lane?: string;
}

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
    options: AskOptions,
  ): Promise<readonly Listed[]>;
  /**
   * Where the lists of the upstream have ended: what the ledger and its archive have below the first slot of the upstream. Never an
   * entry from `belowSlot` on; `signatures` continues after the last one. Errors: also those of `PastReader`, because no node can answer
   * instead.
   */
  keptBelow(address: string, belowSlot: number, options: AskOptions): Promise<readonly Listed[]>;
  /** Null when no upstream has it. */
  transaction(signature: string, options: AskOptions): Promise<FetchedTransaction | null>;
  /** Signatures of a block by place; null when unavailable. A cached one is read again when it lacks one of `signatures`. */
  order(slot: number, options: AskOptions, signatures?: Iterable<string>): Promise<ReadonlyMap<string, number> | null>;
  /**
   * The lowest slot with a block, of a range whose ends are inclusive; null without one. Errors: also WALLET_BEHIND, and 503 where an upstream
   * that lists the range has pruned its beginning.
   */
  blockFrom(from: number, to: number, options: AskOptions): Promise<number | null>;
  /** The newest slot of an upstream that serves histories. */
  slot(options: AskOptions): Promise<number>;
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
    options: AskOptions,
  ): Promise<{ readonly isExecutable: boolean; readonly owner: string } | null>;
  /** Current token accounts of the wallet, of both token programs. The node must have reached `minSlot`. */
  tokenAccounts(address: string, options: AskOptions & { readonly minSlot?: number }): Promise<readonly OwnedAccount[]>;
}

const PAGE_ENTRIES = 1_000;
/** Nodes refuse a version above the newest one. */
const MAX_VERSION = 1;
const ORDERS_KEPT = 256;
/** Slots that are searched for a block at first, and at most in one call. */
const FIRST_SEARCHED = 64;
const MAX_SEARCHED = 500_000;
/** Rows of an address that are searched for its token accounts while no node lists them, in pages of 1,000. */
const MAX_ACCOUNT_PAGES = 5;
/** Blocks that are asked for a time, below one that has none. */
const MAX_UNTIMED_BLOCKS = 16;
const UNTIMED_SLOTS = 64;
const TOKEN_PROGRAMS = [TOKEN_PROGRAM, TOKEN_2022_PROGRAM] as const;

const badResponse = (method: string, what: string) =>
  new CodedError('CHAIN_BAD_RESPONSE', `${method}: the answer ${what}`, { retryable: true });

/** The node understood the call and refused it. */
const isTexts = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every((item) => typeof item === 'string');

const isRefusal = (error: unknown): boolean => error instanceof CodedError && error.code === 'CHAIN_RPC_ERROR';

/** No upstream answers, or none keeps a history. */
const isSilent = (error: unknown): boolean =>
  error instanceof CodedError &&
  (error.code === 'CHAIN_UNREACHABLE' || error.code === 'CHAIN_TIMEOUT' || meaningOfRefusal(error) === 'no-history');

const NOT_FOUND = -32_020;
/** A node does not know a signature that a list was to begin or end at. */
export const isNotFound = (error: unknown): boolean =>
  isRefusal(error) && (error as CodedError).facts?.['rpcCode'] === NOT_FOUND;

/** `lane`: see `AskOptions`; the others: see `ChainCallOptions`. */
interface CallHow {
  readonly lane?: string | undefined;
  readonly archive?: boolean;
  readonly only?: string | undefined;
  readonly answeredBy?: NonNullable<ChainCallOptions['answeredBy']>;
}

/** A block that was looked for; null: there is none. */
interface Found {
  readonly slot: number | null;
}

/** The first slot of an upstream; `only`: its label, absent where the ledger says it. */
interface FirstSlot {
  readonly slot: number;
  readonly only?: string | undefined;
}

interface ChainHistoryOptions {
  /** Calls in flight. */
  readonly concurrency: number;
  /** An upstream whose first slot is at most this one is complete. */
  readonly historyFloorSlot: number;
  /** Null without a ledger. */
  readonly past?: PastReader | null;
}

export function createChainHistory(
  chain: ChainReader,
  { concurrency, historyFloorSlot, past = null }: ChainHistoryOptions,
): ChainHistory {
  const semaphore = createSemaphore({ concurrency });
  const orders = new LRUCache<number, ReadonlyMap<string, number>>({ max: ORDERS_KEPT });
  const call = <T>(
    method: string,
    params: readonly unknown[],
    signal: AbortSignal,
    { lane, archive = true, only, ...how }: CallHow = {},
  ): Promise<T> => {
    const tenant = tenantOf(signal);
    const options = { ...how, ...(only === undefined ? {} : { only }), signal, archive, tenant };
    return semaphore.run(() => chain.call<T>(method, params, options), { signal, group: lane ?? tenant.id });
  };

  /**
   * Calls in which a list ended where what is kept begins, because no node answered, or one that has less. What a node says later, which may
   * have more, is no end of such a list.
   */
  const cut = new WeakSet<AbortSignal>();

  /**
   * Upstreams that gave the lists of a call, or said where they begin. One has what another has pruned, and does not say so: a list is complete
   * only if each of them has everything.
   */
  const listers = new WeakMap<AbortSignal, Set<string>>();
  const noteLister = (signal: AbortSignal) => (upstream: string) => {
    const known = listers.get(signal);
    if (known === undefined) listers.set(signal, new Set([upstream]));
    else known.add(upstream);
  };

  /** A fork may put another block into the slot: what is not final is not kept, where the follower knows what is. */
  function remember(slot: number, order: ReadonlyMap<string, number>): void {
    const { finalizedSlot } = chain.status();
    if (finalizedSlot === null || slot <= finalizedSlot) orders.set(slot, order);
  }

  async function tokenAccountsOf(
    address: string,
    programId: string,
    { commitment, signal, minSlot, lane }: AskOptions & { readonly minSlot?: number },
  ) {
    const config = {
      encoding: 'base64',
      commitment,
      dataSlice: { offset: 0, length: 32 },
      ...(minSlot === undefined ? {} : { minContextSlot: minSlot }),
    };
    const answer = await call<{ value?: unknown } | null>(
      'getTokenAccountsByOwner',
      [address, { programId }, config],
      signal,
      { archive: false, lane },
    );
    if (!Array.isArray(answer?.value)) throw badResponse('getTokenAccountsByOwner', 'is not a list of accounts');
    return answer.value.map(ownedAccount);
  }

  /** What the ledger and its archive know; null: a node has to answer, also when they fail. */
  const fromPast = async <T>(read: () => Promise<T | null>): Promise<T | null> =>
    past === null ? null : await read().catch(() => null);

  /** What is kept, while no node answers; else the error of the node. Errors: also those of `read`. */
  async function whileSilent<T>(work: () => Promise<T>, read: (kept: PastReader) => Promise<T | null>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (past === null || !isSilent(error)) throw error;
      const { newestSlot } = await past.heads();
      const found = newestSlot < 0 ? null : await read(past);
      if (found === null) throw error;
      return found;
    }
  }

  /** The newest kept slot of a commitment. */
  const keptSlot = async (kept: PastReader, commitment: Commitment): Promise<number> =>
    ceilingOf(await kept.heads(), commitment);

  /** The newest kept entries below a transaction; null where the address has no index, or the transaction is not kept. */
  async function releasedList(
    kept: PastReader,
    {
      address,
      before,
      commitment,
    }: { readonly address: string; readonly before: string | null } & Pick<AskOptions, 'commitment'>,
  ): Promise<readonly Listed[] | null> {
    const [key, signature] = [decode32(address), before === null ? null : decode(before)];
    const top = { slot: await keptSlot(kept, commitment), index: Number.POSITIVE_INFINITY };
    const place = before === null ? top : signature?.length === 64 ? await kept.find(signature) : null;
    if (key === null || place === null) return null;
    const below = place.slot > top.slot ? top : place;
    const page = await kept.page({ address: key, reasons: 'keys', below, limit: PAGE_ENTRIES });
    return page.isIndexed && !page.inVotes && page.from <= below.slot ? page.rows.map(listedRow) : null;
  }

  /** The token accounts of a wallet that occur in what is kept. */
  async function keptAccounts(kept: PastReader, wallet: string): Promise<readonly OwnedAccount[] | null> {
    const key = decode32(wallet);
    if (key === null) return null;
    const accounts = new Map<string, OwnedAccount>();
    let below = { slot: await keptSlot(kept, 'confirmed'), index: Number.POSITIVE_INFINITY };
    for (let pages = 0; pages < MAX_ACCOUNT_PAGES; pages += 1) {
      const page = await kept.page({ address: key, reasons: 'all', below, limit: PAGE_ENTRIES });
      if (!page.isIndexed) return null;
      for (const row of page.rows.filter(({ owner }) => owner !== null)) {
        const block = (await kept.transaction(row))?.block();
        const tx = block?.transactions[0];
        if (block === undefined || tx === undefined) continue;
        for (const { accountIndex, ownerKey, mintKey } of [...tx.preTokenBalances, ...tx.postTokenBalances]) {
          const account = tx.keys[accountIndex];
          if (account === undefined || ownerKey < 0 || mintKey < 0 || block.keys.base58(ownerKey) !== wallet) continue;
          const owned = { account: block.keys.bytes(account).slice(), mint: block.keys.bytes(mintKey).slice() };
          accounts.set(`${block.keys.base58(account)} ${block.keys.base58(mintKey)}`, owned);
        }
      }
      const last = page.rows.at(-1);
      if (last === undefined || page.rows.length < PAGE_ENTRIES) return [...accounts.values()];
      below = last;
    }
    return null;
  }

  /** The time of a kept block, or of the nearest earlier one, if no slot between them is unknown. */
  async function keptTime(slot: number): Promise<number | null> {
    if (past === null || slot > (await past.heads()).newestSlot) return null;
    let at = slot;
    for (let looked = 0; looked < MAX_UNTIMED_BLOCKS && at >= 0; looked += 1) {
      const held = await past.newestBelow(at);
      if (held < 0 || (await past.states(held, at)).unknown.length > 0) return null;
      const time = (await past.header(held))?.blockTime ?? null;
      if (time !== null) return time;
      at = held - 1;
    }
    return null;
  }

  /** Like `keptTime`, from a node. */
  async function nodeTime(slot: number, signal: AbortSignal): Promise<number | null> {
    const timeOf = (one: number) => call<number | null>('getBlockTime', [one], signal);
    try {
      const own = await timeOf(slot);
      if (own !== null) return own;
      const range = [Math.max(0, slot - UNTIMED_SLOTS), slot, { commitment: 'confirmed' }];
      const [reached, ...earlier] = (await call<readonly number[]>('getBlocks', range, signal)).toReversed();
      // A node that is behind lists up to its tip, without a word: its last block is not the nearest earlier one.
      if (reached !== slot) return null;
      for (const one of earlier.slice(0, MAX_UNTIMED_BLOCKS)) {
        const time = await timeOf(one);
        if (time !== null) return time;
      }
      return null;
    } catch (error) {
      if (isRefusal(error) || (past !== null && isSilent(error))) return null;
      throw error;
    }
  }

  /** The entries below a final transaction, without a hole; null where it is not kept. */
  async function keptList(address: string, before: string): Promise<readonly Listed[] | null> {
    return await fromPast(async () => {
      const [key, signature] = [decode32(address), decode(before)];
      const below = key === null || signature?.length !== 64 ? null : await past!.find(signature);
      if (key === null || below === null || below.slot > (await past!.finalSlot())) return null;
      const { rows, inVotes } = await past!.page({ address: key, reasons: 'keys', below, limit: PAGE_ENTRIES });
      return inVotes ? null : rows.map(listedRow);
    });
  }

  /** Where an address has been complete since, of what is kept from `slot` down; null when `slot` itself is not. */
  async function keptFrom(address: string, slot: number): Promise<{ slot: number; isFirst: boolean } | null> {
    const key = decode32(address);
    return await fromPast(async () => {
      if (key === null || slot < 0 || slot > (await past!.finalSlot())) return null;
      const from = await past!.knownFrom({ address: key, reasons: 'keys' }, slot);
      if (from > slot) return null;
      return { slot: from, isFirst: isFirstHeight((await past!.header(from))?.blockHeight) };
    });
  }

  async function keptTransaction(signature: string, newestSlot: number): Promise<FetchedTransaction | null> {
    const bytes = decode(signature);
    const place = bytes?.length === 64 ? await past!.find(bytes) : null;
    if (place === null || place.slot > newestSlot) return null;
    const kept = await past!.transaction(place);
    if (kept?.signature !== signature) return null;
    const head = `{"blockTime":${kept.header.blockTime},"slot":${place.slot},"transactionIndex":${place.index},`;
    return read(`${head}${kept.text.toString('utf8').replace(/^\s*\{/, '')}`);
  }

  async function keptOrder(slot: number, newestSlot: number): Promise<ReadonlyMap<string, number> | null> {
    if (slot > newestSlot) return null;
    const text = await past!.text(slot);
    if (text === null) return null;
    const block = JSON.parse(text.toString('utf8')) as {
      readonly blockhash: string;
      readonly transactions: readonly unknown[];
    };
    const { transactions } = decodeEntries(slot, block.transactions, decode32(block.blockhash)!);
    return new Map(transactions.map(({ signature, index }) => [signature, index] as const));
  }

  async function firstAvailable(signal: AbortSignal, how: CallHow = {}): Promise<number> {
    const ask = async (method: string) => {
      const slot = await call<unknown>(method, [], signal, how);
      if (!Number.isSafeInteger(slot)) throw badResponse(method, 'is not a slot');
      return slot as number;
    };
    try {
      return await ask('getFirstAvailableBlock');
    } catch (error) {
      if (!isRefusal(error)) throw error;
      return await ask('minimumLedgerSlot');
    }
  }

  /** The highest first slot of the upstreams of a call: from there on each of them has everything. Without one, that of any upstream. */
  async function firstOfListers(signal: AbortSignal, lane?: string): Promise<FirstSlot> {
    const known = [...(listers.get(signal) ?? [])];
    const note = noteLister(signal);
    let named: string | undefined;
    const answeredBy = (upstream: string) => {
      named = upstream;
      note(upstream);
    };
    if (known.length === 0) return { slot: await firstAvailable(signal, { lane, answeredBy }), only: named };
    const firsts = await Promise.all(
      known.map(async (only) => ({ slot: await firstAvailable(signal, { lane, only }), only })),
    );
    return firsts.reduce((first, one) => (one.slot > first.slot ? one : first));
  }

  /** The lowest kept block of a range up to a slot; null where something below it, or all of it, is not kept. */
  async function keptBlockIn(kept: PastReader, start: number, end: number, upTo: number): Promise<Found | null> {
    const high = Math.min(end, upTo);
    if (high < start) return null;
    const { blocks, unknown } = await kept.states(start, high);
    const slot = blocks[0] ?? null;
    if (unknown.length > 0 && (slot === null || unknown[0]! < slot)) return null;
    return slot !== null || high === end ? { slot } : null;
  }

  /**
   * The lowest slot with a block, of a range; null without one. A node that has pruned the beginning lists the rest, and one that is behind what
   * it has, and neither says so. Errors: also WALLET_BEHIND, and 503 where an upstream that lists the range has pruned its beginning.
   */
  async function firstBlockIn(
    start: number,
    end: number,
    { commitment, signal, lane }: AskOptions,
  ): Promise<number | null> {
    const kept = await fromPast(async () => keptBlockIn(past!, start, end, await past!.finalSlot()));
    if (kept !== null) return kept.slot;
    let only: string | undefined;
    const listOf = async (how: CallHow): Promise<readonly number[]> => {
      const slots = await call<unknown>('getBlocks', [start, end, { commitment }], signal, { lane, ...how });
      if (!Array.isArray(slots)) throw badResponse('getBlocks', 'is not a list of slots');
      return slots as readonly number[];
    };
    const ofNode = async (): Promise<Found> => {
      let [slot] = await listOf({ answeredBy: (upstream) => (only = upstream) });
      if (slot === start) return { slot };
      if (slot === undefined) {
        // Asked before the list: a tip only moves on.
        const tip = await call<number>('getSlot', [{ commitment }], signal, { lane, only });
        if (tip < end) throw behind();
        [slot] = await listOf({ only });
      }
      const first = await firstAvailable(signal, { lane, only });
      if (first <= start) return { slot: slot ?? null };
      const below = await fromPast(async () =>
        keptBlockIn(past!, start, Math.min(end, first - 1), await past!.finalSlot()),
      );
      if (below === null) throw incompleteHistory(first);
      return { slot: below.slot ?? slot ?? null };
    };
    const found = await whileSilent(ofNode, async (silent) =>
      keptBlockIn(silent, start, end, await keptSlot(silent, commitment)),
    );
    return found.slot;
  }

  /** The one above what is final, or the first above it from which on all is kept. */
  async function firstKept(kept: PastReader): Promise<number> {
    const { finalSlot, newestSlot } = await kept.heads();
    const { unknown } = await kept.states(finalSlot + 1, newestSlot);
    return (unknown.at(-1) ?? finalSlot) + 1;
  }

  /** The first slot of the upstreams of the call; while none answers, and where a list of the call was cut, that of what is kept. */
  const firstKnown = async (signal: AbortSignal): Promise<FirstSlot> =>
    await whileSilent<FirstSlot>(
      async () => {
        if (past !== null && cut.has(signal)) return { slot: await firstKept(past) };
        const first = await firstOfListers(signal);
        const { slot, only } = first;
        // A node without history names a first slot too, and gives nothing from there on.
        if (past !== null)
          await call('getBlocks', [slot, slot], signal, { only }).catch((error: unknown) => {
            if (isSilent(error)) throw error;
          });
        return first;
      },
      async (kept) => ({ slot: await firstKept(kept) }),
    );

  async function isFirstBlock({ slot, only }: FirstSlot, signal: AbortSignal): Promise<boolean> {
    const config = {
      transactionDetails: 'none',
      rewards: false,
      commitment: 'finalized',
      maxSupportedTransactionVersion: MAX_VERSION,
    };
    try {
      const block = await call<{ blockHeight?: unknown } | null>('getBlock', [slot, config], signal, { only });
      return isFirstHeight(block?.blockHeight);
    } catch (error) {
      if (isRefusal(error)) return false;
      throw error;
    }
  }

  return {
    async signatures(address, { before, minSlot }, { commitment, signal, lane }) {
      const found = before === null ? null : await keptList(address, before);
      const kept = found ?? [];
      if (kept.length === PAGE_ENTRIES) return kept;
      const last = kept.at(-1)?.signature ?? before;
      let silentTop: readonly Listed[] | null = null;
      const config = {
        limit: PAGE_ENTRIES - kept.length,
        commitment,
        ...(last === null ? {} : { before: last }),
        ...(minSlot === undefined ? {} : { minContextSlot: minSlot }),
      };
      const answeredBy = noteLister(signal);
      const result = await call<unknown>('getSignaturesForAddress', [address, config], signal, {
        lane,
        answeredBy,
      }).catch(async (error: unknown) => {
        const isShort = found !== null && isNotFound(error);
        if (!isShort && (past === null || !isSilent(error))) throw error;
        cut.add(signal);
        // A node that has pruned what is kept here has nothing older either. While no node answers, the list ends where what is kept begins.
        if (found !== null) return [];
        const top = await fromPast(() => releasedList(past!, { address, before, commitment }));
        if (top === null) throw error;
        silentTop = top;
        return [];
      });
      if (silentTop !== null) return silentTop;
      if (!Array.isArray(result)) throw badResponse('getSignaturesForAddress', 'is not a list of signatures');
      return [...kept, ...result.map(listed)];
    },
    async keptBelow(address, belowSlot, { signal, lane }) {
      const key = decode32(address);
      if (past === null || key === null) return [];
      // Read after the list: the node may have removed its oldest entries meanwhile.
      const first = await whileSilent(
        async () => (await firstOfListers(signal, lane)).slot,
        async () => belowSlot,
      );
      const slot = Math.min(belowSlot, first);
      if (slot > (await past.finalSlot())) return [];
      const query = { address: key, reasons: 'keys', below: { slot, index: -1 }, limit: PAGE_ENTRIES } as const;
      const { rows, inVotes } = await past.page(query);
      return inVotes ? [] : rows.map(listedRow);
    },
    async transaction(signature, { commitment, signal, lane }) {
      const kept = await fromPast(async () => keptTransaction(signature, await past!.finalSlot()));
      if (kept !== null) return kept;
      const config = { encoding: 'base64', commitment, maxSupportedTransactionVersion: MAX_VERSION };
      const asked = { signal, archive: true, tenant: tenantOf(signal) };
      const ofNode = async () => {
        const text = await semaphore.run(() => chain.callText('getTransaction', [signature, config], asked), {
          signal,
          group: lane ?? tenantOf(signal).id,
        });
        return text === 'null' ? null : read(text);
      };
      return await whileSilent(ofNode, async (released) =>
        keptTransaction(signature, await keptSlot(released, commitment)),
      );
    },
    async order(slot, { commitment, signal, lane }, signatures = []) {
      const known = orders.get(slot);
      if (known !== undefined && [...signatures].every((signature) => known.has(signature))) return known;
      const kept = await fromPast(async () => keptOrder(slot, await past!.finalSlot()));
      if (kept !== null) {
        orders.set(slot, kept);
        return kept;
      }
      const config = {
        transactionDetails: 'signatures',
        rewards: false,
        commitment,
        maxSupportedTransactionVersion: MAX_VERSION,
      };
      try {
        const block = await call<{ signatures?: unknown } | null>('getBlock', [slot, config], signal, { lane });
        if (!isTexts(block?.signatures)) return null;
        const order = new Map(block.signatures.map((signature, place) => [signature, place] as const));
        remember(slot, order);
        return order;
      } catch (error) {
        if (isRefusal(error)) return null;
        if (past === null || !isSilent(error)) throw error;
        return await fromPast(async () => keptOrder(slot, await keptSlot(past, commitment)));
      }
    },
    async blockFrom(from, to, { commitment, signal, lane }) {
      for (
        let [start, length] = [from, FIRST_SEARCHED];
        start <= to;
        start += length, length = Math.min(length * 16, MAX_SEARCHED)
      ) {
        const end = Math.min(to, start + length - 1);
        const slot = await firstBlockIn(start, end, { commitment, signal, ...(lane === undefined ? {} : { lane }) });
        if (slot !== null) return slot;
      }
      return null;
    },
    slot: ({ commitment, signal, lane }) =>
      whileSilent(
        () => call<number>('getSlot', [{ commitment }], signal, { lane }),
        (kept) => keptSlot(kept, commitment),
      ),
    async firstSlot(address, signal) {
      const { slot } = await firstKnown(signal);
      return (await keptFrom(address, slot - 1))?.slot ?? slot;
    },
    isReachable: (signal) =>
      firstAvailable(signal).then(
        () => true,
        (error: unknown) => !isSilent(error),
      ),
    isKept: async (address, slot) => (await keptFrom(address, slot)) !== null,
    async missingBelow(address, signal) {
      const first = await firstKnown(signal);
      if (first.slot <= historyFloorSlot) return null;
      if (
        await whileSilent(
          () => isFirstBlock(first, signal),
          async () => false,
        )
      )
        return null;
      const kept = await keptFrom(address, first.slot - 1);
      if (kept === null) return first.slot;
      return kept.isFirst || kept.slot <= historyFloorSlot ? null : kept.slot;
    },
    blockTime: async (slot, signal) => (await fromPast(() => keptTime(slot))) ?? (await nodeTime(slot, signal)),
    async account(address, { commitment, signal, lane }) {
      const config = { encoding: 'base64', commitment, dataSlice: { offset: 0, length: 0 } };
      const answer = await call<{ value?: unknown } | null>('getMultipleAccounts', [[address], config], signal, {
        archive: false,
        lane,
      });
      const value = Array.isArray(answer?.value) ? answer.value[0] : undefined;
      if (value === undefined) throw badResponse('getMultipleAccounts', 'is not a list of accounts');
      if (value === null) return null;
      const { executable, owner } = value as { executable?: unknown; owner?: unknown };
      if (typeof owner !== 'string') throw badResponse('getMultipleAccounts', 'has an account without an owner');
      return { isExecutable: executable === true, owner };
    },
    async tokenAccounts(address, options) {
      return await whileSilent(
        async () => (await Promise.all(TOKEN_PROGRAMS.map((one) => tokenAccountsOf(address, one, options)))).flat(),
        (kept) => keptAccounts(kept, address),
      );
    },
  };
}

const isFirstHeight = (height: unknown): boolean => typeof height === 'number' && height <= 1;

const listedRow = ({ signature, slot, index, err, blockTime }: AddressRow): Listed => ({
  signature,
  slot,
  hasFailed: err !== null,
  time: blockTime,
  place: index,
});

function listed(value: unknown): Listed {
  const { signature, slot, err, blockTime, transactionIndex } = (value ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof signature !== 'string' || !Number.isSafeInteger(slot))
    throw badResponse('getSignaturesForAddress', 'contains a malformed entry');
  return {
    signature,
    slot: slot as number,
    hasFailed: (err ?? null) !== null,
    time: typeof blockTime === 'number' ? blockTime : null,
    place: Number.isSafeInteger(transactionIndex) ? (transactionIndex as number) : null,
  };
}

/** Also from the parsed form, which some nodes return for any encoding. */
function ownedAccount(value: unknown): OwnedAccount {
  const { pubkey, account } = (value ?? {}) as { pubkey?: unknown; account?: { data?: unknown } };
  const data = account?.data;
  const key = typeof pubkey === 'string' ? decode32(pubkey) : null;
  const parsed = (data as { parsed?: { info?: { mint?: unknown } } } | undefined)?.parsed?.info?.mint;
  const mint =
    typeof parsed === 'string'
      ? decode32(parsed)
      : Array.isArray(data) && typeof data[0] === 'string'
        ? new Uint8Array(Buffer.from(data[0], 'base64').subarray(0, 32))
        : null;
  if (key === null || mint === null || mint.length !== 32)
    throw badResponse('getTokenAccountsByOwner', 'contains a malformed token account');
  return { account: key, mint };
}

function read(text: string): FetchedTransaction {
  const value = parseExact(text) as { transactionIndex?: unknown };
  const { transactionIndex } = value;
  return {
    text,
    block: decodeTransaction(value),
    place: Number.isSafeInteger(transactionIndex) ? (transactionIndex as number) : null,
  };
}
