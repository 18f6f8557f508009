import { encode, encode32, encode64 } from '../lib/base58.ts';
import { type JsonMember, objectMembers, stringify } from '../lib/json.ts';
import type { MessageHeader, TransactionConfig } from '../ports/block.ts';
import { badTransaction } from './decode/response.ts';
import { walkWire } from './decode/walk-wire.ts';
import { wireBytesOf } from './decode/wire-bytes.ts';
import {
  configOf,
  emptyLayout,
  headerOf,
  instructionsOf,
  lookupsOf,
  signaturesOf,
  viewOf,
} from './decode/wire-layout.ts';
import { type InnerJson, parseInner, parseInstruction } from './json-parsed/instruction.ts';
import { base64, exact } from './json-parsed/layout.ts';

/**
 * Transactions as nodes show them, in every encoding and with all members in alphabetical order, as Agave writes them: byte for byte
 * the same text from the bytes of a transaction and its `meta`.
 */

export type TransactionEncoding = 'json' | 'jsonParsed' | 'base58' | 'base64';

/** A message and its signatures. */
export interface WireParts {
  readonly bytes: Uint8Array;
  readonly version: 'legacy' | number;
  /** Version 1 only. */
  readonly config: TransactionConfig | null;
  readonly header: MessageHeader;
  readonly staticKeys: readonly string[];
  readonly recentBlockhash: string;
  readonly instructions: readonly {
    readonly programIdIndex: number;
    readonly accounts: readonly number[];
    readonly data: Uint8Array;
  }[];
  readonly lookups: readonly {
    readonly accountKey: string;
    readonly writableIndexes: readonly number[];
    readonly readonlyIndexes: readonly number[];
  }[];
  readonly signatures: readonly string[];
}

/** What is shown of `meta`; members beyond these are shown unchanged. Numbers that a double cannot hold are bigints. */
export interface ShownMeta {
  readonly innerInstructions?: readonly InnerJson[] | null;
  readonly loadedAddresses?: { readonly writable: readonly string[]; readonly readonly: readonly string[] } | null;
}

export interface ShownTransaction {
  readonly transaction: WireParts;
  readonly meta: ShownMeta | null;
}

/** Stack height of an instruction of the message itself. */
const OUTER = 1;

/** The client does not accept the version of a transaction. The message is that of a node. */
export class UnsupportedVersion extends Error {
  readonly version: number;

  constructor(version: number) {
    super(
      `Transaction version (${version}) is not supported by the requesting client. Please try the request again with the following configuration parameter: "maxSupportedTransactionVersion": ${version}`,
    );
    this.version = version;
  }
}

/** Reads the bytes of a transaction. Throws CHAIN_BAD_TRANSACTION for bytes that are none, or of a version above 1. */
export function readWire(bytes: Uint8Array): WireParts {
  const layout = emptyLayout();
  const fault = walkWire({ bytes, at: 0, end: bytes.length }, layout);
  if (fault !== null) throw badTransaction(0, fault);
  const keyAt = (at: number) => encode32(bytes, at);
  const tables: string[] = [];
  const lookups = lookupsOf(bytes, layout, (at) => tables.push(keyAt(at)) - 1);
  return {
    bytes,
    version: layout.version < 0 ? 'legacy' : layout.version,
    config: layout.version === 1 ? configOf(bytes, layout) : null,
    header: headerOf(bytes, layout.headerAt),
    staticKeys: Array.from({ length: layout.keyCount }, (_, number) => keyAt(layout.keysAt + number * 32)),
    recentBlockhash: keyAt(layout.blockhashAt),
    instructions: instructionsOf(bytes, layout).map(({ programIndex, accounts, data }) => ({
      ...{ programIdIndex: programIndex, accounts: [...accounts], data },
    })),
    lookups: lookups.map(({ tableKey, writableIndexes, readonlyIndexes }) => ({
      accountKey: tables[tableKey] ?? '',
      ...{ writableIndexes: [...writableIndexes], readonlyIndexes: [...readonlyIndexes] },
    })),
    signatures: signaturesOf(bytes, layout.signaturesAt, layout.signatureCount).map((one) =>
      encode64(viewOf(one, 0, 64)),
    ),
  };
}

/** Static keys, loaded writable, loaded readonly. */
function keysOf({ transaction, meta }: ShownTransaction): readonly string[] {
  const loaded = meta?.loadedAddresses;
  return loaded == null ? transaction.staticKeys : [...transaction.staticKeys, ...loaded.writable, ...loaded.readonly];
}

