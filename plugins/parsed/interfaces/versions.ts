/** Which version of a program's interface is valid in which slots: what is certain, what is in doubt, and how readings join. */

import { createHash } from 'node:crypto';
import type { ProgramInterface } from '../../../src/solana/idl/read-idl.ts';
import type { Revision } from '../revisions.ts';
import { type Gaps, MAX_VERSIONS } from '../store.ts';

/** Valid in the slots from `from` up to and without `to`; null: the program publishes none. */
export interface Version {
  readonly from: number;
  readonly to: number;
  readonly program: ProgramInterface | null;
}

export interface PublishedVersion extends Version {
  /** SHA-256 of the interface's text; empty without one. */
  readonly hash: string;
  /** Characters of its text; 0 without an interface. */
  readonly size: number;
}

/** What is known of a program on the chain. Slots between two versions are unknown. */
export interface Published {
  /** Oldest first. */
  readonly versions: readonly PublishedVersion[];
  /** Hash of the newest version; empty without one. `NO_HASH`: the accounts must be read again, and the result is stored. */
  readonly hash: string;
  /** The newest version is valid up to this slot. */
  readonly checkedSlot: number;
  /** Also contains what the store says beyond `checkedSlot`, which a read may confirm. */
  readonly doubted?: Published;
}

export const FOREVER = Number.MAX_SAFE_INTEGER;
/** Sentinel: equals no content hash, and not the empty one. */
export const NO_HASH = '?';
/** The chain does not leave a block with so many slots upon it. */
const FINAL_SLOTS = 64;

/** When the accounts of a program were changed. */
export interface ProgramChanges {
  /** Oldest first. */
  readonly slots: readonly number[];
  /** There are no others after this slot. */
  readonly since: number;
}

/** The first and the last slot of transactions that need an interface. */
export interface SlotSpan {
  readonly oldest: number;
  readonly newest: number;
}

/** Empty for none. */
export const hashOf = (text: string | null): string =>
  text === null ? '' : createHash('sha256').update(text).digest('base64');

/** Whether only a read shows which of the stored versions are valid. */
export const isInDoubt = ({ doubted, versions }: Published): boolean => doubted !== undefined || versions.length === 0;

/** Whether a slot within these, and not above the last reading, has no version that is certain. */
export function hasGap(known: Published, { oldest, newest }: SlotSpan): boolean {
  const { versions, checkedSlot } = known.doubted ?? known;
  // Most programs publish nothing, and few have withdrawn an interface: only a call for all slots looks for former versions.
  if (oldest > 0 && versions.length > 0 && versions.every(({ hash }) => hash === '')) return false;
  let covered = oldest;
  for (const { from, to } of known.versions) {
    if (from > covered) break;
    covered = Math.max(covered, to);
  }
  return covered <= Math.min(newest, checkedSlot);
}

/** A version with its text, where the store does not have it yet. */
type Filled = PublishedVersion & { readonly text?: string | null };

interface Filling extends Gaps {
  readonly versions: readonly Filled[];
}

/** Puts revisions into the gaps between the known versions. Null when they contradict them: then something is missing in the revisions. */
export function filledOf(versions: readonly PublishedVersion[], revisions: readonly Revision[]): Filling | null {
  const known = revisions.flatMap(({ from, to, text }) =>
    text === undefined ? [] : [{ from, to, text, hash: hashOf(text), program: null, size: 0 }],
  );
  const isWrong = (version: PublishedVersion): boolean =>
    known.some(({ from, to, hash }) => from < version.to && version.from < to && hash !== version.hash);
  if (versions.some(isWrong)) return null;
  const pieces = versions.flatMap(({ from: end }, at) => {
    const start = versions[at - 1]?.to ?? 0;
    return known.flatMap((one) => {
      const [from, to] = [Math.max(one.from, start), Math.min(one.to, end)];
      return from < to ? [{ ...one, from, to }] : [];
    });
  });
  const joined: { version: Filled; stored: number | null }[] = [];
  const all = [...versions, ...pieces].sort((left, right) => left.from - right.from);
  for (const version of all) {
    const stored = 'text' in version ? null : version.from;
    const last = joined.at(-1);
    // A version that the next read found again was valid in the meantime.
    const isSame = last?.version.to === version.from && last.version.hash === version.hash;
    if (!isSame || (last.stored !== null && stored !== null)) joined.push({ version, stored });
    else if (stored === null) last.version = { ...last.version, to: version.to };
    else Object.assign(last, { version: { ...version, from: last.version.from }, stored });
  }
  const before = new Map(versions.map((version) => [version.from, version]));
  return {
    versions: joined.map(({ version }) => version),
    added: joined.flatMap(({ version: { from, to, hash, text }, stored }) =>
      stored === null ? [{ from, to, checkedSlot: to - 1, hash, text: text ?? null }] : [],
    ),
    moved: joined.flatMap(({ version: { from, to }, stored }) =>
      stored === null || (stored === from && before.get(stored)!.to === to)
        ? []
        : [{ stored, from, to: to === FOREVER ? null : to }],
    ),
  };
}

