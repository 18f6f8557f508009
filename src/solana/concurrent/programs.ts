import { decode32 } from '../../lib/base58.ts';
import type { KeyTable } from '../../ports/block.ts';

const SPL_COMPRESSION = 'cmtDvXumGCrqC1Age74AVPhSRVXJMd8PJS91L8KbNCK';
const MPL_COMPRESSION = 'mcmt6YrQEMKw8Mw43FmpRLmf7BqRnFMKmAcbxE3xkAW';
const COMPRESSION = [
  { program: SPL_COMPRESSION, noop: 'noopb9bkMVfRPU8AsbpTUg8AQkHtKwMYZiFUjNRtMmV' },
  { program: MPL_COMPRESSION, noop: 'mnoopTCrg4p8ry25e4bcWA9XZjbNjMTfgYVGGEdRsf3' },
];

/** Base58 ids of the programs that keep concurrent trees. */
export const CONCURRENT_PROGRAMS: readonly string[] = [SPL_COMPRESSION, MPL_COMPRESSION];

/** Ids in the key table of one block of the programs that keep concurrent trees, each with the noop that it tells changes through. */
export type ConcurrentIds = readonly { readonly program: number; readonly noop: number }[];

/** Finds the programs in a block; those that do not occur in it are left out. */
export function createConcurrentFinder(): (keys: KeyTable) => ConcurrentIds {
  const known = COMPRESSION.map(({ program, noop }) => ({ program: keyOf(program), noop: keyOf(noop) }));
  return (keys) =>
    known
      .map(({ program, noop }) => ({ program: keys.find(program), noop: keys.find(noop) }))
      .filter(({ program }) => program >= 0);
}

function keyOf(text: string): Uint8Array {
  const key = decode32(text);
  if (key === null) throw new TypeError(`${text} is no key`);
  return key;
}
