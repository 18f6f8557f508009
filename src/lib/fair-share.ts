/** Part of a shared limit that is reserved for holders below their fair share. */
const RESERVE = 0.25;

/** Whether a holder that has `held` may take `amount` more of a shared limit. */
export function admits(
  { room, used, holders }: { readonly room: number; readonly used: number; readonly holders: number },
  held: number,
  amount: number,
): boolean {
  if (used + amount <= room) return true;
  const after = held + amount;
  const left = room * (1 + RESERVE) - used;
  // At most half of the rest, or the second tenant would take the whole reserve.
  return after <= room / (held === 0 ? holders + 1 : holders) && after <= left;
}
