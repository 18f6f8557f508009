/** Where a transaction stands on the chain, as one number: slot * 65536 + place in the block. */
const PLACES = 65_536;

export const positionOf = (slot: number, place: number): number => slot * PLACES + place;
export const slotOf = (n: number): number => Math.floor(n / PLACES);
export const placeOf = (n: number): number => n % PLACES;
/** The first position of a slot. */
export const firstOf = (slot: number): number => slot * PLACES;
/** The first position behind a slot. */
export const endOf = (slot: number): number => (slot + 1) * PLACES;

/**
 * Places from here on are not those of the block, which could not be had: they only tell transactions of a slot apart, and keep
 * their order.
 */
export const MADE_UP_PLACE = 49_152;
