/** getTransfersByAddress: every movement of SOL and tokens to and from an owner, one row for each instruction. */

import { type Caller, JsonText, RequestError } from '../../src/plugin/plugin.ts';
import { tenantOf } from '../../src/ports/access.ts';
import { CHANGED, endOf, type LoadedRow, NAMED, TOUCHED } from '../../src/ports/address-history.ts';
import type { MintFacts, TokenFacts } from '../../src/ports/tokens.ts';
import { transferFee, uiAmount } from '../../src/solana/accounts/amounts.ts';
import { readTransfers, type TransferRow } from '../../src/solana/movements/transfers.ts';
import { NATIVE_SOL_MINT, WRAPPED_SOL_MINT } from '../../src/solana/programs.ts';
import { isWithin, readTransfersQuestion, type TransferFilter, type TransfersQuestion } from './question.ts';
import { exactPlace, isInTime, openReading, placeText, type Reading, type WalkParts, walk } from './walk.ts';

const SLOTS_PER_EPOCH = 432_000n;

interface MatchedTransfer {
  readonly at: LoadedRow;
  readonly row: TransferRow;
  /** Index among all transfers of the transaction. */
  readonly index: number;
}

/** Whether a transfer is one of the address, and fits. Of merged SOL, wrapping one's own is no transfer. */
export function isMatch(
  row: TransferRow,
  address: string,
  { with: other, direction, mint, amount }: TransferFilter,
  solMode: TransfersQuestion['solMode'],
): boolean {
  const isOut = row.from === address && direction !== 'in';
  const isIn = row.to === address && direction !== 'out';
  if (!isOut && !isIn) return false;
  if (other !== null && !(isOut && row.to === other) && !(isIn && row.from === other)) return false;
  const isWrapping = row.type === 'wrap' || row.type === 'unwrap';
  if (solMode === 'merged' && isWrapping && row.from === row.to) return false;
  if (
    mint !== null &&
    mintOf(row, solMode) !== (solMode === 'merged' && mint === WRAPPED_SOL_MINT ? NATIVE_SOL_MINT : mint)
  )
    return false;
  return amount === null || isWithin(row.amount, amount);
}

const mintOf = ({ mint, isWrapped }: TransferRow, solMode: TransfersQuestion['solMode']): string =>
  mint === null || (isWrapped && solMode === 'merged') ? NATIVE_SOL_MINT : mint;

export async function transfersOf(
  parts: WalkParts & { readonly facts: TokenFacts | null },
  params: unknown,
  call: { readonly caller: Caller | null; readonly signal: AbortSignal },
): Promise<JsonText> {
  const question = readTransfersQuestion(params);
  const reading = await openReading(parts, question, call);
  const { address, order, limit, cursor, solMode } = question;
  if (question.isEmpty) return new JsonText('{"data":[],"paginationToken":null}');
  const found: MatchedTransfer[] = [];
  // The transaction in which the page before ended, if it is read again.
  const resumed = cursor?.kind === 'row' && cursor.row !== Number.POSITIVE_INFINITY ? cursor.row : null;
  const most = Math.max(parts.scanLimit(), limit + 1);
  const mask = NAMED | CHANGED | TOUCHED;
  const end = await walk(reading, { order, mask, most, expected: limit + 1 }, (at) => {
    if (!isInTime(at.time, question.blockTime)) return false;
    const rows = readTransfers(at.tx, at.block.keys).map((row, index) => ({ at, row, index }));
    for (const one of order === 'asc' ? rows : rows.reverse()) {
      const isSeen =
        resumed !== null &&
        at.n === reading.cursorAt &&
        (order === 'asc' ? one.index <= resumed : one.index >= resumed);
      if (!isSeen && isMatch(one.row, address, question, solMode)) found.push(one);
    }
    return found.length > limit;
  });
  const shown = found.slice(0, limit);
  const token = tokenText(
    parts,
    found.length > limit ? shown.at(-1)! : null,
    end.reason === 'complete' ? null : end.lastN,
  );
  const texts = await rowTexts(parts, reading, shown, question, call.signal);
  return new JsonText(`{"data":[${texts.join()}],"paginationToken":${token}}`);
}

