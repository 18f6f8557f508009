import { Type } from '@sinclair/typebox';
import { encode32 } from '../../src/lib/base58.ts';
import { CodedError, codeOf, defineRoute, type Log, type Route, type Store } from '../../src/plugin/plugin.ts';
import { type CallContext, json, RequestError } from '../../src/plugin/request.ts';
import type { ChainBlock, NormalTransaction } from '../../src/ports/block.ts';
import { plainAmount } from '../../src/solana/accounts/amounts.ts';
import { nativeChange } from '../../src/solana/movements/movement.ts';
import { readMovements } from '../../src/solana/movements/read-movements.ts';
import { WRAPPED_SOL_MINT } from '../../src/solana/programs.ts';
import { address, orNull, signature, slot, text, time, unixTime } from '../../src/solana/schemas.ts';
import type { WalletConfig } from './config.ts';
import type { AddressLabel } from './identity/labels.ts';
import { endOf, NAMED, type WalletDb } from './store/tables.ts';
import type { ChainHistory, HistoryAskOptions, HistoryEntry } from './tracking/chain-history.ts';
import { createAddressList } from './tracking/gather.ts';
import type { OpenWallet } from './tracking/tracker.ts';
import { beingIndexed, incompleteHistory, noChain, type WalletView } from './tracking/view.ts';
import {
  NOT_FOUND,
  refusedAs503,
  unknownTime,
  WALLET_REFUSALS,
  WALLET_ROUTE,
  walletKey,
  walletParams,
} from './wallet-route.ts';

interface FundedByContext {
  readonly store: Store;
  readonly open: OpenWallet;
  readonly log: Log;
  /** Null without a chain. */
  readonly searches: FundingSearches | null;
  labelOf(address: string): Pick<AddressLabel, 'name' | 'type'> | null;
  /** Refuses programs and addresses that are too busy, whose lists are too long to be searched. Errors: 400; those of the upstream. */
  checkAddress(address: string, signal: AbortSignal): Promise<void>;
  readonly config: Pick<WalletConfig, 'explorerTxUrl' | 'fundedBy'>;
}

const SOL_DECIMALS = 9;

const reply = Type.Object(
  {
    funder: address('Who sent the first SOL'),
    funderName: orNull(text('Name of the sender', 'Binance 8')),
    funderType: orNull(text('Kind of the sender', 'exchange')),
    mint: text('Mint of wrapped SOL', WRAPPED_SOL_MINT),
    symbol: Type.Literal('SOL'),
    amount: Type.Number({ description: 'SOL', examples: [1.5] }),
    amountRaw: text('Lamports, as text', '1500000000'),
    decimals: Type.Literal(SOL_DECIMALS),
    signature: signature(),
    timestamp: unixTime(),
    date: time('The same as text'),
    slot: slot(),
    explorerUrl: text(
      'Page of the transaction',
      'https://explorer.solana.com/tx/5h6xBEauJ3PK6SWCZ1PGjBvj8vDdWG3KpwATGy1ARAXF',
    ),
  },
  { title: 'FundedBy', description: 'The first incoming SOL transfer' },
);

/** GET funded-by: the source of the first SOL of a wallet. */
export function fundedByRoute(context: FundedByContext): Route {
  return defineRoute({
    ...WALLET_ROUTE,
    method: 'GET',
    path: '/v1/wallet/:wallet/funded-by',
    summary: 'The first incoming SOL transfer of a wallet',
    params: walletParams,
    replies: { 200: reply, ...WALLET_REFUSALS, ...NOT_FOUND },
    async handler({ params, caller, signal }) {
      const call = { caller, signal };
      const key = walletKey(params.wallet);
      const known = await readKnown(context, params.wallet);
      const funding =
        known === null
          ? await findFunding(context, key, params.wallet, call)
          : 'funder' in known
            ? known
            : await findLater(context, key, params.wallet, known, call);
      if (funding === null) throw new RequestError(404, 'No funding transaction found');
      return json(view(context, funding));
    },
  });
}

/** No funding up to a final slot. */
interface NoFunding {
  readonly noneUpTo: number;
}

async function readKnown({ store }: FundedByContext, address: string): Promise<FirstFunding | NoFunding | null> {
  const row = await (store.read as WalletDb)
    .selectFrom('wallet_fundings')
    .select('body')
    .where('address', '=', address)
    .executeTakeFirst();
  return row === undefined ? null : (JSON.parse(row.body) as FirstFunding | NoFunding);
}

