/**
 * Standard methods from the ledger and its archive, byte by byte as a node answers. Only what is final in them is answered, in the forms
 * known here: everything else, errors of parameters, unknown slots and skipped ones included, is left to an upstream.
 */
import { decode, decode32 } from '../../src/lib/base58.ts';
import { arrayItems, isPlainObject, objectMembers, stringify } from '../../src/lib/json.ts';
import { type Log, messageOf } from '../../src/plugin/plugin.ts';
import type { KeptAnswers, KeptQuestion } from '../../src/ports/address-history.ts';
import type { PastReader } from '../../src/ports/ledger.ts';
import { decodeEntries } from '../../src/solana/decode/decode-block.ts';
import {
  type ShowOptions,
  showEntry,
  type TransactionEncoding,
  UnsupportedVersion,
} from '../../src/solana/show-transaction.ts';

interface StandardParts {
  readonly past: () => PastReader | null;
  /** The JSON text of a call to an upstream that has the whole history. */
  readonly ask: (method: string, params: readonly unknown[]) => Promise<string>;
  /** Whether the ledger is only moments behind the chain. */
  readonly isFresh: () => boolean;
  readonly log: Log;
  /** Called for each call that was answered. */
  readonly answered: (method: string) => void;
}

type Members = Readonly<Record<string, unknown>>;
type Answer = (
  past: PastReader,
  params: readonly unknown[],
  parts: StandardParts,
) => Promise<string | null> | string | null;

const MOST_SLOTS = 500_000;
const MOST_SIGNATURES = 1_000;
/** Slots that a list with a limit looks through beyond twice the limit. */
const EXTRA_SLOTS = 1_000;
const UNSUPPORTED_VERSION = -32015;

const METHODS: Readonly<Record<string, Answer>> = {
  getBlock,
  getBlocks,
  getBlocksWithLimit,
  getBlockTime,
  getTransaction,
  getSignaturesForAddress,
  getSignatureStatuses,
};

/** Names, for the metric. */
export const STANDARD_METHODS = Object.keys(METHODS);

export function createStandardAnswers(parts: StandardParts): KeptAnswers {
  async function run(method: string, params: readonly unknown[], past: PastReader) {
    try {
      const resultText = (await METHODS[method]!(past, params, parts)) ?? null;
      if (resultText === null) return null;
      parts.answered(method);
      return { resultText };
    } catch (error) {
      if (error instanceof UnsupportedVersion) {
        parts.answered(method);
        return { errorText: JSON.stringify({ code: UNSUPPORTED_VERSION, message: error.message }) };
      }
      parts.log.debug(
        { method, error: messageOf(error) },
        'the ledger and its archive cannot be read; an upstream answers instead',
      );
      return null;
    }
  }

  return {
    answer({ method, params }: KeptQuestion) {
      if (!Object.hasOwn(METHODS, method)) return null;
      const past = parts.past();
      const text = past === null ? null : params();
      if (past === null || text === null) return null;
      const given: unknown = JSON.parse(text);
      return Array.isArray(given) ? run(method, given, past) : null;
    },
  };
}

const isSlot = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/** A configuration of known members, or absent; undefined: an upstream has to read it. */
function configOf(value: unknown, names: readonly string[]): Members | undefined {
  if (value === undefined || value === null) return {};
  if (!isPlainObject(value) || Object.keys(value).some((name) => !names.includes(name))) return undefined;
  const { commitment } = value;
  return commitment == null || commitment === 'confirmed' || commitment === 'finalized' ? value : undefined;
}

const ENCODINGS: readonly unknown[] = ['json', 'jsonParsed', 'base58', 'base64'];

/** Undefined: an upstream has to read it. */
function showOptions(config: Members): ShowOptions | undefined {
  const { encoding = 'json', transactionDetails, maxSupportedTransactionVersion: most } = config;
  if (!ENCODINGS.includes(encoding)) return undefined;
  if (most != null && !(Number.isInteger(most) && (most as number) >= 0 && (most as number) <= 255)) return undefined;
  return {
    encoding: encoding as TransactionEncoding,
    details: transactionDetails === 'accounts' ? 'accounts' : 'full',
    maxVersion: most == null ? null : (most as number),
  };
}

