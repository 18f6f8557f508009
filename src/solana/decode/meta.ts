import { decode } from '../../lib/base58.ts';
import type { InnerGroup, NormalInnerInstruction, TokenBalance } from '../../ports/block.ts';
import type { RpcInnerInstructions, RpcInstruction, RpcMeta, RpcTokenBalance } from '../rpc-json.ts';
import type { KeyTableBuilder } from './key-table.ts';
import { badBlock } from './response.ts';

/**
 * Returns why `meta` cannot be used; null when everything that is read later has the expected shape. Token balances are checked
 * when their keys are read, and the base58 text of inner instructions when it is decoded.
 */
export function faultOfMeta(given: unknown, keyCount: number, instructionCount: number): string | null {
  if (typeof given !== 'object' || given === null) return 'meta is missing';
  const meta = given as Partial<RpcMeta>;
  if (meta.err === undefined) return 'meta.err is missing';
  if (typeof meta.fee !== 'number') return 'meta.fee is missing';
  if (!isListOf(meta.preBalances, keyCount)) return `meta.preBalances has not ${keyCount} entries`;
  if (!isListOf(meta.postBalances, keyCount)) return `meta.postBalances has not ${keyCount} entries`;
  if (!areInnerInstructions(meta.innerInstructions, keyCount, instructionCount))
    return 'meta.innerInstructions is malformed';
  if (!isListOrNothing(meta.logMessages)) return 'meta.logMessages is no list';
  return null;
}

function isListOf(value: unknown, count: number): boolean {
  return Array.isArray(value) && value.length === count;
}

function isListOrNothing(value: unknown): boolean {
  return value === null || value === undefined || Array.isArray(value);
}

function areInnerInstructions(value: unknown, keyCount: number, instructionCount: number): boolean {
  if (value === null || value === undefined) return true;
  if (!Array.isArray(value)) return false;
  for (const group of value as readonly Partial<RpcInnerInstructions>[]) {
    if (!isIndex(group?.index, instructionCount) || !Array.isArray(group?.instructions)) return false;
    for (const instruction of group.instructions) {
      if (!isIndex(instruction?.programIdIndex, keyCount) || typeof instruction.data !== 'string') return false;
      if (!Array.isArray(instruction.accounts)) return false;
      for (const account of instruction.accounts) if (!isIndex(account, keyCount)) return false;
    }
  }
  return true;
}

/** Whether a value is an integer from 0 to below `bound`. */
function isIndex(value: unknown, bound: number): boolean {
  return typeof value === 'number' && value >= 0 && value < bound && (value | 0) === value;
}

/**
 * Decodes `meta.innerInstructions` with checked indexes. Throws CHAIN_BAD_BLOCK when instruction data is not base58.
 */
export function innerGroupsOf(
  groups: readonly RpcInnerInstructions[] | null | undefined,
  slot: number,
  index: number,
): readonly InnerGroup[] {
  const one = ({ programIdIndex, accounts, data, stackHeight }: RpcInstruction): NormalInnerInstruction => {
    const bytes = instructionData(data);
    if (bytes === null) throw badBlock(slot, 'the data of an inner instruction is not base58', index);
    return {
      programIndex: programIdIndex,
      accounts: Uint8Array.from(accounts),
      data: bytes,
      stackHeight: stackHeight ?? null,
    };
  };
  return (groups ?? []).map((group) => ({ index: group.index, instructions: group.instructions.map(one) }));
}

/** The runtime allows 10 KiB of data, which is 14,000 characters; decoding cost grows with the square of the length. */
const MAX_CHARACTERS = 32_768;

/** The bytes of an instruction's base58 data; null when it is malformed or too long. */
export function instructionData(text: unknown): Uint8Array | null {
  return typeof text === 'string' && text.length <= MAX_CHARACTERS ? decode(text) : null;
}

type Balances = readonly RpcTokenBalance[] | null | undefined;

/**
 * Adds mints, owners and programs to the table, and new owners to `owners`. False when a balance lacks a required
 * member or contains an invalid address.
 */
export function internTokenBalances(
  balances: Balances,
  keyCount: number,
  table: KeyTableBuilder,
  owners: number[],
): boolean {
  if (balances === null || balances === undefined) return true;
  if (!Array.isArray(balances)) return false;
  for (let at = 0; at < balances.length; at++) {
    const balance = balances[at] as RpcTokenBalance | null;
    if (balance === null || typeof balance !== 'object' || !isIndex(balance.accountIndex, keyCount)) return false;
    const { mint, owner, programId, uiTokenAmount } = balance;
    if (typeof uiTokenAmount?.amount !== 'string' || typeof uiTokenAmount.decimals !== 'number') return false;
    if (typeof mint !== 'string' || table.internText(mint) < 0) return false;
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
