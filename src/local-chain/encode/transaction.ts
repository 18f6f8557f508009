import { decode, encode } from '../../lib/base58.ts';
import { base64, exact } from '../ledger/record.ts';
import type { LedgerBlock, TransactionRecord } from '../ledger/state.ts';
import { isStaticWritable } from '../vm/transaction.ts';
import { type ByteReader, byteReader, type FieldReader, shapeParser } from './layout.ts';
import { RPC, rpcError } from './params.ts';
import { parseStake, parseVote } from './parse-stake-vote.ts';
import { parseToken } from './parse-token.ts';

export type TransactionEncoding = 'json' | 'jsonParsed' | 'base58' | 'base64';
export type BlockDetails = 'full' | 'accounts' | 'signatures' | 'none';

export interface BlockOptions {
  readonly encoding: TransactionEncoding;
  readonly details: BlockDetails;
  /** Newest message version that the client accepts; null = none given. */
  readonly maxVersion: number | null;
  readonly rewards: boolean;
}

/** Stack height of an instruction of the message itself. */
const OUTER = 1;

/** A block as in `getBlock`. Throws -32015 for a versioned transaction that the client does not accept. */
export function blockJson(block: LedgerBlock, options: BlockOptions) {
  const { encoding, details, maxVersion } = options;
  const transactions =
    details === 'full'
      ? { transactions: block.records.map((record) => transactionJson(record, encoding, maxVersion)) }
      : details === 'accounts'
        ? { transactions: block.records.map((record) => accountsJson(record, maxVersion)) }
        : details === 'signatures'
          ? { signatures: block.records.map((record) => record.signature) }
          : {};
  return {
    blockHeight: block.height,
    blockTime: block.time,
    blockhash: block.blockhash,
    parentSlot: block.parentSlot,
    previousBlockhash: block.previousBlockhash,
    ...(options.rewards ? { rewards: [] } : {}),
    ...transactions,
  };
}

export function transactionJson(record: TransactionRecord, encoding: TransactionEncoding, maxVersion: number | null) {
  const version = versionField(record, maxVersion);
  const { bytes } = record.transaction;
  if (encoding === 'base64') return { meta: record.meta, transaction: [base64(bytes), 'base64'], ...version };
  if (encoding === 'base58') return { meta: record.meta, transaction: [encode(bytes), 'base58'], ...version };
  if (encoding === 'json') return { meta: record.meta, transaction: plainJson(record), ...version };
  return { meta: parsedMeta(record), transaction: parsedJson(record), ...version };
}

function versionField(record: TransactionRecord, maxVersion: number | null) {
  const { version } = record.transaction;
  if (version !== 'legacy' && (maxVersion === null || maxVersion < version)) {
    throw rpcError(
      RPC.unsupportedVersion,
      `Transaction version (${version}) is not supported by the requesting client. Please try the request again with the following configuration parameter: "maxSupportedTransactionVersion": ${version}`,
    );
  }
  return maxVersion === null ? {} : { version };
}

function plainJson({ transaction }: TransactionRecord) {
  return {
    message: {
      accountKeys: transaction.staticKeys,
      ...tableLookups(transaction),
      header: transaction.header,
      instructions: transaction.instructions.map((item) => ({
        accounts: item.accounts,
        data: encode(item.data),
        programIdIndex: item.programIdIndex,
        stackHeight: OUTER,
      })),
      recentBlockhash: transaction.recentBlockhash,
      ...configJson(transaction),
    },
    signatures: transaction.signatures,
  };
}

function tableLookups(transaction: TransactionRecord['transaction']) {
  return transaction.version === 0 ? { addressTableLookups: transaction.lookups } : {};
}

function configJson({ config }: TransactionRecord['transaction']) {
  if (config === null) return {};
  const { computeUnitLimit, heapSize, loadedAccountsDataSizeLimit, priorityFee } = config;
  const fee = priorityFee === null ? null : exact(priorityFee);
  return { transactionConfig: { computeUnitLimit, heapSize, loadedAccountsDataSizeLimit, priorityFee: fee } };
}

