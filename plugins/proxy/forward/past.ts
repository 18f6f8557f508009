import type { RpcForward } from '../../../src/kernel/plugin.ts';
import { isNull } from '../../../src/lib/rpc-reply.ts';
import type { Upstream } from '../../../src/ports/upstream.ts';
import type { Answer } from './attempt.ts';

export type PastCall = Pick<RpcForward, 'method' | 'body' | 'params'>;

/** Knows which calls are about what a node may have forgotten, where some upstreams keep the whole history. */
export interface Past {
  /** Whether an upstream that keeps everything is to be asked first. `tipSlot`: the newest slot that any is known to have. */
  wantsArchive(call: PastCall, tipSlot: number | null): boolean;
  /** Whether an answer may be one of a node that has forgotten what it was asked for. Such an answer is remembered. */
  isLacking(call: PastCall, upstream: Upstream, answer: Answer): boolean;
}

/** Their subject is a slot. */
const OF_SLOT = new Set(['getBlock', 'getBlockTime']);
/** A node that has forgotten a part gives the rest, and nobody can see that from the answer. */
const LISTS_FROM_SLOT = new Set(['getBlocks', 'getBlocksWithLimit']);
/** As many slots as every node keeps. */
const RECENT_SLOTS = 5_000;
/** Cleaned up, not in this ledger or skipped, not in the long-term storage, no history at all. */
const LACKING_CODES = new Set([-32001, -32007, -32009, -32011]);
const CLEANED_UP = -32001;

export function createPast(): Past {
  // What was cleaned up on one upstream does not come back: from then on nobody waits for it to say so.
  let lostTo = -1;
  return {
    wantsArchive(call, tipSlot) {
      if (call.method === 'getSignaturesForAddress') return true;
      if (LISTS_FROM_SLOT.has(call.method)) {
        const slot = slotOf(call);
        return slot !== null && (tipSlot === null || slot < tipSlot - RECENT_SLOTS);
      }
      return lostTo >= 0 && OF_SLOT.has(call.method) && (slotOf(call) ?? Number.POSITIVE_INFINITY) <= lostTo;
    },
    isLacking(call, upstream, answer) {
      if (upstream.archive || answer.kind !== 'whole') return false;
      const isOfSlot = OF_SLOT.has(call.method);
      if (!isOfSlot && call.method !== 'getTransaction') return false;
      const { result, error } = answer.parts;
      if (result !== null) return isNull(answer.bytes, result);
      const code = error === null ? null : codeOf(answer.bytes.toString('utf8', error.start, error.end));
      if (isOfSlot && code === CLEANED_UP) lostTo = Math.max(lostTo, slotOf(call) ?? -1);
      return code !== null && LACKING_CODES.has(code);
    },
  };
}

/** The first parameter, where it is a slot. */
function slotOf({ body, params }: PastCall): number | null {
  const text = params === null ? '' : body.toString('latin1', params.start, Math.min(params.end, params.start + 64));
  const digits = /^\[\s*(\d{1,15})\s*[,\]]/.exec(text)?.[1];
  return digits === undefined ? null : Number(digits);
}

function codeOf(errorText: string): number | null {
  try {
    const { code } = JSON.parse(errorText) as { readonly code?: unknown };
    return typeof code === 'number' ? code : null;
  } catch {
    return null;
  }
}
