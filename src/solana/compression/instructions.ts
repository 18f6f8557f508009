import { decode32 } from '../../lib/base58.ts';
import { type ByteReader, createByteReader, LayoutError } from '../../lib/bytes.ts';
import type { KeyTable, NormalInstruction, NormalTransaction } from '../../ports/block.ts';
import {
  LIGHT_COMPRESSION_PROGRAM,
  LIGHT_REGISTERED_PROGRAM,
  LIGHT_REGISTRY_PROGRAM,
  LIGHT_SYSTEM_PROGRAM,
  LIGHT_TOKEN_PROGRAM,
  NOOP_PROGRAM,
  SYSTEM_PROGRAM,
} from '../programs.ts';
import { OUTPUT_BYTES, type PackedOutput, readAccount, readOutput } from './events.ts';

/** Ids of the relevant programs in the key table of one block; -1 for absent ones. */
export interface ProgramIds {
  readonly compression: number;
  readonly lightSystem: number;
  readonly registry: number;
  readonly token: number;
  readonly noop: number;
  readonly registeredProgram: number;
  readonly solanaSystem: number;
}

/** Finds the programs in a block. `compressionProgram` is base58; older deployments have other ids. */
export function createProgramFinder(compressionProgram = LIGHT_COMPRESSION_PROGRAM): (keys: KeyTable) => ProgramIds {
  const bytes = (text: string): Uint8Array => {
    const key = decode32(text);
    if (key === null) throw new TypeError(`${text} is no key`);
    return key;
  };
  const known = {
    compression: bytes(compressionProgram),
    lightSystem: bytes(LIGHT_SYSTEM_PROGRAM),
    registry: bytes(LIGHT_REGISTRY_PROGRAM),
    token: bytes(LIGHT_TOKEN_PROGRAM),
    noop: bytes(NOOP_PROGRAM),
    registeredProgram: bytes(LIGHT_REGISTERED_PROGRAM),
    solanaSystem: bytes(SYSTEM_PROGRAM),
  };
  return (keys) => ({
    compression: keys.find(known.compression),
    lightSystem: keys.find(known.lightSystem),
    registry: keys.find(known.registry),
    token: keys.find(known.token),
    noop: keys.find(known.noop),
    registeredProgram: keys.find(known.registeredProgram),
    solanaSystem: keys.find(known.solanaSystem),
  });
}

/** An instruction with the ids of its program and accounts in the block's key table. */
export interface Step {
  readonly program: number;
  readonly accounts: readonly number[];
  readonly data: Uint8Array;
}

/** An outer instruction and the inner ones that it caused, in order of execution. */
export type InstructionGroup = readonly Step[];

export function instructionGroups(transaction: NormalTransaction): readonly InstructionGroup[] {
  const { keys } = transaction;
  const step = ({ programIndex, accounts, data }: NormalInstruction): Step => ({
    program: keys[programIndex] ?? -1,
    accounts: Array.from(accounts, (account) => keys[account] ?? -1),
    data,
  });
  const inner = new Map(transaction.innerInstructions.map(({ index, instructions }) => [index, instructions]));
  return transaction.instructions.map((outer, i) => [step(outer), ...(inner.get(i) ?? []).map(step)]);
}

/** The keys of ids; accounts missing in the message become empty keys, which match nothing. */
export function keysOf(ids: readonly number[], table: KeyTable): readonly Uint8Array[] {
  return ids.map((id) => (id < 0 ? new Uint8Array(0) : table.bytes(id)));
}

/** The part of a light-system instruction that the queues need. */
export interface SystemInstruction {
  /** Index of each input's tree into the instruction's accounts from `accountsFrom` on, in order. */
  readonly inputTrees: readonly number[];
  readonly outputs: readonly PackedOutput[];
  readonly accountsFrom: number;
}

const PROOF_BYTES = 128;
const NEW_ADDRESS_BYTES = 36;
const ASSIGNED_ADDRESS_BYTES = 38;
/** Discriminator of the instruction that any account may send; the others are for programs. */
export const INVOKE = '1a10a90715caf219';
const KINDS = {
  [INVOKE]: 'invoke',
  '31d4bf8127c22bc4': 'cpi',
  '562fa3a615df5c08': 'readOnly',
  e42280542f8b56f0: 'accountInfo',
} as const;

