import { encode, encode32, encode64 } from '../lib/base58.ts';
import { isPlainObject, type JsonMember, objectMembers, parseExact, stringify } from '../lib/json.ts';
import type { MessageHeader, TransactionConfig } from '../ports/block.ts';
import { loadedAddressesOf } from './decode/meta.ts';
import { badTransaction } from './decode/response.ts';
import { HIGHEST_WIRE_VERSION, walkWire } from './decode/walk-wire.ts';
import { namedVersion, wireOfEntry } from './decode/wire-bytes.ts';
import {
  bytesAt,
  emptyLayout,
  instructionsOf,
  lookupsOf,
  messageHeaderAt,
  signaturesOf,
  transactionConfigOf,
  type WireLayout,
} from './decode/wire-layout.ts';
import { type InnerJson, memoLine, parseInner, parseInstruction } from './json-parsed/instruction.ts';
import { base64, exact } from './json-parsed/layout.ts';
import { MEMO_PROGRAMS } from './programs.ts';

/**
 * Transactions as nodes show them, in every encoding and with all members in alphabetical order, as Agave writes them: byte for byte
 * the same text from the bytes of a transaction and its `meta`.
 */

/** `binary` is the oldest form: the text that `base58` has in a pair. */
export type TransactionEncoding = 'json' | 'jsonParsed' | 'base58' | 'base64' | 'binary';

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

/** A transaction has come in other encodings than the one that was asked for, and its form is not known well enough to make it. */
export class EncodingMissing extends Error {
  /** In which the transaction is kept. */
  readonly kept: readonly TransactionEncoding[];

  constructor(encoding: string, kept: readonly TransactionEncoding[]) {
    super(`a transaction is kept in encoding ${kept.join(' and ')}, from which ${encoding} cannot be made`);
    this.kept = kept;
  }
}

/** Reads the bytes of a transaction. Throws CHAIN_BAD_TRANSACTION for bytes that are none, or of a version above 1. */
export function readWire(bytes: Uint8Array): WireParts {
  const layout = emptyLayout();
  const fault = walkWire({ bytes, at: 0, end: bytes.length }, layout);
  if (fault !== null) throw badTransaction(0, fault);
  return partsOf(bytes, layout);
}

/** `layout`: of bytes that were read. */
function partsOf(bytes: Uint8Array, layout: WireLayout): WireParts {
  const keyAt = (at: number) => encode32(bytes, at);
  const tables: string[] = [];
  const lookups = lookupsOf(bytes, layout, (at) => tables.push(keyAt(at)) - 1);
  return {
    bytes,
    version: layout.version < 0 ? 'legacy' : layout.version,
    config: layout.version === 1 ? transactionConfigOf(bytes, layout) : null,
    header: messageHeaderAt(bytes, layout.headerAt),
    staticKeys: Array.from({ length: layout.keyCount }, (_, number) => keyAt(layout.keysAt + number * 32)),
    recentBlockhash: keyAt(layout.blockhashAt),
    instructions: instructionsOf(bytes, layout).map(({ programIndex, accounts, data }) => ({
      programIdIndex: programIndex,
      accounts: [...accounts],
      data,
    })),
    lookups: lookups.map(({ tableKey, writableIndexes, readonlyIndexes }) => ({
      accountKey: tables[tableKey] ?? '',
      writableIndexes: [...writableIndexes],
      readonlyIndexes: [...readonlyIndexes],
    })),
    signatures: signaturesOf(bytes, layout.signaturesAt, layout.signatureCount).map((one) =>
      encode64(bytesAt(one, 0, 64)),
    ),
  };
}

/** Static keys, loaded writable, loaded readonly. */
function keysOf({ transaction, meta }: ShownTransaction): readonly string[] {
  const loaded = meta?.loadedAddresses;
  return loaded == null ? transaction.staticKeys : [...transaction.staticKeys, ...loaded.writable, ...loaded.readonly];
}

/** The members `meta`, `transaction` and `version` of a full transaction. Throws UnsupportedVersion. */
export function showTransaction(shown: ShownTransaction, { encoding, maxVersion, rewards }: FullOptions) {
  const version = versionField(shown.transaction, maxVersion);
  const { bytes } = shown.transaction;
  const meta =
    shown.meta === null || rewards || !('rewards' in shown.meta) ? shown.meta : { ...shown.meta, rewards: null };
  if (encoding === 'base64') return { meta, transaction: [base64(bytes), 'base64'], ...version };
  if (encoding === 'base58') return { meta, transaction: [encode(bytes), 'base58'], ...version };
  if (encoding === 'binary') return { meta, transaction: encode(bytes), ...version };
  if (encoding === 'json') return { meta, transaction: plainJson(shown.transaction), ...version };
  const keys = keysOf(shown);
  return { meta: parsedMeta(meta, keys), transaction: parsedJson(shown, keys), ...version };
}