function parsedJson(record: TransactionRecord) {
  const { transaction, keys } = record;
  return {
    message: {
      accountKeys: accountKeys(record),
      ...tableLookups(transaction),
      instructions: transaction.instructions.map((item) => parseInstruction(item, keys, OUTER)),
      recentBlockhash: transaction.recentBlockhash,
      ...configJson(transaction),
    },
    signatures: transaction.signatures,
  };
}

/** With parsed keys Agave omits `loadedAddresses`: the keys contain their source. */
function parsedMeta({ meta, keys }: TransactionRecord) {
  const { loadedAddresses: _, ...rest } = meta;
  return {
    ...rest,
    innerInstructions: meta.innerInstructions === null ? null : parseInner(meta.innerInstructions ?? [], keys),
  };
}

function accountKeys({ transaction, keys, meta }: TransactionRecord) {
  const statics = transaction.staticKeys.length;
  const loadedWritable = meta.loadedAddresses?.writable.length ?? 0;
  return keys.map((pubkey, index) => ({
    pubkey,
    signer: index < transaction.header.numRequiredSignatures,
    source: index < statics ? 'transaction' : 'lookupTable',
    writable: index < statics ? isStaticWritable(transaction, index) : index < statics + loadedWritable,
  }));
}

function accountsJson(record: TransactionRecord, maxVersion: number | null) {
  const version = versionField(record, maxVersion);
  const { err, status, fee, preBalances, postBalances, preTokenBalances, postTokenBalances, rewards } = record.meta;
  return {
    meta: { err, status, fee, preBalances, postBalances, preTokenBalances, postTokenBalances, rewards },
    transaction: { accountKeys: accountKeys(record), signatures: record.transaction.signatures },
    ...version,
  };
}

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
function parseInstruction(item: CompiledInstruction, keys: readonly string[], stackHeight: number | null) {
  const programId = keys[item.programIdIndex] ?? '';
  const accounts = item.accounts.map((index) => keys[index] ?? '');
  const known = Object.hasOwn(PROGRAMS, programId) ? PROGRAMS[programId] : undefined;
  const parsed = known === undefined ? null : tryParse(known.parse, bytesOf(item.data), accounts);
  if (known !== undefined && parsed !== null) return { parsed, program: known.name, programId, stackHeight };
  const data = typeof item.data === 'string' ? item.data : encode(item.data);
  return { accounts, data, programId, stackHeight };
}

/** Inner instructions of all outer ones, parsed. */
export function parseInner(
  groups: readonly { index: number; instructions: readonly (CompiledInstruction & { stackHeight: number | null })[] }[],
  keys: readonly string[],
) {
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
function parseMemo(data: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(data);
  } catch {
    return null;
  }
}

interface Shape {
  readonly type: string;
  readonly accounts: number;
  info(keys: readonly string[], read: ByteReader): Record<string, unknown>;
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
  '11111111111111111111111111111111': { name: 'system', parse: parseSystem },
  TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA: { name: 'spl-token', parse: parseToken },
  TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb: { name: 'spl-token', parse: parseToken },
  AddressLookupTab1e1111111111111111111111111: { name: 'address-lookup-table', parse: parseLookupTable },
  BPFLoader2111111111111111111111111111111111: { name: 'bpf-loader', parse: parseLoader },
  BPFLoaderUpgradeab1e11111111111111111111111: { name: 'bpf-upgradeable-loader', parse: parseUpgradeableLoader },
  Stake11111111111111111111111111111111111111: { name: 'stake', parse: parseStake },
  Vote111111111111111111111111111111111111111: { name: 'vote', parse: parseVote },
  ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL: { name: 'spl-associated-token-account', parse: parseAta },
  Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo: { name: 'spl-memo', parse: parseMemo },
  MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr: { name: 'spl-memo', parse: parseMemo },
};
