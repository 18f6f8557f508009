/** The history of an address in pages, and searches of it: transactions, signatures or a count of what matches. */

import { type Caller, type Clock, JsonText, RequestError, RpcError } from '../../src/plugin/plugin.ts';
import type { AddressWalk, OpenAddressWalk, WalkPage } from '../../src/ports/address-history.ts';
import { CHANGED, type LoadedRow, NAMED, TOUCHED } from '../../src/ports/address-history.ts';
import type { NormalInstruction } from '../../src/ports/block.ts';
import { type ProgramInterface, snakeName } from '../../src/solana/idl/read-idl.ts';
import { nativeChange } from '../../src/solana/movements/movement.ts';
import { NATIVE_SOL_MINT } from '../../src/solana/programs.ts';
import type { ParsedConfig } from './config.ts';
import { demandUsable } from './costs.ts';
import type { ProjectAsker, TransactionWithKeys } from './fetch.ts';
import { type KnownVersion, type Learned, NOW } from './interfaces/index.ts';
import type { HistoryRequest, MintFilter, ProgramFilter, ScanRequest } from './requests.ts';
import { type ElementParts, elementTexts, learnAs, pause } from './transactions.ts';

export interface ParsedHistoryParts {
  readonly open: OpenAddressWalk;
  readonly clock: Clock;
  readonly config: ParsedConfig;
  readonly elements: ElementParts;
}

interface HistoryCall extends ProjectAsker {
  readonly caller: Caller | null;
}

const MASKS = { none: NAMED, balanceChanged: NAMED | CHANGED, all: NAMED | CHANGED | TOUCHED } as const;

async function openWalk(
  { open }: ParsedHistoryParts,
  request: HistoryRequest,
  call: HistoryCall,
  unindexed: 'accounts' | 'all',
): Promise<AddressWalk> {
  const { slot, time } = request;
  try {
    return await open(
      {
        ...request,
        fromSlot: slot.least,
        toSlot: slot.most,
        fromTime: time.least,
        toTime: time.most,
      },
      { caller: call.caller, signal: call.signal, unindexed },
    );
  } catch (error) {
    // The slot is not reached, or the chain does not know a signature.
    if (error instanceof RpcError) throw new RequestError(400, error.message, { cause: error });
    throw error;
  }
}

/** Whether a row is of the status and the time that were asked for. */
function isWithin({ tx, time }: LoadedRow, { status, time: { least, most } }: HistoryRequest): boolean {
  if (status !== 'any' && (tx.error === null) !== (status === 'succeeded')) return false;
  if (least === null && most === null) return true;
  return time !== null && (least === null || time >= least) && (most === null || time <= most);
}

/** A page of the history. */
export async function historyOf(
  parts: ParsedHistoryParts,
  request: HistoryRequest,
  call: HistoryCall,
): Promise<JsonText> {
  const walk = await openWalk(parts, request, call, 'accounts');
  const { limit, tokenAccounts } = request;
  const found: LoadedRow[] = [];
  let read: PagePosition | null = null;
  let isEnd = false;
  const most = Math.max(parts.config.historyLimit, limit + 1);
  for await (const page of walk.pages({ mask: MASKS[tokenAccounts], most, expected: limit + 1 })) {
    found.push(...page.rows.filter((row) => isWithin(row, request)));
    read = lastOf(page);
    isEnd = page.end === 'complete';
    if (found.length > limit) break;
  }
  const shown = found.slice(0, limit);
  const last = shown.at(-1);
  // Nothing of a cut page is lost: the token is behind the last one that is shown.
  const token =
    found.length > limit && last !== undefined
      ? walk.placeText(last.n, last.signature)
      : isEnd || read === null
        ? null
        : walk.placeText(read.n, read.signature);
  const data = await texts(parts, walk, shown, request, call);
  return new JsonText(`{"data":[${data.join()}]${token === null ? '' : `,"paginationToken":"${token}"`}}`);
}

const texts = (
  { elements }: ParsedHistoryParts,
  walk: AddressWalk,
  rows: readonly LoadedRow[],
  { rawTransaction }: HistoryRequest,
  asker: ProjectAsker,
): Promise<readonly string[]> =>
  elementTexts(
    rows.map((row) => ({ signature: row.signature, found: foundOf(walk, row) })),
    ...([rawTransaction, elements, asker] as const),
  );

/** Where a token goes on. A fork can move a transaction; with its signature the token moves along. */
interface PagePosition {
  readonly n: number;
  readonly signature: string | undefined;
}

/** Also of rows that are not shown. */
function lastOf({ rows, lastN }: WalkPage): PagePosition | null {
  const last = rows.at(-1);
  return lastN === null ? null : { n: lastN, signature: last?.n === lastN ? last.signature : undefined };
}

