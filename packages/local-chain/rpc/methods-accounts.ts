import { encode32 } from '../../../src/lib/base58.ts';
import { exact } from '../../../src/solana/json-parsed/layout.ts';
import type { ParseContext } from '../encode/account.ts';
import { accountFormatOf, accountJson } from '../encode/account.ts';
import {
  accountConfig,
  atMost,
  base58Bytes,
  base64Bytes,
  commitmentConfig,
  contextConfig,
  invalidParams,
  largestConfig,
  list,
  type ProgramAccountFilter,
  programAccountsConfig,
  pubkey,
  RPC,
  rpcError,
  small,
  supplyConfig,
  text,
  tokenAccountsFilter,
  usize,
} from '../encode/params.ts';
import {
  view as bytesView,
  isMint,
  isTokenAccount,
  isTokenProgram,
  tokenStateOf,
  uiAmountOf,
} from '../ledger/accounts.ts';
import type { VmAccount } from '../vm/vm.ts';
import type { AccountView } from './method.ts';
import { bankOf, contextSlot, inContext, type LocalNode, type Method, type Methods, method } from './method.ts';

const MAX_ACCOUNT_BYTES = 10 * 1024 * 1024;
const LARGEST = 20;

export const accountMethods: Methods = {
  getBalance: method([text], [contextConfig], (node, address, config) => {
    const key = pubkey(address);
    const { slot, accounts } = bankOf(node, config);
    return inContext(slot, exact(accounts.get(key)?.lamports ?? 0n));
  }),
  getAccountInfo: method([text], [accountConfig], (node, address, config) => {
    const key = pubkey(address);
    const { slot, accounts } = bankOf(node, config);
    return inContext(slot, accountJson(accounts.get(key), accountFormatOf(config), parseContext(node, accounts, key)));
  }),
  getMultipleAccounts: method([list(text)], [accountConfig], (node, addresses, config) => {
    const keys = atMost(addresses, 100).map((address) => pubkey(address));
    const { slot, accounts } = bankOf(node, config);
    // Only here Agave defaults to base64.
    const format = accountFormatOf(config, 'base64');
    return inContext(
      slot,
      keys.map((key) => accountJson(accounts.get(key), format, parseContext(node, accounts, key))),
    );
  }),
  getProgramAccounts: method([text], [programAccountsConfig], (node, address, config) => {
    const program = pubkey(address);
    const matches = filtersOf(config?.filters);
    const { slot, accounts } = bankOf(node, config);
    const format = accountFormatOf(config);
    const found = [...accounts.ofProgram(program)]
      .filter(([, account]) => matches(account))
      .sort(([left], [right]) => (left < right ? -1 : 1))
      .map(([key, account]) => ({
        pubkey: key,
        account: accountJson(account, format, parseContext(node, accounts, key)),
      }));
    return config?.withContext === true ? inContext(slot, found) : found;
  }),
  getMinimumBalanceForRentExemption: method([usize], [commitmentConfig], (node, size) => {
    if (size > MAX_ACCOUNT_BYTES) throw rpcError(RPC.invalidRequest, 'Invalid request');
    return exact(node.bank.vm.rentExemptLamports(small(size)));
  }),
  getLargestAccounts: method([], [largestConfig], (node, config) => {
    const slot = contextSlot(node, config);
    const all = config?.filter === 'nonCirculating' ? [] : node.bank.accounts.balances();
    const largest = all
      .sort(([leftKey, left], [rightKey, right]) =>
        left === right ? (leftKey < rightKey ? -1 : 1) : left < right ? 1 : -1,
      )
      .slice(0, LARGEST);
    return inContext(
      slot,
      largest.map(([address, lamports]) => ({ address, lamports: exact(lamports) })),
    );
  }),
  getSupply: method([], [supplyConfig], (node, config) => {
    const slot = contextSlot(node, config);
    const total = exact(node.bank.accounts.balances().reduce((sum, [, lamports]) => sum + lamports, 0n));
    return inContext(slot, { circulating: total, nonCirculating: 0, nonCirculatingAccounts: [], total });
  }),
};

export function parseContext(node: LocalNode, view: AccountView, address: string): ParseContext {
  return { address, account: (key) => view.get(key), unixSeconds: node.bank.pending.time };
}

