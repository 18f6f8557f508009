/** Answer of `getEpochSchedule`; it never changes on a chain. */
export interface EpochSchedule {
  readonly slotsPerEpoch: number;
  readonly firstNormalEpoch: number;
  readonly firstNormalSlot: number;
}

/** Length of the first epoch where they grow at first. */
const MIN_SLOTS_PER_EPOCH = 32;

export function isEpochSchedule(value: unknown): value is EpochSchedule {
  const { slotsPerEpoch, firstNormalEpoch, firstNormalSlot } = (value ?? {}) as Partial<EpochSchedule>;
  const areWhole = [slotsPerEpoch, firstNormalEpoch, firstNormalSlot].every(Number.isSafeInteger);
  return areWhole && (slotsPerEpoch as number) > 0;
}

/** Epoch of a slot; same formula as the crate solana-epoch-schedule 3.0: epochs double until the first normal one. */
export function epochOf({ slotsPerEpoch, firstNormalEpoch, firstNormalSlot }: EpochSchedule, slot: number): number {
  if (slot >= firstNormalSlot) return firstNormalEpoch + Math.floor((slot - firstNormalSlot) / slotsPerEpoch);
  return Math.floor(Math.log2(slot / MIN_SLOTS_PER_EPOCH + 1));
}