/** Stores results that no block can change, or only a block that contains the wallet. */
async function remember({ store }: FundedByContext, address: string, body: FirstFunding | NoFunding): Promise<void> {
  const text = JSON.stringify(body);
  await store.write(async (tx) => {
    await tx.insertMany('wallet_fundings', ['address', 'body'], [[address, text]], 'ignore');
    await (tx.db as WalletDb)
      .updateTable('wallet_fundings')
      .set({ body: text })
      .where('address', '=', address)
      .execute();
  });
}

/** Transactions of later blocks: the upstream is not called while the wallet is live. */
async function findLater(
  context: FundedByContext,
  key: Uint8Array,
  address: string,
  { noneUpTo }: NoFunding,
  call: Pick<CallContext, 'caller' | 'signal'>,
): Promise<FirstFunding | null> {
  try {
    const index = await context.open(key, address, call);
    const funding = await fundingAbove(index, noneUpTo);
    if (funding === null) return null;
    if (funding.slot <= index.finalSlot) await remember(context, address, funding);
    return funding;
  } catch (error) {
    // The index is not complete yet: the upstream is searched again.
    if (!(error instanceof RequestError) || error.status !== 503) throw error;
    return await findFunding(context, key, address, call);
  }
}

async function findFunding(
  context: FundedByContext,
  key: Uint8Array,
  address: string,
  call: Pick<CallContext, 'caller' | 'signal'>,
): Promise<FirstFunding | null> {
  const { searches, config } = context;
  if (searches === null) throw noChain();
  const search = context.checkAddress(address, call.signal).then(() => searches.run(key, address, call.signal));
  const end = await refusedAs503('the history of the wallet', search);
  if (end.kind === 'running') throw beingIndexed(end.count);
  if (end.kind === 'pruned') throw incompleteHistory(end.firstSlot);
  if (end.kind === 'too-long')
    throw new RequestError(503, 'Incomplete history', {
      details: `The wallet has more than ${config.fundedBy.maxPages * 1_000} transactions (wallet.fundedBy.maxPages)`,
      retryAfterS: null,
    });
  if (end.kind === 'none') {
    await remember(context, address, { noneUpTo: end.finalSlot });
    // From now on the blocks contain it.
    await context.open(key, address, call).catch((error) => {
      context.log.debug({ code: codeOf(error) }, 'a wallet without funding is not followed yet');
    });
    return null;
  }
  const { funding, isFinal } = end;
  if (isFinal) await remember(context, address, funding);
  return funding;
}

function view({ labelOf, config }: FundedByContext, { funder, amount, signature, slot, time }: FirstFunding) {
  const label = labelOf(funder);
  return {
    funder,
    funderName: label?.name ?? null,
    funderType: label?.type ?? null,
    mint: WRAPPED_SOL_MINT,
    symbol: 'SOL',
    amount: Number(plainAmount(BigInt(amount), SOL_DECIMALS)),
    amountRaw: amount,
    decimals: SOL_DECIMALS,
    signature,
    timestamp: time,
    date: new Date(time * 1_000).toISOString(),
    slot,
    explorerUrl: config.explorerTxUrl.replace('{signature}', signature),
  };
}

/** The first funding of a wallet. `amount` in lamports as text. */
interface FirstFunding {
  readonly funder: string;
  readonly amount: string;
  readonly signature: string;
  readonly slot: number;
  /** Unix seconds. */
  readonly time: number;
}

type SearchEnd =
  | { readonly kind: 'found'; readonly funding: FirstFunding; readonly isFinal: boolean }
  /** `finalSlot`: no reorg changes the result up to there. */
  | { readonly kind: 'none'; readonly finalSlot: number }
  /** The upstream has nothing below this slot. */
  | { readonly kind: 'pruned'; readonly firstSlot: number }
  /** More signatures than are read. */
  | { readonly kind: 'too-long' };

interface SearchParts {
  readonly store: Store;
  readonly upstream: ChainHistory;
  readonly config: Pick<WalletConfig, 'fundedBy'>;
  readonly log: Log;
}

/** Reads the wallet's list to its end, then scans upwards. `progress` gets the number of signatures read. Errors: those of the upstream. */
async function searchFunding(
  parts: SearchParts,
  wallet: Uint8Array,
  progress: (count: number) => void,
  signal: AbortSignal,
): Promise<SearchEnd> {
  const address = encode32(wallet);
  const ask: HistoryAskOptions = { commitment: 'confirmed', signal };
  const finalSlot = await parts.upstream.slot({ commitment: 'finalized', signal });
  const entries = await readList(parts, address, progress, ask);
  if (entries === null) return { kind: 'too-long' };
  const firstSlot = await parts.upstream.missingBelow(address, signal);
  if (firstSlot !== null) return { kind: 'pruned', firstSlot };
  for (const entry of entries.reverse()) {
    if (entry.hasFailed) continue;
    const funding = await look(parts, address, entry, ask);
    if (funding === null) continue;
    return { kind: 'found', funding, isFinal: funding.slot <= finalSlot };
  }
  return { kind: 'none', finalSlot };
}

