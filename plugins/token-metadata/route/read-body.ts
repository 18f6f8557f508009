import { RequestError } from '../../../src/kernel/request.ts';
import { isPlainObject } from '../../../src/lib/plain-object.ts';

export interface Question {
  readonly mints: readonly string[];
  readonly includeOffChain: boolean;
  readonly disableCache: boolean;
}

const MAX_MINTS = 100;

/** Checks a body in the words of this endpoint. Throws RequestError with status 400. */
export function readBody(body: unknown): Question {
  const mints = isPlainObject(body) ? body['mintAccounts'] : undefined;
  if (!isPlainObject(body) || !isListOfText(mints))
    throw new RequestError(400, `mintAccounts must be an array of at most ${MAX_MINTS} strings`);
  if (mints.length > MAX_MINTS)
    throw new RequestError(400, `at most ${MAX_MINTS} mint accounts per request, got ${mints.length}`);
  return { mints, includeOffChain: flag(body, 'includeOffChain'), disableCache: flag(body, 'disableCache') };
}

function isListOfText(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}

function flag(body: Readonly<Record<string, unknown>>, name: string): boolean {
  const value = body[name] ?? false;
  if (typeof value !== 'boolean') throw new RequestError(400, `${name} must be a boolean`);
  return value;
}
