import { encode32 } from '../../../../lib/base58.ts';
import { NONCE_BYTES, SYSTEM_PROGRAM } from '../ledger/nonce.ts';
import { isMint, isTokenAccount, isTokenProgram, TOKEN_PROGRAM, view } from '../ledger/token-state.ts';
import { uiAmountOf } from '../ledger/ui-amount.ts';
import type { VmAccount } from '../vm/vm.ts';

const TABLE_PROGRAM = 'AddressLookupTab1e1111111111111111111111111';
const NEVER = 0xffff_ffff_ffff_ffffn;
const MULTISIG_BYTES = 355;
const ACCOUNT_STATES = ['uninitialized', 'initialized', 'frozen'];

export interface ParseContext {
  /** Finds the mint of a token account. */
  account(key: string): VmAccount | null;
  readonly unixSeconds: number;
}

/** `data` of an account for `jsonParsed`, or null where the node has no parser for it either. */
export function parseAccount(account: VmAccount, context: ParseContext) {
  const { data, owner } = account;
  const wrap = (program: string, type: string, info: unknown) => ({
    program,
    parsed: { info, type },
    space: data.length,
  });
  if (isTokenProgram(owner)) {
    const program = owner === TOKEN_PROGRAM ? 'spl-token' : 'spl-token-2022';
    if (isTokenAccount(account)) return wrap(program, 'account', tokenAccountInfo(data, context));
    if (isMint(account)) return wrap(program, 'mint', mintInfo(data));
    if (data.length === MULTISIG_BYTES) return wrap(program, 'multisig', multisigInfo(data));
    return null;
  }
  if (owner === SYSTEM_PROGRAM && data.length === NONCE_BYTES) {
    return view(data).getUint32(4, true) === 1
      ? wrap('nonce', 'initialized', nonceInfo(data))
      : wrap('nonce', 'uninitialized', {});
  }
  if (owner === TABLE_PROGRAM && data.length >= 56 && view(data).getUint32(0, true) === 1) {
    return wrap('address-lookup-table', 'lookupTable', tableInfo(data));
  }
  return null;
}

/** An optional key: u32 tag, then 32 bytes. */
function optionalKey(data: Uint8Array, at: number): string | null {
  return view(data).getUint32(at, true) === 1 ? encode32(data, at + 4) : null;
}

function tokenAccountInfo(data: Uint8Array, context: ParseContext) {
  const reader = view(data);
  const mint = encode32(data, 0);
  const mintAccount = context.account(mint);
  const amountOf = (at: number) => uiAmountOf(reader.getBigUint64(at, true), mintAccount, context.unixSeconds);
  const delegate = optionalKey(data, 72);
  const isNative = reader.getUint32(109, true) === 1;
  const closeAuthority = optionalKey(data, 129);
  return {
    isNative,
    mint,
    owner: encode32(data, 32),
    state: ACCOUNT_STATES[data[108]!] ?? 'uninitialized',
    tokenAmount: amountOf(64),
    ...(delegate === null ? {} : { delegate, delegatedAmount: amountOf(121) }),
    ...(isNative ? { rentExemptReserve: amountOf(113) } : {}),
    ...(closeAuthority === null ? {} : { closeAuthority }),
  };
}

function mintInfo(data: Uint8Array) {
  return {
    decimals: data[44],
    freezeAuthority: optionalKey(data, 46),
    isInitialized: data[45] === 1,
    mintAuthority: optionalKey(data, 0),
    supply: view(data).getBigUint64(36, true).toString(),
  };
}

function multisigInfo(data: Uint8Array) {
  const signers = Array.from({ length: Math.min(11, data[1]!) }, (_, index) => encode32(data, 3 + 32 * index));
  return { numRequiredSigners: data[0], numValidSigners: data[1], isInitialized: data[2] === 1, signers };
}

function nonceInfo(data: Uint8Array) {
  return {
    authority: encode32(data, 8),
    blockhash: encode32(data, 40),
    feeCalculator: { lamportsPerSignature: view(data).getBigUint64(72, true).toString() },
  };
}

function tableInfo(data: Uint8Array) {
  const reader = view(data);
  const deactivation = reader.getBigUint64(4, true);
  const addresses: string[] = [];
  for (let at = 56; at + 32 <= data.length; at += 32) addresses.push(encode32(data, at));
  return {
    addresses,
    ...(data[21] === 1 ? { authority: encode32(data, 22) } : {}),
    deactivationSlot: (deactivation === NEVER ? NEVER : deactivation).toString(),
    lastExtendedSlot: reader.getBigUint64(12, true).toString(),
    lastExtendedSlotStartIndex: data[20],
  };
}
