import { encode32 } from '../../../lib/base58.ts';
import { u64At } from '../../movements/little-endian.ts';
import { discriminatorOf } from '../discriminator.ts';
import type { ViewStep } from '../view.ts';

/** A swap that a route made on one market. Keys are base58, amounts raw units. */
export interface RouteSwap {
  readonly amm: string;
  readonly inputMint: string;
  readonly inputAmount: bigint;
  readonly outputMint: string;
  readonly outputAmount: bigint;
  /** Where it was told. */
  readonly step: ViewStep;
}

export interface RouteFee {
  /** Token account that got it. */
  readonly account: string;
  readonly mint: string;
  readonly amount: bigint;
}

/** What every event that a program tells itself begins with. */
const SELF_CALL = 'e445a52e51cb9a1d';
const SWAP_EVENT = '40c6cde8260871e2';
const SWAPS_EVENT = '982f4eebc0606e6a';
const FEE_EVENT = '494f4e7fb8d50ddc';
const SWAP_BYTES = 128;
const FEE_BYTES = 88;

const key = (data: Uint8Array, at: number): string => encode32(data, at);

function eventOf({ data }: ViewStep): string {
  return discriminatorOf(data) === SELF_CALL ? discriminatorOf(data, 8) : '';
}

/** The swaps that a call of the aggregator tells; empty when it tells none, or what cannot be read. */
export function routeSwaps(step: ViewStep): readonly RouteSwap[] {
  const { data } = step;
  const event = eventOf(step);
  if (event === SWAP_EVENT && data.length >= SWAP_BYTES) {
    const swap = {
      ...{ amm: key(data, 16), inputMint: key(data, 48), outputMint: key(data, 88), step },
      ...{ inputAmount: u64At(data, 80)!, outputAmount: u64At(data, 120)! },
    };
    return [swap];
  }
  return event === SWAPS_EVENT ? listedSwaps(step) : [];
}

/** Newer routes tell all their swaps at once, without the market. */
const LISTED_AT = 20;
const LISTED_BYTES = 32 + 8 + 32 + 8;

function listedSwaps(step: ViewStep): readonly RouteSwap[] {
  const { data } = step;
  const count = (data.length - LISTED_AT) / LISTED_BYTES;
  if (!Number.isInteger(count) || count < 1) return [];
  return Array.from({ length: count }, (_, index) => {
    const at = LISTED_AT + index * LISTED_BYTES;
    return {
      ...{ amm: '', inputMint: key(data, at), outputMint: key(data, at + 40), step },
      ...{ inputAmount: u64At(data, at + 32)!, outputAmount: u64At(data, at + 72)! },
    };
  });
}

export function routeFee(step: ViewStep): RouteFee | null {
  const { data } = step;
  if (eventOf(step) !== FEE_EVENT || data.length < FEE_BYTES) return null;
  return { account: key(data, 16), mint: key(data, 48), amount: u64At(data, 80)! };
}
