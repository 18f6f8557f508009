import { decode32 } from '../../lib/base58.ts';
import { CodedError } from '../../lib/coded-error.ts';
import type { Vm, VmAccount } from '../vm/vm.ts';
import { type TokenState, tokenStateOf } from './token-state.ts';

/** Larger accounts cannot hold tokens, and reading one copies all of it. */
const LARGE_BYTES = 16_384;

/** Owners of what the engine and the genesis bring along. */
const GENESIS_OWNERS = [
  '11111111111111111111111111111111',
  'NativeLoader1111111111111111111111111111111',
  'BPFLoader2111111111111111111111111111111111',
  'BPFLoaderUpgradeab1e11111111111111111111111',
  'Sysvar1111111111111111111111111111111111111',
  'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA',
];

/** What is known of an account without reading it again. */
interface Known {
  readonly state: TokenState | null;
  readonly size: number;
  readonly isLarge: boolean;
}

export type Accounts = ReturnType<typeof createAccounts>;

/** The engine's accounts by base58 key, with what is known of their token content so that large ones are not read again. */
export function createAccounts(vm: Vm) {
  const known = new Map<string, Known>();
  // The engine lists accounts by owner only.
  const seen = new Set<string>();
  const get = (key: string): VmAccount | null => vm.account(keyBytes(key));
  function read(key: string): Known | null {
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
    /** Bytes of an account's data, as of the last look for a large one; null where there is none. */
    size(key: string): number | null {
      return vm.balance(keyBytes(key)) === 0n ? null : ((known.get(key) ?? read(key))?.size ?? null);
    },
    /** An account whose data is cheap to read; null for a large one, too. */
    small(key: string): VmAccount | null {
      return (known.get(key) ?? read(key))?.isLarge === true ? null : get(key);
    },
    balance: (key: string): bigint => vm.balance(keyBytes(key)),
    /** Token content of an account; `written` = it may have changed since the last look. */
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
    /** Notes accounts that a transaction may have made. */
    see(keys: Iterable<string>): void {
      for (const key of keys) seen.add(key);
    },
    /** Lamports of every account, in no order. */
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
