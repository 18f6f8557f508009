/** Where block times come from; unix seconds. */
export type TimeSource =
  | { readonly kind: 'wall' }
  | { readonly kind: 'virtual'; readonly genesisTime?: number; readonly slotSeconds?: number };

const DEFAULT_GENESIS_TIME = 1_700_000_000;
const DEFAULT_SLOT_SECONDS = 0.4;

/** Block time by height. `moveTo` only ever moves time forward, and all later blocks with it. */
export function createChainTime(source: TimeSource, nowMs: () => number) {
  let offsetSeconds = 0;
  const base = (height: number): number =>
    source.kind === 'wall'
      ? nowMs() / 1000
      : (source.genesisTime ?? DEFAULT_GENESIS_TIME) + height * (source.slotSeconds ?? DEFAULT_SLOT_SECONDS);
  const at = (height: number): number => Math.floor(base(height) + offsetSeconds);
  return {
    at,
    moveTo(unixSeconds: number, height: number): void {
      offsetSeconds += Math.max(0, unixSeconds - at(height));
    },
  };
}
