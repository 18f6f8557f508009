import { BlockList, isIP } from 'node:net';
import { parseCidr } from '../../../src/lib/cidr.ts';

/** What a key may not do. */
export interface KeyRules {
  /** Products and named permissions; null: all. */
  readonly permissions: ReadonlySet<string> | null;
  /** Whether a client address may use it; null: from everywhere. */
  readonly allowsAddress: ((address: string) => boolean) | null;
  /** Whether a page of this origin may use it; null: any caller, also without an origin. */
  readonly allowsOrigin: ((origin: string | undefined) => boolean) | null;
}

/** The three lists as they are stored: JSON, or null for no limit. */
export function readRules(row: {
  readonly permissions: string | null;
  readonly cidrs: string | null;
  readonly origins: string | null;
}): KeyRules {
  const permissions = listOf(row.permissions);
  const cidrs = listOf(row.cidrs);
  const origins = listOf(row.origins);
  return {
    permissions: permissions === null ? null : new Set(permissions),
    allowsAddress: cidrs === null ? null : createNetworks(cidrs),
    allowsOrigin: origins === null ? null : createOrigins(origins),
  };
}

export function listOf(text: string | null): readonly string[] | null {
  return text === null ? null : (JSON.parse(text) as string[]);
}

/** Whether an address lies in one of the networks. A stored network that cannot be read allows nothing. */
export function createNetworks(cidrs: readonly string[]): (address: string) => boolean {
  const list = new BlockList();
  for (const cidr of cidrs) {
    const network = parseCidr(cidr);
    if (network !== null) list.addSubnet(network.address, network.prefix, network.family === 6 ? 'ipv6' : 'ipv4');
  }
  // The same client calls again and again, and a look-up makes objects.
  let lastAllowed = '';
  return (address) => {
    if (address === lastAllowed) return true;
    const family = isIP(address);
    if (family === 0 || !list.check(address, family === 6 ? 'ipv6' : 'ipv4')) return false;
    lastAllowed = address;
    return true;
  };
}

function createOrigins(origins: readonly string[]): (origin: string | undefined) => boolean {
  const exact = new Set(origins.map((origin) => origin.toLowerCase()));
  // `https://*.app.example` stands for every host below it.
  const suffixes = [...exact].flatMap((origin) => {
    const [scheme, host] = origin.split('://*');
    return host === undefined ? [] : [{ scheme: `${scheme}://`, host }];
  });
  return (given) => {
    if (given === undefined) return false;
    const origin = given.toLowerCase();
    if (exact.has(origin)) return true;
    return suffixes.some(
      ({ scheme, host }) =>
        origin.startsWith(scheme) &&
        origin.endsWith(host) &&
        /^[a-z0-9.-]+$/.test(origin.slice(scheme.length, -host.length)),
    );
  };
}
