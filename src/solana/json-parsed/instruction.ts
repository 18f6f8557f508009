/** Instructions as nodes show them in the encoding `jsonParsed`. */

import { decode, encode } from '../../lib/base58.ts';
import {
  ASSOCIATED_TOKEN_PROGRAM,
  LOADER_V2,
  LOADER_V3,
  LOOKUP_TABLE_PROGRAM,
  MEMO_PROGRAMS,
  STAKE_PROGRAM,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
  VOTE_PROGRAM,
} from '../programs.ts';
import { base64, byteReader, type FieldReader, type LayoutReader, shapeParser } from './layout.ts';
import { parseStake, parseVote } from './stake-vote.ts';
import { parseToken } from './token.ts';

interface CompiledInstruction {
  readonly programIdIndex: number;
  readonly accounts: readonly number[];
  /** Bytes, or base58 text. */
  readonly data: Uint8Array | string;
}

/** Parses an instruction; null when it is unknown. */
type InstructionParser = (data: Uint8Array, accounts: readonly string[]) => unknown;

interface KnownProgram {
  readonly name: string;
  readonly parse: InstructionParser;
}

/** An instruction for `jsonParsed`: parsed when the program and the instruction are known here, else its parts. */
export function parseInstruction(
  item: CompiledInstruction,
  keys: readonly string[],
  stackHeight: number | null | undefined,
) {
  const programId = keys[item.programIdIndex] ?? '';
  const accounts = item.accounts.map((index) => keys[index] ?? '');
  const known = Object.hasOwn(PROGRAMS, programId) ? PROGRAMS[programId] : undefined;
  const parsed = known === undefined ? null : tryParse(known.parse, bytesOf(item.data), accounts);
  // Old nodes do not report the height.
  const height = stackHeight === undefined ? {} : { stackHeight };
  if (known !== undefined && parsed !== null)
    return { parsed: inOrder(parsed), program: known.name, programId, ...height };
  const data = typeof item.data === 'string' ? item.data : encode(item.data);
  return { accounts, data, programId, ...height };
}

/** Sorts the members of all objects by name, as Agave does. */
function inOrder(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(inOrder);
  const members = Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1));
  return Object.fromEntries(members.map(([name, member]) => [name, inOrder(member)]));
}

/** `innerInstructions` of an outer one, as in `meta`. */
export interface InnerJson {
  readonly index: number;
  readonly instructions: readonly (CompiledInstruction & { readonly stackHeight?: number | null })[];
}

/** Inner instructions of all outer ones, parsed. */
export function parseInner(groups: readonly InnerJson[], keys: readonly string[]) {
  return groups.map(({ index, instructions }) => ({
    index,
    instructions: instructions.map((item) => parseInstruction(item, keys, item.stackHeight)),
  }));
}

