export const JSON_TYPE = 'application/json; charset=utf-8';
const EXPOSED = 'Retry-After, X-Request-Id, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset';

/** Header names and values in turn, which is the cheapest form for node:http. */
export type HeaderList = string[];

/** What every answer carries. `cors` is on on the API listener; only browsers, which send an Origin, read the longer header. */
export function commonHeaders(
  requestId: string,
  options: { readonly cors: boolean; readonly hasOrigin: boolean; readonly ownCacheControl: boolean },
): HeaderList {
  const list = ['X-Content-Type-Options', 'nosniff', 'X-Request-Id', requestId];
  if (!options.ownCacheControl) list.push('Cache-Control', 'no-store');
  if (options.cors) list.push('Access-Control-Allow-Origin', '*');
  if (options.cors && options.hasOrigin) list.push('Access-Control-Expose-Headers', EXPOSED);
  return list;
}

/** The answer to OPTIONS on any path. The star of the allowed headers does not cover Authorization, hence the list. */
export const preflightHeaders: Readonly<Record<string, string>> = {
  'Access-Control-Allow-Methods': 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS',
  'Access-Control-Allow-Headers':
    'Content-Type, X-Api-Key, Authorization, X-Helius-Client, solana-client, User-Agent, *',
  'Access-Control-Expose-Headers': EXPOSED,
  'Access-Control-Max-Age': '86400',
};