/** Null where no version is known to be valid. */
export function interfaceAt(versions: readonly Version[], slot: number): ProgramInterface | null {
  return versions.findLast(({ from, to }) => slot >= from && slot < to)?.program ?? null;
}

/**
 * What is certain of stored versions: a change that was noted within `FINAL_SLOTS` may have been on a fork that the chain has left since,
 * also while nobody followed it.
 */
export function finalOf(stored: Published): Published {
  const { versions, checkedSlot } = stored;
  const ends = versions.map(({ to }) => (to === FOREVER ? 0 : to));
  const final = Math.max(checkedSlot, ...ends) - FINAL_SLOTS;
  const open = versions.find(({ from, to }) => from > final || (to !== FOREVER && to > final));
  if (open === undefined) return stored;
  const left = versions
    .filter(({ from }) => from <= final)
    .map((version) => (version.to > final ? { ...version, to: FOREVER } : version));
  const certain = (open.from > final ? open.from : open.to) - 1;
  return { versions: left, hash: NO_HASH, checkedSlot: certain, doubted: stored };
}

/** Doubts end where the history of the accounts has the changes that are stored, or does not reach them. */
export function judgeVersion(
  known: Published | undefined,
  { slots, since }: ProgramChanges,
  hash: string,
): Published | undefined {
  const doubted = known?.doubted;
  if (doubted === undefined) return known;
  const isLater = since > doubted.checkedSlot || slots.some((change) => change > doubted.checkedSlot);
  // Without a change since then the content is the same.
  if (doubted.hash !== hash && !isLater) return known;
  const isConfirmed = ({ from }: Version) => from <= known!.checkedSlot || from <= since || slots.includes(from);
  return doubted.versions.every(isConfirmed) ? doubted : known;
}

/** Since when the content that was read in `slot` is valid, and the versions before it with their ends. */
export function versionPlaceOf(
  known: Published | undefined,
  { slots, since }: ProgramChanges,
  { slot, hash }: { readonly slot: number; readonly hash: string },
): { readonly from: number; readonly before: readonly PublishedVersion[] } {
  if (known === undefined) return { from: Math.min(Math.max(slots.at(-1) ?? 0, since + 1), slot), before: [] };
  const { checkedSlot } = known;
  const later = slots.filter((change) => change > checkedSlot);
  const open = known.versions.at(-1);
  // The change was on a fork: what was valid before it is so again.
  if (later.length === 0 && since <= checkedSlot && open?.to === FOREVER && open.hash === hash)
    return { from: open.from, before: known.versions.slice(0, -1) };
  // The index of a node may be behind its accounts.
  const last = later.at(-1) ?? slot;
  // Where not all changes since the last reading are known, the first of them is not.
  const end = (since <= checkedSlot ? later[0] : undefined) ?? checkedSlot + 1;
  const before = known.versions.map((version) => (version.to === FOREVER ? { ...version, to: end } : version));
  return { from: Math.min(Math.max(last, since + 1), slot), before };
}

export const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);

/** Drops the oldest versions that do not fit: anyone can publish more at little cost. */
export function newestOf(versions: readonly PublishedVersion[], mostCharacters: number): readonly PublishedVersion[] {
  const kept = versions.slice(-MAX_VERSIONS);
  while (sum(kept.map(({ size }) => size)) > mostCharacters) kept.shift();
  return kept;
}
