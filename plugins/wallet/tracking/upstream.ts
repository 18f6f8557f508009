import { setMaxListeners } from 'node:events';
import { LRUCache } from 'lru-cache';
import { decode32 } from '../../../src/lib/base58.ts';
import { type ChainReader, CodedError } from '../../../src/plugin/plugin.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import type { Commitment } from '../../../src/ports/chain.ts';
import { decodeTransaction } from '../../../src/solana/decode/decode-block.ts';
import type { OwnedAccount } from '../store/wallets.ts';

/** An entry of an address's list. */
export interface Listed {
  readonly signature: string;
  readonly slot: number;
  readonly hasFailed: boolean;
  /** Unix seconds; null where the node does not say. */
  readonly time: number | null;
}

export interface FetchedTransaction {
  /** As the node sent it. */
  readonly text: string;
  /** A block that holds just this transaction. */
  readonly block: ChainBlock;
  /** Place in its block where the node tells it. */
  readonly place: number | null;
}

export interface AskOptions {
  readonly commitment: Commitment;
  readonly signal: AbortSignal;
  /** Lanes share the calls evenly; default that of all requests. */
  readonly lane?: string;
}

/**
 * What a wallet's history is made of, as nodes tell it; what is past is asked of archives alone where there are any, so that no list ends
 * where another node has gone on forgetting. At most `concurrency` calls are under way. Errors: those of `ChainReader.call`, and
 * CHAIN_BAD_RESPONSE.
 */
export interface WalletUpstream {
  /** Newest first; empty at the end. The node must have come to `minSlot`. */
  signatures(
    address: string,
    page: { readonly before: string | null; readonly minSlot?: number },
    options: AskOptions,
  ): Promise<readonly Listed[]>;
  /** Null when no upstream has it. */
  transaction(signature: string, options: AskOptions): Promise<FetchedTransaction | null>;
  /**
   * Signatures of a block by place; null where it cannot be had. One that is remembered is asked for again when it lacks one of
   * `signatures`: it may be of a branch that is gone.
   */
  order(slot: number, options: AskOptions, signatures?: Iterable<string>): Promise<ReadonlyMap<string, number> | null>;
  /** The newest slot of an upstream that histories are read from. */
  slot(options: AskOptions): Promise<number>;
  /** The first slot that the upstream has. */
  firstSlot(signal: AbortSignal): Promise<number>;
  /**
   * The same, when something is missing below it; null when it has everything. A chain may begin at any slot:
   * one whose first block is the first of the chain lacks nothing.
   */
  missingBelow(signal: AbortSignal): Promise<number | null>;
  blockTime(slot: number, signal: AbortSignal): Promise<number | null>;
  /** Whether an address is a program, and who owns it; null for an account that does not exist. */
  account(
    address: string,
    options: AskOptions,
  ): Promise<{ readonly isExecutable: boolean; readonly owner: string } | null>;
  /** Accounts that the wallet owns now, of both token programs. The node must have come to `minSlot`. */
  tokenAccounts(address: string, options: AskOptions & { readonly minSlot?: number }): Promise<readonly OwnedAccount[]>;
}

const PAGE_ENTRIES = 1_000;
/** A version beyond the newest that exists would be refused by nodes. */
const MOST_VERSION = 1;
const ORDERS_KEPT = 256;
const TOKEN_PROGRAMS = [
  'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA',
  'TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb',
] as const;

const badResponse = (method: string, what: string) =>
  new CodedError('CHAIN_BAD_RESPONSE', `${method}: the answer ${what}`, { retryable: true });

/** The node understood and has no answer. */
const isRefusal = (error: unknown): boolean => error instanceof CodedError && error.code === 'CHAIN_RPC_ERROR';

interface WalletUpstreamOptions {
  /** Calls under way at once. */
  readonly concurrency: number;
  /** A first slot up to this one lacks nothing. */
  readonly historyFloorSlot: number;
}