/** Like `showTransaction`, for `transactionDetails: accounts`. Throws UnsupportedVersion. */
export function showAccounts(shown: ShownTransaction, { maxVersion, rewards }: Omit<FullOptions, 'encoding'>) {
  const version = versionField(shown.transaction, maxVersion);
  const meta = shown.meta as Readonly<Record<string, unknown>> | null;
  const isShown = ([name]: readonly [string, unknown]) => isMemberOfAccounts(name, rewards);
  return {
    meta: meta === null ? null : Object.fromEntries(Object.entries(meta).filter(isShown)),
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

/** Without rewards the member is absent here; in full transactions it is null (Agave 4.2.1, `build_simple_ui_transaction_status_meta`). */
const isMemberOfAccounts = (name: string, rewards: boolean): boolean =>
  OF_ACCOUNTS.has(name) && (rewards || name !== 'rewards');

function versionField({ version }: WireParts, maxVersion: number | null) {
  demandVersion(version, maxVersion);
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
      accountKey,
      readonlyIndexes,
      writableIndexes,
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

/** Agave omits `loadedAddresses` if keys are parsed: the keys contain their source. */
function parsedMeta(meta: ShownMeta | null, keys: readonly string[]) {
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
  /** Whether `meta` has rewards; those of a block are not meant. */
  readonly rewards: boolean;
}

type FullOptions = Omit<ShowOptions, 'details'>;

/** The members of an entry as JSON text; `version` is null when it is not shown. */
export interface ShownTexts {
  readonly meta: string;
  readonly transaction: string;
  readonly version: string | null;
  /** Members that are not known here, as the node sent them: `"name":value` each. */
  readonly more: readonly string[];
}

/**
 * Shows a transaction from the text of `meta`, whose members stay as the node wrote them: numbers lose no digit, and no `.0`. Null for a text
 * that is no `meta`. Throws UnsupportedVersion.
 */
function showTexts(
  transaction: WireParts,
  { metaText, oddVersion, more }: Entry,
  options: ShowOptions,
): ShownTexts | null {
  const { encoding, details, rewards } = options;
  const bytes = Buffer.from(metaText);
  const members = metaText === 'null' ? [] : objectMembers(bytes);
  if (members === null) return null;
  const textOf = ({ start, end }: JsonMember) => bytes.toString('utf8', start, end);
  const parsed = (name: string): unknown => {
    const member = members.find((one) => one.name === name);
    return member === undefined ? undefined : JSON.parse(textOf(member));
  };
  const isWhole = details === 'full' && encoding !== 'jsonParsed';
  const loadedAddresses = isWhole ? null : loadedAddressesOf(parsed('loadedAddresses'));
  const shown: ShownTransaction = { transaction, meta: { loadedAddresses } };
  const parts = details === 'accounts' ? showAccounts(shown, options) : showTransaction(shown, options);
  const version = 'version' in parts ? (oddVersion ?? stringify(parts.version)) : null;
  const common = { transaction: stringify(parts.transaction), version, more };
  if ((isWhole && rewards) || metaText === 'null') return { ...common, meta: metaText };
  const keys = keysOf(shown);
  const kept = members.flatMap((member) => {
    const { name } = member;
    const whole = `"${name}":${textOf(member)}`;
    if (details === 'accounts') return isMemberOfAccounts(name, rewards) ? [whole] : [];
    if (name === 'rewards' && !rewards) return ['"rewards":null'];
    if (isWhole) return [whole];
    if (name === 'loadedAddresses') return [];
    if (name !== 'innerInstructions') return [whole];
    return [`"${name}":${innerText(textOf(member), keys)}`];
  });
  return { ...common, meta: `{${kept.join()}}` };
}

/** Inner instructions in a form that is not known stay as they came. */
function innerText(text: string, keys: readonly string[]): string {
  const groups = JSON.parse(text) as readonly InnerJson[] | null;
  const isUsual =
    Array.isArray(groups) &&
    groups.every(
      (group: Partial<InnerJson> | null) =>
        Array.isArray(group?.instructions) &&
        group.instructions.every((one) => Array.isArray(one?.accounts) && typeof one.data === 'string'),
    );
  return isUsual ? stringify(parseInner(groups, keys)) : text;
}

/**
 * An entry of a block, or the result of `getTransaction`, in the form that was asked for; null where it has no `meta`. Throws
 * UnsupportedVersion, and EncodingMissing for a form that would have to be guessed.
 */
export function showEntry(text: Buffer, options: ShowOptions): ShownTexts | null {
  const entry = entryOf(text);
  if (entry === null) return null;
  const { metaText, wire } = entry;
  const layout = emptyLayout();
  const original = typeof wire === 'string' ? null : wire.original;
  const isRead = original !== null && walkWire({ bytes: original, at: 0, end: original.length }, layout) === null;
  // Later runtimes show more of what has no meaning here.
  if (isRead && layout.oddity === null && hasLoaded(metaText, layout))
    return showTexts(partsOf(original, layout), entry, options);
  const { encoding, details, maxVersion } = options;
  demandVersion(versionOf(entry.version, layout), maxVersion);
  const sent = entry.encoding === 'json' ? entry.transactionText : null;
  const kept: TransactionEncoding[] = [...(sent === null ? [] : ['json' as const])];
  if (original !== null) kept.push('base64', 'base58');
  if (details !== 'full' || !kept.includes(encoding)) throw new EncodingMissing(encoding, kept);
  const bytes = encoding === 'json' ? null : original;
  const shown =
    bytes === null ? sent! : JSON.stringify([encoding === 'base64' ? base64(bytes) : encode(bytes), encoding]);
  return {
    meta: metaText,
    transaction: shown,
    version: maxVersion === null ? null : entry.versionText,
    more: entry.more,
  };
}

/** Like `showEntry`, for lists, in which one bad entry must not hide the others: what would have to be guessed stays as the node sent it. */
export function showEntryAsKept(text: Buffer, options: ShowOptions): ShownTexts | null {
  try {
    return showEntry(text, options);
  } catch (error) {
    const entry = error instanceof EncodingMissing ? entryOf(text) : null;
    if (entry === null) throw error;
    const version = options.maxVersion === null ? null : entry.versionText;
    return { meta: entry.metaText, transaction: entry.transactionText, version, more: entry.more };
  }
}

/** Throws UnsupportedVersion. */
function demandVersion(version: 'legacy' | number, maxVersion: number | null): void {
  if (version !== 'legacy' && (maxVersion === null || maxVersion < version)) throw new UnsupportedVersion(version);
}

function versionOf(named: unknown, layout: WireLayout): 'legacy' | number {
  return layout.version > HIGHEST_WIRE_VERSION ? layout.version : namedVersion(named);
}

/** Without them, the numbers of accounts cannot be shown as accounts. */
function hasLoaded(metaText: string, { loadedWritable, loadedReadonly }: WireLayout): boolean {
  if (loadedWritable + loadedReadonly === 0) return true;
  const meta: unknown = JSON.parse(metaText);
  const loaded = loadedAddressesOf(isPlainObject(meta) ? meta['loadedAddresses'] : null);
  return loaded?.writable.length === loadedWritable && loaded.readonly.length === loadedReadonly;
}

/** `wire`: bytes beside a transaction that only JSON shows; kept here, not sent by a node. */
const KNOWN_MEMBERS: ReadonlySet<string> = new Set(['meta', 'transaction', 'version', 'wire']);

interface Entry {
  readonly metaText: string;
  readonly transactionText: string;
  readonly versionText: string | null;
  readonly version: unknown;
  /** The text of a version in a form that no node of today sends; else null. */
  readonly oddVersion: string | null;
  readonly encoding: string;
  readonly wire: ReturnType<typeof wireOfEntry>;
  readonly more: readonly string[];
}

/** Null for a text that is no entry. Without `meta` it is `null`. */
function entryOf(text: Buffer): Entry | null {
  const members = new Map(objectMembers(text)?.map((member) => [member.name, member]));
  const transaction = members.get('transaction');
  if (transaction === undefined) return null;
  const textOf = (member: JsonMember | undefined) =>
    member === undefined ? 'null' : text.toString('utf8', member.start, member.end);
  const parsed = parseExact(text.toString('utf8')) as { readonly transaction: unknown; readonly version?: unknown };
  return {
    metaText: textOf(members.get('meta')),
    transactionText: textOf(transaction),
    versionText: members.has('version') ? textOf(members.get('version')) : null,
    version: parsed.version,
    oddVersion: isUsualVersion(parsed.version) ? null : textOf(members.get('version')),
    more: [...members.values()]
      .filter(({ name }) => !KNOWN_MEMBERS.has(name))
      .map((member) => `${JSON.stringify(member.name)}:${textOf(member)}`),
    encoding: Array.isArray(parsed.transaction) ? String(parsed.transaction[1]) : 'json',
    wire: wireOfEntry(parsed),
  };
}

const isUsualVersion = (version: unknown): boolean =>
  version === undefined || version === 'legacy' || typeof version === 'number';

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

/** `[bytes] text` of each memo instruction, joined as in signature lists; null without any. */
export function memoOfWire({ instructions }: Pick<WireParts, 'instructions'>, keys: readonly string[]): string | null {
  const memos = instructions
    .filter((item) => MEMO_PROGRAMS.includes(keys[item.programIdIndex] ?? ''))
    .map((item) => memoLine(item.data));
  return memos.length === 0 ? null : memos.join('; ');
}
