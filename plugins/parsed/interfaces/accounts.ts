/** Reads the two accounts in which a program can publish its interface, and the transactions that changed them, from the upstreams. */

import { type ChainReader, codeOf, RequestError } from '../../../src/plugin/plugin.ts';
import type { ChainCallOptions } from '../../../src/ports/chain.ts';
import {
  anchorAddress,
  anchorText,
  metadataText,
  programMetadataAddress,
  writesInterface,
} from '../../../src/solana/idl/idl-accounts.ts';
import { meaningOfRefusal } from '../../../src/solana/node-errors.ts';
import type { FetchTransactions, ProjectAsker } from '../fetch.ts';
import type { ListedOutcome, SignaturePages } from '../revisions.ts';
import type { ProgramChanges } from './versions.ts';

export type CallOptions = ProjectAsker & { readonly timeoutMs: number } & Pick<
    ChainCallOptions,
    'archive' | 'only' | 'answeredBy'
  >;

/** Programs whose accounts one call can read: two accounts each, and 100 accounts a call. */
export const PROGRAMS_PER_CALL = 50;
/** Transactions with an account that one look-up sees. */
const MAX_LISTED = 1_000;
/** Newest of these that are read, to tell changes from transactions that only name the account. */
const MAX_READ = 8;

/** What the accounts of a program show in a slot. */
export interface PublishedContent {
  readonly program: string;
  readonly text: string | null;
  readonly slot: number;
}

/** The account of the Program Metadata program, then that of Anchor; empty where the program can have none. */
export const accountsOf = (program: string): readonly [metadata: string, anchor: string] => [
  programMetadataAddress(program) ?? '',
  anchorAddress(program) ?? '',
];

/**
 * What programs publish, as of `minSlot` or later, at most `PROGRAMS_PER_CALL` of them. Nothing where the upstream shows no accounts.
 * Errors: those of `call`.
 */
export async function readContents(
  reader: ChainReader,
  programs: readonly string[],
  minSlot: number,
  options: CallOptions,
): Promise<PublishedContent[]> {
  const config = { commitment: 'confirmed', encoding: 'base64', ...(minSlot > 0 && { minContextSlot: minSlot }) };
  const addresses = programs.flatMap(accountsOf);
  const answer = await call<AccountsAnswer>(reader, 'getMultipleAccounts', [addresses, config], options);
  if (answer === null) return [];
  return programs.map((program, at) => {
    const [metadata, anchor] = [answer.value[at * 2] ?? null, answer.value[at * 2 + 1] ?? null];
    const text =
      (metadata === null ? null : metadataText(metadata.owner, bytesOf(metadata))) ??
      (anchor === null ? null : anchorText(anchor.owner, bytesOf(anchor), program));
    return { program, text, slot: answer.context.slot };
  });
}

/**
 * When the two accounts of a program were changed, up to `slot`. Both count: a program may begin to publish in the other one. What
 * comes after the slot in which the accounts were read belongs to the next reading. `after`: what was known before, -1 for nothing. Of
 * the newest transactions with an account, those that do not change it are left out; older ones count. Errors: those of `call`.
 */
export async function readChanges(
  reader: ChainReader,
  fetch: FetchTransactions,
  { program, slot, after }: { readonly program: string; readonly slot: number; readonly after: number },
  options: CallOptions,
): Promise<ProgramChanges> {
  const listers = new Set<string>();
  const lists = await listBoth(reader, program, slot, options, listers);
  const rows = lists
    .flatMap((list) => list?.rows ?? [])
    .filter((row) => row.err === null && row.slot <= slot)
    .sort((left, right) => right.slot - left.slot);
  const news = rows.filter((row) => row.slot > after);
  const named = await mentionsAmong(fetch, program, news, { onlyLast: after < 0, asker: options });
  const slots = rows.filter((row) => !named.has(row)).map((row) => row.slot);
  // Without the method all before this slot is unknown; a list that is cut ends in its last slot.
  const ends = lists.map((list) => (list === null ? slot - 1 : list.isWhole ? -1 : list.rows.at(-1)!.slot));
  const since = Math.max(...ends);
  if (after < 0 && named.size === MAX_READ) {
    // What was read changed nothing: the content is at least as old as the oldest of it. The one before may be no change either.
    return { slots: [], since: Math.max(since, news[MAX_READ - 1]!.slot - 1) };
  }
  if (since >= 0 || slots.length > 0) return { slots: slots.reverse(), since };
  // The node has pruned the last change, and everything else before its first block: another one may have more.
  const askedOf = listers.size === 0 ? [{}] : [...listers].map((only) => ({ only }));
  const firsts = await Promise.all(
    askedOf.map((how) => call<number>(reader, 'getFirstAvailableBlock', [], { ...options, ...how, archive: true })),
  );
  return { slots, since: Math.min(slot, Math.max(...firsts.map((first) => first ?? slot))) - 1 };
}

