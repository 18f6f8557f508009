import { type ChainReader, CodedError } from '../../../src/plugin/plugin.ts';
import { tenantOf } from '../../../src/ports/access.ts';
import type { ChainCallOptions, Commitment } from '../../../src/ports/chain.ts';
import { createSemaphore, type Semaphore } from '../../../src/runtime/semaphore.ts';
import { meaningOfRefusal } from '../../../src/solana/node-errors.ts';
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../../src/solana/programs.ts';
import type { OwnedAccount } from '../store/wallets.ts';
import { badResponse, type FetchedTransaction, isFirstHeight, ownedAccount, readFetched } from './history-entries.ts';
import { MAX_UNTIMED_BLOCKS } from './kept-history.ts';

export interface HistoryAskOptions {
  readonly commitment: Commitment;
  readonly signal: AbortSignal;
  /** Lanes share the calls evenly; default: that of the tenant of the signal. */
  readonly lane?: string;
}

/** Nodes refuse a version above the newest one. */
const MAX_VERSION = 1;
const UNTIMED_SLOTS = 64;
const TOKEN_PROGRAMS = [TOKEN_PROGRAM, TOKEN_2022_PROGRAM] as const;

const isTexts = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every((item) => typeof item === 'string');

/** The node understood the call and refused it. */
export const isRefusal = (error: unknown): boolean => error instanceof CodedError && error.code === 'CHAIN_RPC_ERROR';

/** No upstream answers, or none keeps a history. */
export const isSilentNode = (error: unknown): boolean =>
  error instanceof CodedError &&
  (error.code === 'CHAIN_UNREACHABLE' || error.code === 'CHAIN_TIMEOUT' || meaningOfRefusal(error) === 'no-history');

const NOT_FOUND = -32_020;
/** A node does not know a signature that a list was to begin or end at. */
export const isNotFound = (error: unknown): boolean =>
  isRefusal(error) && (error as CodedError).facts?.['rpcCode'] === NOT_FOUND;

/** `lane`: see `AskOptions`; the others: see `ChainCallOptions`. */
export interface CallHow {
  readonly lane?: string | undefined;
  readonly archive?: boolean;
  readonly only?: string | undefined;
  readonly answeredBy?: NonNullable<ChainCallOptions['answeredBy']>;
}

/** The first slot of an upstream; `only`: its label, absent where the ledger says it. */
export interface FirstSlot {
  readonly slot: number;
  readonly only?: string | undefined;
}

/** Calls to the nodes, from archive upstreams unless a call says otherwise. Errors: those of `ChainReader.call`, and CHAIN_BAD_RESPONSE. */
export class NodeHistory {
  private readonly chain: ChainReader;
  private readonly semaphore: Semaphore;
  /**
   * Upstreams that gave the lists of a call, or said where they begin. One has what another has pruned, and does not say so: a list is complete
   * only if each of them has everything.
   */
  private readonly listers = new WeakMap<AbortSignal, Set<string>>();

  /** `concurrency`: calls in flight. */
  constructor(chain: ChainReader, concurrency: number) {
    this.chain = chain;
    this.semaphore = createSemaphore({ concurrency });
  }

  call<T>(
    method: string,
    params: readonly unknown[],
    signal: AbortSignal,
    { lane, archive = true, only, ...how }: CallHow = {},
  ): Promise<T> {
    const tenant = tenantOf(signal);
    const options = { ...how, ...(only === undefined ? {} : { only }), signal, archive, tenant };
    const run = () => this.chain.call<T>(method, params, options);
    return this.semaphore.run(run, { signal, group: lane ?? tenant.id });
  }

  /** Notes who gives the lists of the call of this signal. */
  noteLister(signal: AbortSignal): (upstream: string) => void {
    return (upstream) => {
      const known = this.listers.get(signal);
      if (known === undefined) this.listers.set(signal, new Set([upstream]));
      else known.add(upstream);
    };
  }

  /** Null when no upstream has it. */
  async transaction(
    signature: string,
    { commitment, signal, lane }: HistoryAskOptions,
  ): Promise<FetchedTransaction | null> {
    const config = { encoding: 'base64', commitment, maxSupportedTransactionVersion: MAX_VERSION };
    const tenant = tenantOf(signal);
    const run = () => this.chain.callText('getTransaction', [signature, config], { signal, archive: true, tenant });
    const text = await this.semaphore.run(run, { signal, group: lane ?? tenant.id });
    return text === 'null' ? null : readFetched(text);
  }

  /** Signatures of a block by place; null where it has none. */
  async order(
    slot: number,
    { commitment, signal, lane }: HistoryAskOptions,
  ): Promise<ReadonlyMap<string, number> | null> {
    const config = {
      transactionDetails: 'signatures',
      rewards: false,
      commitment,
      maxSupportedTransactionVersion: MAX_VERSION,
    };
    const block = await this.call<{ signatures?: unknown } | null>('getBlock', [slot, config], signal, { lane });
    if (!isTexts(block?.signatures)) return null;
    return new Map(block.signatures.map((signature, place) => [signature, place] as const));
  }

