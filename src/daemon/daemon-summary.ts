import type { ChainStatus } from '../ports/chain.ts';

/** What a daemon does, in numbers. */
export interface DaemonLoad {
  readonly chains: readonly ChainStatus[];
  /** Requests of the API listener since the start. */
  readonly requests: number;
  /** Those that are being handled now. */
  readonly inFlight: number;
}

/** One line for people: where the chains stand, and what was asked since `before`. */
export function summarize(load: DaemonLoad, before: { readonly requests: number; readonly seconds: number }): string {
  const requests = Math.max(0, load.requests - before.requests);
  const chains = load.chains.map(describeChain);
  return [
    ...(chains.length === 0 ? ['no chain is followed'] : chains),
    `${counted(requests, 'request')} in ${Math.round(before.seconds)} s, ${load.inFlight} under way`,
  ].join('; ');
}

function describeChain({ chain, cursorSlot, tipSlot, lagSlots, stalled }: ChainStatus): string {
  const name = chain === 'main' ? '' : `${chain} `;
  if (stalled !== null) return `${name}stands still${cursorSlot === null ? '' : ` at slot ${cursorSlot}`}: ${stalled}`;
  const slot = cursorSlot ?? tipSlot;
  if (slot === null) return `${name}not followed yet`;
  const place = `${name}slot ${slot}`;
  if (lagSlots === null) return place;
  return lagSlots <= 0 ? `${place}, at the tip` : `${place}, ${counted(lagSlots, 'slot')} behind the tip`;
}

const counted = (count: number, what: string) => `${count} ${what}${count === 1 ? '' : 's'}`;
