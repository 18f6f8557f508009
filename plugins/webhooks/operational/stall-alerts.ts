import type { ChainId, ChainStatus } from '../../../src/ports/chain.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { Outbox, OutboxRow } from '../../../src/ports/outbox.ts';
import type { Store } from '../../../src/ports/store.ts';
import { networkOf } from '../model/webhook.ts';
import { OPERATIONAL_KIND, type Operational, type OperationalEvent } from './operational.ts';

/** Tells the operator when a chain is not followed as it should be, and when that is over. */
export interface StallAlerts {
  look(): Promise<void>;
}

export interface StallAlertParts {
  readonly operational: Operational;
  readonly outbox: Pick<Outbox, 'list'>;
  readonly store: Store;
  readonly clock: Clock;
  readonly chains: readonly ChainId[];
  /** Null where no upstream is configured. */
  status(chain: ChainId): ChainStatus | null;
  /** More slots behind the tip are too many. */
  readonly maxLagSlots: number;
  /** So long it may take. */
  readonly patienceMs: number;
}

interface Seen {
  /** Since when it is not well, monotonic. */
  since: number | null;
  /** What this process has found told, or has told itself. */
  isTold: boolean | null;
}

/**
 * What was told last stands in the outbox, so that each change is told once, over restarts and by several processes: the name of an event
 * is made of the one before it.
 */
export function createStallAlerts(parts: StallAlertParts): StallAlerts {
  const { operational, outbox, store, clock, chains, maxLagSlots, patienceMs } = parts;
  const seen = new Map(chains.map((chain): [ChainId, Seen] => [chain, { since: null, isTold: null }]));

  async function tell(chain: ChainId, status: ChainStatus, reason: string | null): Promise<void> {
    const network = networkOf(chain);
    const group = `chain ${network}`;
    const [last] = await outbox.list({ kind: OPERATIONAL_KIND, group }, { limit: 1 });
    if (wasStalled(last) === (reason !== null)) return;
    const { cursorSlot, tipSlot, lagSlots } = status;
    const type = reason === null ? 'chain.resumed' : 'chain.stalled';
    const data = { network, ...(reason === null ? {} : { reason }), cursorSlot, tipSlot, lagSlots };
    await store.write((tx) => operational.tell(tx, type, data, { once: `${group} ${last?.key ?? ''}`, group }));
  }

  async function lookAt(chain: ChainId, one: Seen): Promise<void> {
    const status = parts.status(chain);
    // Before the first answers nothing is known.
    if (status === null || (status.lagSlots === null && status.stalled === null)) return;
    const lag = status.lagSlots ?? 0;
    const reason = status.stalled ?? (lag > maxLagSlots ? `${lag} slots behind the tip` : null);
    one.since = reason === null ? null : (one.since ?? clock.monotonic());
    const isLong = one.since !== null && clock.monotonic() - one.since >= patienceMs;
    if (reason !== null && !isLong) return;
    if (one.isTold === isLong) return;
    await tell(chain, status, reason);
    one.isTold = isLong;
  }

  return {
    async look() {
      if (!operational.isOn) return;
      for (const [chain, one] of seen) await lookAt(chain, one);
    },
  };
}

const wasStalled = (row: OutboxRow | undefined): boolean =>
  (row?.payload as OperationalEvent | undefined)?.type === 'chain.stalled';