/** Behind a row, or behind all rows of the last transaction that was searched. */
function tokenText(parts: WalkParts, row: MatchedTransfer | null, last: number | null): string {
  if (row === null) return last === null ? 'null' : JSON.stringify(`${placeText(last)}:0:0:end`);
  parts.shown.note(row.at.n, row.at.signature);
  return JSON.stringify(`${placeText(row.at.n)}:${row.row.outer}:${Math.max(0, row.row.inner)}:${row.index}`);
}

async function rowTexts(
  parts: { readonly facts: TokenFacts | null },
  { view, finalSlot }: Reading,
  shown: readonly MatchedTransfer[],
  { solMode }: TransfersQuestion,
  signal: AbortSignal,
): Promise<string[]> {
  const facts = await factsOf(parts.facts, shown, signal);
  const times = new Map<number, number>();
  for (const { at } of shown) {
    view.noteShown(at.signature, at.n);
    const time = times.get(at.slot) ?? at.time ?? (await view.timeNear(at.slot));
    if (time === null) throw unknown(`the time of slot ${at.slot} is unknown`);
    times.set(at.slot, time);
  }
  return shown.map(({ at, row }) => {
    const time = times.get(at.slot)!;
    const mint = facts.get(row.mint ?? '') ?? null;
    const decimals = row.decimals ?? mint?.decimals;
    if (decimals === undefined) throw unknown(`the decimals of mint ${row.mint} are unknown`);
    const scale = row.isWrapped ? null : (mint?.scale ?? null);
    const fee = row.fee ?? withheld(row, mint, at.slot);
    return JSON.stringify({
      signature: at.signature,
      slot: at.slot,
      blockTime: time,
      type: typeOf(row, solMode),
      fromUserAccount: row.from,
      toUserAccount: row.to,
      ...(row.fromAccount === null ? {} : { fromTokenAccount: row.fromAccount }),
      ...(row.toAccount === null ? {} : { toTokenAccount: row.toAccount }),
      mint: mintOf(row, solMode),
      amount: row.amount.toString(),
      ...(fee === 0n ? {} : { feeAmount: fee.toString() }),
      ...(fee === 0n || row.toAccount === null ? {} : { feeAccount: row.toAccount }),
      ...(fee === 0n ? {} : { feeUiAmount: uiAmount(fee, decimals, scale, time) }),
      decimals,
      uiAmount: uiAmount(row.amount, decimals, scale, time),
      confirmationStatus: at.n < endOf(finalSlot) ? 'finalized' : 'confirmed',
      transactionIdx: exactPlace(at.n),
      instructionIdx: row.outer,
      innerInstructionIdx: Math.max(0, row.inner),
    });
  });
}

/** Where SOL is merged, wrapping for another owner is a transfer to that owner. */
const typeOf = ({ type }: TransferRow, solMode: TransfersQuestion['solMode']): TransferRow['type'] =>
  solMode === 'merged' && (type === 'wrap' || type === 'unwrap') ? 'transfer' : type;

/** What the mint withholds from a transfer at a slot, where the transaction does not contain it. */
function withheld({ amount }: TransferRow, mint: MintFacts | null, slot: number): bigint {
  const config = mint?.transferFee ?? null;
  return config === null ? 0n : transferFee(config, amount, BigInt(slot) / SLOTS_PER_EPOCH);
}

const FACTS_AT_ONCE = 500;

/** Facts of the mints whose rows need more than their transaction contains. Errors: 503. */
async function factsOf(
  facts: TokenFacts | null,
  shown: readonly MatchedTransfer[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, MintFacts>> {
  const needy = shown.filter(
    ({ row }) => row.fee === null || row.decimals === null || (row.mayBeScaled && !row.isWrapped),
  );
  const mints = [...new Set(needy.flatMap(({ row }) => (row.mint ? [row.mint] : [])))];
  const found = new Map<string, MintFacts>();
  try {
    for (let at = 0; facts !== null && at < mints.length; at += FACTS_AT_ONCE)
      for (const [mint, one] of await facts.lookUp(mints.slice(at, at + FACTS_AT_ONCE), {
        signal,
        tenant: tenantOf(signal),
      }))
        if (one !== null) found.set(mint, one);
  } catch (error) {
    signal.throwIfAborted();
    throw unknown('The Solana upstream does not report how amounts of a token are shown', error);
  }
  return found;
}

const unknown = (details: string, cause?: unknown): RequestError =>
  new RequestError(503, 'Service unavailable', { details, cause });
