import type { RpcInnerInstructions, RpcMeta } from '../rpc-json.ts';

/**
 * Says what keeps `meta` from being used, or null when all that is read later has the expected shape. Token balances are checked
 * where their keys are read, and the base58 text of inner instructions where it is decoded.
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
export function isIndex(value: unknown, bound: number): boolean {
  return typeof value === 'number' && value >= 0 && value < bound && (value | 0) === value;
}
