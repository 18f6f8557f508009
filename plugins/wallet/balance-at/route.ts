import { Type } from '@sinclair/typebox';
import { type Clock, defineRoute, type Route } from '../../../src/kernel/plugin.ts';
import { json, RequestError } from '../../../src/kernel/request.ts';
import { decode32 } from '../../../src/lib/base58.ts';
import { uiAmount } from '../../../src/solana/accounts/token/ui-amount.ts';
import { scaledMints } from '../history/element.ts';
import { walletKey, walletParams } from '../input/address.ts';
import { WALLET_REFUSALS, WALLET_ROUTE } from '../input/common.ts';
import type { TokenWords } from '../input/token-words.ts';
import { endOf } from '../store/position.ts';
import type { OpenWallet } from '../tracking/open-wallet.ts';
import type { WalletView } from '../tracking/view.ts';
import { type BalanceAt, nativeBalance, tokenBalance } from './balance.ts';
import { checkPast, type Point, readPoint } from './point.ts';

export interface BalanceAtContext {
  readonly open: OpenWallet;
  readonly words: TokenWords;
  readonly clock: Clock;
  /** The newest confirmed slot. Errors: 503. */
  newestSlot(signal: AbortSignal): Promise<number>;
}

/** Stands for SOL itself, which has no mint. */
const NATIVE_MINT = 'So11111111111111111111111111111111111111111';
const orNull = <T extends ReturnType<typeof Type.String> | ReturnType<typeof Type.Integer>>(schema: T) =>
  Type.Union([schema, Type.Null()]);

const reply = Type.Object({
  wallet: Type.String(),
  mint: Type.String(),
  isNative: Type.Boolean(),
  balance: Type.String(),
  balanceRaw: Type.String(),
  decimals: Type.Integer(),
  requested: Type.Object({
    time: orNull(Type.Integer()),
    slot: orNull(Type.Integer()),
    datetime: orNull(Type.String()),
  }),
  asOf: Type.Union([
    Type.Object({ slot: Type.Integer(), signature: Type.String(), blockTime: orNull(Type.Integer()) }),
    Type.Null(),
  ]),
});

/** GET balance-at: what a wallet held of SOL or a token at a moment in the past. */
export function balanceAtRoute({ open, words, clock, newestSlot }: BalanceAtContext): Route {
  return defineRoute({
    ...WALLET_ROUTE,
    method: 'GET',
    path: '/v1/wallet/:wallet/balance-at',
    summary: 'Balance of a wallet at a time or slot',
    params: walletParams,
    query: Type.Object({
      mint: Type.Optional(Type.String({ description: `mint; ${NATIVE_MINT} is SOL` })),
      time: Type.Optional(Type.Integer({ minimum: 0, description: 'unix seconds' })),
      datetime: Type.Optional(Type.String({ description: 'date, or date and time, UTC unless it names a zone' })),
      slot: Type.Optional(Type.Integer({ minimum: 0 })),
    }),
    replies: { 200: reply, ...WALLET_REFUSALS },
    async handler({ params, query, signal }) {
      const key = walletKey(params.wallet);
      const mint = readMint(query.mint);
      const point = readPoint(query);
      await checkPast(point, clock.now() / 1_000, () => newestSlot(signal));
      const view = await open(key, params.wallet, signal);
      const isNative = query.mint === NATIVE_MINT;
      const found = await balanceAt(view, mint, isNative, point);
      return json(await body(params.wallet, query.mint as string, isNative, point, found, words, signal));
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

async function balanceAt(view: WalletView, mint: Uint8Array, isNative: boolean, point: Point): Promise<BalanceAt> {
  // A time is a slot of the wallet's own transactions: whatever else happened does not matter. All of them must be there.
  if (point.time !== null) await view.whole();
  const slot = point.slot ?? (await view.slotAt(point.time as number)) ?? -1;
  return await (isNative ? nativeBalance(view, endOf(slot)) : tokenBalance(view, mint, endOf(slot)));
}

async function body(
  wallet: string,
  mint: string,
  isNative: boolean,
  { time, slot, datetime }: Point,
  { raw, asOf, decimals: told }: BalanceAt,
  words: TokenWords,
  signal: AbortSignal,
) {
  // Amounts of some mints grow with time, and some mints have no transaction here that tells their decimals.
  const mayBeScaled = asOf !== null && scaledMints(asOf).includes(mint);
  const facts = isNative
    ? null
    : ((await (mayBeScaled ? words.needed : words.known)([mint], signal)).get(mint) ?? null);
  const decimals = isNative ? 9 : (told ?? facts?.decimals ?? 0);
  return {
    ...{ wallet, mint, isNative },
    balance: uiAmount(raw, decimals, facts?.scale ?? null, asOf?.time ?? time ?? 0),
    ...{ balanceRaw: raw.toString(), decimals, requested: { time, slot, datetime } },
    asOf: asOf === null ? null : { slot: asOf.slot, signature: asOf.signature, blockTime: asOf.time },
  };
}
