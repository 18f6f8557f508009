import type { Bus } from '../../ports/bus.ts';
import type { Clock, Random } from '../../ports/clock.ts';
import type { Log } from '../../ports/log.ts';
import { broadcastLine } from './broadcast-line.ts';
import { createBus } from './index.ts';
import type { Line } from './line.ts';
import { postgresLetter } from './postgres-letter.ts';
import { postgresLine } from './postgres-line.ts';

export interface BusOptions {
  /** Name that the threads of this process share; null when there is one thread only. */
  readonly channel: string | null;
  /** `store.url` when other processes may be reached through it: only PostgreSQL carries messages. */
  readonly storeUrl: string | null;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

const CARRIES = /^postgres(ql)?:/;

/** The bus of a thread, over all the ways there are. */
export function openBus({ channel, storeUrl, clock, random, log }: BusOptions): Bus {
  const lines: Line[] = channel === null ? [] : [broadcastLine(channel)];
  if (storeUrl !== null && CARRIES.test(storeUrl)) lines.push(postgresLine({ url: storeUrl, clock, random, log }));
  return createBus(lines, log);
}

/** The bus of a command: it hears nothing, and what it tells goes to the daemons on the same database when it is closed. */
export function openTellingBus({ storeUrl, random, log }: Pick<BusOptions, 'storeUrl' | 'random' | 'log'>): Bus {
  return createBus(storeUrl !== null && CARRIES.test(storeUrl) ? [postgresLetter(storeUrl, random)] : [], log);
}
