import { createHash } from 'node:crypto';
import type { JsonMember } from '../../../src/lib/json.ts';
import { createLru } from '../../../src/lib/lru.ts';

/**
 * Notifications that a node repeats. A node that leads tells the logs of each attempt to execute a transaction, under slots that do not hold
 * it (Agave 4.2.1: up to 148 times); some releases tell each root, log and account twice.
 */
export interface Repeats {
  /** Whether the subscription has told this before; else it counts as told from now on. `at`: the id of the subscription in the bytes. */
  isRepeat(family: string, notification: Buffer, at: Pick<JsonMember, 'start' | 'end'>): boolean;
}

/** What is remembered of a subscription; of the logs of a busy cluster these are some seconds. */
const MAX_TOLD = 16_384;
/** No text within the logs looks like this, because their quotes are escaped. */
const SIGNATURE = /"signature"\s*:\s*"([1-9A-HJ-NP-Za-km-z]+)"/;

export function createRepeats(): Repeats {
  const told = createLru<string, true>({ max: MAX_TOLD });
  return {
    isRepeat(family, notification, at) {
      const key = (family === 'logs' ? signatureOf(notification) : null) ?? digestOf(notification, at);
      if (told.get(key) === true) return true;
      told.set(key, true);
      return false;
    },
  };
}

const signatureOf = (notification: Buffer): string | null =>
  SIGNATURE.exec(notification.toString('latin1'))?.[1] ?? null;

/** Digest of everything but the id, which differs at another upstream. */
function digestOf(notification: Buffer, { start, end }: Pick<JsonMember, 'start' | 'end'>): string {
  const hash = createHash('sha256').update(notification.subarray(0, start)).update(notification.subarray(end));
  return hash.digest('base64');
}