  /** Unix seconds of a block, or of the nearest earlier one that has a time; null when the node does not know. */
  async blockTime(slot: number, signal: AbortSignal): Promise<number | null> {
    const timeOf = (one: number) => this.call<number | null>('getBlockTime', [one], signal);
    try {
      const own = await timeOf(slot);
      if (own !== null) return own;
      const range = [Math.max(0, slot - UNTIMED_SLOTS), slot, { commitment: 'confirmed' }];
      const [reached, ...earlier] = (await this.call<readonly number[]>('getBlocks', range, signal)).toReversed();
      // A node that is behind lists up to its tip, without a word: its last block is not the nearest earlier one.
      if (reached !== slot) return null;
      for (const one of earlier.slice(0, MAX_UNTIMED_BLOCKS)) {
        const time = await timeOf(one);
        if (time !== null) return time;
      }
      return null;
    } catch (error) {
      if (isRefusal(error)) return null;
      throw error;
    }
  }

  /** The slots with blocks of a range whose ends are inclusive. */
  async blocks(
    start: number,
    end: number,
    { commitment, signal, lane }: HistoryAskOptions,
    how: CallHow,
  ): Promise<readonly number[]> {
    const slots = await this.call<unknown>('getBlocks', [start, end, { commitment }], signal, { lane, ...how });
    if (!Array.isArray(slots)) throw badResponse('getBlocks', 'is not a list of slots');
    return slots as readonly number[];
  }

  async firstAvailable(signal: AbortSignal, how: CallHow = {}): Promise<number> {
    const ask = async (method: string) => {
      const slot = await this.call<unknown>(method, [], signal, how);
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
  async firstOfListers(signal: AbortSignal, lane?: string): Promise<FirstSlot> {
    const known = [...(this.listers.get(signal) ?? [])];
    const note = this.noteLister(signal);
    let named: string | undefined;
    const answeredBy = (upstream: string) => {
      named = upstream;
      note(upstream);
    };
    if (known.length === 0) return { slot: await this.firstAvailable(signal, { lane, answeredBy }), only: named };
    const firsts = await Promise.all(
      known.map(async (only) => ({ slot: await this.firstAvailable(signal, { lane, only }), only })),
    );
    return firsts.reduce((first, one) => (one.slot > first.slot ? one : first));
  }

  /** Whether the first block of an upstream is the first one of the chain. */
  async isFirstBlock({ slot, only }: FirstSlot, signal: AbortSignal): Promise<boolean> {
    const config = {
      transactionDetails: 'none',
      rewards: false,
      commitment: 'finalized',
      maxSupportedTransactionVersion: MAX_VERSION,
    };
    try {
      const block = await this.call<{ blockHeight?: unknown } | null>('getBlock', [slot, config], signal, { only });
      return isFirstHeight(block?.blockHeight);
    } catch (error) {
      if (isRefusal(error)) return false;
      throw error;
    }
  }

  /** Null for an account that does not exist. */
  async account(
    address: string,
    { commitment, signal, lane }: HistoryAskOptions,
  ): Promise<{ readonly isExecutable: boolean; readonly owner: string } | null> {
    const config = { encoding: 'base64', commitment, dataSlice: { offset: 0, length: 0 } };
    const how = { archive: false, lane };
    const answer = await this.call<{ value?: unknown } | null>('getMultipleAccounts', [[address], config], signal, how);
    const value = Array.isArray(answer?.value) ? answer.value[0] : undefined;
    if (value === undefined) throw badResponse('getMultipleAccounts', 'is not a list of accounts');
    if (value === null) return null;
    const { executable, owner } = value as { executable?: unknown; owner?: unknown };
    if (typeof owner !== 'string') throw badResponse('getMultipleAccounts', 'has an account without an owner');
    return { isExecutable: executable === true, owner };
  }

  /** Token accounts of both token programs. */
  async tokenAccounts(
    address: string,
    options: HistoryAskOptions & { readonly minSlot?: number },
  ): Promise<readonly OwnedAccount[]> {
    const lists = TOKEN_PROGRAMS.map((programId) => this.tokenAccountsOf(address, programId, options));
    return (await Promise.all(lists)).flat();
  }

  private async tokenAccountsOf(
    address: string,
    programId: string,
    { commitment, signal, minSlot, lane }: HistoryAskOptions & { readonly minSlot?: number },
  ): Promise<OwnedAccount[]> {
    const config = {
      encoding: 'base64',
      commitment,
      dataSlice: { offset: 0, length: 32 },
      ...(minSlot === undefined ? {} : { minContextSlot: minSlot }),
    };
    const answer = await this.call<{ value?: unknown } | null>(
      'getTokenAccountsByOwner',
      [address, { programId }, config],
      signal,
      { archive: false, lane },
    );
    if (!Array.isArray(answer?.value)) throw badResponse('getTokenAccountsByOwner', 'is not a list of accounts');
    return answer.value.map(ownedAccount);
  }
}
