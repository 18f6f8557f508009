import type { IncomingHttpHeaders } from 'node:http';
import type { Credentials } from '../plugin.ts';
import { KEY_PARAMETER, parseQuery } from './query.ts';

const BEARER = /^bearer +(\S+) *$/i;

/** Everything in a request that may be an API key; the gate decides which one counts. */
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
  // The usual request has nothing but a plain key.
  if (query.startsWith('api-key=') && !/[&%+]/.test(query)) return [query.slice(8)];
  return parseQuery(query)
    .filter(([name]) => name === KEY_PARAMETER)
    .map(([, value]) => value);
}
