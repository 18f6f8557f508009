import { Type } from '@sinclair/typebox';
import { decode32 } from '../../src/lib/base58.ts';
import { type Clock, defineRoute, type Route } from '../../src/plugin/plugin.ts';
import { json, RequestError } from '../../src/plugin/request.ts';
import { uiAmount } from '../../src/solana/accounts/amounts.ts';
import { NATIVE_SOL_MINT, WRAPPED_SOL_MINT } from '../../src/solana/programs.ts';
import { address, count, flag, orNull, signature, slot, text, unixTime } from '../../src/solana/schemas.ts';
import { scaledMints } from './history.ts';
import { endOf, NAMED } from './store/tables.ts';
import type { OpenWallet } from './tracking/tracker.ts';
import { incompleteHistory, type LoadedRow, type WalletView } from './tracking/view.ts';
import { type MintFactsReader, WALLET_REFUSALS, WALLET_ROUTE, walletKey, walletParams } from './wallet-route.ts';

interface BalanceAtContext {
  readonly open: OpenWallet;
  readonly mintFacts: MintFactsReader;
  readonly clock: Clock;
  /** The newest confirmed slot. Errors: 503. */
  newestSlot(signal: AbortSignal): Promise<number>;
  /** The newest indexed slot, from memory; -1 when unknown. */
  knownSlot(): number;
}

const reply = Type.Object(
  {
    wallet: address('The wallet'),
    mint: text('The mint', NATIVE_SOL_MINT),
    isNative: flag('Whether it is SOL', true),
    balance: text('Whole tokens, as decimal text', '1.5'),
    balanceRaw: text('Raw units, as text', '1500000000'),
    decimals: count('Decimals of the mint', 9),
    requested: Type.Object(
      {
        time: orNull(unixTime('As given, in Unix seconds')),
        slot: orNull(slot('As given')),
        datetime: orNull(text('As given', '2026-11-23T18:40:00Z')),
      },
      { description: 'The moment that was asked for', examples: [{ time: 1_763_923_200, slot: null, datetime: null }] },
    ),
    asOf: Type.Union(
      [
        Type.Object({ slot: slot(), signature: signature(), blockTime: orNull(unixTime('Time of the block')) }),
        Type.Null(),
      ],
      { description: 'The newest transaction that the balance was read from; null when there was none' },
    ),
  },
  { title: 'BalanceAt', description: 'The balance at that moment' },
);

/** GET balance-at: the balance of SOL or a token at a moment in the past. */
export function balanceAtRoute({ open, mintFacts, clock, newestSlot, knownSlot }: BalanceAtContext): Route {
  return defineRoute({
    ...WALLET_ROUTE,
    method: 'GET',
    path: '/v1/wallet/:wallet/balance-at',
    summary: 'Balance of a wallet at a time or slot',
    description: 'Exactly one of `time`, `datetime` and `slot` is required.',
    params: walletParams,
    documented: { ...WALLET_ROUTE.documented, required: ['mint'] },
    query: Type.Object({
      mint: Type.Optional(
        Type.String({
          description: `The mint. ${NATIVE_SOL_MINT} is SOL; ${WRAPPED_SOL_MINT}, under which \`balances\` lists SOL, is wrapped SOL here`,
          examples: [NATIVE_SOL_MINT],
        }),
      ),
      time: Type.Optional(Type.Integer({ minimum: 0, description: 'Unix seconds', examples: [1_763_923_200] })),
      datetime: Type.Optional(Type.String({ description: 'Date, or date and time, UTC unless it names a zone' })),
      slot: Type.Optional(Type.Integer({ minimum: 0, description: 'Slot' })),
    }),
    replies: { 200: reply, ...WALLET_REFUSALS },
    async handler({ params, query, caller, signal }) {
      const key = walletKey(params.wallet);
      const mint = readMint(query.mint);
      const point = readPoint(query);
      const nowS = clock.now() / 1_000;
      await checkPast(point, nowS, (slot) => (slot <= knownSlot() ? slot : newestSlot(signal)));
      const view = await open(key, params.wallet, { caller, signal });
      const isNative = query.mint === NATIVE_SOL_MINT;
      const found = await balanceAt(view, mint, isNative, point, nowS, () => newestSlot(signal));
      return json(await body(params.wallet, query.mint as string, isNative, point, found, mintFacts, signal));
    },
  });
}

function readMint(text: string | undefined): Uint8Array {
  const key = text === undefined || text.length > 44 ? null : decode32(text);
  if (key !== null) return key;
  throw new RequestError(400, 'Invalid mint address', {
    details: text === undefined ? 'mint is required' : `'${text.slice(0, 64)}' is not a valid Solana address`,
  });
}

