import { JsonCursor, NameList, Unusual } from '../../lib/json-cursor.ts';
import { decodeResponse } from './response.ts';

/**
 * Finds the parts of a `getBlock` answer (encoding base64) in its bytes without creating values: most transactions of a
 * block are only matched against addresses, and parsing their logs and balances is most of the cost of a block.
 */

const MAX_HEADER_BYTES = 256;

/**
 * Null when the answer is no result with a list of transactions: the caller then parses it, which also finds the
 * error. Entries in an unusual form are only located. The body is kept and must not be changed afterwards.
 */
export function scanBlockAnswer(body: Buffer): ScannedBlock | null {
  const scan: Scan = { cursor: new JsonCursor(body), names: createNames(), texts: [] };
  try {
    return scanAnswer(scan);
  } catch (error) {
    if (error instanceof Unusual) return null;
    throw error;
  }
}

function scanAnswer(scan: Scan): ScannedBlock {
  const { cursor } = scan;
  let block: ScannedBlock | null = null;
  for (let more = cursor.firstMember(); more; more = cursor.nextMember()) {
    const name = cursor.name(scan.names.answer, -1);
    if (name === 1 || (name === 0 && block !== null)) cursor.refuse();
    if (name === 0) block = scanBlock(scan);
    else cursor.value();
  }
  cursor.peek();
  return cursor.at === cursor.bytes.length && block !== null ? block : cursor.refuse();
}

function scanBlock(scan: Scan): ScannedBlock {
  const { cursor } = scan;
  const { bytes } = cursor;
  cursor.peek();
  const start = cursor.at;
  const header: Record<string, unknown> = Object.create(null);
  let entries: ScannedEntry[] | null = null;
  for (let more = cursor.firstMember(); more; more = cursor.nextMember()) {
    const name = cursor.nameText().toString('latin1');
    if (name === 'transactions') {
      if (entries !== null) cursor.refuse();
      entries = scanEntries(scan);
      continue;
    }
    const isNumber = isNumberStart(cursor.peek());
    const from = cursor.at;
    cursor.value();
    // The members that link blocks are short texts and numbers.
    const isShort = cursor.at - from <= MAX_HEADER_BYTES;
    if (isNumber && !isShort) cursor.refuse();
    header[name] = isShort ? decodeResponse(bytes.subarray(from, cursor.at)) : null;
  }
  return entries === null ? cursor.refuse() : new ScannedBlock(bytes, [start, cursor.at], header, entries, scan.texts);
}

function scanEntries(scan: Scan): ScannedEntry[] {
  const { cursor } = scan;
  const entries: ScannedEntry[] = [];
  for (let more = cursor.firstElement(); more; more = cursor.nextElement()) entries.push(scanAnyEntry(scan));
  return entries;
}

/** One entry in an unusual form leaves the others as they are: it is skipped, and parsed alone later. */
function scanAnyEntry(scan: Scan): ScannedEntry {
  const { cursor, texts } = scan;
  cursor.peek();
  const { at, depth } = cursor;
  const textCount = texts.length;
  let usual: UsualParts | null = null;
  try {
    usual = scanEntry(scan);
  } catch (error) {
    if (!(error instanceof Unusual)) throw error;
    cursor.at = at;
    cursor.depth = depth;
    texts.length = textCount;
    cursor.value();
  }
  return { from: at, to: cursor.at, usual };
}

function scanEntry(scan: Scan): UsualParts {
  const { cursor } = scan;
  let wireFrom = -1;
  let wireTo = -1;
  let meta: ScannedMeta | null = null;
  let name = -1;
  for (let more = cursor.firstMember(); more; more = cursor.nextMember()) {
    name = cursor.name(scan.names.entry, name);
    if (name === 0) {
      if (wireTo >= 0) cursor.refuse();
      if (!cursor.firstElement()) cursor.refuse();
      wireFrom = cursor.characters();
      wireTo = cursor.at - 1;
      if (!cursor.nextElement() || cursor.text() !== 'base64' || cursor.nextElement()) cursor.refuse();
    } else if (name === 1) {
      if (meta !== null) cursor.refuse();
      meta = scanMeta(scan);
    } else cursor.value();
  }
  return wireTo < 0 || meta === null ? cursor.refuse() : { wireFrom, wireTo, meta };
}

