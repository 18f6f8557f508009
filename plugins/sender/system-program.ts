import { decode32 } from '../../src/lib/base58.ts';
import type { NormalInstruction } from '../../src/ports/block.ts';
import type { WirePeek } from '../../src/solana/decode/peek-wire.ts';

const TRANSFER = 2;
const ADVANCE_NONCE = 4;

/** Whether the transaction lives as long as its nonce instead of its blockhash. */
export function usesNonce(peek: WirePeek): boolean {
  const [first] = peek.instructions;
  return first !== undefined && isSystem(peek, first) && readKind(first) === ADVANCE_NONCE;
}

/**
 * The largest transfer of lamports to one of the accounts, 0n when there is none. Only keys in the message itself count: what a
 * lookup table holds is not known before the transaction runs.
 */
export function largestTip(peek: WirePeek, accounts: readonly string[]): bigint {
  const receivers = accounts.map((account) => decode32(account)).filter((key) => key !== null);
  let largest = 0n;
  for (const instruction of peek.instructions) {
    if (!isSystem(peek, instruction) || readKind(instruction) !== TRANSFER || instruction.data.length < 12) continue;
    const receiver = instruction.accounts[1];
    if (receiver === undefined || receiver >= peek.staticKeyCount) continue;
    const key = Buffer.from(peek.staticKey(receiver));
    const lamports = Buffer.from(instruction.data).readBigUInt64LE(4);
    if (lamports > largest && receivers.some((other) => key.equals(other))) largest = lamports;
  }
  return largest;
}

function isSystem(peek: WirePeek, { programIndex }: NormalInstruction): boolean {
  return programIndex < peek.staticKeyCount && peek.staticKey(programIndex).every((byte) => byte === 0);
}

const readKind = ({ data }: NormalInstruction) => (data.length < 4 ? -1 : Buffer.from(data).readUInt32LE(0));
