/**
 * Interfaces that were replaced before this daemon looked at their accounts. The transactions that wrote an account, and the buffers that it
 * was copied from, hold its former contents: they are read back and executed again.
 */

import { setImmediate as yieldToOthers } from 'node:timers/promises';
import {
  type AccountBytes,
  anchorText,
  type IdlStep,
  idlSteps,
  metadataText,
} from '../../src/solana/idl/idl-accounts.ts';
import { PROGRAM_METADATA_PROGRAM } from '../../src/solana/programs.ts';
import type { FetchTransactions, ProjectAsker } from './fetch.ts';

/** What the accounts of a program showed in the slots from `from` up to and without `to`. */
export interface Revision {
  readonly from: number;
  readonly to: number;
  /** Null: no interface; undefined: unknown. */
  readonly text: string | null | undefined;
}

export interface ListedOutcome {
  readonly signature: string;
  readonly slot: number;
  readonly err: unknown;
}

interface Accounts {
  readonly program: string;
  /** Address of the account of Program Metadata. */
  readonly metadata: string;
  /** Address of the account of Anchor. */
  readonly anchor: string;
}

interface Sources {
  /** Transactions with each of the two accounts, newest first; null: nobody knows. */
  readonly lists: readonly [metadata: SignaturePages | null, anchor: SignaturePages | null];
  /** Transactions with a buffer that are older than this signature, newest first; null: nobody knows. */
  listBefore(address: string, signature: string): Promise<SignaturePages | null>;
  readonly fetch: FetchTransactions;
}

export interface SignaturePages {
  readonly rows: readonly ListedOutcome[];
  /** Whether it goes back to the first transaction. */
  readonly isWhole: boolean;
}

interface Bounds {
  /** The newest slot that counts. */
  readonly slot: number;
  /** Revisions that are kept, and characters of all of their texts: the newest ones that fit. */
  readonly most: number;
  readonly mostCharacters: number;
}

/**
 * What one look-back may cost: anybody can name the accounts of a program, and its author can call whatever he likes in one transaction. What
 * is beyond stays unknown. Transactions that are read, of which a text of 100 KB takes about 30, and as many for the list of a buffer:
 */
const MAX_TRANSACTIONS = 2_000;
const LIST_COST = 4;
/** Memory for kept instructions, and the overhead counted per transaction. */
const MAX_STEP_BYTES = 33_554_432;
const TRANSACTION_BYTES = 2_048;
/** Copies of buffers in one transaction. */
const MAX_COPIES = 4;
/** Memory for the contents of buffers that are kept. */
const MAX_BUFFER_BYTES = 33_554_432;
/** Bytes copied in all, since each write copies the account. */
const MAX_COPIED_BYTES = 1_073_741_824;
const READ_AT_ONCE = 64;
/** Bytes that one look-back decompresses in all. A text that is written piece by piece is decompressed after each piece. */
const MAX_BYTES = 67_108_864;
/** A buffer may be filled from another one. */
const MAX_DEPTH = 2;

/** A transaction with its steps, those of other accounts among them; null: it cannot be read. */
interface Change {
  readonly signature: string;
  readonly slot: number;
  readonly steps: readonly IdlStep[] | null;
}

/** An account with its changes, oldest first. */
interface History {
  readonly account: string;
  readonly start: AccountBytes;
  readonly changes: readonly Change[];
}

/** Revisions without a hole, oldest first, the first one from slot 0 on. Errors: those of `sources`, and the reason of the signal. */
export async function readRevisions(
  accounts: Accounts,
  sources: Sources,
  bounds: Bounds,
  asker: ProjectAsker,
): Promise<readonly Revision[]> {
  const { program } = accounts;
  let left = MAX_TRANSACTIONS;
  let stepBytes = 0;
  const copied = { bytes: 0 };

  async function load(account: string, list: SignaturePages | null): Promise<History> {
    const wanted = (list?.rows ?? []).filter(({ err, slot }) => err === null && slot <= bounds.slot);
    const rows = wanted.slice(0, left);
    left -= rows.length;
    const changes: Change[] = [];
    for (let from = 0; from < rows.length; from += READ_AT_ONCE) {
      const part = rows.slice(from, from + READ_AT_ONCE);
      const found = await sources.fetch(
        part.map(({ signature }) => signature),
        'confirmed',
        asker,
      );
      asker.signal.throwIfAborted();
      for (const { signature, slot } of part) {
        const one = found.get(signature) ?? null;
        const steps = one !== null && 'tx' in one ? idlSteps(one, program) : null;
        stepBytes += TRANSACTION_BYTES + (steps ?? []).reduce((sum, { bytes }) => sum + bytes, 0);
        changes.push({ signature, slot, steps: stepBytes > MAX_STEP_BYTES ? null : steps });
      }
    }
    const isWhole = list?.isWhole === true && rows.length === wanted.length;
    return { account, start: isWhole ? null : undefined, changes: changes.reverse() };
  }

  /** Buffers as a transaction found them. */
  const found = new Map<string, AccountBytes>();

  async function bufferBefore(buffer: string, { signature }: Change, depth: number): Promise<AccountBytes> {
    const name = `${buffer} ${signature}`;
    if (found.has(name)) return found.get(name);
    if (left <= 0) return undefined;
    left -= LIST_COST;
    const { start, changes } = await load(buffer, await sources.listBefore(buffer, signature));
    let bytes = start;
    for (const one of changes)
      bytes = await applied(bytes, buffer, one, copied, (source, at) => bufferAt(source, one, at, depth + 1));
    found.set(name, bytes);
    return bytes;
  }

  /** A buffer as a step of a transaction finds it: the transaction itself may write it before. */
  async function bufferAt(buffer: string, change: Change, step: IdlStep, depth: number): Promise<AccountBytes> {
    if (depth > MAX_DEPTH) return undefined;
    const steps = change.steps ?? [];
    const own = { ...change, steps: steps.slice(0, steps.indexOf(step)) };
    const before = await bufferBefore(buffer, change, depth);
    return await applied(before, buffer, own, copied, (source, at) => bufferAt(source, change, at, depth + 1));
  }

  const histories = [
    await load(accounts.metadata, sources.lists[0]),
    await load(accounts.anchor, sources.lists[1]),
  ] as const;
  // Should the number of transactions not suffice, the newest interfaces are those that are asked for most.
  const buffers = new Map<IdlStep, AccountBytes>();
  let bufferBytes = 0;
  for (const { account, changes } of histories)
    for (const change of changes.toReversed()) {
      const copies = change.steps?.filter((one) => one.account === account && one.source !== null) ?? [];
      // Only the last copies of a transaction are applied.
      for (const step of copies.slice(-MAX_COPIES)) {
        if (bufferBytes > MAX_BUFFER_BYTES) break;
        const bytes = await bufferAt(step.source!, change, step, 1);
        asker.signal.throwIfAborted();
        bufferBytes += bytes?.length ?? 0;
        buffers.set(step, bytes);
      }
      found.clear();
    }
  return replay(histories, buffers, accounts, bounds);
}

