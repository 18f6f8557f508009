import type { Scan } from './scan.ts';
import type { TextRange } from './scanned-block.ts';

const ACCOUNT = 0;
const MINT = 1;
const UI_AMOUNT = 2;
const PROGRAM = 3;
const AMOUNT = 0;
const DECIMALS = 1;
/** All but owner and program. */
const REQUIRED = (1 << ACCOUNT) | (1 << MINT) | (1 << UI_AMOUNT);

export interface ScannedTokens {
  readonly texts: TextRange;
  /** Largest number of an account, -1 for none. */
  readonly largest: number;
}

/** Passes over a list of token balances. */
export function scanTokenBalances(scan: Scan): ScannedTokens {
  const { cursor, texts } = scan;
  const at = texts.length / 2;
  let largest = -1;
  if (!cursor.isNull())
    for (let more = cursor.firstElement(); more; more = cursor.nextElement())
      largest = Math.max(largest, scanBalance(scan));
  return { texts: { at, count: texts.length / 2 - at }, largest };
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
  if ((seen & REQUIRED) !== REQUIRED) cursor.refuse();
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
    if (name === AMOUNT) cursor.string();
    else cursor.number();
  }
  if (seen !== 0b11) cursor.refuse();
}
