import { type Clock, RpcError } from '../../src/plugin/plugin.ts';
import type { Tenant } from '../../src/ports/access.ts';
import type { AskAgain, UpstreamResult } from '../../src/ports/address-history.ts';
import type { JoinedHistory } from '../../src/ports/ledger.ts';

/**
 * What was final once is the floor: an upstream that reports less is starting, and denies what it has. After a restart a node of 4.4 names
 * its old final slot while it still replays; then its confirmed slot is far below (seen for about a second).
 *
 * Nobody learns from the tips of now what a node knew when it denied something: it may have come back in between. So a denial counts only if
 * the same upstream had both tips at the floor before it was asked, and not so long before that it could have restarted since.
 */
export interface FinalFloor {
  /** The highest slot that is known to be final, this one included. */
  atLeast(slot: number): number;
  /** Whether a denial rests on tips from before the call. */
  rests(denial: Denial, said: UpstreamResult): boolean;
  /** Asks an upstream for its tips. Null: they are at the floor, so that from now on its denials count, for a moment. Else why not. */
  whyBehind(upstream: string, again: AskAgain, tenant: Tenant): Promise<string | null>;
}

/** `slot`: the slot that the denial is of, if it names one; else the largest integer. */
export interface Denial {
  readonly slot: number;
}

export interface FinalFloorParts {
  readonly joined: Pick<JoinedHistory, 'heads'>;
  /** The newest slot that the follower found final; null without one. */
  readonly finalizedSlot: () => number | null;
  readonly clock: Clock;
}

/** Nodes need seconds from their end until they answer again. */
const RESTART_MS = 1_000;
const COMMITMENTS = ['finalized', 'confirmed'] as const;

export const starting = (details: string) => new RpcError('unavailable', { details, retryAfterS: 1 });

export function createFinalFloor({ joined, finalizedSlot, clock }: FinalFloorParts): FinalFloor {
  let floor = -1;
  /** By label: when an upstream that was at the floor had been asked and had answered, in monotonic milliseconds, and that floor. */
  const started = new Map<string, { readonly askedAt: number; readonly at: number; readonly floor: number }>();

  const atLeast = (slot: number): number => {
    floor = Math.max(floor, finalizedSlot() ?? -1);
    return Math.max(floor, slot);
  };

  return {
    atLeast,
    rests({ slot }, { upstream, sentAt }) {
      const known = started.get(upstream);
      // A busy process reads the tips long after they were true: what counts is when they were asked for.
      return known !== undefined && sentAt >= known.at && sentAt - known.askedAt <= RESTART_MS && slot >= known.floor;
    },
    async whyBehind(upstream, again, tenant) {
      floor = Math.max(atLeast(-1), (await joined.heads(tenant)).finalSlot);
      const now = floor;
      const tips = await Promise.all(
        COMMITMENTS.map((commitment) => again(upstream, 'getSlot', JSON.stringify([{ commitment }]))),
      );
      for (const tip of tips) {
        const slot = Number(tip?.resultText ?? -1);
        if (!(slot >= now))
          return `The Solana upstream is starting: it is at slot ${slot}, and slot ${now} was final before`;
      }
      const labels = new Set(tips.map((tip) => tip?.upstream));
      const [label] = labels;
      const askedAt = Math.min(...tips.map((tip) => tip?.sentAt ?? Number.NEGATIVE_INFINITY));
      if (labels.size === 1 && label !== undefined) started.set(label, { askedAt, at: clock.monotonic(), floor: now });
      return null;
    },
  };
}
