import { timingSafeEqual } from 'node:crypto';
import { secretKey, signBody } from '../delivery/signature.ts';

export interface SignedHeaders {
  readonly id: string | undefined;
  /** Unix seconds, as text. */
  readonly timestamp: string | undefined;
  readonly signature: string | undefined;
}

/** `old`: more than five minutes away from now, so that it may have been recorded and sent again. */
export type Verdict = 'good' | 'bad' | 'old' | 'missing' | 'unknown secret';

const TOLERANCE_SECONDS = 300;

/** Checks the signature of a request as a receiver should: over the bytes as they came, in constant time, and not too old. */
export function verifyDelivery(
  headers: SignedHeaders,
  body: Uint8Array,
  secrets: readonly string[],
  nowMs: number,
): Verdict {
  const { id, timestamp, signature } = headers;
  if (id === undefined || timestamp === undefined || signature === undefined) return 'missing';
  if (secrets.length === 0) return 'unknown secret';
  const seconds = Number(timestamp);
  const wanted = signBody(secrets.map(secretKey), id, seconds, body)
    .split(' ')
    .map((text) => Buffer.from(text));
  const isGood = signature.split(' ').some((text) => wanted.some((one) => isEqual(one, Buffer.from(text))));
  if (!isGood) return 'bad';
  return Math.abs(nowMs / 1_000 - seconds) > TOLERANCE_SECONDS ? 'old' : 'good';
}

const isEqual = (a: Buffer, b: Buffer): boolean => a.length === b.length && timingSafeEqual(a, b);
