import { createByteReader, LayoutError } from '../../byte-reader.ts';
import { attempt, type Decoded, undecoded } from '../decoded.ts';
import { keyText, optionalKey, presence } from '../fields.ts';
import type { RawAccount } from '../raw-account.ts';
import { type Extension, readExtensions } from './extensions.ts';
import { hasForm } from './token-program.ts';

/** An account that holds tokens. Keys are base58, amounts raw units. */
export interface TokenAccount {
  readonly program: string;
  readonly mint: string;
  readonly owner: string;
  readonly amount: bigint;
  readonly delegate: string | null;
  readonly delegatedAmount: bigint;
  readonly isFrozen: boolean;
  /** Lamports that belong to the account itself when it holds wrapped SOL; null for all others. */
  readonly nativeReserve: bigint | null;
  readonly closeAuthority: string | null;
  /** Empty for SPL Token. */
  readonly extensions: readonly Extension[];
}

const STATE = { uninitialized: 0, frozen: 2 } as const;

/** Reads a token account. One that was never initialised is none: `foreign`. */
export function decodeTokenAccount({ owner, data }: Pick<RawAccount, 'owner' | 'data'>): Decoded<TokenAccount> {
  if (!hasForm('account', owner, data)) return undecoded(data.length === 0 ? 'missing' : 'foreign');
  const read = attempt(() => readBase(data));
  if (read.value === null) return read;
  const { state, ...account } = read.value;
  if (state === STATE.uninitialized) return undecoded('foreign');
  const isFrozen = state === STATE.frozen;
  return { value: { program: owner, ...account, isFrozen, extensions: readExtensions(data) }, reason: null };
}

function readBase(data: Uint8Array) {
  const reader = createByteReader(data);
  const [mint, owner, amount, delegate] = [keyText(reader), keyText(reader), reader.u64(), optionalKey(reader)];
  const state = reader.u8();
  if (state > STATE.frozen) throw new LayoutError(`${state} is no state of a token account`, reader.offset - 1);
  const isNative = presence(reader);
  const reserve = reader.u64();
  const delegatedAmount = reader.u64();
  const closeAuthority = optionalKey(reader);
  return {
    mint,
    owner,
    amount,
    delegate,
    delegatedAmount,
    nativeReserve: isNative ? reserve : null,
    closeAuthority,
    state,
  };
}