const foundOf = (walk: AddressWalk, row: LoadedRow): TransactionWithKeys => ({
  signature: row.signature,
  slot: row.slot,
  blockTime: row.time,
  tx: row.tx,
  keys: row.block.keys,
  text: async () => Buffer.from((await walk.texts([row]))[0]!),
});

// --------------------------------------------------------------------------------------------------------------------- scan

/** Transactions of one history page, each of which is charged once it is begun. */
const PAGE = 1_000;

/** Credits of a scan of so many transactions. */
export const scanCredits = ({ credits }: ParsedConfig, scanned: number): number =>
  credits.request + credits.scanPage * Math.ceil(scanned / PAGE);

/** Searches the history of an address. */
export async function scanOf(parts: ParsedHistoryParts, request: ScanRequest, call: HistoryCall): Promise<JsonText> {
  const { clock, config, elements } = parts;
  const started = clock.monotonic();
  const programs = await namedFilters(request, elements, call);
  const walk = await openWalk(parts, request, call, 'all');
  const matched: LoadedRow[] = [];
  const signatures: object[] = [];
  let [count, scanned] = [0, 0];
  let last: LoadedRow | null = null;
  /** Behind it the next call goes on. */
  let read: PagePosition | null = null;

  async function search(): Promise<'windowEnd' | 'limit' | 'budget' | 'deadline'> {
    const expected = Math.min(request.budget, EXPECTED);
    const range = { mask: MASKS[request.tokenAccounts], most: Number.MAX_SAFE_INTEGER, expected };
    for await (const page of walk.pages(range)) {
      const learned = await learnPrograms(page.rows, programs, elements, call);
      for (const [at, row] of page.rows.entries()) {
        if (at % PAUSE_ROWS === 0) await pause(call);
        if (!isWithin(row, request)) continue;
        if (scanned >= request.budget) return 'budget';
        scanned += 1;
        last = row;
        read = row;
        if (!isMatch(row, { programs, mints: request.mints, address: request.address }, learned)) continue;
        count += 1;
        if (request.returnShape === 'signatures') signatures.push(signatureRow(walk, row));
        if (request.returnShape !== 'transactions') continue;
        matched.push(row);
        if (matched.length >= request.limit) return 'limit';
      }
      read = lastOf(page);
      if (page.end === 'complete') return 'windowEnd';
      // Where an upstream has pruned what comes next, the call after this one says so.
      if (page.end === 'scanned' || scanned >= request.budget) return 'budget';
      if (clock.monotonic() - started > config.scanMs) return 'deadline';
    }
    return 'windowEnd';
  }

  const stoppedOn = await search();
  const through = last as LoadedRow | null;
  const place = read as PagePosition | null;
  const creditsCharged = scanCredits(config, scanned);
  const members: string[] = [];
  if (request.returnShape === 'transactions')
    members.push(`"data":[${(await texts(parts, walk, matched, request, call)).join()}]`);
  if (request.returnShape === 'signatures') members.push(`"data":${JSON.stringify(signatures)}`);
  if (stoppedOn !== 'windowEnd' && place !== null)
    members.push(`"paginationToken":"${walk.placeText(place.n, place.signature)}"`);
  const scan = {
    stoppedOn,
    scannedTransactions: scanned,
    matchedTransactions: count,
    ...(through === null ? {} : { scannedThrough: { slot: through.slot, blockTime: through.time } }),
    creditsCharged,
  };
  members.push(`"scan":${JSON.stringify(scan)}`);
  return new JsonText(`{${members.join()}}`, creditsCharged);
}

const EXPECTED = 100;
/** Rows that are compared without a pause. */
const PAUSE_ROWS = 100;

const signatureRow = (walk: AddressWalk, { signature, slot, n, time }: LoadedRow) => ({
  signature,
  slot,
  transactionIndex: walk.placeOf(n),
  blockTime: time,
});

interface NamedFilter extends ProgramFilter {
  /** In snake_case. */
  readonly names: readonly string[];
}

/** Errors: RequestError 400 for a name that no interface of its program has, charged because the chain was asked again. */
async function namedFilters(
  { programs }: ScanRequest,
  elements: ElementParts,
  asker: ProjectAsker,
): Promise<readonly NamedFilter[]> {
  const missing = async (filters: readonly ProgramFilter[], slot: number): Promise<readonly ProgramFilter[]> => {
    const all = (one: number) => new Map(filters.map(({ programId }) => [programId, one]));
    const { versionsOf } = await learnAs(all(slot), elements, asker, all(slot === NOW ? 0 : NOW));
    return filters.flatMap((filter) => {
      const versions = interfacesOf(versionsOf(filter.programId));
      const instructions = filter.instructions.filter((name) => !versions.some((one) => one.hasInstruction(name)));
      return instructions.length === 0 ? [] : [{ ...filter, instructions }];
    });
  };
  // What is kept may be older than an upgrade that brought the name, or newer than one that took it away.
  const suspect = await missing(
    programs.filter(({ instructions }) => instructions.length > 0),
    0,
  );
  const [wrongOne] = suspect.length === 0 ? [] : await missing(suspect, NOW);
  if (wrongOne !== undefined)
    throw new RequestError(
      400,
      `no interface of ${wrongOne.programId} has an instruction \`${wrongOne.instructions[0]}\``,
      { isCharged: true },
    );
  return programs.map((filter) => ({ ...filter, names: filter.instructions.map((name) => snakeName(name) ?? name) }));
}

