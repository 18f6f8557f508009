import { decode, decode32 } from '../lib/base58.ts';
import { CodedError, codeOf } from '../lib/coded-error.ts';
import { arrayItems, stringify } from '../lib/json.ts';
import { OWN_WORK, type Tenant } from '../ports/access.ts';
import type { ChainCallOptions, ChainReader, Commitment } from '../ports/chain.ts';
import type { Clock } from '../ports/clock.ts';
import {
  type AddressRow,
  ceilingOf,
  type Heads,
  type JoinedHistory,
  type LedgerPlace,
  type ListEnd,
  type ListedSignature,
  type PastReader,
  type SignatureList,
  type SignatureQuery,
  type SlotList,
  type SlotQuery,
} from '../ports/ledger.ts';

/**
 * Lists of the chain, joined from parts: the newest rows of an upstream that is ahead of the ledger, what the ledger and its archive hold,
 * and what is older of an upstream.
 *
 * Each seam is checked: both sides share a row or a slot. What is held is never replaced by a shorter list of an upstream, and rows of an
 * upstream count only above and below what is held; what it lacks is asked of itself, because another one may have it. Where a part is missing between two others, or may be missing at the end because no
 * upstream answers, the list says so (`missing`). It ends like that of a node (`pruned`) only where nobody has anything older.
 */
export interface JoinedHistoryParts {
  readonly past: PastReader;
  readonly chain: Pick<ChainReader, 'call' | 'callText'>;
  readonly clock: Clock;
}

/** The tips of an upstream are asked for again after this time. */
const TIP_MS = 200;
/** An upstream that hangs must not hold up what the ledger knows. */
const TIP_TIMEOUT_MS = 2_000;
/** The first slot of the upstreams is asked for again after this time, so that it is known when they are gone. */
const FIRST_MS = 60_000;
/** Nodes remove their oldest blocks: the first slot moves by less than this until it is asked for again. */
const FIRST_MOVES_SLOTS = 1_000;
/** While a fork is followed, the ledger and an upstream may be on different branches. */
const ATTEMPTS = 4;
const ATTEMPT_MS = 150;
/** Slots of one call of an upstream. */
const MAX_SLOTS = 500_000;
/** Slots that a list with a limit looks through beyond twice the limit. */
const EXTRA_SLOTS = 1_000;

/** A list may end so far below the tip of an upstream that does not list: the follower is moments behind. */
const MAX_LAG_SLOTS = 8;

/** Codes of a node: Agave 4.4.0, rpc-client-api/src/custom_error.rs. */
const NO_HISTORY = -32011;
const NOT_FOUND = -32020;

/** The two sides of a seam contradict each other. */
class Contradiction extends Error {}

/** What an upstream said, and its label; `refused` with the code of the node, `silent` when none answers. */
type UpstreamAnswer<T> =
  | { readonly kind: 'answered'; readonly value: T; readonly by: string | undefined }
  | { readonly kind: 'refused'; readonly code: number; readonly error: unknown; readonly by: string | undefined }
  | { readonly kind: 'silent'; readonly error: unknown };

/** The newest slot of an upstream, and its label. */
interface Tip {
  readonly slot: number;
  readonly by: string | undefined;
}

type How = Pick<ChainCallOptions, 'only' | 'answeredBy'>;

const END_OF_SLOT = Number.POSITIVE_INFINITY;

