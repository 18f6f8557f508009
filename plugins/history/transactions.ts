/** getTransactionsForAddress: transactions of an address in both orders, with filters. */

import { stringify } from '../../src/lib/json.ts';
import { type Caller, CodedError, JsonText, RpcError } from '../../src/plugin/plugin.ts';
import { endOf, type LoadedRow } from '../../src/ports/address-history.ts';
import { readTransfers } from '../../src/solana/movements/transfers.ts';
import { NATIVE_SOL_MINT } from '../../src/solana/programs.ts';
import { memoOfWire, showEntryAsKept, UnsupportedVersion, withStatus } from '../../src/solana/show-transaction.ts';
import { readTransactionsQuestion, type TransactionsQuestion } from './question.ts';
import { isMatch } from './transfers.ts';
import {
  exactPlace,
  isInTime,
  locateSignature,
  openReading,
  placeText,
  type Reading,
  type WalkParts,
  walk,
} from './walk.ts';

/** Full transactions that one price pays. */
export const FULL_LOT = 100;

export async function transactionsOf(
  parts: WalkParts,
  params: unknown,
  call: { readonly caller: Caller | null; readonly signal: AbortSignal },
  credits: number,
): Promise<JsonText> {
  const question = readTransactionsQuestion(params);
  const reading = await withSignatures(await openReading(parts, question, call), question);
  const found: LoadedRow[] = [];
  const { limit, order, mask } = question;
  const isFiltered = question.status !== 'any' || question.blockTime !== null || question.tokenTransfer !== null;
  const most = isFiltered ? Math.max(parts.scanLimit(), limit + 1) : limit + 1;
  const end = await walk(reading, { order, mask, most, expected: limit + 1 }, (one) => {
    if (isWanted(one, question)) found.push(one);
    return found.length > limit;
  });
  const shown = found.slice(0, limit);
  const rows = question.details === 'full' ? await fullRows(reading, shown, question) : signatureRows(reading, shown);
  const token = tokenText(
    parts,
    found.length > limit ? shown.at(-1)! : null,
    end.reason === 'complete' ? null : end.lastN,
  );
  const lots = question.details === 'full' ? Math.max(1, Math.ceil(shown.length / FULL_LOT)) : 1;
  return new JsonText(`{"data":[${rows.join()}],"paginationToken":${token}}`, lots * credits);
}

async function withSignatures(reading: Reading, { signatures }: TransactionsQuestion): Promise<Reading> {
  let { above, below } = reading;
  for (const { operator, signature } of signatures) {
    const isLower = operator === 'gt' || operator === 'gte';
    const n = await locateSignature(reading.view, signature, isLower ? 'newer' : 'older');
    if (isLower) above = Math.max(above, operator === 'gt' ? n : n - 1);
    else below = Math.min(below, operator === 'lt' ? n : n + 1);
  }
  return { ...reading, above, below };
}

function isWanted(
  { tx, block, time }: LoadedRow,
  { status, blockTime, tokenTransfer, address }: TransactionsQuestion,
): boolean {
  if (status !== 'any' && (tx.error === null) !== (status === 'succeeded')) return false;
  if (!isInTime(time, blockTime)) return false;
  if (tokenTransfer === null) return true;
  // SOL itself is no token unless it is asked for, and wrapping it is no transfer.
  const mayBeSol = tokenTransfer.mint === NATIVE_SOL_MINT;
  return readTransfers(tx, block.keys).some(
    (row) =>
      (row.mint !== null || mayBeSol) &&
      row.type !== 'wrap' &&
      row.type !== 'unwrap' &&
      isMatch(row, address, tokenTransfer, 'separate'),
  );
}

/** Behind a transaction, or behind the last one that was searched. While a fork can move it, this process remembers which one it was. */
function tokenText({ shown }: WalkParts, row: LoadedRow | null, last: number | null): string {
  if (row !== null) shown.note(row.n, row.signature);
  const n = row?.n ?? last;
  return n === null ? 'null' : JSON.stringify(placeText(n));
}

function signatureRows({ view, finalSlot }: Reading, rows: readonly LoadedRow[]): string[] {
  return rows.map(({ n, signature, slot, time, tx, block }) => {
    view.noteShown(signature, n);
    const keys = Array.from(tx.keys, (id) => block.keys.base58(id));
    const instructions = tx.instructions.map(({ programIndex, data }) => ({
      programIdIndex: programIndex,
      accounts: [],
      data,
    }));
    return stringify({
      blockTime: time,
      confirmationStatus: n < endOf(finalSlot) ? 'finalized' : 'confirmed',
      err: tx.error,
      memo: memoOfWire({ instructions }, keys),
      signature,
      slot,
      transactionIndex: exactPlace(n),
    });
  });
}

async function fullRows(
  { view }: Reading,
  rows: readonly LoadedRow[],
  question: TransactionsQuestion,
): Promise<string[]> {
  for (const { n, signature, tx } of rows) {
    demandVersion(tx.version, question.maxVersion);
    view.noteShown(signature, n);
  }
  const texts = await view.texts(rows);
  const { encoding, maxVersion } = question;
  const options = { encoding, details: 'full', maxVersion, rewards: true } as const;
  return rows.map(({ n, slot, time }, at) => {
    const shown = showEntryAsKept(Buffer.from(texts[at]!), options);
    if (shown === null) throw new CodedError('CHAIN_BAD_RESPONSE', 'a transaction has no meta', { retryable: true });
    const { meta, transaction, version } = shown;
    const head = `{"blockTime":${time},"meta":${withStatus(meta)},"slot":${slot},"transaction":${transaction}`;
    return `${head},"transactionIndex":${exactPlace(n)}${version === null ? '' : `,"version":${version}`}}`;
  });
}

/** Before any body is read. */
function demandVersion(version: 'legacy' | number, most: number | null): void {
  if (version !== 'legacy' && (most === null || version > most)) throw unsupported(new UnsupportedVersion(version));
}

const unsupported = ({ message }: UnsupportedVersion) => new RpcError('unsupportedVersion', { message });
