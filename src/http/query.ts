import type { IncomingHttpHeaders } from 'node:http';
import type { TSchema } from '@sinclair/typebox';
import type { Credentials } from '../plugin/host.ts';
import { RequestError } from '../plugin/request.ts';

export type QueryKind = 'string' | 'integer' | 'number' | 'boolean';
/** Decoded names and values in order; repeated names are kept. */
type QueryPairs = readonly (readonly [string, string])[];

/** The parameter that carries the API key. */
const KEY_PARAMETER = 'api-key';
const INTEGER = /^\d{1,16}$/;
const NUMBER = /^\d{1,16}(\.\d{1,16})?$/;

/** Splits and decodes a raw query. A broken escape stays unchanged. */
export function parseQuery(query: string): QueryPairs {
  if (query === '') return [];
  const pairs: [string, string][] = [];
  for (const part of query.split('&')) {
    if (part === '') continue;
    const mark = part.indexOf('=');
    const name = mark < 0 ? part : part.slice(0, mark);
    pairs.push([decode(name), mark < 0 ? '' : decode(part.slice(mark + 1))]);
  }
  return pairs;
}

function decode(text: string): string {
  const spaced = text.includes('+') ? text.replaceAll('+', ' ') : text;
  if (!spaced.includes('%')) return spaced;
  try {
    return decodeURIComponent(spaced);
  } catch {
    return spaced;
  }
}

/** The kinds of a route's declared parameters. */
export function queryKinds(properties: Readonly<Record<string, TSchema>>): ReadonlyMap<string, QueryKind> {
  return new Map(Object.entries(properties).map(([name, schema]) => [name, kindOf(schema)]));
}

function kindOf(schema: TSchema): QueryKind {
  const type: unknown = schema['type'];
  if (type === 'integer' || type === 'number' || type === 'boolean') return type;
  const options: unknown = schema['anyOf'];
  if (!Array.isArray(options)) return 'string';
  const kinds = new Set(options.map((option: TSchema) => kindOf(option)));
  return kinds.size === 1 ? ([...kinds][0] as QueryKind) : 'string';
}

/**
 * Converts declared parameters to their types. Empty ones count as absent, undeclared ones are left out. Throws 400 for a repeated
 * parameter and for a value of the wrong type; the schema checks ranges.
 */
export function typeQuery(pairs: QueryPairs, kinds: ReadonlyMap<string, QueryKind>): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  const seen = new Set<string>();
  for (const [name, text] of pairs) {
    const kind = kinds.get(name);
    if (kind === undefined || name === KEY_PARAMETER) continue;
    if (seen.has(name)) throw invalid(`${name} is given more than once`);
    seen.add(name);
    if (text !== '') values[name] = typed(name, text, kind);
  }
  return values;
}

function typed(name: string, text: string, kind: QueryKind): unknown {
  if (kind === 'string') return text;
  if (kind === 'boolean') {
    if (text === 'true' || text === 'false') return text === 'true';
    throw invalid(`${name} must be true or false`);
  }
  const value = Number(text);
  if (kind === 'integer') {
    if (INTEGER.test(text) && Number.isSafeInteger(value)) return value;
    throw invalid(
      INTEGER.test(text)
        ? `${name} must be a whole number up to ${Number.MAX_SAFE_INTEGER}`
        : `${name} must be a whole number`,
    );
  }
  if (NUMBER.test(text)) return value;
  throw invalid(`${name} must be a number`);
}

function invalid(details: string): RequestError {
  return new RequestError(400, 'Invalid query parameter', { details });
}

const BEARER = /^bearer +(\S+) *$/i;

/** All values of a request that may be API keys; the gate decides which one counts. */
export function credentialsOf(query: string, headers: IncomingHttpHeaders): Credentials {
  const header = headers['x-api-key'];
  const authorization = headers.authorization;
  return {
    query: keysOfQuery(query),
    header: typeof header === 'string' ? header : header?.[0],
    bearer: authorization === undefined ? undefined : BEARER.exec(authorization)?.[1],
    origin: headers.origin,
  };
}

function keysOfQuery(query: string): readonly string[] {
  if (query === '') return [];
  // Fast path: usually the query is just a plain key.
  if (query.startsWith('api-key=') && !/[&%+]/.test(query)) return [query.slice(8)];
  return parseQuery(query)
    .filter(([name]) => name === KEY_PARAMETER)
    .map(([, value]) => value);
}