async function isFinalBlock(past: PastReader, slot: unknown): Promise<boolean> {
  if (!isSlot(slot) || slot > (await past.finalSlot())) return false;
  return (await past.states(slot, slot)).blocks.length === 1;
}

const BLOCK_MEMBERS = ['encoding', 'transactionDetails', 'rewards', 'commitment', 'maxSupportedTransactionVersion'];
const DETAILS: readonly unknown[] = ['full', 'accounts', 'signatures', 'none'];

async function getBlock(past: PastReader, [slot, given]: readonly unknown[]): Promise<string | null> {
  const config = configOf(typeof given === 'string' ? { encoding: given } : given, BLOCK_MEMBERS);
  const options = config === undefined ? undefined : showOptions(config);
  const { transactionDetails: details = 'full', rewards = true } = config ?? {};
  if (options === undefined || !DETAILS.includes(details) || typeof rewards !== 'boolean') return null;
  if (!(await isFinalBlock(past, slot))) return null;
  const text = await past.text(slot as number);
  const members = text === null ? null : objectMembers(text);
  if (text === null || members === null) return null;
  const shown: string[] = [];
  for (const { name, start, end } of members) {
    if (name === 'rewards' && !rewards) continue;
    if (name !== 'transactions') shown.push(`"${name}":${text.toString('utf8', start, end)}`);
    else if (details === 'signatures') shown.push(`"signatures":${signaturesText(text.subarray(start, end))}`);
    else if (details !== 'none') {
      const entries = entriesText(text.subarray(start, end), options);
      if (entries === null) return null;
      shown.push(`"transactions":${entries}`);
    }
  }
  return `{${shown.join()}}`;
}

function entriesText(text: Buffer, options: ShowOptions): string | null {
  const items = arrayItems(text);
  if (items === null) return null;
  const shown: string[] = [];
  for (const { start, end } of items) {
    const entry = showEntry(text.subarray(start, end), options);
    if (entry === null) return null;
    const version = entry.version === null ? '' : `,"version":${entry.version}`;
    shown.push(`{"meta":${entry.meta},"transaction":${entry.transaction}${version}}`);
  }
  return `[${shown.join()}]`;
}

/** Of a block in base64. */
function signaturesText(text: Buffer): string {
  const entries = JSON.parse(text.toString('utf8')) as readonly unknown[];
  const { transactions } = decodeEntries(0, entries, new Uint8Array(32).fill(1));
  return JSON.stringify(transactions.map(({ signature }) => signature));
}

async function getBlocks(past: PastReader, [start, end, given]: readonly unknown[]): Promise<string | null> {
  if (configOf(given, ['commitment']) === undefined || !isSlot(start) || !isSlot(end)) return null;
  if (end < start || end - start > MOST_SLOTS || end > (await past.finalSlot())) return null;
  const { blocks, unknown } = await past.states(start, end);
  return unknown.length > 0 ? null : JSON.stringify(blocks);
}

async function getBlocksWithLimit(past: PastReader, [start, limit, given]: readonly unknown[]): Promise<string | null> {
  if (configOf(given, ['commitment']) === undefined || !isSlot(start) || !isSlot(limit)) return null;
  const finalSlot = await past.finalSlot();
  if (limit < 1 || limit > MOST_SLOTS || start > finalSlot) return null;
  const { blocks, unknown } = await past.states(start, Math.min(finalSlot, start + 2 * limit + EXTRA_SLOTS));
  const last = blocks[limit - 1];
  if (last === undefined || unknown.some((slot) => slot < last)) return null;
  return JSON.stringify(blocks.slice(0, limit));
}

async function getBlockTime(past: PastReader, [slot]: readonly unknown[]): Promise<string | null> {
  if (!(await isFinalBlock(past, slot))) return null;
  const time = (await past.header(slot as number))?.blockTime ?? null;
  return time === null ? null : String(time);
}

/** A transaction in a final block; null when it is not known as that. */
async function finalTransaction(past: PastReader, signature: unknown) {
  const bytes = typeof signature === 'string' && signature.length <= 88 ? decode(signature) : null;
  if (bytes === null || bytes.length !== 64) return null;
  const place = await past.find(bytes);
  if (place === null || place.slot > (await past.finalSlot())) return null;
  return await past.transaction(place);
}

