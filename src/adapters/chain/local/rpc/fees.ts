import { view } from '../ledger/token-state.ts';
import type { MessageInstruction, MessageParts } from '../vm/transaction.ts';

const COMPUTE_BUDGET = 'ComputeBudget111111111111111111111111111111';
/** Their first data byte counts signatures that are checked, and paid, like those of the transaction. */
const SIGNATURE_CHECKERS = new Set([
  'Ed25519SigVerify111111111111111111111111111',
  'KeccakSecp256k11111111111111111111111111111',
  'Secp256r1SigVerify1111111111111111111111111',
]);
const BUILTINS = new Set([
  '11111111111111111111111111111111',
  COMPUTE_BUDGET,
  'Vote111111111111111111111111111111111111111',
  'BPFLoaderUpgradeab1e11111111111111111111111',
  'BPFLoader2111111111111111111111111111111111',
  'BPFLoader1111111111111111111111111111111111',
  'LoaderV411111111111111111111111111111111111',
  ...SIGNATURE_CHECKERS,
]);
const LAMPORTS_PER_SIGNATURE = 5000n;
const MAX_UNITS = 1_400_000n;
const BUILTIN_UNITS = 3_000n;
const PROGRAM_UNITS = 200_000n;
const MICRO = 1_000_000n;

/** Lamports that a message will cost: its signatures, those of precompiles, and the priority fee. */
export function feeOf(message: MessageParts): number {
  let signatures = BigInt(message.header.numRequiredSignatures);
  for (const item of message.instructions) {
    if (SIGNATURE_CHECKERS.has(programOf(message, item))) signatures += BigInt(item.data[0] ?? 0);
  }
  const priority = (unitLimitOf(message) * unitPriceOf(message) + MICRO - 1n) / MICRO;
  return Number(signatures * LAMPORTS_PER_SIGNATURE + priority);
}

/** Micro-lamports per compute unit that a message offers. */
export function unitPriceOf(message: MessageParts): bigint {
  const item = budgetInstruction(message, 3, 9);
  return item === undefined ? 0n : view(item.data).getBigUint64(1, true);
}

function unitLimitOf(message: MessageParts): bigint {
  const item = budgetInstruction(message, 2, 5);
  const asked =
    item === undefined
      ? message.instructions.reduce((sum, each) => sum + defaultUnits(message, each), 0n)
      : BigInt(view(item.data).getUint32(1, true));
  return asked < MAX_UNITS ? asked : MAX_UNITS;
}

function defaultUnits(message: MessageParts, item: MessageInstruction): bigint {
  return BUILTINS.has(programOf(message, item)) ? BUILTIN_UNITS : PROGRAM_UNITS;
}

function budgetInstruction(message: MessageParts, tag: number, bytes: number): MessageInstruction | undefined {
  return message.instructions.find(
    (item) => programOf(message, item) === COMPUTE_BUDGET && item.data[0] === tag && item.data.length >= bytes,
  );
}

function programOf(message: MessageParts, item: MessageInstruction): string {
  return message.staticKeys[item.programIdIndex] ?? '';
}