const isDigit = (byte: number): boolean => byte >= 0x30 && byte <= 0x39;

function isNumberStart(byte: number): boolean {
  return byte === 0x2d || isDigit(byte);
}

/** Consecutive address texts in `ScannedBlock.texts`: index of the first one, and their number. */
export interface TextRange {
  readonly at: number;
  readonly count: number;
}

/** A part of the answer; empty when it is missing. */
export interface TextSpan {
  readonly from: number;
  readonly to: number;
}

/** Offsets of one entry in the bytes of the answer. */
export interface ScannedEntry {
  readonly from: number;
  readonly to: number;
  /** Null for an entry in another form than the usual one. */
  readonly usual: UsualParts | null;
}

/** Offsets of the parts of a transaction in base64 with a complete `meta`. */
export interface UsualParts {
  /** The base64 text between its quotes. */
  readonly wireFrom: number;
  readonly wireTo: number;
  readonly meta: ScannedMeta;
}

export interface ScannedMeta {
  readonly from: number;
  readonly to: number;
  /** The text of `err`; empty for null. */
  readonly error: TextSpan;
  /** Numbers of elements. */
  readonly preBalances: number;
  readonly postBalances: number;
  /** Largest account index in token balances and inner instructions; -1 for none. */
  readonly largestIndex: number;
  /** Largest index of an outer instruction with inner ones; -1 for none. */
  readonly largestGroup: number;
  readonly writable: TextRange;
  readonly readonly: TextRange;
  readonly preTokens: ScannedTokens;
  readonly postTokens: ScannedTokens;
}

/** The result of scanning a `getBlock` answer. Only the header has been parsed. */
export class ScannedBlock {
  /** The whole answer. */
  readonly body: Buffer;
  /** Where the block starts and ends in it. */
  readonly range: readonly [number, number];
  /** The members of the block except its transactions. */
  readonly header: Readonly<Record<string, unknown>>;
  readonly entries: readonly ScannedEntry[];
  /** Start and length of each address text; a length of 0 when the member is missing, null or empty. */
  readonly texts: readonly number[];

  constructor(
    body: Buffer,
    range: readonly [number, number],
    header: Record<string, unknown>,
    entries: readonly ScannedEntry[],
    texts: readonly number[],
  ) {
    this.body = body;
    this.range = range;
    this.header = header;
    this.entries = entries;
    this.texts = texts;
  }
}

/** State of the scan of one answer. */
export interface Scan {
  readonly cursor: JsonCursor;
  readonly names: Names;
  readonly texts: number[];
}

/** Member names that a scan searches; the last ones of a list are listed only because they are common. */
function createNames() {
  return {
    answer: new NameList(['result', 'error', 'jsonrpc', 'id']),
    entry: new NameList(['transaction', 'meta', 'version']),
    meta: new NameList([
      'err',
      'fee',
      'preBalances',
      'postBalances',
      'innerInstructions',
      'logMessages',
      'preTokenBalances',
      'postTokenBalances',
      'loadedAddresses',
      'status',
      'rewards',
      'computeUnitsConsumed',
      'costUnits',
      'returnData',
    ]),
    loaded: new NameList(['writable', 'readonly']),
    group: new NameList(['index', 'instructions']),
    instruction: new NameList(['programIdIndex', 'accounts', 'data', 'stackHeight']),
    balance: new NameList(['accountIndex', 'mint', 'uiTokenAmount', 'programId', 'owner']),
    amount: new NameList(['amount', 'decimals', 'uiAmount', 'uiAmountString']),
  };
}

export type Names = ReturnType<typeof createNames>;

const ERR = 0;
const FEE = 1;
const PRE_BALANCES = 2;
const POST_BALANCES = 3;
const INNER = 4;
const LOGS = 5;
const PRE_TOKENS = 6;
const POST_TOKENS = 7;
const LOADED = 8;
const DATA = 2;
const REQUIRED_OF_META = (1 << ERR) | (1 << FEE) | (1 << PRE_BALANCES) | (1 << POST_BALANCES);

const NOTHING: TextRange = { at: 0, count: 0 };
const EMPTY: TextSpan = { from: 0, to: 0 };
const NO_TOKENS: ScannedTokens = { ...EMPTY, texts: NOTHING, largest: -1 };

