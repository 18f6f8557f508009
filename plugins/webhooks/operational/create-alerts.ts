import { isLagBeyond, type LagLimit, lagText } from '../../../src/lib/chain-lag.ts';
import type { HostContext } from '../../../src/plugin/host.ts';
import type { ChainId } from '../../../src/plugin/plugin.ts';
import type { ChainStatus } from '../../../src/ports/chain.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { GapBook } from '../../../src/ports/gaps.ts';
import type { Log } from '../../../src/ports/log.ts';
import type { Outbox, OutboxRow } from '../../../src/ports/outbox.ts';
import type { Store, StoreTx } from '../../../src/ports/store.ts';
import type { WebhooksConfig } from '../config.ts';
import { networkOf } from '../model/webhook.ts';
import {
  createAlerts,
  createOperational,
  OPERATIONAL_KIND,
  type Operational,
  type OperationalEvent,
} from './alerts.ts';

interface OperatorAlertParts {
  readonly outbox: Outbox;
  readonly gaps: GapBook | null;
  readonly chains: readonly ChainId[];
  /** The processor whose gaps count. */
  readonly processor: string;
}

/** All that the operator is told of. */
export function createOperatorAlerts(ctx: HostContext<WebhooksConfig>, parts: OperatorAlertParts) {
  const { config, store, clock, random, log } = ctx;
  const { outbox, gaps, chains, processor } = parts;
  const operational = createOperational({ config: config.operational, enqueue: ctx.jobs.add, clock, random });
  return {
    alerts: createAlerts(operational, clock, log),
    gapAlerts: gaps === null ? null : createGapAlerts(operational, gaps, store, processor),
    stallAlerts: createStallAlerts({
      ...{ operational, outbox, store, clock, chains },
      maxLag: { seconds: config.maxLagSeconds, slots: config.maxLagSlots },
      status: (chain) => ctx.chain(chain)?.status() ?? null,
      patienceMs: ctx.core.follow.stalledAfterSeconds * 1_000,
    }),
    ...createRevertAlerts(operational, store, log),
  };
}

/** Tells the operator of new holes in what webhooks have seen. */
export interface GapAlerts {
  look(): Promise<void>;
}

/** Each gap is told once, also over restarts: what is told is an event whose key names the gap. */
function createGapAlerts(operational: Operational, book: GapBook, store: Store, processor: string): GapAlerts {
  let told = 0;
  return {
    async look() {
      if (!operational.isOn) return;
      const gaps = (await book.list({ processor, isOpen: true })).filter(
        ({ id, reason }) => id > told && reason !== 'manual',
      );
      if (gaps.length === 0) return;
      await store.write(async (tx) => {
        for (const { id, chain, fromSlot, toSlot, reason } of gaps) {
          const network = networkOf(chain);
          await operational.tell(tx, 'chain.gap', { id, network, fromSlot, toSlot, reason }, { once: `gap_${id}` });
        }
      });
      told = Math.max(told, ...gaps.map(({ id }) => id));
    },
  };
}

/** Tells the operator when a chain is not followed as it should be, and when that is over. */
export interface StallAlerts {
  look(): Promise<void>;
}

interface StallAlertParts {
  readonly operational: Operational;
  readonly outbox: Pick<Outbox, 'list'>;
  readonly store: Store;
  readonly clock: Clock;
  readonly chains: readonly ChainId[];
  /** Null where no upstream is configured. */
  status(chain: ChainId): ChainStatus | null;
  readonly maxLag: LagLimit;
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
function createStallAlerts(parts: StallAlertParts): StallAlerts {
  const { operational, outbox, store, clock, chains, maxLag, patienceMs } = parts;
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
    const reason = status.stalled ?? (isLagBeyond(status, maxLag) ? lagText(status) : null);
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

/** Tells the operator of blocks that were taken back: once for a whole fork. */
interface RevertAlerts {
  /** In the transaction that takes the blocks back. */
  reverted(tx: StoreTx, chain: ChainId, slot: number): void;
}

function createRevertAlerts(operational: Operational, store: Store, log: Log): RevertAlerts {
  /** Of the forks whose transaction is open. */
  const open = new WeakMap<StoreTx, number[]>();

  async function tell(chain: ChainId, slots: readonly number[]): Promise<void> {
    const network = networkOf(chain);
    const range = { network, blocks: slots.length, fromSlot: Math.min(...slots), toSlot: Math.max(...slots) };
    await store.write((tx) => operational.tell(tx, 'chain.reverted', range));
  }

  return {
    reverted(tx, chain, slot) {
      if (!operational.isOn) return;
      const known = open.get(tx);
      if (known !== undefined) {
        known.push(slot);
        return;
      }
      const slots = [slot];
      open.set(tx, slots);
      tx.onCommit(() => {
        tell(chain, slots).catch((error: unknown) =>
          log.warn({ err: error }, 'the operator could not be told of a fork'),
        );
      });
    },
  };
}