/** The whole list, newest first; null when it is too long. */
async function readList(
  { upstream, config }: SearchParts,
  address: string,
  progress: (count: number) => void,
  ask: HistoryAskOptions,
): Promise<HistoryEntry[] | null> {
  const entries: HistoryEntry[] = [];
  const most = config.fundedBy.maxPages * 1_000;
  // Every page must come from a node that knows the end of the page before.
  const upTo = await upstream.slot(ask);
  const list = createAddressList({ upstream, address, belowSlot: upTo + 1, before: null, minSlot: upTo, ask });
  while (entries.length <= most) {
    if ((await list.peek()) === null) return entries;
    entries.push(list.take());
    progress(entries.length);
  }
  return null;
}

async function look(
  { upstream }: SearchParts,
  address: string,
  { signature }: HistoryEntry,
  ask: HistoryAskOptions,
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
  const time = blockTime ?? (await upstream.blockTime(slot, ask.signal)) ?? unknownTime(slot);
  return { funder: funding.funder, amount: funding.amount.toString(), signature, slot, time };
}

const ROWS_AT_ONCE = 50;

/** The first funding above a slot, from the index. Errors: those of the view. */
async function fundingAbove(view: WalletView, slot: number): Promise<FirstFunding | null> {
  let above = endOf(slot) - 1;
  for (;;) {
    const range = { above, below: null, mask: NAMED, limit: ROWS_AT_ONCE, order: 'asc' } as const;
    const { rows } = await view.page(range);
    for (const { tx, block, signature, slot, time } of await view.load(rows)) {
      const funding = fundingOf(tx, block, view.address);
      if (funding === null) continue;
      const { funder, amount } = funding;
      return {
        funder,
        amount: amount.toString(),
        signature,
        slot,
        time: time ?? (await view.timeNear(slot)) ?? unknownTime(slot),
      };
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < ROWS_AT_ONCE) return null;
    above = last.n;
  }
}

interface FundingSearches {
  /** The result, or the number of signatures read when the time is up. */
  run(
    wallet: Uint8Array,
    address: string,
    signal: AbortSignal,
  ): Promise<SearchEnd | { readonly kind: 'running'; readonly count: number }>;
  stop(): void;
}

/** A search continues after the request that started it has finished; requests for the same wallet share one. */
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
    // Waiting requests get the error; there may be none left.
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
    stop: () => stopped.abort(new CodedError('WALLET_STOPPED', 'the daemon is stopping')),
  };
}

/** Incoming SOL of a wallet. */
interface Funding {
  /** base58 */
  readonly funder: string;
  /** Lamports. */
  readonly amount: bigint;
}

/** The funding of a wallet (base58) by a transaction; null when there is no such transfer. */
export function fundingOf(
  tx: NormalTransaction,
  { keys: table }: Pick<ChainBlock, 'keys'>,
  wallet: string,
): Funding | null {
  if (tx.error !== null) return null;
  return largestTransfer(tx, table, wallet) ?? riseOf(tx, table, wallet);
}

/** The largest system transfer to the wallet; the first of equal ones. */
function largestTransfer(tx: NormalTransaction, table: ChainBlock['keys'], wallet: string): Funding | null {
  const { moves, keys } = readMovements(tx, table);
  const account = (position: number) => keys.base58(tx.keys[position] ?? -1);
  let largest: Funding | null = null;
  for (const move of moves) {
    if (move.asset !== 'native' || account(move.to) !== wallet || move.amount <= 0n) continue;
    const owner = move.fromToken?.owner ?? -1;
    const funder = owner >= 0 ? keys.base58(owner) : account(move.from);
    if (funder !== wallet && move.amount > (largest?.amount ?? 0n)) largest = { funder, amount: move.amount };
  }
  return largest;
}

/** Lamports sent by a program: the funder is the fee payer, if it paid more than the fee. */
function riseOf(tx: NormalTransaction, table: ChainBlock['keys'], wallet: string): Funding | null {
  const texts = Array.from(tx.keys, (id) => table.base58(id));
  const position = texts.indexOf(wallet);
  const rise = position < 0 ? 0 : nativeChange(tx, position);
  const payer = texts[0];
  if (rise <= 0 || payer === undefined || payer === wallet || nativeChange(tx, 0) >= -tx.fee) return null;
  return { funder: payer, amount: BigInt(rise) };
}