/** Skips the `meta` of a transaction and checks everything that is read later. */
function scanMeta(scan: Scan): ScannedMeta {
  const { cursor } = scan;
  cursor.peek();
  const from = cursor.at;
  let [preBalances, postBalances, largestIndex, largestGroup] = [0, 0, -1, -1];
  let error = EMPTY;
  let preTokens = NO_TOKENS;
  let postTokens = NO_TOKENS;
  let loaded: Loaded = { writable: NOTHING, readonly: NOTHING };
  let name = -1;
  let seen = 0;
  for (let more = cursor.firstMember(); more; more = cursor.nextMember()) {
    name = cursor.name(scan.names.meta, name);
    if (name < 0 || name > LOADED) {
      cursor.value();
      continue;
    }
    // `JSON.parse` keeps the last of duplicate members: rare, so such an answer is parsed.
    if ((seen & (1 << name)) !== 0) cursor.refuse();
    seen |= 1 << name;
    if (name === ERR) {
      cursor.peek();
      const errorFrom = cursor.at;
      if (!cursor.isNull()) {
        cursor.value();
        error = { from: errorFrom, to: cursor.at };
      }
    } else if (name === FEE) cursor.integer();
    else if (name === PRE_BALANCES) preBalances = cursor.integers();
    else if (name === POST_BALANCES) postBalances = cursor.integers();
    else if (name === INNER) {
      const inner = scanInner(scan);
      largestIndex = Math.max(largestIndex, inner.account);
      largestGroup = inner.group;
    } else if (name === LOGS) {
      if (!cursor.isNull()) cursor.strings();
    } else if (name === PRE_TOKENS || name === POST_TOKENS) {
      const tokens = scanTokenBalances(scan);
      largestIndex = Math.max(largestIndex, tokens.largest);
      if (name === PRE_TOKENS) preTokens = tokens;
      else postTokens = tokens;
    } else if (name === LOADED && !cursor.isNull()) loaded = scanLoaded(scan);
  }
  if ((seen & REQUIRED_OF_META) !== REQUIRED_OF_META) cursor.refuse();
  return {
    from,
    to: cursor.at,
    error,
    preBalances,
    postBalances,
    largestIndex,
    largestGroup,
    ...loaded,
    preTokens,
    postTokens,
  };
}

interface Loaded {
  readonly writable: TextRange;
  readonly readonly: TextRange;
}

function scanLoaded(scan: Scan): Loaded {
  const { cursor } = scan;
  const lists: [TextRange | null, TextRange | null] = [null, null];
  let name = -1;
  for (let more = cursor.firstMember(); more; more = cursor.nextMember()) {
    name = cursor.name(scan.names.loaded, name);
    if (name < 0) cursor.value();
    else {
      if (lists[name] !== null) cursor.refuse();
      lists[name] = scanAddresses(scan);
    }
  }
  return { writable: lists[0] ?? NOTHING, readonly: lists[1] ?? NOTHING };
}

function scanAddresses({ cursor, texts }: Scan): TextRange {
  const at = texts.length / 2;
  for (let more = cursor.firstElement(); more; more = cursor.nextElement()) {
    const from = cursor.characters();
    texts.push(from, cursor.at - 1 - from);
  }
  return { at, count: texts.length / 2 - at };
}

/** The largest indexes of an account and of an outer instruction; -1 for none. */
function scanInner(scan: Scan): { readonly account: number; readonly group: number } {
  const { cursor } = scan;
  let largest = -1;
  let largestGroup = -1;
  if (cursor.isNull()) return { account: largest, group: largestGroup };
  for (let more = cursor.firstElement(); more; more = cursor.nextElement()) {
    let name = -1;
    let seen = 0;
    for (let next = cursor.firstMember(); next; next = cursor.nextMember()) {
      name = cursor.name(scan.names.group, name);
      if (name < 0) cursor.value();
      else {
        if ((seen & (1 << name)) !== 0) cursor.refuse();
        seen |= 1 << name;
        if (name === 0) {
          largestGroup = Math.max(largestGroup, cursor.index());
        } else largest = Math.max(largest, scanInstructions(scan));
      }
    }
    if (seen !== 0b11) cursor.refuse();
  }
  return { account: largest, group: largestGroup };
}

