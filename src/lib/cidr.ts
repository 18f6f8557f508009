import { isIP } from 'node:net';

export interface Cidr {
  readonly address: string;
  readonly family: 4 | 6;
  readonly prefix: number;
}

/**
 * Reads `10.0.0.0/8`, `fd00::/8` or a single address; null for everything else, also for a zone (`fe80::1%eth0`) and for an IPv4
 * address in IPv6 form, whose prefix would be of the wrong family.
 */
export function parseCidr(text: string): Cidr | null {
  const [address = '', size, ...rest] = text.split('/');
  const family = isIP(address);
  if ((family !== 4 && family !== 6) || isOdd(address) || rest.length > 0) return null;
  const width = family === 4 ? 32 : 128;
  if (size === undefined) return { address, family, prefix: width };
  const prefix = /^\d{1,3}$/.test(size) ? Number(size) : -1;
  return prefix >= 0 && prefix <= width ? { address, family, prefix } : null;
}

function isOdd(address: string): boolean {
  if (!address.includes(':')) return false;
  // The URL parser writes any IPv6 address in its one canonical form.
  return address.includes('%') || /^\[::ffff:[0-9a-f]+:[0-9a-f]+\]$/.test(new URL(`http://[${address}]`).hostname);
}