/** An account after the steps of a transaction. */
async function applied(
  before: AccountBytes,
  account: string,
  { steps }: Change,
  copied: { bytes: number },
  sourceOf: (source: string, step: IdlStep) => Promise<AccountBytes> | AccountBytes,
): Promise<AccountBytes> {
  if (steps === null) return undefined;
  let bytes = before;
  for (const step of steps) {
    if (step.account !== account) continue;
    await yieldToOthers();
    bytes = step.apply(bytes, step.source === null ? null : await sourceOf(step.source, step));
    copied.bytes += bytes?.length ?? 0;
    if (copied.bytes > MAX_COPIED_BYTES) return undefined;
  }
  return bytes;
}

async function replay(
  histories: readonly [metadata: History, anchor: History],
  buffers: ReadonlyMap<IdlStep, AccountBytes>,
  { program }: Accounts,
  { slot: end, most, mostCharacters }: Bounds,
): Promise<readonly Revision[]> {
  const [metadata, anchor] = histories.map(({ account, start }) => ({
    account,
    bytes: start,
    shown: { of: start as AccountBytes, text: null as string | null },
  })) as [Replayed, Replayed];
  const copied = { bytes: 0 };
  let read = 0;
  const readContent = (one: Replayed, reader: (bytes: Buffer) => string | null): string | null | undefined => {
    if (one.bytes === undefined) return undefined;
    if (one.bytes === null) return null;
    if (one.shown.of === one.bytes) return one.shown.text;
    read += one.bytes.length;
    if (read > MAX_BYTES) return undefined;
    one.shown = { of: one.bytes, text: reader(one.bytes) };
    return one.shown.text;
  };
  const text = () => {
    const first = readContent(metadata, (bytes) => metadataText(PROGRAM_METADATA_PROGRAM, bytes));
    return first === null ? readContent(anchor, (bytes) => anchorText(program, bytes, program)) : first;
  };

  const revisions: { from: number; text: string | null | undefined }[] = [{ from: 0, text: text() }];
  const changes = [metadata, anchor].flatMap((one, at) =>
    histories[at]!.changes.filter(
      ({ steps }) => steps === null || steps.some(({ account }) => account === one.account),
    ).map((change) => ({ one, change })),
  );
  changes.sort((left, right) => left.change.slot - right.change.slot);
  for (const { one, change } of changes) {
    const first = change.steps?.find(({ account }) => account === one.account);
    if (one.bytes === null && first !== undefined && !first.creates) {
      // What made the account is missing in its history: what was before is unknown after all.
      one.bytes = undefined;
      revisions.splice(0, revisions.length, { from: 0, text: undefined });
    }
    one.bytes = await applied(one.bytes, one.account, change, copied, (_, step) => buffers.get(step));
    const now = text();
    const last = revisions.at(-1)!;
    if (last.from === change.slot) last.text = now;
    else if (last.text !== now) revisions.push({ from: change.slot, text: now });
    while (
      revisions.length > most ||
      revisions.reduce((sum, { text: kept }) => sum + (kept?.length ?? 0), 0) > mostCharacters
    ) {
      revisions.shift();
      if (revisions.length === 0) return [];
    }
  }
  const isCut = revisions[0]!.from > 0;
  const whole = isCut ? [{ from: 0, text: undefined }, ...revisions] : revisions;
  return whole.map((one, at) => ({ ...one, to: whole[at + 1]?.from ?? end + 1 }));
}

interface Replayed {
  readonly account: string;
  bytes: AccountBytes;
  shown: { readonly of: AccountBytes; readonly text: string | null };
}