/**
 * Transactions with each of the two accounts up to a slot, at most 1,000, newest first; null: the upstream has no such method. `listers`
 * gets the labels of the upstreams that gave the older part.
 */
export async function listBoth(
  reader: ChainReader,
  program: string,
  slot: number,
  options: CallOptions,
  listers = new Set<string>(),
): Promise<readonly [metadata: SignaturePages | null, anchor: SignaturePages | null]> {
  const [metadata, anchor] = accountsOf(program);
  const answeredBy = (upstream: string) => void listers.add(upstream);
  // Changes may be as old as the program.
  const ofArchive = { ...options, archive: true, answeredBy };
  const read = (params: object, how: CallOptions) =>
    Promise.all([list(reader, metadata, params, how), list(reader, anchor, params, how)]);
  const including = { minContextSlot: slot };
  try {
    return await read(including, ofArchive);
  } catch (error) {
    if (!isBehind(error)) throw error;
    // Archives may always be some slots behind; what they lack yet is in the short histories of other upstreams.
    const [old, recent] = [await read({}, ofArchive), await read(including, options)];
    return [mergedList(old[0], recent[0]), mergedList(old[1], recent[1])];
  }
}

/** Transactions with an account that came before one of them, newest first, from an archive. */
export const listBefore = (
  reader: ChainReader,
  address: string,
  before: string,
  options: CallOptions,
): Promise<SignaturePages | null> => list(reader, address, { before }, { ...options, archive: true });

async function list(
  reader: ChainReader,
  address: string,
  params: object,
  options: CallOptions,
): Promise<SignaturePages | null> {
  const range = { limit: MAX_LISTED, commitment: 'confirmed', ...params };
  const rows = await call<readonly ListedOutcome[]>(reader, 'getSignaturesForAddress', [address, range], options);
  return rows === null ? null : { rows, isWhole: rows.length < MAX_LISTED };
}

/** A list of an archive that is behind, completed by a newer one. */
function mergedList(old: SignaturePages | null, recent: SignaturePages | null): SignaturePages | null {
  if (old === null || recent === null) return null;
  const known = new Set(recent.rows.map(({ signature }) => signature));
  const isJoined = recent.isWhole || old.rows.some(({ signature }) => signature === recent.rows.at(-1)!.signature);
  if (!isJoined) return recent;
  return { rows: [...recent.rows, ...old.rows.filter(({ signature }) => !known.has(signature))], isWhole: old.isWhole };
}

/** The newest rows whose transactions do not change the interface. `onlyLast`: changes before the last one do not matter. */
async function mentionsAmong(
  fetch: FetchTransactions,
  program: string,
  rows: readonly ListedOutcome[],
  { onlyLast, asker }: { readonly onlyLast: boolean; readonly asker: ProjectAsker },
): Promise<ReadonlySet<ListedOutcome>> {
  const among = new Set<ListedOutcome>();
  const newest = rows.slice(0, MAX_READ);
  // Usually the last transaction with the account is its last change.
  for (const part of [newest.slice(0, 1), newest.slice(1)]) {
    const signatures = part.map(({ signature }) => signature);
    const found = await fetch(signatures, 'confirmed', asker);
    for (const row of part) {
      const one = found.get(row.signature) ?? null;
      // A transaction that no upstream has or that cannot be decoded may be a change.
      if (one !== null && 'tx' in one && !writesInterface(one, program)) among.add(row);
      else if (onlyLast) return among;
    }
  }
  return among;
}

/** Null when the upstream has no such method. Errors: RequestError 503 when it refuses, else those of `ChainReader.call`. */
async function call<T>(
  reader: ChainReader,
  ...[method, params, options]: Parameters<ChainReader['call']>
): Promise<T | null> {
  try {
    return await reader.call<T>(method, params, options);
  } catch (error) {
    if (codeOf(error) !== 'CHAIN_RPC_ERROR') throw error;
    if (meaningOfRefusal(error) === 'not-offered') return null;
    // Without an answer nothing is known of the program: to leave its instructions undecoded would be a guess.
    throw new RequestError(503, `Service unavailable: the Solana upstream refused ${method}`, { cause: error });
  }
}

/** The node has not reached the slot. */
const isBehind = (error: unknown): boolean => meaningOfRefusal((error as Error).cause) === 'not-yet';

interface AccountsAnswer {
  readonly context: { readonly slot: number };
  readonly value: readonly (NodeAccount | null)[];
}

interface NodeAccount {
  readonly owner: string;
  readonly data: readonly [base64: string, encoding: string];
}

const bytesOf = ({ data }: NodeAccount): Uint8Array => Buffer.from(data[0], 'base64');
