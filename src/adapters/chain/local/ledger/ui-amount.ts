import type { VmAccount } from '../vm/vm.ts';
import { extensionsOf, view } from './token-state.ts';
import type { UiTokenAmount } from './types.ts';

const INTEREST_BEARING = 10;
const SCALED_UI_AMOUNT = 25;
const SECONDS_PER_YEAR = 31_556_736;

/** Amount of a mint's token as a node shows it, with interest and scaling applied at `unixSeconds`. */
export function uiAmountOf(amount: bigint, mint: VmAccount | null, unixSeconds: number): UiTokenAmount {
  const decimals = mint?.data[44] ?? 0;
  const scaled = mint === null ? null : scaledText(amount, decimals, mint.data, unixSeconds);
  const uiAmountString = scaled ?? plainText(amount, decimals);
  const uiAmount = scaled === null ? Number(amount) / 10 ** decimals : Number(scaled);
  return { amount: amount.toString(), decimals, uiAmount, uiAmountString };
}

function plainText(amount: bigint, decimals: number): string {
  if (decimals === 0) return amount.toString();
  const digits = amount.toString().padStart(decimals + 1, '0');
  return trimmed(`${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`);
}

function scaledText(amount: bigint, decimals: number, data: Uint8Array, unixSeconds: number): string | null {
  const extensions = extensionsOf(data);
  const interest = extensions.get(INTEREST_BEARING);
  if (interest !== undefined) {
    return fixed((Number(amount) * interestFactor(interest, unixSeconds)) / 10 ** decimals, decimals);
  }
  const scaling = extensions.get(SCALED_UI_AMOUNT);
  if (scaling === undefined) return null;
  const reader = view(scaling);
  const effective = unixSeconds >= Number(reader.getBigInt64(40, true));
  const multiplier = reader.getFloat64(effective ? 48 : 32, true);
  return fixed(Math.trunc(Number(amount) * multiplier) / 10 ** decimals, decimals);
}

/** Continuous compounding, first at the average rate until the last change, then at the current one (basis points). */
function interestFactor(config: Uint8Array, unixSeconds: number): number {
  const reader = view(config);
  const started = Number(reader.getBigInt64(32, true));
  const changed = Number(reader.getBigInt64(42, true));
  const growth = (rate: number, seconds: number) => Math.exp((rate * seconds) / (SECONDS_PER_YEAR * 10_000));
  return (
    growth(reader.getInt16(40, true), changed - started) * growth(reader.getInt16(50, true), unixSeconds - changed)
  );
}

function fixed(value: number, decimals: number): string {
  return trimmed(value.toFixed(Math.min(decimals, 100)));
}

function trimmed(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}
