import { decode } from '../../lib/base58.ts';
import { isPlainObject } from '../../lib/json.ts';
import type { InnerGroup, Lamports, NormalInnerInstruction, TokenBalance } from '../../ports/block.ts';
import type {
  RpcInnerInstructions,
  RpcInstruction,
  RpcLoadedAddresses,
  RpcMeta,
  RpcTokenBalance,
} from '../rpc-json.ts';
import type { KeyTableBuilder } from './key-table.ts';

/** What is read of a `meta`. */
export interface ReadableMeta {
  /** Members that cannot be used are absent: null, an empty list of balances, a fee of 0. */
  readonly meta: RpcMeta;
  /** Which member is missing or has another form; null when all can be used. */
  readonly reason: string | null;
}

/**
 * What of any value can be used as `meta`, member by member: each has the shape that is read later, and indexes are within their lists.
 * `keyCount`: static and loaded keys.
 */
export function readableMeta(given: unknown, keyCount: number, instructionCount: number): ReadableMeta {
  const meta: Readonly<Record<string, unknown>> = isPlainObject(given) ? given : {};
  let reason: string | null = isPlainObject(given) ? null : 'meta is missing';
  const take = <T>(name: string, value: T | null, absent: T): T => {
    if (value !== null) return value;
    reason ??= `meta.${name} is missing or has another form`;
    return absent;
  };
  const lists = { keyCount, instructionCount };
  const readable: RpcMeta = {
    err: errorOf(meta, () => take('err', null, null)),
    fee: take('fee', lamportsOf(meta['fee']), 0),
    preBalances: take('preBalances', balancesOf(meta['preBalances'], keyCount), []),
    postBalances: take('postBalances', balancesOf(meta['postBalances'], keyCount), []),
    preTokenBalances: take('preTokenBalances', tokensOf(meta['preTokenBalances'], keyCount), []),
    postTokenBalances: take('postTokenBalances', tokensOf(meta['postTokenBalances'], keyCount), []),
    innerInstructions: take('innerInstructions', innerOf(meta['innerInstructions'], lists), null)?.groups ?? null,
    logMessages: take('logMessages', logsOf(meta['logMessages']), null)?.lines ?? null,
    loadedAddresses: loadedAddressesOf(meta['loadedAddresses']),
  };
  return { meta: readable, reason };
}

/** Older nodes say it in `status` alone. */
function errorOf({ err, status }: Readonly<Record<string, unknown>>, absent: () => unknown): unknown {
  if (err !== undefined) return err;
  return isPlainObject(status) && status['Err'] !== undefined ? status['Err'] : absent();
}

const lamportsOf = (value: unknown): Lamports | null =>
  typeof value === 'bigint' || Number.isInteger(value) ? (value as Lamports) : null;

function balancesOf(value: unknown, count: number): readonly Lamports[] | null {
  return Array.isArray(value) && value.length === count && value.every((one) => lamportsOf(one) !== null)
    ? (value as readonly Lamports[])
    : null;
}

const isAbsent = (value: unknown): value is null | undefined => value === null || value === undefined;

function logsOf(value: unknown): { readonly lines: readonly string[] | null } | null {
  if (isAbsent(value)) return { lines: null };
  return Array.isArray(value) && value.every((line) => typeof line === 'string') ? { lines: value as string[] } : null;
}

function innerOf(
  value: unknown,
  { keyCount, instructionCount }: { readonly keyCount: number; readonly instructionCount: number },
): { readonly groups: readonly RpcInnerInstructions[] | null } | null {
  if (isAbsent(value)) return { groups: null };
  if (!Array.isArray(value)) return null;
  for (const group of value as readonly Partial<RpcInnerInstructions>[]) {
    if (!isIndex(group?.index, instructionCount) || !Array.isArray(group?.instructions)) return null;
    for (const instruction of group.instructions) {
      if (!isIndex(instruction?.programIdIndex, keyCount) || instructionData(instruction.data) === null) return null;
      if (!Array.isArray(instruction.accounts)) return null;
      for (const account of instruction.accounts) if (!isIndex(account, keyCount)) return null;
    }
  }
  return { groups: value as readonly RpcInnerInstructions[] };
}