export const tokenMethods: Methods = {
  getTokenAccountsByOwner: tokenAccountsWhere((data) => encode32(data, 32)),
  getTokenAccountsByDelegate: tokenAccountsWhere((data) =>
    bytesView(data).getUint32(72, true) === 1 ? encode32(data, 76) : null,
  ),
  getTokenAccountBalance: method([text], [commitmentConfig], (node, address, config) => {
    const key = pubkey(address);
    const { slot, accounts } = bankOf(node, config);
    const account = accounts.get(key);
    if (account === null) throw invalidParams('Invalid param: could not find account');
    if (!isTokenProgram(account.owner)) throw invalidParams('Invalid param: not a Token account');
    const state = tokenStateOf(account);
    if (state === null) throw invalidParams('Invalid param: not a Token account');
    return inContext(slot, uiAmountOf(state.amount, accounts.get(state.mint), node.bank.pending.time));
  }),
  getTokenSupply: method([text], [commitmentConfig], (node, address, config) => {
    const key = pubkey(address);
    const { slot, accounts } = bankOf(node, config);
    const mint = accounts.get(key);
    if (mint === null) throw invalidParams('Invalid param: could not find account');
    if (!isTokenProgram(mint.owner)) throw invalidParams('Invalid param: not a Token mint');
    if (!isMint(mint)) throw invalidParams('Invalid param: mint could not be unpacked');
    return inContext(slot, uiAmountOf(bytesView(mint.data).getBigUint64(36, true), mint, node.bank.pending.time));
  }),
  getTokenLargestAccounts: method([text], [commitmentConfig], (node, address, config) => {
    const key = pubkey(address);
    const { slot, accounts } = bankOf(node, config);
    const mint = mintAt(accounts, key);
    const holders = [...accounts.ofProgram(mint.owner)].flatMap(([holder, account]) => {
      const state = tokenStateOf(account);
      return state?.mint === key ? [{ address: holder, amount: state.amount }] : [];
    });
    holders.sort((left, right) =>
      left.amount === right.amount ? (left.address < right.address ? -1 : 1) : left.amount < right.amount ? 1 : -1,
    );
    return inContext(
      slot,
      holders
        .slice(0, LARGEST)
        .map((holder) => ({ address: holder.address, ...uiAmountOf(holder.amount, mint, node.bank.pending.time) })),
    );
  }),
};

function mintAt(accounts: AccountView, key: string): VmAccount {
  const mint = accounts.get(key);
  if (mint === null) throw invalidParams('Invalid param: could not find mint');
  if (!isMint(mint)) throw invalidParams('Invalid param: Token mint could not be unpacked');
  return mint;
}

function tokenAccountsWhere(keyOf: (data: Uint8Array) => string | null): Method {
  return method([text, tokenAccountsFilter], [accountConfig], (node, address, filter, config) => {
    const wanted = pubkey(address);
    const named = pubkey(filter.content);
    const { slot, accounts } = bankOf(node, config);
    const format = accountFormatOf(config);
    const mint = filter.kind === 'mint' ? named : null;
    const program = mint === null ? named : mintAt(accounts, mint).owner;
    if (!isTokenProgram(program)) throw invalidParams('Invalid param: unrecognized Token program id');
    const found = [...accounts.ofProgram(program)]
      .filter(([, account]) => {
        const state = tokenStateOf(account);
        return state !== null && keyOf(account.data) === wanted && (mint === null || state.mint === mint);
      })
      .sort(([left], [right]) => (left < right ? -1 : 1))
      .map(([key, account]) => ({
        pubkey: key,
        account: accountJson(account, format, parseContext(node, accounts, key)),
      }));
    return inContext(slot, found);
  });
}

const MAX_FILTERS = 4;
const MAX_BYTES = 128;
const MAX_BASE58_CHARACTERS = 175;
const MAX_BASE64_CHARACTERS = 172;

export type AccountMatch = (account: VmAccount) => boolean;

/** Filters of getProgramAccounts and programSubscribe. Throws -32602. */
export function filtersOf(filters: readonly ProgramAccountFilter[] = []): AccountMatch {
  if (filters.length > MAX_FILTERS) throw invalidParams(`Too many filters provided; max ${MAX_FILTERS}`);
  const matches = filters.map(matchOf);
  return (account) => matches.every((match) => match(account));
}

function matchOf({ kind, content }: ProgramAccountFilter): AccountMatch {
  if (kind === 'tokenAccountState') return isTokenAccount;
  if (kind === 'dataSize') return (account) => account.data.length === Number(content);
  const wanted = memcmpBytes(content.bytes, content.encoding);
  const start = small(content.offset);
  return ({ data }) =>
    start + wanted.length <= data.length && Buffer.compare(data.subarray(start, start + wanted.length), wanted) === 0;
}

function memcmpBytes(bytes: string | readonly unknown[], encoding = 'base58'): Uint8Array {
  if (typeof bytes !== 'string') return bounded(Uint8Array.from(bytes as readonly number[]));
  const isBase64 = encoding === 'base64';
  if (bytes.length > (isBase64 ? MAX_BASE64_CHARACTERS : MAX_BASE58_CHARACTERS)) throw tooLarge();
  const decoded = isBase64 ? base64Bytes(bytes) : base58Bytes(bytes);
  if (typeof decoded !== 'string') return bounded(decoded);
  throw invalidParams(`Invalid param: ${isBase64 ? 'Base64' : 'Base58'}DecodeError(${decoded})`);
}

function bounded(bytes: Uint8Array): Uint8Array {
  if (bytes.length > MAX_BYTES) throw tooLarge();
  return bytes;
}

function tooLarge(): Error {
  return invalidParams('Invalid param: DataTooLarge');
}
