/** The maximum lag. */
export interface LagLimit {
  readonly seconds: number;
  /** From a configuration with old keys, in slots; has precedence over the seconds. */
  readonly slots: number | null;
}

interface Lag {
  readonly lagSlots: number | null;
  /** Measured slot length; null until known. */
  readonly slotMs: number | null;
}

/** Slot length until it is measured: that of the slowest clusters, so that no lag is underestimated. */
const UNMEASURED_SLOT_MS = 400;

/** Duration of a number of slots, in ms. `slotMs`: the measured slot length, null or undefined until known. */
export const msOfSlots = (slots: number, slotMs: number | null | undefined): number =>
  slots * (slotMs ?? UNMEASURED_SLOT_MS);

/** Number of whole slots in a duration. */
export const slotsIn = (ms: number, slotMs: number | null | undefined): number =>
  Math.floor(ms / (slotMs ?? UNMEASURED_SLOT_MS));

/** Lag of the cursor behind the tip; null if nothing is followed yet. */
export const lagSeconds = ({ lagSlots, slotMs }: Lag): number | null =>
  lagSlots === null ? null : msOfSlots(lagSlots, slotMs) / 1_000;

export function isLagBeyond(lag: Lag, limit: LagLimit): boolean {
  if (limit.slots !== null) return (lag.lagSlots ?? 0) > limit.slots;
  return (lagSeconds(lag) ?? 0) > limit.seconds;
}

/** `300 slots behind the tip, 60 s`. */
export const lagText = (lag: Lag): string =>
  `${lag.lagSlots ?? 0} ${lag.lagSlots === 1 ? 'slot' : 'slots'} behind the tip, ${Math.round(lagSeconds(lag) ?? 0)} s`;

export const lagLimitText = ({ seconds, slots }: LagLimit): string =>
  slots === null ? `${seconds} s` : `${slots} slots`;
