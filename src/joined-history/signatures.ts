import { decode, decode32 } from '../lib/base58.ts';
import type { Tenant } from '../ports/access.ts';
import {
  ceilingOf,
  type Heads,
  type LedgerPlace,
  type ListedSignature,
  type PastReader,
  type SignatureList,
  type SignatureQuery,
} from '../ports/ledger.ts';
import { createDescent, END_OF_SLOT, isEndUnmet, UNKNOWN_START, type Walk } from './descent.ts';
import { bounded, Contradiction, type Joined, MAX_LAG_SLOTS, noRowsBelow, PASS_ON, pruned } from './ends.ts';
import type { Tip, UpstreamSide } from './upstream.ts';

interface SignatureListParts {
  readonly past: PastReader;
  readonly upstream: UpstreamSide;
  readonly heads: (tenant: Tenant) => Promise<Heads>;
}

/** Lists of the signatures of an address: their newest part. Errors: Contradiction. */
export function createSignatureLists({ past, upstream, heads }: SignatureListParts) {
  const { askList, descend, descendBelow } = createDescent(past, upstream);

  const placeOf = async (signature: string | null): Promise<LedgerPlace | null> => {
    const bytes = signature !== null && signature.length <= 88 ? decode(signature) : null;
    return bytes?.length === 64 ? await past.find(bytes) : null;
  };

  /** `list` null: a node has to answer this query as a whole. */
  async function join(query: SignatureQuery): Promise<Joined<SignatureList>> {
    const { commitment, limit, before, until, tenant } = query;
    const address = decode32(query.address);
    const now = await heads(tenant);
    const ceiling = ceilingOf(now, commitment);
    if (address === null) return PASS_ON;
    if (ceiling < 0) {
      const slot = await upstream.behindHeld(now.newestSlot);
      return slot === null ? PASS_ON : noRowsBelow([], now.newestSlot, `the upstream is only at slot ${slot}`);
    }
    const [from, to] = [await placeOf(before), await placeOf(until)];
    const walk: Walk = { query, address, to, rows: [], finalSlot: now.finalSlot, lookedFrom: Number.POSITIVE_INFINITY };
    const isHeldStart = from !== null && from.slot <= ceiling;
    const least = query.minContextSlot ?? -1;
    const theirs = isHeldStart && least <= ceiling ? null : await upstream.tip(commitment);
    // Only a node says that it has not reached a slot.
    if (least > Math.max(ceiling, theirs ?? -1)) return PASS_ON;
    if (from !== null && to !== null && !isBefore(to, from)) return bounded([]);
    const endSlot = to?.slot ?? (until === null ? -1 : await unheldSlot(until, tenant));
    if (endSlot === null) return PASS_ON;
    if (from !== null && endSlot > from.slot) return bounded([]);
    if (endSlot > ceiling) {
      // Above what is held of this commitment. An upstream that is ahead has such a new end, and so all down to it.
      const newest = theirs ?? (await upstream.tip(commitment));
      const isAhead = newest !== null && newest >= endSlot;
      return isAhead || (before !== null && from === null) ? PASS_ON : bounded([]);
    }
    if (isHeldStart) return await descend(walk, from);
    const isHeldTop = (before === null || from !== null) && (theirs === null || theirs <= ceiling);
    // An end that a fork may have moved: the upstream, which is ahead, lists down to it.
    if (!isHeldTop && theirs !== null && to !== null && to.slot > now.finalSlot) return PASS_ON;
    const top = isHeldTop || theirs === null ? null : await askList(walk, before, limit, theirs);
    if (top === null || top.kind !== 'answered') {
      // Only a node knows where to begin, or has reached the slot that the caller asks for.
      if ((before !== null && from === null) || least > ceiling) return PASS_ON;
      if ((theirs ?? -1) - ceiling > MAX_LAG_SLOTS)
        return noRowsBelow([], theirs!, `no upstream gives the blocks above slot ${ceiling}`);
      return await descend(walk, { slot: ceiling, index: END_OF_SLOT });
    }
    if (before !== null && from === null) {
      // What an upstream that is behind does not know as final yet, it leaves out.
      if (theirs !== null && theirs < ceiling && ((await upstream.slotOf(before, tenant)) ?? ceiling) > theirs)
        return noRowsBelow([], ceiling, `the upstream is only at slot ${theirs}`);
      return await joinUpstream(walk, top.value, top.by);
    }
    // A node that knows the end lists all down to it.
    if (isEndUnmet(walk)) return bounded(top.value);
    return await joinTop(walk, top.value, { ceiling, lag: (theirs ?? ceiling) - ceiling, by: top.by });
  }

  /** Slot of a transaction that is not held; null when no upstream has it. Errors: Contradiction, where that slot is held. */
  async function unheldSlot(signature: string, tenant: Tenant): Promise<number | null> {
    const slot = await upstream.slotOf(signature, tenant);
    if (slot !== null && (await past.states(slot, slot)).unknown.length === 0) throw new Contradiction();
    return slot;
  }

  /** An upstream that is ahead lists what is not final, so that all of it is of one branch; what is held goes on at the final slot. */
  async function joinTop(
    walk: Walk,
    listed: readonly ListedSignature[],
    { ceiling, lag, by }: { readonly ceiling: number; readonly lag: number } & Pick<Tip, 'by'>,
  ): Promise<Joined<SignatureList>> {
    const { rows, query, address, to } = walk;
    const seam = Math.max(walk.finalSlot, to?.slot ?? -1);
    const newer = listed.filter(({ slot }) => slot > seam);
    const above = { slot: seam, index: END_OF_SLOT };
    const below = { slot: ceiling, index: END_OF_SLOT };
    const held = await past.page({ address, reasons: 'keys', above, below, limit: query.limit });
    const signaturesOfTop = new Set(newer.map(({ signature }) => signature));
    const isAhead = held.rows.every(({ signature }) => signaturesOfTop.has(signature));
    if (!isAhead && newer.length < query.limit) {
      // It is on another fork, or another upstream than the one that is ahead: the ledger is not far behind.
      if (lag > MAX_LAG_SLOTS) throw new Contradiction();
      return await descend(walk, below);
    }
    rows.push(...newer);
    if (rows.length >= query.limit) return bounded(rows);
    if (listed.length === newer.length) {
      const start = await upstream.firstSlot(query.tenant, by);
      if (start === null || start > seam + 1)
        return noRowsBelow(rows, start ?? seam + 1, `nobody has all blocks above slot ${seam}`);
    }
    return await descend(walk, above);
  }

  /** A list that begins where only the upstream has blocks. */
  async function joinUpstream(
    walk: Walk,
    listed: readonly ListedSignature[],
    by: string | undefined,
  ): Promise<Joined<SignatureList>> {
    const { rows, query, to } = walk;
    if (to !== null) {
      const start = await upstream.slotOf(query.before!, query.tenant);
      // In one slot only a node knows the order.
      if (start === null || start === to.slot) return PASS_ON;
      if (start < to.slot) return bounded([]);
    }
    rows.push(...listed.filter(({ slot }) => slot > (to?.slot ?? -1)));
    if (rows.length >= query.limit || isEndUnmet(walk)) return bounded(rows);
    if (rows.length < listed.length) return await descend(walk, { slot: to!.slot, index: END_OF_SLOT });
    const last = rows.at(-1);
    const place = last === undefined ? null : await placeOf(last.signature);
    if (place !== null) return await descend(walk, place);
    const start = await upstream.firstSlot(query.tenant, by);
    if (start === null) return last === undefined ? PASS_ON : noRowsBelow(rows, last.slot, UNKNOWN_START);
    const isLast = last !== undefined && (await past.newestBelow(last.slot - 1)) < 0;
    return isLast ? pruned(rows, start) : await descendBelow(walk, start);
  }

  return join;
}

const isBefore = (a: LedgerPlace, b: LedgerPlace): boolean =>
  a.slot < b.slot || (a.slot === b.slot && a.index < b.index);
