import { randomBytes, randomUUID } from 'node:crypto';
import type { Random } from '../ports/clock.ts';

/** Randomness of the operating system; bytes and UUIDs are fit for keys. */
export function createSystemRandom(): Random {
  return {
    float: Math.random,
    bytes: (count) => randomBytes(count),
    uuid: () => randomUUID(),
  };
}