/** Errors: LayoutError, also for an unknown instruction. */
export function readSystemInstruction(data: Uint8Array): SystemInstruction {
  const name = Buffer.from(data.subarray(0, 8)).toString('hex');
  const kind = KINDS[name as keyof typeof KINDS] as (typeof KINDS)[keyof typeof KINDS] | undefined;
  if (kind === undefined) throw new LayoutError(`unknown system instruction ${name}`, 0);
  const isWrapped = kind === 'invoke' || kind === 'cpi';
  const reader = createByteReader(data, isWrapped ? 12 : 8);
  if (kind === 'invoke') return readInvoke(reader);
  if (kind === 'cpi') return readCpi(reader);
  const header = readHeader(reader);
  reader.option(() => reader.bytes(PROOF_BYTES));
  reader.list(() => reader.bytes(ASSIGNED_ADDRESS_BYTES), ASSIGNED_ADDRESS_BYTES);
  if (kind === 'accountInfo')
    return { ...readInfos(reader, header.invokingProgram), accountsFrom: header.accountsFrom };
  return {
    inputTrees: reader.list(() => readPlainInput(reader), 58),
    outputs: reader.list(() => readOutput(reader), OUTPUT_BYTES),
    accountsFrom: header.accountsFrom,
  };
}

/** A direct request to the program. */
export interface Invocation {
  readonly inputs: number;
  readonly outputs: number;
  /** Lamports that enter the program's pool, or leave it. */
  readonly lamports: bigint;
  readonly isCompress: boolean;
}

/** Reads the instruction `INVOKE`; null for other bytes. */
export function readInvocation(data: Uint8Array): Invocation | null {
  try {
    const reader = createByteReader(data, 12);
    const { inputTrees, outputs } = readInvoke(reader);
    // The fee of a relayer.
    reader.option(reader.u64);
    reader.list(() => reader.bytes(NEW_ADDRESS_BYTES), NEW_ADDRESS_BYTES);
    const lamports = reader.option(reader.u64) ?? 0n;
    return { inputs: inputTrees.length, outputs: outputs.length, lamports, isCompress: reader.bool() };
  } catch (error) {
    if (error instanceof LayoutError) return null;
    throw error;
  }
}

function readInvoke(reader: ByteReader): SystemInstruction {
  reader.option(() => reader.bytes(PROOF_BYTES));
  const inputTrees = readInputs(reader);
  return { inputTrees, outputs: reader.list(() => readOutput(reader), OUTPUT_BYTES), accountsFrom: 9 };
}

function readCpi(reader: ByteReader): SystemInstruction {
  reader.option(() => reader.bytes(PROOF_BYTES));
  reader.list(() => reader.bytes(NEW_ADDRESS_BYTES), NEW_ADDRESS_BYTES);
  const inputTrees = readInputs(reader);
  return { inputTrees, outputs: reader.list(() => readOutput(reader), OUTPUT_BYTES), accountsFrom: 11 };
}

function readInputs(reader: ByteReader): number[] {
  return reader.list(() => {
    readAccount(reader);
    const tree = readContext(reader);
    // Root index, and whether it is only read.
    reader.bytes(3);
    return tree;
  }, 52);
}

/** Tree, queue, leaf index, and whether the queue proves it. */
function readContext(reader: ByteReader): number {
  const tree = reader.u8();
  reader.u8();
  reader.u32();
  reader.u8();
  return tree;
}

function readPlainInput(reader: ByteReader): number {
  reader.bytes(8 + 32);
  const tree = readContext(reader);
  reader.u16();
  reader.u64();
  reader.option(reader.key);
  return tree;
}

interface Header {
  readonly invokingProgram: Uint8Array;
  readonly accountsFrom: number;
}

/** The number of accounts before the trees depends on the call. */
function readHeader(reader: ByteReader): Header {
  const mode = reader.u8();
  reader.u8();
  const invokingProgram = reader.key();
  const lamports = reader.u64();
  const isCompress = reader.bool();
  const hasContext = reader.bool();
  reader.bool();
  reader.bytes(3);
  const optional = [lamports > 0n, lamports > 0n && !isCompress, hasContext].filter(Boolean).length;
  return { invokingProgram, accountsFrom: mode === 0 ? 11 : 6 + optional };
}

/** Accounts that keep their address, each with its old and new content. */
function readInfos(reader: ByteReader, owner: Uint8Array): Omit<SystemInstruction, 'accountsFrom'> {
  const inputTrees: number[] = [];
  const outputs: PackedOutput[] = [];
  reader.list(() => {
    const address = reader.option(reader.key);
    reader.option(() => {
      reader.bytes(8 + 32);
      inputTrees.push(readContext(reader));
      reader.u16();
      reader.u64();
    });
    reader.option(() => {
      const [discriminator, hash, treeIndex] = [reader.bytes(8), reader.key(), reader.u8()];
      const lamports = reader.u64();
      const data = { discriminator, bytes: reader.blob(), hash };
      outputs.push({ account: { owner, lamports, address, data }, treeIndex });
    });
  }, 3);
  return { inputTrees, outputs };
}
