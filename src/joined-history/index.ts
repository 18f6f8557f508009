import type { Tenant } from '../ports/access.ts';
import type { ChainReader } from '../ports/chain.ts';
import type { Clock } from '../ports/clock.ts';
import type {
  Heads,
  JoinedHistory,
  PastReader,
  SignatureList,
  SignatureQuery,
  SlotList,
  SlotQuery,
} from '../ports/ledger.ts';
import { Contradiction, FORKED } from './ends.ts';
import { createSignatureLists } from './signatures.ts';
import { createSlotLists } from './slots.ts';
import { createUpstreamSide } from './upstream.ts';

export { createPastReader } from './past.ts';

/** While a fork is followed, the ledger and an upstream may be on different branches. */
const ATTEMPTS = 4;
const ATTEMPT_MS = 150;

export interface JoinedHistoryParts {
  readonly past: PastReader;
  readonly chain: Pick<ChainReader, 'call' | 'callText'>;
  readonly clock: Clock;
}

/**
 * Lists of the chain, joined from parts: the newest rows of an upstream that is ahead of the ledger, what the ledger and its archive hold,
 * and what is older of an upstream.
 *
 * Each seam is checked: both sides share a row or a slot. What is held is never replaced by a shorter list of an upstream, and rows of an
 * upstream count only above and below what is held; what it lacks is asked of itself, because another one may have it. Where a part is missing
 * between two others, or may be missing at the end because no
 * upstream answers, the list says so (`missing`). It ends like that of a node (`pruned`) only where nobody has anything older.
 */
export function createJoinedHistory({ past, chain, clock }: JoinedHistoryParts): JoinedHistory {
  const upstream = createUpstreamSide(chain, clock);
  /** The newest block that an upstream called final, if it is the same on both sides. */
  let verified = { slot: -1, blockhash: '' };
  const joinSignatures = createSignatureLists({ past, upstream, heads });
  const joinSlots = createSlotLists({ past, upstream, heads });

  /**
   * The newest slot that is proven final. Between two audits of the follower an upstream finalizes further blocks; the same block on both
   * sides proves all below it.
   */
  async function finalSlotOf(kept: Heads, tenant: Tenant): Promise<number> {
    const isStill = async (block: typeof verified) => (await past.header(block.slot))?.blockhash === block.blockhash;
    const known = verified.slot > kept.finalSlot && (await isStill(verified)) ? verified.slot : kept.finalSlot;
    const theirs = await upstream.tip('finalized');
    if (theirs === null || theirs <= known) return known;
    const at = Math.min(theirs, kept.newestSlot);
    const ours = at <= known ? null : await past.header(at);
    const config = { transactionDetails: 'none', rewards: false, commitment: 'finalized' } as const;
    const options = { ...config, maxSupportedTransactionVersion: 1 };
    const asked =
      ours === null
        ? null
        : await upstream.ask(() =>
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
        upstream.forgetTips();
      }
    }
  }

  async function signatures(query: SignatureQuery): Promise<SignatureList | null> {
    upstream.learnFirstSlot();
    const found = await retried(() => joinSignatures(query));
    return found === null ? { rows: [], end: FORKED } : found.list;
  }

  async function slots(query: SlotQuery): Promise<SlotList | null> {
    upstream.learnFirstSlot();
    const found = await retried(() => joinSlots(query));
    return found === null ? { slots: [], end: FORKED } : found.list;
  }

  const { tip, learnFirstSlot } = upstream;
  return { heads, signatures, slots, tip, learnFirstSlot };
}
