import { withoutBlanks } from '../../../src/lib/json-members.ts';
import { isPlainObject } from '../../../src/lib/plain-object.ts';

/** A call whose answer, once it is there, can never change. */
export interface Question {
  /** Equal for calls that mean the same. */
  readonly key: string;
  /** The slot whose answer is only final once the chain has finalized it; null where the node checks that itself. */
  readonly finalFrom: number | null;
}

/** The question behind a call, or null when its answer may change or when its parameters are not plainly readable. */
export function questionOf(method: string, paramsText: string | null): Question | null {
  if (method === 'getGenesisHash') {
    return paramsText === null || withoutBlanks(paramsText) === '[]' ? { key: method, finalFrom: null } : null;
  }
  if (method !== 'getTransaction' && method !== 'getBlock' && method !== 'getBlockTime') return null;
  const params = paramsText === null ? null : plainArray(paramsText);
  if (params === null || params.length === 0) return null;
  const [subject, options] = params;
  if (method === 'getTransaction' ? typeof subject !== 'string' : !isSlot(subject)) return null;
  if (method === 'getBlockTime') {
    return params.length === 1 ? { key: `${method} ${subject}`, finalFrom: subject as number } : null;
  }
  const settled = params.length > 2 ? null : settledOptions(options);
  return settled === null ? null : { key: `${method} ${JSON.stringify(subject)} ${settled}`, finalFrom: null };
}

/**
 * The array, if reading and writing it again gives the same text: then it has no member twice and no number that a parser could
 * take differently, so that every node understands what the key says.
 */
function plainArray(text: string): unknown[] | null {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) && JSON.stringify(value) === withoutBlanks(text) ? value : null;
  } catch {
    return null;
  }
}

const isSlot = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;

/** Canonical text of the options of a finalized read, or null for another commitment. A bare string is an encoding. */
function settledOptions(options: unknown): string | null {
  if (options === undefined || options === null) return '{}';
  if (typeof options === 'string') return JSON.stringify({ encoding: options });
  if (!isPlainObject(options)) return null;
  const { commitment, ...rest } = options;
  if (commitment !== undefined && commitment !== null && commitment !== 'finalized') return null;
  return JSON.stringify(Object.fromEntries(Object.entries(rest).sort(([a], [b]) => (a < b ? -1 : 1))));
}
