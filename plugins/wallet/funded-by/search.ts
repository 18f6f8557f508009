import { CodedError, codeOf, type Log, type Store } from '../../../src/kernel/plugin.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import type { Db } from '../store/tables.ts';
import { timeBefore } from '../store/transactions.ts';
import type { AskOptions, Listed, WalletUpstream } from '../tracking/upstream.ts';
import { fundingOf } from './funding.ts';

/** The first funding of a wallet. `amount` in lamports as text. */
export interface FirstFunding {
  readonly funder: string;
  readonly amount: string;
  readonly signature: string;
  readonly slot: number;
  /** Unix seconds. */
  readonly time: number;
}

export type SearchEnd =
  | { readonly kind: 'found'; readonly funding: FirstFunding; readonly isFinal: boolean }
  | { readonly kind: 'none' }
  /** The upstream has nothing below this slot. */
  | { readonly kind: 'pruned'; readonly firstSlot: number }
  /** More signatures than are read. */
  | { readonly kind: 'too-long' };

export interface SearchParts {
  readonly store: Store;
  readonly upstream: WalletUpstream;
  readonly maxPages: number;
  readonly log: Log;
}

/** Reads the wallet's own list to its end and then goes up. `progress` is told how many signatures were read. Errors: of the upstream. */
async function searchFunding(
  parts: SearchParts,
  wallet: Uint8Array,
  progress: (count: number) => void,
  signal: AbortSignal,
): Promise<SearchEnd> {
  const address = encode32(wallet);
  const ask: AskOptions = { commitment: 'confirmed', signal };
  const entries = await readList(parts, address, progress, ask);
  if (entries === null) return { kind: 'too-long' };
  const firstSlot = await parts.upstream.missingBelow(signal);
  if (firstSlot !== null) return { kind: 'pruned', firstSlot };
  for (const entry of entries.reverse()) {
    if (entry.hasFailed) continue;
    const funding = await look(parts, address, entry, ask);
    if (funding === null) continue;
    const finalSlot = await parts.upstream.slot({ commitment: 'finalized', signal });
    return { kind: 'found', funding, isFinal: funding.slot <= finalSlot };
  }
  return { kind: 'none' };
}

/** The whole list, newest first; null when it is too long. */
async function readList(
  { upstream, maxPages }: SearchParts,
  address: string,
  progress: (count: number) => void,
  ask: AskOptions,
): Promise<Listed[] | null> {
  const entries: Listed[] = [];
  const most = maxPages * 1_000;
  let before: string | null = null;
  while (entries.length <= most) {
    const page = await upstream.signatures(address, { before }, ask);
    const last = page.at(-1);
    if (last === undefined || last.signature === before) return entries;
    entries.push(...page);
    before = last.signature;
    progress(entries.length);
  }
  return null;
}

async function look(
  { upstream, store }: SearchParts,
  address: string,
  { signature }: Listed,
  ask: AskOptions,
): Promise<FirstFunding | null> {
  const fetched = await upstream.transaction(signature, ask);
  const tx = fetched?.block.transactions[0];
  if (fetched === null || tx === undefined)
    throw new CodedError('WALLET_NO_TRANSACTION', 'an upstream lists a transaction that no upstream has', {
      retryable: true,
    });
  const funding = fundingOf(tx, fetched.block, address);
  if (funding === null) return null;
  const { slot, blockTime } = fetched.block;
  const time =
    blockTime ?? (await upstream.blockTime(slot, ask.signal)) ?? (await timeBefore(store.read as Db, slot)) ?? 0;
  return { funder: funding.funder, amount: funding.amount.toString(), signature, slot, time };
}

export interface FundingSearches {
  /** The result, or how many signatures were read when the time is up. */
  run(
    wallet: Uint8Array,
    address: string,
    signal: AbortSignal,
  ): Promise<SearchEnd | { readonly kind: 'running'; readonly count: number }>;
  stop(): void;
}

/** Searches go on when the request that began them is over, and requests for the same wallet share one. */
export function createFundingSearches(
  parts: SearchParts,
  sleep: (signal: AbortSignal) => Promise<void>,
  most: number,
): FundingSearches {
  const stopped = new AbortController();
  const running = new Map<string, { readonly end: Promise<SearchEnd>; count(): number }>();

  function begin(wallet: Uint8Array, address: string) {
    let count = 0;
    const progress = (read: number): void => {
      count = read;
    };
    const end = searchFunding(parts, wallet, progress, stopped.signal).finally(() => running.delete(address));
    const search = { end, count: () => count };
    running.set(address, search);
    // Whoever waits hears of it; nobody may be waiting any more.
    search.end.catch((error) => parts.log.debug({ code: codeOf(error) }, 'a search for the first funding failed'));
    return search;
  }

  return {
    async run(wallet, address, signal) {
      const known = running.get(address);
      if (known === undefined && running.size >= most) return { kind: 'running', count: 0 };
      const search = known ?? begin(wallet, address);
      const late = sleep(signal).then(() => ({ kind: 'running', count: search.count() }) as const);
      return await Promise.race([search.end, late]);
    },
    stop: () => stopped.abort(new CodedError('WALLET_STOPPED', 'the daemon stops')),
  };
}