/** Block times follow the clocks of validators; for a time older than this, a later block exists. */
const RECENT_S = 60;

async function balanceAt(
  view: WalletView,
  mint: Uint8Array,
  isNative: boolean,
  point: Point,
  nowS: number,
  newestSlot: () => Promise<number>,
): Promise<BalanceAt> {
  // Events up to the point may be above the live range.
  if (point.slot !== null) await view.reach(point.slot);
  else if ((point.time as number) > nowS - RECENT_S) await view.reach(await newestSlot());
  // A time refers to a slot of the wallet's own transactions, so other activity is irrelevant. All of them must be stored.
  if (point.time !== null) await view.whole();
  const slot = point.slot ?? (await view.slotAt(point.time as number)) ?? -1;
  return await (isNative ? nativeBalance(view, endOf(slot)) : tokenBalance(view, mint, endOf(slot)));
}

async function body(
  wallet: string,
  mint: string,
  isNative: boolean,
  { time, slot, datetime }: Point,
  { raw, asOf, decimals: ownDecimals }: BalanceAt,
  mintFacts: MintFactsReader,
  signal: AbortSignal,
) {
  // Amounts of some mints grow with time, and for some mints no stored transaction contains the decimals.
  const mayBeScaled = asOf !== null && scaledMints(asOf).includes(mint);
  const facts = isNative
    ? null
    : ((await (mayBeScaled ? mintFacts.needed : mintFacts.known)([mint], signal)).get(mint) ?? null);
  const decimals = isNative ? 9 : (ownDecimals ?? facts?.decimals ?? 0);
  return {
    wallet,
    mint,
    isNative,
    balance: uiAmount(raw, decimals, facts?.scale ?? null, asOf?.time ?? time ?? 0),
    balanceRaw: raw.toString(),
    decimals,
    requested: { time, slot, datetime },
    asOf: asOf === null ? null : { slot: asOf.slot, signature: asOf.signature, blockTime: asOf.time },
  };
}

/** A balance at a point, and the newest transaction that it was read from. */
interface BalanceAt {
  readonly raw: bigint;
  readonly asOf: LoadedRow | null;
  /** From the transaction; null when it has none. */
  readonly decimals: number | null;
}

const NONE: BalanceAt = { raw: 0n, asOf: null, decimals: null };
/** Transactions of an account that are checked at once. */
const PIECE = 8;

/** Lamports after the newest transaction below a position that names the wallet. Errors: those of the view. */
async function nativeBalance(view: WalletView, below: number): Promise<BalanceAt> {
  for (let edge = below; ; ) {
    const page = await view.page({ below: edge, above: null, mask: NAMED, limit: 1, order: 'desc' });
    const row = page.rows[0];
    if (row === undefined) {
      if (page.prunedBelow !== null) throw incompleteHistory(page.prunedBelow);
      return NONE;
    }
    const [loaded] = await view.load([row]);
    const account = loaded === undefined ? -1 : loaded.tx.keys.indexOf(loaded.block.keys.find(view.key));
    if (loaded !== undefined && account >= 0)
      return { raw: BigInt(loaded.tx.postBalances[account] ?? 0), asOf: loaded, decimals: 9 };
    // Not of this wallet.
    edge = row.n;
  }
}

/** The sum over all token accounts of a mint that the wallet ever owned. Errors: those of the view. */
async function tokenBalance(view: WalletView, mint: Uint8Array, below: number): Promise<BalanceAt> {
  const { prunedBelow } = await view.whole();
  let sum = NONE;
  for (const account of await view.accountsOf(mint)) {
    const one = await accountBalance(view, account, mint, below);
    if (one.asOf === null) {
      // Its balance may date from before the upstream's first slot.
      if (prunedBelow !== null) throw incompleteHistory(prunedBelow);
      continue;
    }
    const isNewer = sum.asOf === null || one.asOf.n > sum.asOf.n;
    sum = {
      raw: sum.raw + one.raw,
      asOf: isNewer ? one.asOf : sum.asOf,
      decimals: one.decimals ?? sum.decimals,
    };
  }
  if (sum.asOf === null && prunedBelow !== null) throw incompleteHistory(prunedBelow);
  return sum;
}