function scanInstructions(scan: Scan): number {
  const { cursor } = scan;
  let largest = -1;
  for (let more = cursor.firstElement(); more; more = cursor.nextElement()) {
    let name = -1;
    let seen = 0;
    for (let next = cursor.firstMember(); next; next = cursor.nextMember()) {
      name = cursor.name(scan.names.instruction, name);
      if (name < 0 || name > DATA) {
        cursor.value();
        continue;
      }
      if ((seen & (1 << name)) !== 0) cursor.refuse();
      seen |= 1 << name;
      if (name === 0) largest = Math.max(largest, cursor.index());
      else if (name === 1) largest = Math.max(largest, cursor.largestIndex());
      else cursor.string();
    }
    if (seen !== 0b111) cursor.refuse();
  }
  return largest;
}

const ACCOUNT = 0;
const MINT = 1;
const UI_AMOUNT = 2;
const PROGRAM = 3;
const AMOUNT = 0;
const DECIMALS = 1;
/** All members except owner and program. */
const REQUIRED_OF_BALANCE = (1 << ACCOUNT) | (1 << MINT) | (1 << UI_AMOUNT);

export interface ScannedTokens extends TextSpan {
  /** Three texts for each balance: mint, program, owner. */
  readonly texts: TextRange;
  /** Largest account index; -1 for none. */
  readonly largest: number;
}

/** Skips a list of token balances. */
function scanTokenBalances(scan: Scan): ScannedTokens {
  const { cursor, texts } = scan;
  const at = texts.length / 2;
  let largest = -1;
  cursor.peek();
  const from = cursor.at;
  if (!cursor.isNull())
    for (let more = cursor.firstElement(); more; more = cursor.nextElement())
      largest = Math.max(largest, scanBalance(scan));
  return { texts: { at, count: texts.length / 2 - at }, largest, from, to: cursor.at };
}

function scanBalance(scan: Scan): number {
  const { cursor, texts } = scan;
  const slot = texts.length;
  // Mint, program, owner: the order in which they are looked up.
  texts.push(0, 0, 0, 0, 0, 0);
  let account = -1;
  let name = -1;
  let seen = 0;
  for (let more = cursor.firstMember(); more; more = cursor.nextMember()) {
    name = cursor.name(scan.names.balance, name);
    if (name < 0) {
      cursor.value();
      continue;
    }
    if ((seen & (1 << name)) !== 0) cursor.refuse();
    seen |= 1 << name;
    if (name === ACCOUNT) account = cursor.index();
    else if (name === UI_AMOUNT) scanAmount(scan);
    else if (name === MINT) address(scan, slot);
    else if (name === PROGRAM) addressOrNull(scan, slot + 2);
    else addressOrNull(scan, slot + 4);
  }
  if ((seen & REQUIRED_OF_BALANCE) !== REQUIRED_OF_BALANCE) cursor.refuse();
  return account;
}

function addressOrNull(scan: Scan, slot: number): void {
  if (!scan.cursor.isNull()) address(scan, slot);
}

function address({ cursor, texts }: Scan, slot: number): void {
  const from = cursor.characters();
  texts[slot] = from;
  texts[slot + 1] = cursor.at - 1 - from;
}

const MAX_DECIMALS = 255;
const MAX_DIGITS = 39;

/** Raw units of a token. */
function scanDigits(cursor: JsonCursor): void {
  const from = cursor.characters();
  const to = cursor.at - 1;
  if (to === from || to - from > MAX_DIGITS) cursor.refuse();
  for (let at = from; at < to; at++) if (!isDigit(cursor.bytes[at]!)) cursor.refuse();
}

function scanAmount({ cursor, names }: Scan): void {
  let name = -1;
  let seen = 0;
  for (let more = cursor.firstMember(); more; more = cursor.nextMember()) {
    name = cursor.name(names.amount, name);
    if (name < 0 || name > DECIMALS) {
      cursor.value();
      continue;
    }
    if ((seen & (1 << name)) !== 0) cursor.refuse();
    seen |= 1 << name;
    if (name === AMOUNT) scanDigits(cursor);
    else if (cursor.index() > MAX_DECIMALS) cursor.refuse();
  }
  if (seen !== 0b11) cursor.refuse();
}