/** The members `meta`, `transaction` and `version` of a full transaction. Throws UnsupportedVersion. */
export function showTransaction(shown: ShownTransaction, encoding: TransactionEncoding, maxVersion: number | null) {
  const version = versionField(shown.transaction, maxVersion);
  const { bytes } = shown.transaction;
  if (encoding === 'base64') return { meta: shown.meta, transaction: [base64(bytes), 'base64'], ...version };
  if (encoding === 'base58') return { meta: shown.meta, transaction: [encode(bytes), 'base58'], ...version };
  if (encoding === 'json') return { meta: shown.meta, transaction: plainJson(shown.transaction), ...version };
  const keys = keysOf(shown);
  return { meta: parsedMeta(shown, keys), transaction: parsedJson(shown, keys), ...version };
}

/** The same for `transactionDetails: accounts`. Throws UnsupportedVersion. */
export function showAccounts(shown: ShownTransaction, maxVersion: number | null) {
  const version = versionField(shown.transaction, maxVersion);
  const meta = shown.meta as Readonly<Record<string, unknown>> | null;
  return {
    meta: meta === null ? null : Object.fromEntries(Object.entries(meta).filter(([name]) => OF_ACCOUNTS.has(name))),
    transaction: { accountKeys: accountKeys(shown, keysOf(shown)), signatures: shown.transaction.signatures },
    ...version,
  };
}

const OF_ACCOUNTS = new Set([
  'err',
  'fee',
  'postBalances',
  'postTokenBalances',
  'preBalances',
  'preTokenBalances',
  'rewards',
  'status',
]);

function versionField({ version }: WireParts, maxVersion: number | null) {
  if (version !== 'legacy' && (maxVersion === null || maxVersion < version)) throw new UnsupportedVersion(version);
  return maxVersion === null ? {} : { version };
}

