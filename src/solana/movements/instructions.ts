import type { NativeMoveKind, TokenMoveKind, WalkStep } from './movement.ts';

interface SystemMove {
  readonly kind: Exclude<NativeMoveKind, 'closeWrapped'>;
  /** Positions in the transaction's keys. */
  readonly from: number;
  readonly to: number;
  /** Lamports. */
  readonly amount: bigint;
  /** Offset in the data of the owner program of a created account; -1 for a transfer. */
  readonly ownerAt: number;
}

/** The movement of a System instruction; null when it moves nothing or its data is damaged. */
export function readSystemMove({ data, accounts }: WalkStep): SystemMove | null {
  const tag = u32At(data, 0);
  if (tag === 0) return systemMoveOf('createAccount', accounts[0], accounts[1], u64At(data, 4), 20);
  if (tag === 2) return systemMoveOf('transfer', accounts[0], accounts[1], u64At(data, 4), -1);
  // Account 1 is the base address of the derived source.
  if (tag === 11) return systemMoveOf('transferWithSeed', accounts[0], accounts[2], u64At(data, 4), -1);
  if (tag !== 3) return null;
  const seedLength = u64At(data, 36);
  if (seedLength === null || seedLength > BigInt(data.length)) return null;
  const at = 44 + Number(seedLength);
  return systemMoveOf('createAccountWithSeed', accounts[0], accounts[1], u64At(data, at), at + 16);
}

function systemMoveOf(
  kind: SystemMove['kind'],
  from: number | undefined,
  to: number | undefined,
  amount: bigint | null,
  ownerAt: number,
): SystemMove | null {
  return from === undefined || to === undefined || amount === null ? null : { kind, from, to, amount, ownerAt };
}

/** An instruction of a token program, reduced to what movements depend on. Accounts are positions in the transaction's keys. */
export type TokenInstruction =
  | TokenMoveInstruction
  | { readonly is: 'initializeAccount'; readonly account: number; readonly mint: number; readonly owner: number }
  /** The owner is in the data. */
  | { readonly is: 'initializeAccountFor'; readonly account: number; readonly mint: number; readonly ownerAt: number }
  | { readonly is: 'initializeMint'; readonly mint: number; readonly decimals: number }
  | { readonly is: 'setOwner'; readonly account: number; readonly ownerAt: number }
  | { readonly is: 'close'; readonly account: number; readonly destination: number }
  /** Fees that a mint withheld, in itself or in accounts, go to a token account; the instruction does not name the amount. */
  | { readonly is: 'withdrawWithheld'; readonly mint: number; readonly destination: number };

export interface TokenMoveInstruction {
  readonly is: 'move';
  readonly kind: TokenMoveKind;
  readonly source: number;
  readonly destination: number;
  readonly authority: number;
  /** -1 when the instruction does not name it. */
  readonly mint: number;
  readonly amount: bigint;
  readonly decimals: number | null;
  readonly fee: bigint | null;
}

const FEE_EXTENSION = 26;
const ACCOUNT_OWNER = 2;
const none = -1;

/** Null: the instruction moves nothing and names nothing, or it is damaged. */
export function readTokenInstruction(data: Uint8Array, accounts: Uint8Array): TokenInstruction | null {
  const [a = none, b = none, c = none, d = none] = accounts;
  const tag = data[0];
  if (tag === 3) return tokenMoveOf('transfer', data, { source: a, destination: b, authority: c, mint: none });
  if (tag === 12) return tokenMoveOf('transferChecked', data, { source: a, mint: b, destination: c, authority: d });
  if (tag === 7 || tag === 14)
    return tokenMoveOf('mint', data, { source: none, mint: a, destination: b, authority: c });
  if (tag === 8 || tag === 15)
    return tokenMoveOf('burn', data, { source: a, mint: b, destination: none, authority: c });
  if (tag === FEE_EXTENSION && data[1] === 1)
    return tokenMoveOf('transferWithFee', data, { source: a, mint: b, destination: c, authority: d });
  if (tag === 1 && c >= 0) return { is: 'initializeAccount', account: a, mint: b, owner: c };
  if ((tag === 16 || tag === 18) && b >= 0 && data.length >= 33)
    return { is: 'initializeAccountFor', account: a, mint: b, ownerAt: 1 };
  if ((tag === 0 || tag === 20) && a >= 0 && data[1] !== undefined)
    return { is: 'initializeMint', mint: a, decimals: data[1] };
  if (tag === 6 && a >= 0 && data[1] === ACCOUNT_OWNER && data[2] === 1 && data.length >= 35)
    return { is: 'setOwner', account: a, ownerAt: 3 };
  if (tag === 9 && b >= 0) return { is: 'close', account: a, destination: b };
  if (tag === FEE_EXTENSION && (data[1] === 2 || data[1] === 3) && b >= 0)
    return { is: 'withdrawWithheld', mint: a, destination: b };
  return null;
}

type Parties = Pick<TokenMoveInstruction, 'source' | 'destination' | 'authority' | 'mint'>;

function tokenMoveOf(kind: TokenMoveKind, data: Uint8Array, parties: Parties): TokenMoveInstruction | null {
  const at = kind === 'transferWithFee' ? 2 : 1;
  const amount = u64At(data, at);
  const isChecked = data[0] !== 3 && data[0] !== 7 && data[0] !== 8;
  const decimals = isChecked ? (data[at + 8] ?? null) : null;
  const fee = kind === 'transferWithFee' ? u64At(data, at + 9) : null;
  if (amount === null || (isChecked && decimals === null) || (kind === 'transferWithFee' && fee === null)) return null;
  const { source, destination, mint } = parties;
  const isComplete =
    (kind === 'mint' || source >= 0) && (kind === 'burn' || destination >= 0) && (kind === 'transfer' || mint >= 0);
  return isComplete ? { is: 'move', kind, amount, decimals, fee, ...parties } : null;
}

interface BatchItem {
  readonly data: Uint8Array;
  readonly accounts: Uint8Array;
}

const BATCH = 255;

/**
 * The instructions inside a batch of a token program: each has a number of accounts, a length of data, and data; the accounts are taken
 * in order from the batch. Other instructions are returned unchanged. Truncated instructions are omitted.
 */
export function unbatch(data: Uint8Array, accounts: Uint8Array): readonly BatchItem[] {
  if (data[0] !== BATCH) return [{ data, accounts }];
  const items: BatchItem[] = [];
  let at = 1;
  let account = 0;
  while (at + 2 <= data.length) {
    const accountEnd = account + data[at]!;
    const dataEnd = at + 2 + data[at + 1]!;
    if (dataEnd > data.length || accountEnd > accounts.length) break;
    items.push({ data: data.subarray(at + 2, dataEnd), accounts: accounts.subarray(account, accountEnd) });
    account = accountEnd;
    at = dataEnd;
  }
  return items;
}

/** The u64 at `at`; null when the data is too short. */
export function u64At(data: Uint8Array, at: number): bigint | null {
  if (at < 0 || at + 8 > data.length) return null;
  return new DataView(data.buffer, data.byteOffset, data.length).getBigUint64(at, true);
}

/** The u32 at `at`; -1 when the data is too short. */
export function u32At(data: Uint8Array, at: number): number {
  if (at < 0 || at + 4 > data.length) return -1;
  return new DataView(data.buffer, data.byteOffset, data.length).getUint32(at, true);
}
