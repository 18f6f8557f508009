import type { Scan } from './scan.ts';
import { scanTokenBalances } from './scan-tokens.ts';
import type { ScannedMeta, TextRange } from './scanned-block.ts';

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
const REQUIRED = (1 << ERR) | (1 << FEE) | (1 << PRE_BALANCES) | (1 << POST_BALANCES);

const NOTHING: TextRange = { at: 0, count: 0 };

/** Passes over the `meta` of a transaction and checks all that is read of it later. */
export function scanMeta(scan: Scan): ScannedMeta {
  const { cursor } = scan;
  cursor.peek();
  const from = cursor.at;
  let [hasError, preBalances, postBalances, largestIndex, largestGroup] = [false, 0, 0, -1, -1];
  let preTokens = NOTHING;
  let postTokens = NOTHING;
  let loaded: Loaded = { writable: NOTHING, readonly: NOTHING };
  let name = -1;
  let seen = 0;
  for (let more = cursor.firstMember(); more; more = cursor.nextMember()) {
    name = cursor.name(scan.names.meta, name);
    if (name < 0 || name > LOADED) {
      cursor.value();
      continue;
    }
    // Of names that occur twice the last one counts: not worth a thought here.
    if ((seen & (1 << name)) !== 0) cursor.refuse();
    seen |= 1 << name;
    if (name === ERR) {
      hasError = !cursor.isNull();
      if (hasError) cursor.value();
    } else if (name === FEE) cursor.number();
    else if (name === PRE_BALANCES) preBalances = cursor.numbers();
    else if (name === POST_BALANCES) postBalances = cursor.numbers();
    else if (name === INNER) {
      const inner = scanInner(scan);
      largestIndex = Math.max(largestIndex, inner.account);
      largestGroup = inner.group;
    } else if (name === LOGS) {
      if (!cursor.isNull()) cursor.elements();
    } else if (name === PRE_TOKENS || name === POST_TOKENS) {
      const { texts, largest } = scanTokenBalances(scan);
      largestIndex = Math.max(largestIndex, largest);
      if (name === PRE_TOKENS) preTokens = texts;
      else postTokens = texts;
    } else if (name === LOADED && !cursor.isNull()) loaded = scanLoaded(scan);
  }
  if ((seen & REQUIRED) !== REQUIRED) cursor.refuse();
  return {
    ...{ from, to: cursor.at, hasError, preBalances, postBalances, largestIndex, largestGroup },
    ...{ ...loaded, preTokens, postTokens },
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

/** The largest numbers of an account and of an outer instruction, -1 for none. */
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