export function createWalletUpstream(
  chain: ChainReader,
  { concurrency, historyFloorSlot }: WalletUpstreamOptions,
): WalletUpstream {
  const turns = createTurns(concurrency);
  const orders = new LRUCache<number, ReadonlyMap<string, number>>({ max: ORDERS_KEPT });
  const call = <T>(
    method: string,
    params: readonly unknown[],
    signal: AbortSignal,
    archive = true,
    lane?: string,
  ): Promise<T> => turns.run(() => chain.call<T>(method, params, { signal, archive }), signal, lane);

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
    if (!Array.isArray(answer?.value)) throw badResponse('getTokenAccountsByOwner', 'is no list of accounts');
    return answer.value.map(ownedAccount);
  }

  async function firstAvailable(signal: AbortSignal): Promise<number> {
    try {
      return await call<number>('getFirstAvailableBlock', [], signal);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      return await call<number>('minimumLedgerSlot', [], signal);
    }
  }

  async function isFirstBlock(slot: number, signal: AbortSignal): Promise<boolean> {
    const config = {
      ...{ transactionDetails: 'none', rewards: false, commitment: 'finalized' },
      maxSupportedTransactionVersion: MOST_VERSION,
    };
    try {
      const block = await call<{ blockHeight?: unknown } | null>('getBlock', [slot, config], signal);
      const height = block?.blockHeight;
      return typeof height === 'number' && height <= 1;
    } catch (error) {
      if (isRefusal(error)) return false;
      throw error;
    }
  }

  return {
    async signatures(address, { before, minSlot }, { commitment, signal, lane }) {
      const config = {
        ...{ limit: PAGE_ENTRIES, commitment },
        ...(before === null ? {} : { before }),
        ...(minSlot === undefined ? {} : { minContextSlot: minSlot }),
      };
      const result = await call<unknown>('getSignaturesForAddress', [address, config], signal, true, lane);
      if (!Array.isArray(result)) throw badResponse('getSignaturesForAddress', 'is no list of signatures');
      return result.map(listed);
    },
    async transaction(signature, { commitment, signal, lane }) {
      const config = { encoding: 'base64', commitment, maxSupportedTransactionVersion: MOST_VERSION };
      const text = await turns.run(
        () => chain.callText('getTransaction', [signature, config], { signal, archive: true }),
        signal,
        lane,
      );
      return text === 'null' ? null : read(text);
    },
    async order(slot, { commitment, signal, lane }, signatures = []) {
      const known = orders.get(slot);
      if (known !== undefined && [...signatures].every((signature) => known.has(signature))) return known;
      const config = {
        ...{ transactionDetails: 'signatures', rewards: false, commitment },
        maxSupportedTransactionVersion: MOST_VERSION,
      };
      try {
        const block = await call<{ signatures?: unknown } | null>('getBlock', [slot, config], signal, true, lane);
        if (!Array.isArray(block?.signatures)) return null;
        const order = new Map(block.signatures.map((signature, place) => [String(signature), place] as const));
        orders.set(slot, order);
        return order;
      } catch (error) {
        if (isRefusal(error)) return null;
        throw error;
      }
    },
    slot: ({ commitment, signal, lane }) => call<number>('getSlot', [{ commitment }], signal, true, lane),
    firstSlot: firstAvailable,
    async missingBelow(signal) {
      const first = await firstAvailable(signal);
      return first <= historyFloorSlot || (await isFirstBlock(first, signal)) ? null : first;
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
      if (value === undefined) throw badResponse('getMultipleAccounts', 'is no list of accounts');
      if (value === null) return null;
      const { executable, owner } = value as { executable?: unknown; owner?: unknown };
      return { isExecutable: executable === true, owner: String(owner) };
    },
    async tokenAccounts(address, options) {
      return (await Promise.all(TOKEN_PROGRAMS.map((program) => tokenAccountsOf(address, program, options)))).flat();
    },
  };
}

function listed(value: unknown): Listed {
  const { signature, slot, err, blockTime } = (value ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof signature !== 'string' || !Number.isSafeInteger(slot))
    throw badResponse('getSignaturesForAddress', 'holds what is no entry');
  return {
    signature,
    slot: slot as number,
    hasFailed: (err ?? null) !== null,
    time: typeof blockTime === 'number' ? blockTime : null,
  };
}

/** Also from the parsed form, which some nodes give whatever they are asked for. */
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
    throw badResponse('getTokenAccountsByOwner', 'holds what is no token account');
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

/** Lets only so many pieces of work run at once. Lanes take turns; within a lane the order is that of arrival. */
interface Turns {
  /** Errors: those of `work`, and the signal's reason while it waits. */
  run<T>(work: () => Promise<T>, signal: AbortSignal, lane?: string): Promise<T>;
}

function createTurns(most: number): Turns {
  let running = 0;
  /** In the order in which the lanes are served next. */
  const waiting = new Map<string, Set<() => void>>();

  function next(): void {
    running -= 1;
    const [first] = waiting;
    if (first === undefined) return;
    const [lane, queue] = first;
    const [begin] = queue;
    // Behind the others: a long queue delays nobody else's.
    waiting.delete(lane);
    if (queue.size > 1) waiting.set(lane, queue);
    begin?.();
  }

  function leave(lane: string, begin: () => void): void {
    const queue = waiting.get(lane);
    queue?.delete(begin);
    if (queue?.size === 0) waiting.delete(lane);
  }

  function turn(signal: AbortSignal, lane: string): Promise<void> {
    signal.throwIfAborted();
    if (running < most) {
      running += 1;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const begin = () => {
        leave(lane, begin);
        signal.removeEventListener('abort', give);
        running += 1;
        resolve();
      };
      const give = () => {
        leave(lane, begin);
        reject(signal.reason);
      };
      const queue = waiting.get(lane) ?? new Set();
      waiting.set(lane, queue.add(begin));
      signal.addEventListener('abort', give, { once: true });
    });
  }

  return {
    async run(work, signal, lane = '') {
      // Many wait on the signal of one request or job.
      setMaxListeners(0, signal);
      await turn(signal, lane);
      try {
        return await work();
      } finally {
        next();
      }
    },
  };
}
