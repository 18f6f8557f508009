import { stringify } from '../lib/json.ts';
import {
  type AddressRow,
  ceilingOf,
  type LedgerPlace,
  type ListedSignature,
  type PastReader,
  type SignatureList,
  type SignatureQuery,
} from '../ports/ledger.ts';
import { bounded, Contradiction, type Joined, MAX_LAG_SLOTS, noRowsBelow, PASS_ON, pruned } from './ends.ts';
import { isUnknownSignature, type UpstreamSide } from './upstream.ts';

export const END_OF_SLOT = Number.POSITIVE_INFINITY;
export const UNKNOWN_START = 'the upstream does not say where its blocks begin';

/** A list on the way down. */
export interface Walk {
  readonly query: SignatureQuery;
  /** 32 bytes. */
  readonly address: Uint8Array;
  /** Where `until` stands, if it is held. */
  readonly to: LedgerPlace | null;
  readonly rows: ListedSignature[];
  readonly finalSlot: number;
  /** Slot of the last look into what is held; infinite before the first one. */
  lookedFrom: number;
}

export const isEndUnmet = ({ query, to }: Walk): boolean => query.until !== null && to === null;

/** A list of signatures from a place of the ledger down: what is held, what the upstream has below it, and so on to its end. Errors: Contradiction. */
export function createDescent(past: PastReader, upstream: UpstreamSide) {
  /** `before` null: from the top. `least`: the slot that an upstream must have reached. */
  async function askList({ query, to, finalSlot }: Walk, before: string | null, limit: number, least: number | null) {
    const { address, commitment, minContextSlot, tenant } = query;
    // An end that is held is no business of the upstream, which may lack it.
    const until = to === null ? query.until : null;
    const minSlot = Math.max(minContextSlot ?? -1, least ?? -1);
    return await upstream.askSignatures({ address, commitment, tenant, before, until, limit, minSlot, finalSlot });
  }

  /** From a place of the ledger or its archive down: what is held, then what the upstream has below, and so on. */
  async function descend(walk: Walk, below: LedgerPlace): Promise<Joined<SignatureList>> {
    const { query, address, to, rows, finalSlot } = walk;
    // Each look goes further down, but where the index does not have a held block: it is being made.
    if (below.slot >= walk.lookedFrom) return noRowsBelow(rows, below.slot + 1, `the index lacks slot ${below.slot}`);
    walk.lookedFrom = below.slot;
    const page = await past.page({
      address,
      reasons: 'keys',
      below,
      limit: query.limit - rows.length,
      ...(to === null ? {} : { above: to }),
    });
    if (page.inVotes || !page.isIndexed) {
      // What is held does not help: a node has to answer, but none that is far behind it.
      const [theirs, held] = [await upstream.tip(query.commitment), await past.heads()];
      const ceiling = ceilingOf(held, query.commitment);
      return theirs !== null && ceiling - theirs > MAX_LAG_SLOTS
        ? noRowsBelow([], ceiling, `the upstream is only at slot ${theirs}`)
        : PASS_ON;
    }
    const low = page.from;
    // A block that was there when the list began was cut: a fork.
    if (low > below.slot && below.slot > finalSlot && (await past.heads()).newestSlot < below.slot)
      throw new Contradiction();
    for (const row of page.rows) rows.push(heldRow(row, row.slot <= finalSlot));
    if (page.isWhole) return bounded(rows);
    if (await isFirstBlock(low)) return isEndUnmet(walk) ? PASS_ON : { list: { rows, end: { kind: 'first' } } };
    return await descendIntoUpstream(walk, low);
  }

  /** What the upstream has below a slot, from which on everything is listed. */
  async function descendIntoUpstream(walk: Walk, low: number): Promise<Joined<SignatureList>> {
    const { query, rows, to } = walk;
    const before = rows.at(-1)?.signature ?? query.before;
    const theirs = await upstream.tip(query.commitment);
    if (theirs !== null && theirs < low - 1) return noRowsBelow(rows, low, `the upstream is only at slot ${theirs}`);
    const rest = await askList(walk, before, query.limit - rows.length, low - 1);
    if (rest.kind === 'answered' && rest.value.length > 0) {
      // Without a row that both sides have, the upstream lists from its top; what is new there since is not part of the list.
      const older = rest.value.filter(({ slot }) => slot < low && slot > (to?.slot ?? -1));
      if (rest.value.some(({ slot }) => slot >= low && slot <= walk.finalSlot)) throw new Contradiction();
      rows.push(...older);
      if (rows.length >= query.limit || isEndUnmet(walk)) return bounded(rows);
      if (to !== null && rest.value.at(-1)!.slot <= to.slot)
        return await descend(walk, { slot: to.slot, index: END_OF_SLOT });
      const lowest = older.at(-1)?.slot;
      if (lowest === undefined) throw new Contradiction();
      const start = await upstream.firstSlot(query.tenant, rest.by);
      if (start === null) return noRowsBelow(rows, lowest, UNKNOWN_START);
      if ((await past.newestBelow(lowest - 1)) < 0) return pruned(rows, start);
      return await descendBelow(walk, Math.min(start, low));
    }
    if (isUnknownSignature(rest, query.until) && to === null) return PASS_ON;
    const start = await upstream.startOf(rest, query.tenant);
    if (start === null) return noRowsBelow(rows, low, 'no upstream answers');
    if (rest.kind !== 'answered' && start < low) return noRowsBelow(rows, low, 'no upstream gives the older part');
    if (rest.kind === 'answered' && start <= low && isEndUnmet(walk)) return bounded(rows);
    return await descendBelow(walk, Math.min(start, low));
  }

  /** Goes on below a slot: everything from there on is listed. */
  async function descendBelow(walk: Walk, slot: number): Promise<Joined<SignatureList>> {
    const held = await past.newestBelow(slot - 1);
    // An end that was not met may be in the part that nobody has: a node says so.
    if (held < 0) return isEndUnmet(walk) ? PASS_ON : pruned(walk.rows, slot);
    const { unknown } = await past.states(held, slot - 1);
    const hole = unknown.at(-1);
    if (hole !== undefined)
      return noRowsBelow(walk.rows, hole + 1, `nobody has the blocks of slots ${unknown[0]} to ${hole}`);
    return await descend(walk, { slot: held, index: END_OF_SLOT });
  }

  /** Whether nothing is older than this block: a first block has no transactions below it. */
  async function isFirstBlock(slot: number): Promise<boolean> {
    const height = (await past.header(slot))?.blockHeight;
    return typeof height === 'number' && height <= 1;
  }

  return { askList, descend, descendBelow };
}

/** A row in the form of a node. */
function heldRow({ signature, slot, index, blockTime, err, memo }: AddressRow, isFinal: boolean): ListedSignature {
  const confirmationStatus = isFinal ? 'finalized' : 'confirmed';
  const row = { blockTime, confirmationStatus, err, memo, signature, slot, transactionIndex: index };
  return { signature, slot, hasFailed: err !== null, blockTime, text: stringify(row) };
}
