/** A million watched addresses, some with several owners, as bytes in one buffer. */
import { type AddressIndex, createAddressIndex } from '../../../src/solana/address-set.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';

export interface Watched {
  readonly count: number;
  /** 32 bytes each. */
  readonly keys: Uint8Array;
  /** Owners of each address. */
  readonly owners: readonly (readonly number[])[];
}

const OWNERS = 1_000;

/** Every tenth address has 2 to 20 owners. Addresses are distinct. */
export function watchedAddresses(seed: number, count: number): Watched {
  const random = createSfc32(seed);
  const keys = random.fill(new Uint8Array(count * 32));
  const owners = Array.from({ length: count }, (_, at) => {
    if (at % 10 > 0) return [random.below(OWNERS)];
    const some = new Set<number>();
    const wanted = random.between(2, 20);
    while (some.size < wanted) some.add(random.below(OWNERS));
    return [...some];
  });
  return { count, keys, owners };
}

export function keyOf(watched: Watched, at: number): Uint8Array {
  return watched.keys.subarray(at * 32, at * 32 + 32);
}

export function indexOf(watched: Watched, seed: number): AddressIndex {
  const random = createSfc32(seed);
  const index = createAddressIndex({ seed: Uint32Array.from({ length: 4 }, () => random.next()) });
  for (let at = 0; at < watched.count; at++) {
    const key = keyOf(watched, at);
    for (const owner of watched.owners[at]!) index.add(key, owner);
  }
  return index;
}
