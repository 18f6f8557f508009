import { createLru } from '../../../src/lib/lru.ts';

/** Up to which slot mints are known to have changed: what was read at an earlier one may be shown, and must not be kept. */
export interface ChangedSlots {
  note(mint: string, slot: number): void;
  isCurrent(mint: string, readSlot: number): boolean;
}

const REMEMBERED = 50_000;

export function createChangedSlots(): ChangedSlots {
  const slots = createLru<string, number>({ max: REMEMBERED });
  return {
    note: (mint, slot) => void slots.set(mint, Math.max(slot, slots.get(mint) ?? 0)),
    isCurrent: (mint, readSlot) => readSlot >= (slots.get(mint) ?? 0),
  };
}