function plainJson(transaction: WireParts) {
  const { numReadonlySignedAccounts, numReadonlyUnsignedAccounts, numRequiredSignatures } = transaction.header;
  return {
    message: {
      accountKeys: transaction.staticKeys,
      ...tableLookups(transaction),
      header: { numReadonlySignedAccounts, numReadonlyUnsignedAccounts, numRequiredSignatures },
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

function tableLookups({ version, lookups }: WireParts) {
  if (version !== 0) return {};
  return {
    addressTableLookups: lookups.map(({ accountKey, readonlyIndexes, writableIndexes }) => ({
      ...{ accountKey, readonlyIndexes, writableIndexes },
    })),
  };
}

function configJson({ config }: WireParts) {
  if (config === null) return {};
  const { computeUnitLimit, heapSize, loadedAccountsDataSizeLimit, priorityFee } = config;
  const fee = priorityFee === null ? null : exact(priorityFee);
  return { transactionConfig: { computeUnitLimit, heapSize, loadedAccountsDataSizeLimit, priorityFee: fee } };
}

function parsedJson(shown: ShownTransaction, keys: readonly string[]) {
  const { transaction } = shown;
  return {
    message: {
      accountKeys: accountKeys(shown, keys),
      ...tableLookups(transaction),
      instructions: transaction.instructions.map((item) => parseInstruction(item, keys, OUTER)),
      recentBlockhash: transaction.recentBlockhash,
      ...configJson(transaction),
    },
    signatures: transaction.signatures,
  };
}

/** With parsed keys Agave omits `loadedAddresses`: the keys contain their source. */
function parsedMeta({ meta }: ShownTransaction, keys: readonly string[]) {
  if (meta === null) return null;
  const members = Object.entries(meta).flatMap(([name, value]): (readonly [string, unknown])[] => {
    if (name === 'loadedAddresses') return [];
    if (name !== 'innerInstructions' || value == null) return [[name, value]];
    return [[name, parseInner(value as readonly InnerJson[], keys)]];
  });
  return Object.fromEntries(members);
}

function accountKeys({ transaction, meta }: ShownTransaction, keys: readonly string[]) {
  const statics = transaction.staticKeys.length;
  const loadedWritable = meta?.loadedAddresses?.writable.length ?? 0;
  return keys.map((pubkey, index) => ({
    pubkey,
    signer: index < transaction.header.numRequiredSignatures,
    source: index < statics ? 'transaction' : 'lookupTable',
    writable: index < statics ? isStaticWritable(transaction, index) : index < statics + loadedWritable,
  }));
}

/** How much of a transaction is shown, and in which form. */
export interface ShowOptions {
  readonly encoding: TransactionEncoding;
  readonly details: 'full' | 'accounts';
  /** Newest version that the client accepts; null: only legacy ones. */
  readonly maxVersion: number | null;
}

/** The members of an entry as JSON text; `version` is null when it is not shown. */
export interface ShownTexts {
  readonly meta: string;
  readonly transaction: string;
  readonly version: string | null;
}

/**
 * The same from the text of `meta`, whose members stay as the node wrote them: numbers lose no digit, and no `.0`. Null for a text that is
 * no `meta`. Throws UnsupportedVersion.
 */
function showTexts(transaction: WireParts, metaText: string, options: ShowOptions): ShownTexts | null {
  const { encoding, details, maxVersion } = options;
  const bytes = Buffer.from(metaText);
  const members = metaText === 'null' ? [] : objectMembers(bytes);
  if (members === null) return null;
  const textOf = ({ start, end }: JsonMember) => bytes.toString('utf8', start, end);
  const parsed = (name: string): unknown => {
    const member = members.find((one) => one.name === name);
    return member === undefined ? undefined : JSON.parse(textOf(member));
  };
  const isWhole = details === 'full' && encoding !== 'jsonParsed';
  const loadedAddresses = (isWhole ? null : (parsed('loadedAddresses') ?? null)) as ShownMeta['loadedAddresses'];
  const shown = { transaction, meta: { loadedAddresses } as ShownMeta };
  const parts = details === 'accounts' ? showAccounts(shown, maxVersion) : showTransaction(shown, encoding, maxVersion);
  const version = 'version' in parts ? stringify(parts.version) : null;
  const common = { transaction: stringify(parts.transaction), version };
  if (isWhole || metaText === 'null') return { ...common, meta: metaText };
  const keys = keysOf(shown);
  const kept = members.flatMap((member) => {
    const { name } = member;
    if (details === 'accounts') return OF_ACCOUNTS.has(name) ? [`"${name}":${textOf(member)}`] : [];
    if (name === 'loadedAddresses') return [];
    if (name !== 'innerInstructions') return [`"${name}":${textOf(member)}`];
    const groups = JSON.parse(textOf(member)) as readonly InnerJson[] | null;
    return [`"${name}":${stringify(groups === null ? null : parseInner(groups, keys))}`];
  });
  return { ...common, meta: `{${kept.join()}}` };
}

/** An entry of a block, or the result of `getTransaction`, in the form that was asked for; null where it has no `meta`. */
export function showEntry(text: Buffer, options: ShowOptions): ShownTexts | null {
  const members = new Map(objectMembers(text)?.map((member) => [member.name, member]));
  const [meta, transaction, version] = ['meta', 'transaction', 'version'].map((name) => members.get(name));
  if (meta === undefined || transaction === undefined) return null;
  const value = ({ start, end }: JsonMember): unknown => JSON.parse(text.toString('utf8', start, end));
  const entry = { transaction: value(transaction), version: version === undefined ? undefined : value(version) };
  return showTexts(readWire(bytesOf(entry)), text.toString('utf8', meta.start, meta.end), options);
}

/** The bytes of a transaction in any encoding. As JSON, a legacy one is written without the version that `wireFromJson` puts before it. */
function bytesOf(entry: { readonly transaction: unknown; readonly version: unknown }): Uint8Array {
  const { bytes } = wireBytesOf([entry]);
  const signatures = (entry.transaction as { signatures?: readonly unknown[] }).signatures;
  if (signatures === undefined || entry.version === 0 || entry.version === 1) return bytes;
  const at = 1 + signatures.length * SIGNATURE_BYTES;
  // The last byte counts the lookups, of which a legacy transaction has none.
  return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1, bytes.length - 1)]);
}

const SIGNATURE_BYTES = 64;

/** Typed clients lose a transaction without it. */
export function withStatus(meta: string): string {
  if (meta === 'null' || meta.includes('"status":')) return meta;
  const { err } = JSON.parse(meta) as { readonly err?: unknown };
  const status = err == null ? { Ok: null } : { Err: err };
  return `${meta.slice(0, meta.lastIndexOf('}'))},"status":${JSON.stringify(status)}}`;
}

/** Whether the static key at `index` is writable, according to the header alone. */
export function isStaticWritable(
  { header, staticKeys }: Pick<WireParts, 'header' | 'staticKeys'>,
  index: number,
): boolean {
  const { numRequiredSignatures, numReadonlySignedAccounts, numReadonlyUnsignedAccounts } = header;
  return index < numRequiredSignatures
    ? index < numRequiredSignatures - numReadonlySignedAccounts
    : index < staticKeys.length - numReadonlyUnsignedAccounts;
}

const MEMO_PROGRAMS = new Set([
  'Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo',
  'MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr',
]);

/** `[bytes] text` of each memo instruction, joined as in signature lists; null without any. */
export function memoOf({ instructions }: Pick<WireParts, 'instructions'>, keys: readonly string[]): string | null {
  const memos = instructions
    .filter((item) => MEMO_PROGRAMS.has(keys[item.programIdIndex] ?? ''))
    .map((item) => `[${item.data.length}] ${Buffer.from(item.data).toString('utf8')}`);
  return memos.length === 0 ? null : memos.join('; ');
}
