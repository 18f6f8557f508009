import { LRUCache } from 'lru-cache';
import { decode, decode32 } from '../../../src/lib/base58.ts';
import { type ChainReader, CodedError } from '../../../src/plugin/plugin.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import type { Commitment } from '../../../src/ports/chain.ts';
import type { AddressRow, PastReader } from '../../../src/ports/ledger.ts';
import { createSemaphore } from '../../../src/runtime/semaphore.ts';
import { decodeEntries, decodeTransaction } from '../../../src/solana/decode/decode-block.ts';
import type { OwnedAccount } from '../store/wallets.ts';

/** An entry of an address's list. */
export interface Listed {
  readonly signature: string;
  readonly slot: number;
  readonly hasFailed: boolean;
  /** Unix seconds; null when the node does not return it. */
  readonly time: number | null;
}

export interface FetchedTransaction {
  /** As the node sent it. */
  readonly text: string;
  /** A block with only this transaction. */
  readonly block: ChainBlock;
  /** Place in its block; null when the node does not return it. */
  readonly place: number | null;
}

export interface AskOptions {
  readonly commitment: Commitment;
  readonly signal: AbortSignal;
  /** Lanes share the calls evenly; default that of all requests. */
  readonly lane?: string;
}

/**
 * Reads the lists and transactions of wallets. What is final comes from the ledger and its archive as far as they go; the rest from nodes:
 * from archive upstreams only, if any are configured, so that no list ends early because a node has pruned it. At most `concurrency` calls are in flight. Errors: those of `ChainReader.call`, and
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
  /**
   * Signatures of a block by place; null when unavailable. A cached one is read again when it lacks one of
   * `signatures`: it may be from an abandoned fork.
   */
  order(slot: number, options: AskOptions, signatures?: Iterable<string>): Promise<ReadonlyMap<string, number> | null>;
  /** The newest slot of an upstream that serves histories. */
  slot(options: AskOptions): Promise<number>;
  /** The first slot that the upstream has. */
  firstSlot(signal: AbortSignal): Promise<number>;
  /**
   * The slot below which transactions of an address are missing; null when nothing is. What the ledger and its archive have below the
   * first slot of the upstream counts. A chain may start at any slot: whoever has its first block has everything.
   */
  missingBelow(address: string, signal: AbortSignal): Promise<number | null>;
  blockTime(slot: number, signal: AbortSignal): Promise<number | null>;
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
const MOST_VERSION = 1;
const ORDERS_KEPT = 256;
const TOKEN_PROGRAMS = [
  'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA',
  'TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb',
] as const;

const badResponse = (method: string, what: string) =>
  new CodedError('CHAIN_BAD_RESPONSE', `${method}: the answer ${what}`, { retryable: true });

/** The node understood the call and refused it. */
const isTexts = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every((item) => typeof item === 'string');

const isRefusal = (error: unknown): boolean => error instanceof CodedError && error.code === 'CHAIN_RPC_ERROR';