/** The loaded addresses of a `meta`; null when there are none, or they have another form. */
export function loadedAddressesOf(value: unknown): RpcLoadedAddresses | null {
  if (!isPlainObject(value)) return null;
  const { writable = [], readonly = [] } = value;
  return areTexts(writable) && areTexts(readonly) ? { writable, readonly } : null;
}

const areTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((text) => typeof text === 'string');

function tokensOf(value: unknown, keyCount: number): readonly RpcTokenBalance[] | null {
  if (isAbsent(value)) return [];
  return Array.isArray(value) && value.every((balance) => isTokenBalance(balance, keyCount))
    ? (value as readonly RpcTokenBalance[])
    : null;
}

const MAX_DECIMALS = 256;
const DIGITS = /^\d{1,39}$/;

function isTokenBalance(balance: Partial<RpcTokenBalance> | null, keyCount: number): boolean {
  if (!isPlainObject(balance) || !isIndex(balance['accountIndex'], keyCount)) return false;
  const { mint, owner, programId, uiTokenAmount: units } = balance as Partial<RpcTokenBalance>;
  if (typeof units?.amount !== 'string' || !DIGITS.test(units.amount) || !isIndex(units.decimals, MAX_DECIMALS))
    return false;
  return typeof mint === 'string' && [owner, programId].every((text) => isAbsent(text) || typeof text === 'string');
}

/** Whether a value is an integer from 0 to below `bound`. */
function isIndex(value: unknown, bound: number): value is number {
  return typeof value === 'number' && value >= 0 && value < bound && (value | 0) === value;
}

/** Decodes `meta.innerInstructions` with checked indexes. Empty when the data of one is not base58. */
export function innerGroupsOf(groups: readonly RpcInnerInstructions[] | null | undefined): readonly InnerGroup[] {
  const decoded: InnerGroup[] = [];
  for (const { index, instructions } of groups ?? []) {
    const inner: NormalInnerInstruction[] = [];
    for (const instruction of instructions) {
      const one = innerInstructionOf(instruction);
      // A list that lacks one would say that the others are all.
      if (one === null) return [];
      inner.push(one);
    }
    decoded.push({ index, instructions: inner });
  }
  return decoded;
}

function innerInstructionOf({ programIdIndex, accounts, data, stackHeight }: RpcInstruction) {
  const bytes = instructionData(data);
  if (bytes === null) return null;
  return {
    programIndex: programIdIndex,
    accounts: Uint8Array.from(accounts),
    data: bytes,
    stackHeight: Number.isInteger(stackHeight) ? stackHeight! : null,
  };
}

/** The runtime allows 10 KiB of data, which is 14,000 characters; decoding cost grows with the square of the length. */
const MAX_CHARACTERS = 32_768;

/** The bytes of an instruction's base58 data; null when it is malformed or too long. */
export function instructionData(text: unknown): Uint8Array | null {
  return typeof text === 'string' && text.length <= MAX_CHARACTERS ? decode(text) : null;
}

type Balances = readonly RpcTokenBalance[] | null | undefined;

/**
 * Adds mints, owners and programs to the table, and new owners to `owners`. False when a balance contains an invalid address.
 */
export function internTokenBalances(balances: Balances, table: KeyTableBuilder, owners: number[]): boolean {
  for (const { mint, owner, programId } of balances ?? []) {
    if (table.internText(mint) < 0) return false;
    if (isGiven(programId) && table.internText(programId) < 0) return false;
    if (!isGiven(owner)) continue;
    const id = table.internText(owner);
    if (id < 0) return false;
    if (!owners.includes(id)) owners.push(id);
  }
  return true;
}

/** The balances of a transaction accepted by `internTokenBalances`. */
export function tokenBalancesOf(balances: Balances, keys: KeyTableBuilder): readonly TokenBalance[] {
  return (balances ?? []).map((balance) => ({
    accountIndex: balance.accountIndex,
    mintKey: keys.internText(balance.mint),
    ownerKey: isGiven(balance.owner) ? keys.internText(balance.owner) : -1,
    programKey: isGiven(balance.programId) ? keys.internText(balance.programId) : -1,
    amount: balance.uiTokenAmount.amount,
    decimals: balance.uiTokenAmount.decimals,
  }));
}

/** Old blocks have an empty text for unknown values. */
function isGiven(text: string | null | undefined): text is string {
  return typeof text === 'string' && text !== '';
}
