import { parseCidr } from '../../../src/lib/cidr.ts';
import { usageError } from '../usage-error.ts';

/** What a key may be limited to: products of the usage record, and `admin` for the usage endpoint. */
export const PERMISSIONS = [
  'rpc',
  'enhancedApi',
  'walletApi',
  'das',
  'webhooks',
  'archival',
  'photon',
  'other',
  'admin',
] as const;

const MAX_ENTRIES = 100;
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/(?:\*\.)?(?:[a-z0-9-]+\.)*[a-z0-9-]+(?::\d{1,5})?$/i;
const IPV6_ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/\[[0-9a-f:.]+\](?::\d{1,5})?$/i;

/** Errors: ACCESS_BAD_NETWORK, naming the first that is none. */
export function checkNetworks(cidrs: readonly string[]): readonly string[] {
  return checked(cidrs, 'ACCESS_BAD_NETWORK', (cidr) => parseCidr(cidr) !== null);
}

/** Errors: ACCESS_BAD_ORIGIN. */
export function checkOrigins(origins: readonly string[]): readonly string[] {
  return checked(origins, 'ACCESS_BAD_ORIGIN', (origin) => ORIGIN.test(origin) || IPV6_ORIGIN.test(origin));
}

/** Errors: ACCESS_BAD_PERMISSION. */
export function checkPermissions(permissions: readonly string[]): readonly string[] {
  return checked(permissions, 'ACCESS_BAD_PERMISSION', (name) => (PERMISSIONS as readonly string[]).includes(name));
}

function checked(
  values: readonly string[],
  code: 'ACCESS_BAD_NETWORK' | 'ACCESS_BAD_ORIGIN' | 'ACCESS_BAD_PERMISSION',
  isGood: (value: string) => boolean,
): readonly string[] {
  const unique = [...new Set(values)];
  const bad = unique.find((value) => !isGood(value));
  if (bad !== undefined) throw usageError(code, bad);
  if (unique.length > MAX_ENTRIES) throw usageError(code);
  return unique;
}
