import { encode32 } from '../../lib/base58.ts';
import type { VmAccount } from '../vm/vm.ts';
import type { UiTokenAmount } from './types.ts';

export const TOKEN_PROGRAM = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA';
export const TOKEN_2022_PROGRAM = 'TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb';

const ACCOUNT_BYTES = 165;
const MINT_BYTES = 82;
const KIND_MINT = 1;
const KIND_ACCOUNT = 2;

export interface TokenState {
  readonly mint: string;
  readonly owner: string;
  readonly programId: string;
  readonly amount: bigint;
}

export function isTokenProgram(owner: string): boolean {
  return owner === TOKEN_PROGRAM || owner === TOKEN_2022_PROGRAM;
}

/** Token accounts have 165 bytes, or more with a kind byte behind them; a mint never has the same length. */
export function isTokenAccount(account: VmAccount): boolean {
  if (!isTokenProgram(account.owner)) return false;
  const { data } = account;
  return (
    (data.length === ACCOUNT_BYTES || (data.length > ACCOUNT_BYTES && data[ACCOUNT_BYTES] === KIND_ACCOUNT)) &&
    data[108] !== 0
  );
}

export function isMint(account: VmAccount): boolean {
  if (!isTokenProgram(account.owner)) return false;
  const { data } = account;
  return (
    (data.length === MINT_BYTES || (data.length > ACCOUNT_BYTES && data[ACCOUNT_BYTES] === KIND_MINT)) && data[45] === 1
  );
}

export function tokenStateOf(account: VmAccount | null): TokenState | null {
  if (account === null || !isTokenAccount(account)) return null;
  const { data } = account;
  return {
    mint: encode32(data, 0),
    owner: encode32(data, 32),
    programId: account.owner,
    amount: view(data).getBigUint64(64, true),
  };
}

/** Token-2022 extensions of a mint or token account as type -> bytes. Bounded by the account's own length. */
function extensionsOf(data: Uint8Array): Map<number, Uint8Array> {
  const found = new Map<number, Uint8Array>();
  const reader = view(data);
  let at = ACCOUNT_BYTES + 1;
  while (at + 4 <= data.length) {
    const type = reader.getUint16(at, true);
    const length = reader.getUint16(at + 2, true);
    if (type === 0 || at + 4 + length > data.length) break;
    found.set(type, data.subarray(at + 4, at + 4 + length));
    at += 4 + length;
  }
  return found;
}

export function view(data: Uint8Array): DataView {
  return new DataView(data.buffer, data.byteOffset, data.byteLength);
}

const INTEREST_BEARING = 10;
const SCALED_UI_AMOUNT = 25;
const MAX_POWER = 19;
const SECONDS_PER_YEAR = 31_556_736;

/** Amount of a mint's token as a node shows it, with interest and scaling applied at `unixSeconds`. */
export function uiAmountOf(amount: bigint, mint: VmAccount | null, unixSeconds: number): UiTokenAmount {
  const decimals = mint?.data[44] ?? 0;
  const scaled = mint === null ? null : scaledText(amount, decimals, mint.data, unixSeconds);
  if (scaled === null) return plainAmount(amount, decimals);
  return { amount: amount.toString(), decimals, uiAmount: Number(scaled), uiAmountString: scaled };
}

/** Amount without a look at the mint. Nobody divides by more than 64 bits hold. */
export function plainAmount(amount: bigint, decimals: number): UiTokenAmount {
  const uiAmount = decimals > MAX_POWER ? null : Number(amount) / 10 ** decimals;
  return { amount: amount.toString(), decimals, uiAmount, uiAmountString: plainText(amount, decimals) };
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
