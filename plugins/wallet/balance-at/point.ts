import { RequestError } from '../../../src/kernel/request.ts';
import { readDatetime } from './datetime.ts';

/** The moment that is asked about; exactly one of `time` (unix seconds) and `slot` is set. */
export interface Point {
  readonly time: number | null;
  readonly slot: number | null;
  /** As it was given. */
  readonly datetime: string | null;
}

export interface PointQuery {
  readonly time?: number | undefined;
  readonly slot?: number | undefined;
  readonly datetime?: string | undefined;
}

const badTime = (details: string) => new RequestError(400, 'Invalid time parameter', { details });

/** How far a clock may be ahead of ours. */
const AHEAD_S = 60;

/** Errors: 400 unless exactly one is given, and for what is no date. */
export function readPoint({ time, slot, datetime }: PointQuery): Point {
  if ([time, slot, datetime].filter((one) => one !== undefined).length !== 1)
    throw badTime('exactly one of time, datetime or slot is required');
  if (datetime === undefined) return { time: time ?? null, slot: slot ?? null, datetime: null };
  const read = readDatetime(datetime);
  if (read === null || read < 0)
    throw new RequestError(400, 'Invalid datetime', {
      details: 'a datetime looks like 2025-01-10, 2025-01-10 19:20:00 or 2025-01-10T19:20:00+02:00',
    });
  return { time: read, slot: null, datetime };
}

/** Errors: 400 for what has not happened yet. `newestSlot` is asked for only where it matters. */
export async function checkPast(point: Point, nowS: number, newestSlot: () => Promise<number>): Promise<void> {
  const isAhead = point.time === null ? (point.slot ?? 0) > (await newestSlot()) : point.time > nowS + AHEAD_S;
  if (isAhead) throw badTime('the requested point is in the future; time is in unix seconds');
}