async function learnPrograms(
  rows: readonly LoadedRow[],
  programs: readonly NamedFilter[],
  elements: ElementParts,
  asker: ProjectAsker,
): Promise<Learned> {
  const named = programs.filter(({ names }) => names.length > 0);
  const slots = rows.map(({ slot }) => slot);
  const [newest, oldest] = [
    slots.reduce((one, slot) => Math.max(one, slot), 0),
    slots.reduce((one, slot) => Math.min(one, slot), NOW),
  ];
  const all = (slot: number) => new Map(named.map(({ programId }) => [programId, slot]));
  return learnAs(all(newest), elements, asker, all(oldest));
}

interface ScanCriteria {
  readonly programs: readonly NamedFilter[];
  readonly mints: readonly MintFilter[];
  readonly address: string;
}

/** One of the programs and one of the mints, as far as either is given. */
function isMatch(row: LoadedRow, { programs, mints, address }: ScanCriteria, learned: Learned): boolean {
  const near = nearOf(row, address);
  return (
    (programs.length === 0 || programs.some((filter) => usesProgram(row, filter, near, learned))) &&
    (mints.length === 0 || mints.some((filter) => holdsMint(row, filter, near)))
  );
}

/** What stands for the scanned address in a transaction. */
interface Near {
  /** Its id in the key table of the block; -1 when it is not there. */
  readonly id: number;
  /** Positions in `tx.keys`: the address itself, token accounts that it owns, token accounts whose mint it is. */
  readonly accounts: ReadonlySet<number>;
}

function nearOf({ tx, block }: LoadedRow, address: string): Near {
  const accounts = new Set<number>();
  let id = -1;
  tx.keys.forEach((key, at) => {
    if (block.keys.base58(key) !== address) return;
    id = key;
    accounts.add(at);
  });
  const isIt = (key: number) => key >= 0 && (key === id || (id < 0 && block.keys.base58(key) === address));
  for (const balance of [...tx.preTokenBalances, ...tx.postTokenBalances])
    if (isIt(balance.ownerKey) || isIt(balance.mintKey)) accounts.add(balance.accountIndex);
  return { id, accounts };
}

const interfacesOf = (versions: readonly KnownVersion[]): readonly ProgramInterface[] =>
  versions.flatMap(({ program }) => program ?? []);

function usesProgram(
  { tx, block, slot }: LoadedRow,
  { programId, names, discriminators, scope }: NamedFilter,
  { id, accounts }: Near,
  { find, versionsOf }: Learned,
): boolean {
  // Where none is known for the slot, an instruction that any version has by the name is better found than missed.
  const valid = names.length === 0 ? null : find(programId, slot);
  const versions = valid !== null ? [valid] : names.length === 0 ? [] : interfacesOf(versionsOf(programId));
  const isHit = (item: NormalInstruction): boolean => {
    const program = tx.keys[item.programIndex];
    if (program === undefined || block.keys.base58(program) !== programId) return false;
    if (scope === 'address' && program !== id && !item.accounts.some((at) => accounts.has(at))) return false;
    if (names.length === 0 && discriminators.length === 0) return true;
    const data = Buffer.from(item.data.buffer, item.data.byteOffset, item.data.length);
    if (discriminators.some((prefix) => data.subarray(0, prefix.length).equals(prefix))) return true;
    if (names.length === 0) return false;
    return versions.some((version) => {
      demandUsable(version, programId);
      const call = version.decode(item.data, [], programId) ?? version.callOf(item.data, [], programId);
      return call !== null && names.includes(call.name);
    });
  };
  return tx.instructions.some(isHit) || tx.innerInstructions.some(({ instructions: inner }) => inner.some(isHit));
}

function holdsMint({ tx, block }: LoadedRow, { mint, scope }: MintFilter, { id, accounts }: Near): boolean {
  if (mint === NATIVE_SOL_MINT)
    return tx.keys.some((key, at) => {
      if (scope === 'address' && key !== id) return false;
      const change = nativeChange(tx, at);
      // The first account pays the fee.
      return change + (at === 0 ? Number(tx.fee) : 0) !== 0;
    });
  return [...tx.preTokenBalances, ...tx.postTokenBalances].some(
    ({ accountIndex, mintKey }) =>
      mintKey >= 0 && block.keys.base58(mintKey) === mint && (scope === 'transaction' || accounts.has(accountIndex)),
  );
}