export function createJoinedHistory({ past, chain, clock }: JoinedHistoryParts): JoinedHistory {
  const tips = new Map<Commitment, { readonly at: number; readonly tip: Promise<Tip | null> }>();
  let verified = { slot: -1, blockhash: '' };
  let first: { readonly slot: number; readonly at: number } | null = null;
  let isLearning = false;

  /** `only`: the label of the upstream to ask; undefined: any. */
  async function ask<T>(work: (how: How) => Promise<T>, only?: string): Promise<UpstreamAnswer<T>> {
    let by = only;
    const answeredBy = (upstream: string) => {
      by = upstream;
    };
    try {
      return { kind: 'answered', value: await work({ ...(only === undefined ? {} : { only }), answeredBy }), by };
    } catch (error) {
      const code = codeOf(error) === 'CHAIN_RPC_ERROR' ? (error as CodedError).facts?.['rpcCode'] : undefined;
      return typeof code === 'number' ? { kind: 'refused', code, error, by } : { kind: 'silent', error };
    }
  }

  /** Null when no upstream answers. */
  async function tipNow(commitment: Commitment): Promise<Tip | null> {
    const now = clock.monotonic();
    const known = tips.get(commitment);
    if (known !== undefined && now - known.at < TIP_MS) return await known.tip;
    const found = ask((how) =>
      chain.call<number>('getSlot', [{ commitment }], { ...how, tenant: OWN_WORK, timeoutMs: TIP_TIMEOUT_MS }),
    ).then((asked) =>
      asked.kind === 'answered' && Number.isSafeInteger(asked.value) ? { slot: asked.value, by: asked.by } : null,
    );
    tips.set(commitment, { at: now, tip: found });
    return await found;
  }

  const tip = async (commitment: Commitment): Promise<number | null> => (await tipNow(commitment))?.slot ?? null;

  /** While nothing that is held is known as final: the slot of an upstream that lacks what is held, so that it may lack final blocks too; else null. */
  async function behindHeld(newestSlot: number): Promise<number | null> {
    const known = newestSlot < 0 ? null : await tip('confirmed');
    if (known === null || known >= newestSlot) return null;
    // It may have been asked before that block was there.
    tips.delete('confirmed');
    const now = await tip('confirmed');
    return now !== null && now < newestSlot ? now : null;
  }

  /** The first slot of an upstream, or of one of those that keep the most; null when it was never learned, and when that upstream is silent. */
  async function firstSlot(tenant: Tenant, only?: string): Promise<number | null> {
    const asked = await ask(
      (how) => chain.call<number>('getFirstAvailableBlock', [], { ...how, tenant, archive: true }),
      only,
    );
    if (asked.kind === 'answered' && Number.isSafeInteger(asked.value))
      first = { slot: asked.value, at: clock.monotonic() };
    else if (only !== undefined) return null;
    return first?.slot ?? null;
  }

  function learnFirstSlot(): void {
    if (isLearning || (first !== null && clock.monotonic() - first.at < FIRST_MS)) return;
    isLearning = true;
    void firstSlot(OWN_WORK).finally(() => {
      isLearning = false;
    });
  }

  /**
   * The newest slot that is proven final. Between two audits of the follower an upstream finalizes further blocks; the same block on both
   * sides proves all below it.
   */
  async function finalSlotOf(kept: Heads, tenant: Tenant): Promise<number> {
    const isStill = async (block: typeof verified) => (await past.header(block.slot))?.blockhash === block.blockhash;
    const known = verified.slot > kept.finalSlot && (await isStill(verified)) ? verified.slot : kept.finalSlot;
    const theirs = await tip('finalized');
    if (theirs === null || theirs <= known) return known;
    const at = Math.min(theirs, kept.newestSlot);
    const ours = at <= known ? null : await past.header(at);
    const config = { transactionDetails: 'none', rewards: false, commitment: 'finalized' } as const;
    const options = { ...config, maxSupportedTransactionVersion: 1 };
    const asked =
      ours === null
        ? null
        : await ask(() =>
            chain.call<{ blockhash?: unknown; parentSlot?: unknown } | null>('getBlock', [at, options], { tenant }),
          );
    if (ours === null || asked?.kind !== 'answered' || asked.value?.blockhash !== ours.blockhash) return known;
    // The hash of an empty block follows from its parent's: two children of one block may have the same.
    if (asked.value.parentSlot !== ours.parentSlot) return known;
    verified = { slot: at, blockhash: ours.blockhash };
    return at;
  }

  async function heads(tenant: Tenant): Promise<Heads> {
    const kept = await past.heads();
    if (kept.newestSlot < 0) return kept;
    return { newestSlot: kept.newestSlot, finalSlot: await finalSlotOf(kept, tenant) };
  }

  /** Again while a fork makes both sides contradict each other; then null. */
  async function retried<T>(work: () => Promise<T>): Promise<T | null> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof Contradiction)) throw error;
        if (attempt === ATTEMPTS) return null;
        await clock.sleep(ATTEMPT_MS);
        tips.clear();
      }
    }
  }

  const placeOf = async (signature: string | null): Promise<LedgerPlace | null> => {
    const bytes = signature !== null && signature.length <= 88 ? decode(signature) : null;
    return bytes?.length === 64 ? await past.find(bytes) : null;
  };

  /**
   * `until`: an end that is held is no business of the upstream, which may lack it. `least`: the slot that an upstream must have reached; one
   * that has not would leave out what is newer, without a word.
   */
  async function askList({ query, to, finalSlot }: Walk, before: string | null, limit: number, least: number | null) {
    const { address, commitment, minContextSlot, tenant } = query;
    const until = to === null ? query.until : null;
    const minSlot = Math.max(minContextSlot ?? -1, least ?? -1);
    const config = {
      limit,
      commitment,
      ...(before === null ? {} : { before }),
      ...(until === null ? {} : { until }),
      ...(minSlot < 0 ? {} : { minContextSlot: minSlot }),
    };
    return await ask(async (how) =>
      listedOf(
        await chain.callText('getSignaturesForAddress', [address, config], { ...how, tenant, archive: true }),
        finalSlot,
      ),
    );
  }

  async function signatures(query: SignatureQuery): Promise<SignatureList | null> {
    learnFirstSlot();
    const found = await retried(() => joinSignatures(query));
    return found === null ? { rows: [], end: FORKED } : found.list;
  }

  /** `list` null: a node has to answer this query as a whole. */
  async function joinSignatures(query: SignatureQuery): Promise<Joined<SignatureList>> {
    const { commitment, limit, before, until, tenant } = query;
    const address = decode32(query.address);
    const now = await heads(tenant);
    const ceiling = ceilingOf(now, commitment);
    if (address === null) return PASS_ON;
    if (ceiling < 0) {
      const slot = await behindHeld(now.newestSlot);
      return slot === null ? PASS_ON : missing([], now.newestSlot, `the upstream is only at slot ${slot}`);
    }
    const [from, to] = [await placeOf(before), await placeOf(until)];
    const walk: Walk = { query, address, to, rows: [], finalSlot: now.finalSlot, lookedFrom: Number.POSITIVE_INFINITY };
    const isHeldStart = from !== null && from.slot <= ceiling;
    const least = query.minContextSlot ?? -1;
    const theirs = isHeldStart && least <= ceiling ? null : await tip(commitment);
    // Only a node says that it has not reached a slot.
    if (least > Math.max(ceiling, theirs ?? -1)) return PASS_ON;
    if (from !== null && to !== null && !isBefore(to, from)) return bounded([]);
    const endSlot = to?.slot ?? (until === null ? -1 : await unheldSlot(until, tenant));
    if (endSlot === null) return PASS_ON;
    if (from !== null && endSlot > from.slot) return bounded([]);
    if (endSlot > ceiling) {
      // Above what is held of this commitment. An upstream that is ahead has such a new end, and so all down to it.
      const newest = theirs ?? (await tip(commitment));
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
        return missing([], theirs!, `no upstream gives the blocks above slot ${ceiling}`);
      return await descend(walk, { slot: ceiling, index: END_OF_SLOT });
    }
    if (before !== null && from === null) {
      // What an upstream that is behind does not know as final yet, it leaves out.
      if (theirs !== null && theirs < ceiling && ((await slotOfUpstream(before, tenant)) ?? ceiling) > theirs)
        return missing([], ceiling, `the upstream is only at slot ${theirs}`);
      return await descendFromUpstream(walk, top.value, top.by);
    }
    // A node that knows the end lists all down to it.
    if (isEndUnmet(walk)) return bounded(top.value);
    return await descendFromTop(walk, top.value, { ceiling, lag: (theirs ?? ceiling) - ceiling, by: top.by });
  }

  /** Slot of a transaction; null when no upstream has it, or none answers. */
  async function slotOfUpstream(signature: string, tenant: Tenant): Promise<number | null> {
    const config = { encoding: 'base64', commitment: 'confirmed', maxSupportedTransactionVersion: 1 };
    const asked = await ask(() =>
      chain.call<{ readonly slot?: unknown } | null>('getTransaction', [signature, config], { tenant, archive: true }),
    );
    const slot = asked.kind === 'answered' ? asked.value?.slot : undefined;
    return typeof slot === 'number' ? slot : null;
  }

  /** Slot of a transaction that is not held; null when no upstream has it. Errors: Contradiction, where that slot is held. */
  async function unheldSlot(signature: string, tenant: Tenant): Promise<number | null> {
    const slot = await slotOfUpstream(signature, tenant);
    if (slot !== null && (await past.states(slot, slot)).unknown.length === 0) throw new Contradiction();
    return slot;
  }

  /** An upstream that is ahead lists what is not final, so that all of it is of one branch; what is held goes on at the final slot. */
  async function descendFromTop(
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
      const start = await firstSlot(query.tenant, by);
      if (start === null || start > seam + 1)
        return missing(rows, start ?? seam + 1, `nobody has all blocks above slot ${seam}`);
    }
    return await descend(walk, above);
  }

  /** A list that begins where only the upstream has blocks. */
  async function descendFromUpstream(
    walk: Walk,
    listed: readonly ListedSignature[],
    by: string | undefined,
  ): Promise<Joined<SignatureList>> {
    const { rows, query, to } = walk;
    if (to !== null) {
      const start = await slotOfUpstream(query.before!, query.tenant);
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
    const start = await firstSlot(query.tenant, by);
    if (start === null) return last === undefined ? PASS_ON : missing(rows, last.slot, UNKNOWN_START);
    const isLast = last !== undefined && (await past.newestBelow(last.slot - 1)) < 0;
    return isLast ? pruned(rows, start) : await descendBelow(walk, start);
  }

  /** Goes on below a slot: everything from there on is listed. `isEnd`: nobody but this daemon has anything older. */
  async function descendBelow(walk: Walk, slot: number): Promise<Joined<SignatureList>> {
    const held = await past.newestBelow(slot - 1);
    // An end that was not met may be in the part that nobody has: a node says so.
    if (held < 0) return isEndUnmet(walk) ? PASS_ON : pruned(walk.rows, slot);
    const { unknown } = await past.states(held, slot - 1);
    const hole = unknown.at(-1);
    if (hole !== undefined)
      return missing(walk.rows, hole + 1, `nobody has the blocks of slots ${unknown[0]} to ${hole}`);
    return await descend(walk, { slot: held, index: END_OF_SLOT });
  }

  /** From a place of the ledger or its archive down: what is held, then what the upstream has below, and so on. */
  async function descend(walk: Walk, below: LedgerPlace): Promise<Joined<SignatureList>> {
    const { query, address, to, rows, finalSlot } = walk;
    // Each look goes further down, but where the index does not have a held block: it is being made.
    if (below.slot >= walk.lookedFrom) return missing(rows, below.slot + 1, `the index lacks slot ${below.slot}`);
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
      const [theirs, held] = [await tip(query.commitment), await past.heads()];
      const ceiling = ceilingOf(held, query.commitment);
      return theirs !== null && ceiling - theirs > MAX_LAG_SLOTS
        ? missing([], ceiling, `the upstream is only at slot ${theirs}`)
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
    const theirs = await tip(query.commitment);
    if (theirs !== null && theirs < low - 1) return missing(rows, low, `the upstream is only at slot ${theirs}`);
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
      const start = await firstSlot(query.tenant, rest.by);
      if (start === null) return missing(rows, lowest, UNKNOWN_START);
      if ((await past.newestBelow(lowest - 1)) < 0) return pruned(rows, start);
      return await descendBelow(walk, Math.min(start, low));
    }
    if (isNotFound(rest, query.until) && to === null) return PASS_ON;
    const start = await startOf(rest, query.tenant);
    if (start === null) return missing(rows, low, 'no upstream answers');
    if (rest.kind !== 'answered' && start < low) return missing(rows, low, 'no upstream gives the older part');
    if (rest.kind === 'answered' && start <= low && isEndUnmet(walk)) return bounded(rows);
    return await descendBelow(walk, Math.min(start, low));
  }

  /** The first slot of the upstream that gave this answer; null when it does not say. While none answers, what one said last. */
  async function startOf(asked: UpstreamAnswer<unknown>, tenant: Tenant): Promise<number | null> {
    if (asked.kind === 'silent') return first?.slot ?? null;
    if (asked.kind === 'refused' && asked.code === NO_HISTORY) return Number.MAX_SAFE_INTEGER;
    return await firstSlot(tenant, asked.by);
  }

  /** Whether nothing is older than this block: a first block has no transactions below it. */
  async function isFirstBlock(slot: number): Promise<boolean> {
    const height = (await past.header(slot))?.blockHeight;
    return typeof height === 'number' && height <= 1;
  }

  async function slots(query: SlotQuery): Promise<SlotList | null> {
    learnFirstSlot();
    const found = await retried(() => joinSlots(query));
    return found === null ? { slots: [], end: FORKED } : found.list;
  }

  async function joinSlots({ from, to, limit, commitment, tenant }: SlotQuery): Promise<Joined<SlotList>> {
    const now = await heads(tenant);
    const ceiling = ceilingOf(now, commitment);
    const end = Math.min(to, ceiling);
    const behind = ceiling < 0 ? await behindHeld(now.newestSlot) : null;
    if (behind !== null)
      return { list: { slots: [], end: missingAt(end + 1, `the upstream is only at slot ${behind}`) } };
    if ((await past.newestBelow(end)) < 0) {
      // All of it is below what is held: a node that has not come so far would cut it.
      const theirs = end < from ? null : await tip(commitment);
      if (theirs === null || theirs >= end) return PASS_ON;
      return { list: { slots: [], end: missingAt(end + 1, `the upstream is only at slot ${theirs}`) } };
    }
    if (ceiling < from) return await slotsOfUpstream(from, tenant);
    const found: number[] = [];
    let ending: ListEnd = { kind: 'bounded' };
    // A list with a limit looks no further than it has to.
    for (let low = from; low <= end && found.length < limit; ) {
      const high = Math.min(end, low + 2 * Math.min(limit - found.length, MAX_SLOTS) + EXTRA_SLOTS);
      const part = await slotsOfRange(low, high, { commitment, tenant });
      if (part.end.kind === 'missing') return { list: { slots: found, end: part.end } };
      if (part.end.kind === 'pruned') ending = part.end;
      for (const slot of part.slots) found.push(slot);
      low = high + 1;
    }
    const theirs = found.length < limit && to > ceiling ? await tipNow(commitment) : null;
    if (theirs === null || theirs.slot <= ceiling) return { list: { slots: found.slice(0, limit), end: ending } };
    const asker = { commitment, tenant, only: theirs.by };
    const top = await slotsAbove(now.finalSlot, Math.min(to, theirs.slot), asker);
    if (top === null) {
      if (theirs.slot - ceiling > MAX_LAG_SLOTS)
        return {
          list: { slots: [], end: missingAt(theirs.slot, `no upstream gives the blocks above slot ${ceiling}`) },
        };
      // A node that sees no newer slots answers the same.
      return { list: { slots: found.slice(0, limit), end: ending } };
    }
    // What is not final is of one branch: that of the upstream, which is ahead.
    const slots = [...found.filter((slot) => slot <= now.finalSlot), ...top.filter((slot) => slot >= from)];
    const newest = top.at(-1) ?? -1;
    if (newest < ceiling && found.some((slot) => slot > newest)) throw new Contradiction();
    return { list: { slots: slots.slice(0, limit), end: ending } };
  }

  /** A list above all that is held: that of the upstream, unless it begins above the start of the list. */
  async function slotsOfUpstream(from: number, tenant: Tenant): Promise<Joined<SlotList>> {
    const isKnown = first !== null && clock.monotonic() - first.at < FIRST_MS && first.slot + FIRST_MOVES_SLOTS < from;
    const start = isKnown ? null : await firstSlot(tenant);
    if (start === null || start <= from) return PASS_ON;
    return { list: { slots: [], end: missingAt(start, `nobody has all blocks from slot ${from} on`) } };
  }

  /** Errors: Contradiction, where the only upstream that is asked does not answer. */
  async function askSlots(from: number, to: number, { commitment, tenant, only }: SlotAsker) {
    const asked = await ask(async (how) => {
      const options = { ...how, tenant, archive: true };
      const slots = await chain.call<unknown>('getBlocks', [from, to, { commitment }], options);
      if (!Array.isArray(slots) || !slots.every((slot) => Number.isSafeInteger(slot)))
        throw new CodedError('CHAIN_BAD_RESPONSE', 'getBlocks: the answer is not a list of slots', { retryable: true });
      return slots as readonly number[];
    }, only);
    if (asked.kind === 'silent' && only !== undefined) throw new Contradiction();
    return asked;
  }

  /**
   * Above the final slot, as an upstream has it; null where it does not say. Its list begins with the newest final block that is held, so that
   * none is missing between them. Errors: Contradiction.
   */
  async function slotsAbove(finalSlot: number, to: number, asker: SlotAsker): Promise<readonly number[] | null> {
    const anchor = await past.newestBelow(finalSlot);
    const asked = anchor < 0 ? null : await askSlots(anchor, Math.min(to, anchor + MAX_SLOTS), asker);
    if (asked?.kind !== 'answered' || asked.value.length === 0) return null;
    if (asked.value[0] !== anchor) throw new Contradiction();
    return asked.value.slice(1);
  }

  /** A range up to the newest held block; what is unknown in it comes from the upstream. */
  async function slotsOfRange(from: number, to: number, asker: SlotAsker): Promise<SlotList> {
    const { blocks, unknown } = await past.states(from, to);
    const found = [...blocks];
    let end: ListEnd = { kind: 'bounded' };
    for (const [low, high] of rangesOf(unknown)) {
      const above = blocks.includes(high + 1) ? await past.header(high + 1) : null;
      if (above?.blockHeight === 0) continue;
      // Without a held block above, a node that is behind ends its list early. Its tip is asked for first: it only moves on.
      const theirs = above === null ? await tipNow(asker.commitment) : null;
      const asked = await askSlots(low, high + 1, { ...asker, only: theirs?.by });
      const isBehind = above === null && (theirs?.slot ?? -1) < high;
      if (asked.kind === 'answered' && isBehind && !asked.value.includes(high + 1))
        return { slots: [], end: missingAt(high + 1, `the upstream is behind slot ${high}`) };
      const start = await startOf(asked, asker.tenant);
      const isHeldBelow = (await past.newestBelow(low - 1)) >= 0;
      if (start === null || (start > low && isHeldBelow) || (start <= high && asked.kind !== 'answered'))
        return { slots: [], end: missingAt(high + 1, `nobody gives all blocks of slots ${low} to ${high}`) };
      if (asked.kind === 'answered') {
        // The upstream has the block above the range too, or is on another fork.
        if (above !== null && start <= high + 1 && !asked.value.includes(high + 1)) throw new Contradiction();
        for (const slot of asked.value) if (slot <= high) found.push(slot);
      }
      if (start > low) end = { kind: 'pruned', slot: Math.min(start, high + 1) };
    }
    return { slots: found.sort((a, b) => a - b), end };
  }

  return { heads, signatures, slots, tip, learnFirstSlot };
}

