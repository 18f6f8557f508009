import { decode32, encode32 } from '../../../src/lib/base58.ts';
import { CodedError } from '../../../src/lib/coded-error.ts';
import { plainUiAmount, type UiTokenAmount, withoutZeros } from '../../../src/solana/json-parsed/layout.ts';
import {
  LOADER_V2,
  LOADER_V3,
  NATIVE_LOADER,
  SYSTEM_PROGRAM,
  SYSVAR_OWNER,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
} from '../../../src/solana/programs.ts';
import type { Vm, VmAccount } from '../vm/vm.ts';

/** Larger accounts cannot be token accounts, and reading one copies all of it. */
const LARGE_BYTES = 16_384;

/** Owners of the accounts of engine and genesis. */
const GENESIS_OWNERS = [SYSTEM_PROGRAM, NATIVE_LOADER, LOADER_V2, LOADER_V3, SYSVAR_OWNER, TOKEN_PROGRAM];

/** Cached facts of an account. */
interface AccountFacts {
  readonly state: TokenState | null;
  readonly size: number;
  readonly isLarge: boolean;
}

export type Accounts = ReturnType<typeof createVmAccounts>;

/** The engine's accounts by base58 key, with cached token content so that large ones are not read again. */
export function createVmAccounts(vm: Vm) {
  const known = new Map<string, AccountFacts>();
  // The engine lists accounts by owner only.
  const seen = new Set<string>();
  const get = (key: string): VmAccount | null => vm.account(keyBytes(key));
  function read(key: string): AccountFacts | null {
    const account = get(key);
    if (account === null) {
      known.delete(key);
      return null;
    }
    const { length } = account.data;
    const found = { state: tokenStateOf(account), size: length, isLarge: length > LARGE_BYTES };
    known.set(key, found);
    return found;
  }
  return {
    get,
    /** Size of an account's data, for a large account as of the last read; null when it does not exist. */
    size(key: string): number | null {
      return vm.balance(keyBytes(key)) === 0n ? null : ((known.get(key) ?? read(key))?.size ?? null);
    },
    /** An account that is cheap to read; null for a large one too. */
    small(key: string): VmAccount | null {
      return (known.get(key) ?? read(key))?.isLarge === true ? null : get(key);
    },
    balance: (key: string): bigint => vm.balance(keyBytes(key)),
    /** Token content of an account; `written`: it may have changed since the last read. */
    token(key: string, written: boolean): TokenState | null {
      const found = known.get(key);
      if (found?.isLarge === true) return null;
      return (found === undefined || written ? read(key) : found)?.state ?? null;
    },
    set(key: string, account: Omit<VmAccount, 'owner'> | null): void {
      vm.write(keyBytes(key), account);
      known.delete(key);
      seen.add(key);
    },
    /** Registers accounts that a transaction may have created. */
    see(keys: Iterable<string>): void {
      for (const key of keys) seen.add(key);
    },
    /** Lamports of every account, unordered. */
    balances(): [string, bigint][] {
      for (const owner of GENESIS_OWNERS) for (const key of vm.programAccounts(keyBytes(owner)).keys()) seen.add(key);
      return [...seen].flatMap((key): [string, bigint][] => {
        const lamports = vm.balance(keyBytes(key));
        return lamports === 0n ? [] : [[key, lamports]];
      });
    },
    forget: (key: string): void => void known.delete(key),
    ofProgram: (program: string): Map<string, VmAccount> => vm.programAccounts(keyBytes(program)),
  };
}

/** The 32 bytes of a base58 key. Throws LOCAL_BAD_KEY. */
export function keyBytes(key: string): Uint8Array {
  const bytes = decode32(key);
  if (bytes === null) throw new CodedError('LOCAL_BAD_KEY', `not a base58 key of 32 bytes: ${key.slice(0, 64)}`);
  return bytes;
}

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

/** Token accounts have 165 bytes, or more with a type byte after them; a mint never has this length. */
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
const SECONDS_PER_YEAR = 31_556_736;

/** Amount of a mint's token as Agave shows it, with interest and scaling applied at `unixSeconds`. */
export function uiAmountOf(amount: bigint, mint: VmAccount | null, unixSeconds: number): UiTokenAmount {
  const decimals = mint?.data[44] ?? 0;
  const scaled = mint === null ? null : scaledText(amount, decimals, mint.data, unixSeconds);
  if (scaled === null) return plainUiAmount(amount, decimals);
  return { amount: amount.toString(), decimals, uiAmount: Number(scaled), uiAmountString: scaled };
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
  return withoutZeros(value.toFixed(Math.min(decimals, 100)));
}