const TRANSACTION_MEMBERS = ['encoding', 'commitment', 'maxSupportedTransactionVersion'];

async function getTransaction(past: PastReader, [signature, given]: readonly unknown[]): Promise<string | null> {
  const config = configOf(typeof given === 'string' ? { encoding: given } : given, TRANSACTION_MEMBERS);
  const options = config === undefined ? undefined : showOptions(config);
  const found = options === undefined ? null : await finalTransaction(past, signature);
  if (options === undefined || found === null) return null;
  const entry = showEntry(found.text, options);
  if (entry === null) return null;
  const { meta, transaction, version } = entry;
  const head = `{"blockTime":${found.header.blockTime},"meta":${meta},"slot":${found.slot},"transaction":${transaction}`;
  return `${head},"transactionIndex":${found.index}${version === null ? '' : `,"version":${version}`}}`;
}

const ADDRESS_MEMBERS = ['limit', 'before', 'until', 'commitment', 'minContextSlot'];

async function getSignaturesForAddress(
  past: PastReader,
  [address, given]: readonly unknown[],
  { isFresh, ask }: StandardParts,
): Promise<string | null> {
  const config = configOf(given, ADDRESS_MEMBERS);
  const key = typeof address === 'string' ? decode32(address) : null;
  if (config === undefined || key === null) return null;
  const { limit = MOST_SIGNATURES, before, until, commitment, minContextSlot } = config;
  if (!isSlot(limit) || limit < 1 || limit > MOST_SIGNATURES) return null;
  const finalSlot = await past.finalSlot();
  const placeOf = async (signature: unknown) => {
    const bytes = typeof signature === 'string' && signature.length <= 88 ? decode(signature) : null;
    const place = bytes?.length === 64 ? await past.find(bytes) : null;
    return place !== null && place.slot <= finalSlot ? place : null;
  };
  const from = before == null ? null : await placeOf(before);
  const to = until == null ? null : await placeOf(until);
  if (before != null && from === null) return null;
  if (minContextSlot != null && !(isSlot(minContextSlot) && minContextSlot <= finalSlot)) return null;
  // Newer than a final place there may be more than the ledger knows as final.
  if (from === null && (commitment === 'confirmed' || !isFresh())) return null;
  const { rows, isWhole, inVotes } = await past.page({
    ...{ address: key, reasons: 'keys', limit },
    below: from ?? { slot: finalSlot + 1, index: -1 },
    ...(to === null ? {} : { above: to }),
  });
  const last = rows.at(-1);
  if (inVotes || (last === undefined && !isWhole)) return null;
  const text = stringify(
    rows.map(({ signature, slot, index, blockTime, err, memo }) => ({
      ...{ blockTime, confirmationStatus: 'finalized', err, memo, signature, slot, transactionIndex: index },
    })),
  );
  // A signature that is in neither of them is older than all rows, or of no transaction: then a node has to say so.
  if (isWhole && (until == null || to !== null)) return text;
  if (isWhole) return null;
  const rest = await ask('getSignaturesForAddress', [
    address,
    { ...config, limit: limit - rows.length, before: last!.signature },
  ]);
  if (!/^\[.*\]$/s.test(rest)) return null;
  return rest === '[]' ? text : `${text.slice(0, -1)},${rest.slice(1)}`;
}

const MOST_STATUSES = 256;

/** With the whole history, and only where all transactions are final here: what a node does not find needs a node to say so. */
async function getSignatureStatuses(past: PastReader, [list, given]: readonly unknown[]): Promise<string | null> {
  const config = configOf(given, ['searchTransactionHistory']);
  if (config?.['searchTransactionHistory'] !== true || !Array.isArray(list)) return null;
  if (list.length < 1 || list.length > MOST_STATUSES) return null;
  const value: unknown[] = [];
  for (const signature of list as unknown[]) {
    const found = await finalTransaction(past, signature);
    if (found === null) return null;
    const { meta } = JSON.parse(found.text.toString('utf8')) as { readonly meta: { readonly err: unknown } | null };
    if (meta === null) return null;
    const { err } = meta;
    const status = err === null ? { Ok: null } : { Err: err };
    value.push({ confirmationStatus: 'finalized', confirmations: null, err, slot: found.slot, status });
  }
  return stringify({ context: { slot: await past.finalSlot() }, value });
}
