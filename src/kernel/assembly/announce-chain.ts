import type { Bus } from '../../ports/bus.ts';
import type { ChainId } from '../../ports/chain.ts';
import type { Clock } from '../../ports/clock.ts';
import type { FollowerView } from './parts.ts';
import { TOPICS } from './topics.ts';

export interface AnnounceOptions {
  readonly chain: ChainId;
  readonly follower: FollowerView;
  readonly bus: Bus;
  readonly clock: Clock;
}

export interface Announcer {
  start(): void;
  stop(): void;
}

const INTERVAL_MS = 1_000;
/** Between the statuses that follow releases. */
const SHORTEST_MS = 100;
/** A message has to stay small. */
const MOST_GAPS = 10;

/** Tells the other roles what the follower of this thread does. */
export function createAnnouncer({ chain, follower, bus, clock }: AnnounceOptions): Announcer {
  let toldAt = Number.NEGATIVE_INFINITY;
  let cancel = (): void => undefined;
  let offReleased = (): void => undefined;

  const tellStatus = () => {
    toldAt = clock.monotonic();
    const { gaps, ...status } = follower.status();
    const cut = gaps === undefined ? {} : { gaps: gaps.slice(0, MOST_GAPS) };
    bus.publish(TOPICS.status, { chain, status: { ...status, ...cut } });
  };
  const repeat = () => {
    tellStatus();
    cancel = clock.timeout(INTERVAL_MS, repeat);
  };
  return {
    start() {
      offReleased = follower.onReleased((header) => {
        bus.publish(TOPICS.released, { chain, header });
        if (clock.monotonic() - toldAt >= SHORTEST_MS) tellStatus();
      });
      repeat();
    },
    stop() {
      cancel();
      offReleased();
    },
  };
}