const NOT_FOUND = -32_020;
const isNotFound = (error: unknown): boolean =>
  isRefusal(error) && (error as CodedError).facts?.['rpcCode'] === NOT_FOUND;

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
    archive = true,
    lane?: string,
  ): Promise<T> => semaphore.run(() => chain.call<T>(method, params, { signal, archive }), { signal, group: lane });

  async function tokenAccountsOf(
    address: string,
    programId: string,
    { commitment, signal, minSlot, lane }: AskOptions & { readonly minSlot?: number },
  ) {
    const config = {
      ...{ encoding: 'base64', commitment, dataSlice: { offset: 0, length: 32 } },
      ...(minSlot === undefined ? {} : { minContextSlot: minSlot }),
    };
    const answer = await call<{ value?: unknown } | null>(
      'getTokenAccountsByOwner',
      [address, { programId }, config],
      signal,
      false,
      lane,
    );
    if (!Array.isArray(answer?.value)) throw badResponse('getTokenAccountsByOwner', 'is not a list of accounts');
    return answer.value.map(ownedAccount);
  }

  /** What the ledger and its archive know; null: a node has to answer, also when they fail. */
  const fromPast = async <T>(read: () => Promise<T | null>): Promise<T | null> =>
    past === null ? null : await read().catch(() => null);

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

  async function keptTransaction(signature: string): Promise<FetchedTransaction | null> {
    const bytes = decode(signature);
    const place = bytes?.length === 64 ? await past!.find(bytes) : null;
    if (place === null || place.slot > (await past!.finalSlot())) return null;
    const kept = await past!.transaction(place);
    if (kept === null) return null;
    const head = `{"blockTime":${kept.header.blockTime},"slot":${place.slot},"transactionIndex":${place.index},`;
    return read(`${head}${kept.text.toString('utf8').replace(/^\s*\{/, '')}`);
  }

  async function keptOrder(slot: number): Promise<ReadonlyMap<string, number> | null> {
    if (slot > (await past!.finalSlot())) return null;
    const text = await past!.text(slot);
    if (text === null) return null;
    const block = JSON.parse(text.toString('utf8')) as {
      readonly blockhash: string;
      readonly transactions: readonly unknown[];
    };
    const { transactions } = decodeEntries(slot, block.transactions, decode32(block.blockhash)!);
    return new Map(transactions.map(({ signature, index }) => [signature, index] as const));
  }

  async function firstAvailable(signal: AbortSignal, lane?: string): Promise<number> {
    const ask = async (method: string) => {
      const slot = await call<unknown>(method, [], signal, true, lane);
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

  async function isFirstBlock(slot: number, signal: AbortSignal): Promise<boolean> {
    const config = {
      ...{ transactionDetails: 'none', rewards: false, commitment: 'finalized' },
      maxSupportedTransactionVersion: MOST_VERSION,
    };
    try {
      const block = await call<{ blockHeight?: unknown } | null>('getBlock', [slot, config], signal);
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
      const config = {
        ...{ limit: PAGE_ENTRIES - kept.length, commitment },
        ...(last === null ? {} : { before: last }),
        ...(minSlot === undefined ? {} : { minContextSlot: minSlot }),
      };
      const result = await call<unknown>('getSignaturesForAddress', [address, config], signal, true, lane).catch(
        (error: unknown) => {
          // A node that has pruned what is kept here has nothing older either.
          if (found !== null && isNotFound(error)) return [];
          throw error;
        },
      );
      if (!Array.isArray(result)) throw badResponse('getSignaturesForAddress', 'is not a list of signatures');
      return [...kept, ...result.map(listed)];
    },
    async keptBelow(address, belowSlot, { signal, lane }) {
      const key = decode32(address);
      if (past === null || key === null) return [];
      // Read after the list: the node may have removed its oldest entries meanwhile.
      const slot = Math.min(belowSlot, await firstAvailable(signal, lane));
      if (slot > (await past.finalSlot())) return [];
      const query = { address: key, reasons: 'keys', below: { slot, index: -1 }, limit: PAGE_ENTRIES } as const;
      const { rows, inVotes } = await past.page(query);
      return inVotes ? [] : rows.map(listedRow);
    },
    async transaction(signature, { commitment, signal, lane }) {
      const kept = await fromPast(() => keptTransaction(signature));
      if (kept !== null) return kept;
      const config = { encoding: 'base64', commitment, maxSupportedTransactionVersion: MOST_VERSION };
      const text = await semaphore.run(
        () => chain.callText('getTransaction', [signature, config], { signal, archive: true }),
        { signal, group: lane },
      );
      return text === 'null' ? null : read(text);
    },
    async order(slot, { commitment, signal, lane }, signatures = []) {
      const known = orders.get(slot);
      if (known !== undefined && [...signatures].every((signature) => known.has(signature))) return known;
      const kept = await fromPast(() => keptOrder(slot));
      if (kept !== null) {
        orders.set(slot, kept);
        return kept;
      }
      const config = {
        ...{ transactionDetails: 'signatures', rewards: false, commitment },
        maxSupportedTransactionVersion: MOST_VERSION,
      };
      try {
        const block = await call<{ signatures?: unknown } | null>('getBlock', [slot, config], signal, true, lane);
        if (!isTexts(block?.signatures)) return null;
        const order = new Map(block.signatures.map((signature, place) => [signature, place] as const));
        orders.set(slot, order);
        return order;
      } catch (error) {
        if (isRefusal(error)) return null;
        throw error;
      }
    },
    slot: ({ commitment, signal, lane }) => call<number>('getSlot', [{ commitment }], signal, true, lane),
    firstSlot: firstAvailable,
    async missingBelow(address, signal) {
      const first = await firstAvailable(signal);
      if (first <= historyFloorSlot || (await isFirstBlock(first, signal))) return null;
      const kept = await keptFrom(address, first - 1);
      if (kept === null) return first;
      return kept.isFirst || kept.slot <= historyFloorSlot ? null : kept.slot;
    },
    async blockTime(slot, signal) {
      try {
        return await call<number | null>('getBlockTime', [slot], signal);
      } catch (error) {
        if (isRefusal(error)) return null;
        throw error;
      }
    },
    async account(address, { commitment, signal, lane }) {
      const config = { encoding: 'base64', commitment, dataSlice: { offset: 0, length: 0 } };
      const answer = await call<{ value?: unknown } | null>(
        'getMultipleAccounts',
        [[address], config],
        signal,
        false,
        lane,
      );
      const value = Array.isArray(answer?.value) ? answer.value[0] : undefined;
      if (value === undefined) throw badResponse('getMultipleAccounts', 'is not a list of accounts');
      if (value === null) return null;
      const { executable, owner } = value as { executable?: unknown; owner?: unknown };
      if (typeof owner !== 'string') throw badResponse('getMultipleAccounts', 'has an account without an owner');
      return { isExecutable: executable === true, owner };
    },
    async tokenAccounts(address, options) {
      return (await Promise.all(TOKEN_PROGRAMS.map((program) => tokenAccountsOf(address, program, options)))).flat();
    },
  };
}

const isFirstHeight = (height: unknown): boolean => typeof height === 'number' && height <= 1;

const listedRow = ({ signature, slot, err, blockTime }: AddressRow): Listed => ({
  ...{ signature, slot, hasFailed: err !== null, time: blockTime },
});

function listed(value: unknown): Listed {
  const { signature, slot, err, blockTime } = (value ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof signature !== 'string' || !Number.isSafeInteger(slot))
    throw badResponse('getSignaturesForAddress', 'contains a malformed entry');
  return {
    signature,
    slot: slot as number,
    hasFailed: (err ?? null) !== null,
    time: typeof blockTime === 'number' ? blockTime : null,
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
  const value = JSON.parse(text) as { transactionIndex?: unknown };
  const { transactionIndex } = value;
  return {
    ...{ text, block: decodeTransaction(value) },
    place: Number.isSafeInteger(transactionIndex) ? (transactionIndex as number) : null,
  };
}