async function accountBalance(
  view: WalletView,
  account: { readonly id: number; readonly address: string },
  mint: Uint8Array,
  below: number,
): Promise<BalanceAt> {
  let edge = below;
  for (;;) {
    const rows = await view.accountRows(account, edge, PIECE);
    for (const loaded of await view.load(rows)) {
      const found = balanceIn(loaded, account.address, mint, view.key);
      if (found !== null) return { ...found, asOf: loaded };
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < PIECE) return NONE;
    edge = last.n;
  }
}

/** Balance of an account after a transaction; null when the transaction does not contain it. */
function balanceIn(
  { tx, block: { keys } }: LoadedRow,
  address: string,
  mint: Uint8Array,
  wallet: Uint8Array,
): { readonly raw: bigint; readonly decimals: number } | null {
  const isIt = ({ accountIndex }: { readonly accountIndex: number }) =>
    keys.base58(tx.keys[accountIndex] ?? 0) === address;
  const after = tx.postTokenBalances.find(isIt);
  const before = tx.preTokenBalances.find(isIt);
  const balance = after ?? before;
  if (balance === undefined) return null;
  const { decimals } = balance;
  // Closed, or reused for another mint.
  if (after === undefined || after.mintKey !== keys.find(mint)) return { raw: 0n, decimals };
  // Old transactions name no owner: the wallet of the account is assumed.
  const isOwn = after.ownerKey < 0 || after.ownerKey === keys.find(wallet);
  return { raw: isOwn ? BigInt(after.amount) : 0n, decimals };
}

/** The moment that is asked about; exactly one of `time` (unix seconds) and `slot` is set. */
interface Point {
  readonly time: number | null;
  readonly slot: number | null;
  /** The parameter as given. */
  readonly datetime: string | null;
}

interface PointQuery {
  readonly time?: number | undefined;
  readonly slot?: number | undefined;
  readonly datetime?: string | undefined;
}

const badTime = (details: string) => new RequestError(400, 'Invalid time parameter', { details });

/** How far a clock may be ahead of ours. */
const AHEAD_S = 60;

/** Errors: 400 unless exactly one is given, and for malformed dates. */
function readPoint({ time, slot, datetime }: PointQuery): Point {
  if ([time, slot, datetime].filter((one) => one !== undefined).length !== 1)
    throw badTime('exactly one of time, datetime or slot is required');
  if (datetime === undefined) return { time: time ?? null, slot: slot ?? null, datetime: null };
  const read = readDatetime(datetime);
  if (read === null || read < 0)
    throw new RequestError(400, 'Invalid datetime', {
      details: 'a datetime looks like 2025-01-10, 2025-01-10 19:20:00 or 2025-01-10T19:20:00+02:00',
    });
  return { time: read, slot: null, datetime };
}

/** Errors: 400 for a point in the future. `newestSlot` is read only when needed. */
async function checkPast(
  point: Point,
  nowS: number,
  newestSlot: (slot: number) => number | Promise<number>,
): Promise<void> {
  if (point.time === null) {
    const newest = await newestSlot(point.slot ?? 0);
    if ((point.slot ?? 0) > newest) throw badTime(`slot ${point.slot} is in the future; the newest slot is ${newest}`);
  } else if (point.time > nowS + AHEAD_S) throw badTime('the requested time is in the future; time is in unix seconds');
}

/** `2025-01-10`, `2025-01-10 19:20`, with `T`, seconds, a fraction, and `Z` or an offset. */
const FORM =
  /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.\d{1,9})?)?(?:(Z)|([+\- ])(\d{2}):(\d{2}))?)?$/;
const MAX_OFFSET_MINUTES = 14 * 60;

/**
 * Unix seconds of a calendar date and time, UTC unless it names a zone; null for anything else. A blank before an offset is
 * a plus sign decoded from the query.
 */
export function readDatetime(text: string): number | null {
  const parts = FORM.exec(text);
  if (parts === null) return null;
  const [year, month, day, hour, minute, second] = parts.slice(1, 7).map((part) => Number(part ?? 0)) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  if (hour > 23 || minute > 59 || second > 59) return null;
  const atMs = Date.UTC(year, month - 1, day, hour, minute, second);
  const date = new Date(atMs);
  // `Date` shifts years below 100 by a century, and nonexistent days to the next month.
  if (date.getUTCFullYear() !== year || date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return null;
  const [sign, hours, minutes] = [parts[8], Number(parts[9] ?? 0), Number(parts[10] ?? 0)];
  const offset = hours * 60 + minutes;
  if (minutes > 59 || offset > MAX_OFFSET_MINUTES) return null;
  return atMs / 1_000 - (sign === '-' ? -offset : offset) * 60;
}