/** `only`: the label of the upstream whose tip is known; undefined: any. */
type SlotAsker = Pick<SlotQuery, 'commitment' | 'tenant'> & { readonly only?: string | undefined };

/** A list on the way down. */
interface Walk {
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

/** `list` null: a node has to answer this query as a whole. */
interface Joined<T> {
  readonly list: T | null;
}

const PASS_ON: Joined<never> = { list: null };

const isBefore = (a: LedgerPlace, b: LedgerPlace): boolean =>
  a.slot < b.slot || (a.slot === b.slot && a.index < b.index);

const isEndUnmet = ({ query, to }: Walk): boolean => query.until !== null && to === null;

const isNotFound = (asked: UpstreamAnswer<unknown>, signature: string | null): boolean =>
  asked.kind === 'refused' &&
  asked.code === NOT_FOUND &&
  signature !== null &&
  asked.error instanceof Error &&
  asked.error.message.includes(signature);

const missingAt = (below: number, reason: string): ListEnd => ({ kind: 'missing', below, reason });
const UNKNOWN_START = 'the upstream does not say where its blocks begin';
const FORKED = missingAt(Number.MAX_SAFE_INTEGER, 'the upstream and the ledger do not have the same blocks');

type Rows = readonly ListedSignature[];
const bounded = (rows: Rows): Joined<SignatureList> => ({ list: { rows, end: { kind: 'bounded' } } });
const pruned = (rows: Rows, slot: number | null): Joined<SignatureList> => ({
  list: { rows, end: { kind: 'pruned', slot } },
});
const missing = (rows: Rows, below: number, reason: string): Joined<SignatureList> => ({
  list: { rows, end: missingAt(below, reason) },
});

/** A row in the form of a node. */
function heldRow({ signature, slot, index, blockTime, err, memo }: AddressRow, isFinal: boolean): ListedSignature {
  const confirmationStatus = isFinal ? 'finalized' : 'confirmed';
  const row = { blockTime, confirmationStatus, err, memo, signature, slot, transactionIndex: index };
  return { signature, slot, hasFailed: err !== null, blockTime, text: stringify(row) };
}

const CONFIRMED = /("confirmationStatus":\s*)"confirmed"/;

/** The rows of an answer, as the node wrote them; a node that is behind learns which of them are final. Errors: CHAIN_BAD_RESPONSE. */
function listedOf(text: string, finalSlot: number): readonly ListedSignature[] {
  const bytes = Buffer.from(text);
  const items = arrayItems(bytes);
  if (items === null)
    throw new CodedError('CHAIN_BAD_RESPONSE', 'getSignaturesForAddress: the answer is not a list of signatures', {
      retryable: true,
    });
  return items.map(({ start, end }) => {
    const row = bytes.toString('utf8', start, end);
    const { signature, slot, err, blockTime } = JSON.parse(row) as Readonly<Record<string, unknown>>;
    if (typeof signature !== 'string' || !Number.isSafeInteger(slot))
      throw new CodedError('CHAIN_BAD_RESPONSE', 'getSignaturesForAddress: the answer contains a malformed entry', {
        retryable: true,
      });
    return {
      signature,
      slot: slot as number,
      hasFailed: (err ?? null) !== null,
      blockTime: typeof blockTime === 'number' ? blockTime : null,
      text: (slot as number) <= finalSlot ? row.replace(CONFIRMED, '$1"finalized"') : row,
    };
  });
}

/** Runs of consecutive slots, ascending. */
function rangesOf(slots: readonly number[]): readonly (readonly [from: number, to: number])[] {
  const found: [number, number][] = [];
  for (const slot of slots) {
    const last = found.at(-1);
    if (last !== undefined && last[1] === slot - 1) last[1] = slot;
    else found.push([slot, slot]);
  }
  return found;
}