/** Instruction data may contain any bytes: truncated data is shown unparsed. */
function tryParse(parse: InstructionParser, data: Uint8Array, accounts: readonly string[]): unknown {
  try {
    return parse(data, accounts);
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

function bytesOf(data: Uint8Array | string): Uint8Array {
  return typeof data === 'string' ? (decode(data) ?? new Uint8Array(0)) : data;
}

const TYPES = ['create', 'createIdempotent', 'recoverNested'];

/** Associated token accounts: the first byte is the kind, no data at all means `create`. */
function parseAta(data: Uint8Array, accounts: readonly string[]) {
  const type = TYPES[data[0] ?? 0];
  if (type === undefined || accounts.length < 6) return null;
  if (type === 'recoverNested') {
    const [nestedSource, nestedMint, destination, nestedOwner, ownerMint, wallet, tokenProgram] = accounts;
    return { type, info: { nestedSource, nestedMint, destination, nestedOwner, ownerMint, wallet, tokenProgram } };
  }
  const [source, account, wallet, mint, systemProgram, tokenProgram] = accounts;
  return { type, info: { source, account, wallet, mint, systemProgram, tokenProgram } };
}

const written: FieldReader = (read) => ({
  offset: read.u32(),
  bytes: base64(read.raw(Number(read.u64()))),
});

/** The loader of programs that cannot be upgraded. */
const parseLoader = shapeParser([
  { type: 'write', accounts: 'account', fields: written },
  { type: 'finalize', accounts: 'account' },
]);

const parseUpgradeableLoader = shapeParser([
  { type: 'initializeBuffer', accounts: 'account ?authority' },
  { type: 'write', accounts: 'account authority', fields: written },
  {
    type: 'deployWithMaxDataLen',
    accounts:
      'payerAccount programDataAccount programAccount bufferAccount rentSysvar clockSysvar systemProgram authority',
    fields: (read) => ({ maxDataLen: read.amount() }),
  },
  {
    type: 'upgrade',
    accounts: 'programDataAccount programAccount bufferAccount spillAccount rentSysvar clockSysvar authority',
  },
  { type: 'setAuthority', accounts: 'account authority ~newAuthority' },
  { type: 'close', accounts: 'account recipient authority ~programAccount' },
  {
    type: 'extendProgram',
    accounts: 'programDataAccount programAccount ~systemProgram ~payerAccount',
    fields: (read) => ({ additionalBytes: read.u32() }),
  },
  { type: 'setAuthorityChecked', accounts: 'account authority newAuthority' },
]);

const TABLE = 'lookupTableAccount lookupTableAuthority';

const parseLookupTable = shapeParser([
  {
    type: 'createLookupTable',
    accounts: `${TABLE} payerAccount systemProgram`,
    fields: (read) => ({ recentSlot: read.amount(), bumpSeed: read.u8() }),
  },
  { type: 'freezeLookupTable', accounts: TABLE },
  {
    type: 'extendLookupTable',
    accounts: TABLE,
    fields: (read, keys) => ({
      newAddresses: read.list(Number(read.u64()), read.key),
      ...(keys.length >= 4 ? { payerAccount: keys[2], systemProgram: keys[3] } : {}),
    }),
  },
  { type: 'deactivateLookupTable', accounts: TABLE },
  { type: 'closeLookupTable', accounts: `${TABLE} recipient` },
]);

/** A memo is its text; invalid UTF-8 is shown unparsed. */
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Text of a memo; null when it is no UTF-8. */
function parseMemo(data: Uint8Array): string | null {
  try {
    return utf8.decode(data);
  } catch {
    return null;
  }
}

/** The data of a memo instruction as nodes show it in lists of signatures (Agave 4.2.1 transaction-status/src/extract_memos.rs). */
export function memoLine(data: Uint8Array): string {
  return `[${data.length}] ${parseMemo(data) ?? '(unparseable)'}`;
}

interface Shape {
  readonly type: string;
  readonly accounts: number;
  info(keys: readonly string[], read: LayoutReader): Record<string, unknown>;
}

/** By instruction number. Fields are read in the order in which they are listed. */
const SHAPES: readonly Shape[] = [
  {
    type: 'createAccount',
    accounts: 2,
    info: ([source, newAccount], read) => ({
      source,
      newAccount,
      lamports: read.amount(),
      space: read.amount(),
      owner: read.key(),
    }),
  },
  { type: 'assign', accounts: 1, info: ([account], read) => ({ account, owner: read.key() }) },
  {
    type: 'transfer',
    accounts: 2,
    info: ([source, destination], read) => ({ source, destination, lamports: read.amount() }),
  },
  {
    type: 'createAccountWithSeed',
    accounts: 2,
    info: ([source, newAccount], read) => ({
      source,
      newAccount,
      base: read.key(),
      seed: read.text(),
      lamports: read.amount(),
      space: read.amount(),
      owner: read.key(),
    }),
  },
  {
    type: 'advanceNonce',
    accounts: 3,
    info: ([nonceAccount, recentBlockhashesSysvar, nonceAuthority]) => ({
      nonceAccount,
      recentBlockhashesSysvar,
      nonceAuthority,
    }),
  },
  {
    type: 'withdrawFromNonce',
    accounts: 5,
    info: ([nonceAccount, destination, recentBlockhashesSysvar, rentSysvar, nonceAuthority], read) => ({
      nonceAccount,
      destination,
      recentBlockhashesSysvar,
      rentSysvar,
      nonceAuthority,
      lamports: read.amount(),
    }),
  },
  {
    type: 'initializeNonce',
    accounts: 3,
    info: ([nonceAccount, recentBlockhashesSysvar, rentSysvar], read) => ({
      nonceAccount,
      recentBlockhashesSysvar,
      rentSysvar,
      nonceAuthority: read.key(),
    }),
  },
  {
    type: 'authorizeNonce',
    accounts: 2,
    info: ([nonceAccount, nonceAuthority], read) => ({ nonceAccount, nonceAuthority, newAuthorized: read.key() }),
  },
  { type: 'allocate', accounts: 1, info: ([account], read) => ({ account, space: read.amount() }) },
  {
    type: 'allocateWithSeed',
    accounts: 2,
    info: ([account], read) => ({
      account,
      base: read.key(),
      seed: read.text(),
      space: read.amount(),
      owner: read.key(),
    }),
  },
  {
    type: 'assignWithSeed',
    accounts: 2,
    info: ([account], read) => ({ account, base: read.key(), seed: read.text(), owner: read.key() }),
  },
  {
    type: 'transferWithSeed',
    accounts: 3,
    info: ([source, sourceBase, destination], read) => ({
      source,
      sourceBase,
      destination,
      lamports: read.amount(),
      sourceSeed: read.text(),
      sourceOwner: read.key(),
    }),
  },
];

/** System program. Throws RangeError when the data is too short. */
function parseSystem(data: Uint8Array, accounts: readonly string[]) {
  const read = byteReader(data);
  const shape = SHAPES[read.u32()];
  if (shape === undefined || accounts.length < shape.accounts) return null;
  return { type: shape.type, info: shape.info(accounts, read) };
}

const PROGRAMS: Readonly<Record<string, KnownProgram>> = {
  [SYSTEM_PROGRAM]: { name: 'system', parse: parseSystem },
  [TOKEN_PROGRAM]: { name: 'spl-token', parse: parseToken },
  [TOKEN_2022_PROGRAM]: { name: 'spl-token', parse: parseToken },
  [LOOKUP_TABLE_PROGRAM]: { name: 'address-lookup-table', parse: parseLookupTable },
  [LOADER_V2]: { name: 'bpf-loader', parse: parseLoader },
  [LOADER_V3]: { name: 'bpf-upgradeable-loader', parse: parseUpgradeableLoader },
  [STAKE_PROGRAM]: { name: 'stake', parse: parseStake },
  [VOTE_PROGRAM]: { name: 'vote', parse: parseVote },
  [ASSOCIATED_TOKEN_PROGRAM]: { name: 'spl-associated-token-account', parse: parseAta },
  ...Object.fromEntries(MEMO_PROGRAMS.map((address) => [address, { name: 'spl-memo', parse: parseMemo }])),
};
