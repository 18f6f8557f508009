import { type ChainReader, type Clock, type Log, messageOf, type Store } from '../../../src/plugin/plugin.ts';
import type { Db } from '../store/tables.ts';
import { unavailable } from './fields.ts';

/** How long a call waits for the slot that it asks for. */
const WAIT_MS = 2_000;
/** A block may also be indexed without a hint: by another process, or by a processor that is behind the chain. */
const LOOK_MS = 200;

/** Where the index stands, in memory. */
export interface SlotWatch {
  /**
   * The newest slot that was ever seen indexed; 0 when there is none. Looks into the store only when the last look is some time ago.
   * Errors: of the store.
   */
  newest(): Promise<number>;
  /** Told by those who read the store for other reasons. */
  saw(slot: number): void;
  /** Waits until the slot is indexed. Errors: -32002 after 2 s; the signal's reason. */
  until(slot: number, signal: AbortSignal): Promise<void>;
  start(): void;
  stop(): void;
}

export interface SlotWatchOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly chain: ChainReader | null;
  readonly log: Log;
}

export function createSlotWatch({ store, clock, chain, log }: SlotWatchOptions): SlotWatch {
  /** Where the store stood at the last look; a roll-back lowers it. */
  let slot = 0;
  let highest = 0;
  let lookedAtMs = Number.NEGATIVE_INFINITY;
  let looking: Promise<void> | null = null;
  let isHinted = false;
  let off = (): void => undefined;
  const waiting = new Set<() => void>();

  function set(seen: number): void {
    slot = seen;
    highest = Math.max(highest, seen);
    for (const wake of [...waiting]) wake();
  }

  /** At most one question is on its way. */
  function look(): Promise<void> {
    looking ??= ask().finally(() => {
      looking = null;
      if (isHinted) lookAhead();
    });
    return looking;
  }

  async function ask(): Promise<void> {
    isHinted = false;
    const db = store.read as Db;
    const head = await db.selectFrom('compression_head').select('slot').executeTakeFirst();
    lookedAtMs = clock.monotonic();
    set(head?.slot ?? 0);
  }

  function lookAhead(): void {
    look().catch((error: unknown) => log.warn({ error: messageOf(error) }, 'the newest indexed slot is unknown'));
  }

  /** Ends sooner when the slot has changed. */
  async function pause(ms: number, signal: AbortSignal): Promise<void> {
    const early = new AbortController();
    const wake = () => early.abort();
    waiting.add(wake);
    try {
      await clock.sleep(ms, AbortSignal.any([signal, early.signal]));
    } catch (error) {
      if (signal.aborted || !early.signal.aborted) throw error;
    } finally {
      waiting.delete(wake);
    }
  }

  return {
    saw(seen) {
      if (seen > slot) set(seen);
    },
    async newest() {
      if (clock.monotonic() - lookedAtMs >= LOOK_MS) await look();
      return highest;
    },
    async until(wanted, signal) {
      const endMs = clock.monotonic() + WAIT_MS;
      while (slot < wanted) {
        await look();
        const leftMs = endMs - clock.monotonic();
        if (slot >= wanted) return;
        if (leftMs <= 0) throw unavailable(`slot ${wanted} has not been indexed yet (at ${slot})`);
        await pause(Math.min(LOOK_MS, leftMs), signal);
      }
    },
    start() {
      off =
        chain?.onReleased(() => {
          isHinted = true;
          if (looking === null) lookAhead();
        }) ?? off;
    },
    stop: () => off(),
  };
}
