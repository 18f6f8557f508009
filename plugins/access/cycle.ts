const DAY_MS = 86_400_000;

/** A credit cycle: from the first day to the day on which the next one starts, both at 00:00 UTC. */
export interface Cycle {
  /** `YYYY-MM-DD` */
  readonly start: string;
  readonly end: string;
  /** Unix milliseconds. */
  readonly startMs: number;
  readonly endMs: number;
}

/** The cycle that holds a moment, for a billing day of 1 to 31; in a month without that day its last one counts. */
export function cycleOf(billingDay: number, atMs: number): Cycle {
  const at = new Date(atMs);
  const year = at.getUTCFullYear();
  const month = at.getUTCMonth();
  const here = turnOf(billingDay, year, month);
  const [startMs, endMs] =
    atMs >= here ? [here, turnOf(billingDay, year, month + 1)] : [turnOf(billingDay, year, month - 1), here];
  return { start: dayOf(startMs), end: dayOf(endMs), startMs, endMs };
}

/** `YYYY-MM-DD` in UTC. */
export function dayOf(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 10);
}

/** When the day of a moment ends, unix milliseconds. */
export function endOfDay(atMs: number): number {
  return (Math.floor(atMs / DAY_MS) + 1) * DAY_MS;
}

/** The day of the month on which a project that began then is billed. */
export function billingDayOf(beganMs: number): number {
  return new Date(beganMs).getUTCDate();
}

/** `month` may be -1 or 12: the neighbour in the year before or after. */
function turnOf(billingDay: number, year: number, month: number): number {
  const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  return Date.UTC(year, month, Math.min(billingDay, lastDay));
}
