import { decode32 } from '../../../../lib/base58.ts';
import { CodedError } from '../../../../lib/coded-error.ts';
import type { Vm, VmAccount } from '../vm/vm.ts';
import { type TokenState, tokenStateOf } from './token-state.ts';

/** Larger accounts cannot hold tokens, and reading one copies all of it. */
const LARGE_BYTES = 16_384;

export type Accounts = ReturnType<typeof createAccounts>;

/** The engine's accounts by base58 key, with what is known of their token content so that large ones are not read again. */
export function createAccounts(vm: Vm) {
  const known = new Map<string, TokenState | 'large' | null>();
  const get = (key: string): VmAccount | null => vm.account(keyBytes(key));
  function read(key: string): TokenState | null {
    const account = get(key);
    const state = tokenStateOf(account);
    if (account === null) known.delete(key);
    else known.set(key, account.data.length > LARGE_BYTES ? 'large' : state);
    return state;
  }
  return {
    get,
    balance: (key: string): bigint => vm.balance(keyBytes(key)),
    /** Token content of an account; `written` = it may have changed since the last look. */
    token(key: string, written: boolean): TokenState | null {
      const state = known.get(key);
      if (state === 'large') return null;
      return state === undefined || written ? read(key) : state;
    },
    set(key: string, account: Omit<VmAccount, 'owner'> | null): void {
      vm.write(keyBytes(key), account);
      known.delete(key);
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
