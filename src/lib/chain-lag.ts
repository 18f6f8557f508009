/** How far behind the tip is too far. */
export interface LagLimit {
  readonly seconds: number;
  /** Of a configuration that still counts slots; it counts instead of the seconds. */
  readonly slots: number | null;
}

interface Lag {
  readonly lagSlots: number | null;
  /** Measured length of a slot; null until it is known. */
  readonly slotMs: number | null;
}

/** Stands in for the length of a slot until it is measured: the longest slots there are, so that no lag counts as shorter than it may be. */
const UNMEASURED_SLOT_MS = 400;

/** How long so many slots take, in ms. `slotMs`: their measured length, null or undefined until it is known. */
export const msOfSlots = (slots: number, slotMs: number | null | undefined): number =>
  slots * (slotMs ?? UNMEASURED_SLOT_MS);

/** How many whole slots a time has. */
export const slotsIn = (ms: number, slotMs: number | null | undefined): number =>
  Math.floor(ms / (slotMs ?? UNMEASURED_SLOT_MS));

/** How far the cursor is behind the tip in time; null where nothing is followed yet. */
export const lagSeconds = ({ lagSlots, slotMs }: Lag): number | null =>
  lagSlots === null ? null : msOfSlots(lagSlots, slotMs) / 1_000;

export function isLagBeyond(lag: Lag, limit: LagLimit): boolean {
  if (limit.slots !== null) return (lag.lagSlots ?? 0) > limit.slots;
  return (lagSeconds(lag) ?? 0) > limit.seconds;
}

/** `300 slots behind the tip, 60 s`. */
export const lagText = (lag: Lag): string =>
  `${lag.lagSlots ?? 0} slots behind the tip, ${Math.round(lagSeconds(lag) ?? 0)} s`;

export const lagLimitText = ({ seconds, slots }: LagLimit): string =>
  slots === null ? `${seconds} s` : `${slots} slots`;
