/**
 * Measures the slot length of a chain. Clusters change it (400, 350, 300, 200 ms), so no code may assume one.
 */
export interface SlotLength {
  /** Milliseconds per slot; null until enough data was seen. */
  ms(): number | null;
  /** A tip that an upstream reported, and its time in monotonic ms. */
  sawTip(slot: number, at: number): void;
  /** A block of the chain and its time in unix seconds. */
  sawBlock(slot: number, blockTime: number | null): void;
}

/** Minimum time between two tips that count: the time of a tip is inexact by the duration of a poll. */
const TIP_STEP_MS = 2_000;
const TIP_STEPS = 32;
/** Below this number of steps, block times are the better source. */
const FEWEST_TIP_STEPS = 8;
const BLOCKS = 512;
/** Block times are whole seconds: over a shorter range they are too inexact. */
const SHORTEST_BLOCK_STRETCH_S = 20;

interface Step {
  readonly slots: number;
  readonly ms: number;
}

export function createSlotLength(): SlotLength {
  let last: { readonly slot: number; readonly at: number } | null = null;
  const steps: Step[] = [];
  const blocks: { readonly slot: number; readonly seconds: number }[] = [];

  return {
    ms: () => (steps.length >= FEWEST_TIP_STEPS ? medianOf(steps) : overBlocks(blocks)),
    sawTip(slot, at) {
      if (last !== null && at - last.at < TIP_STEP_MS) return;
      // A tip that does not advance comes from another node or a halted chain; it does not measure the slot length.
      if (last !== null && slot > last.slot) steps.push({ slots: slot - last.slot, ms: at - last.at });
      if (steps.length > TIP_STEPS) steps.shift();
      last = { slot, at };
    },
    sawBlock(slot, seconds) {
      if (seconds === null) return;
      // After a rollback or a gap fill, the range starts again at the lower block.
      while (blocks.length > 0 && blocks.at(-1)!.slot >= slot) blocks.pop();
      blocks.push({ slot, seconds });
      if (blocks.length > BLOCKS) blocks.shift();
    },
  };
}

/** Weighted by slots, so that an outage or a jump of the tip has little effect. */
function medianOf(steps: readonly Step[]): number {
  const sorted = [...steps].sort((a, b) => a.ms / a.slots - b.ms / b.slots);
  const half = steps.reduce((sum, { slots }) => sum + slots, 0) / 2;
  let seen = 0;
  const middle = sorted.find(({ slots }) => {
    seen += slots;
    return seen >= half;
  }) as Step;
  return middle.ms / middle.slots;
}

function overBlocks(blocks: readonly { readonly slot: number; readonly seconds: number }[]): number | null {
  const first = blocks[0];
  const last = blocks.at(-1);
  if (first === undefined || last === undefined || last.seconds - first.seconds < SHORTEST_BLOCK_STRETCH_S) return null;
  return ((last.seconds - first.seconds) * 1_000) / (last.slot - first.slot);
}

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

/** Silence of a chain, in ms, after which its tip is extrapolated. */
export const SILENT_MS = 5_000;

/** Slots that the chain should have made since its tip last rose, `silentMs` ago; 0 while it may just be between two slots. */
export const unseenSlots = (silentMs: number, slotMs: number | null): number =>
  silentMs < SILENT_MS ? 0 : slotsIn(silentMs, slotMs);

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
