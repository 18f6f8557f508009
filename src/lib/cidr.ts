import { isIP } from 'node:net';

export interface Cidr {
  readonly address: string;
  readonly family: 4 | 6;
  readonly prefix: number;
}

/**
 * Parses `10.0.0.0/8`, `fd00::/8` or a single address; null for everything else, including a zone (`fe80::1%eth0`) and an IPv4 address in
 * IPv6 form, whose prefix would belong to the wrong family.
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
  // The URL parser writes any IPv6 address in canonical form.
  return address.includes('%') || /^\[::ffff:[0-9a-f]+:[0-9a-f]+\]$/.test(new URL(`http://[${address}]`).hostname);
}

/**
 * The key by which limits count a client: an IPv4 address, even if written as IPv6; the /64 of an IPv6 address, because one client usually
 * has all of it and limits per full address would be ineffective; any other text unchanged.
 */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  if (isIP(address) !== 6) return address;
  const [head = '', tail] = (address.split('%')[0] as string).toLowerCase().split('::');
  const left = groupsOf(head);
  const right = groupsOf(tail ?? '');
  const zeros = tail === undefined ? 0 : 8 - left.length - right.length;
  const groups = [...left, ...Array<string>(Math.max(0, zeros)).fill('0'), ...right];
  return `${groups.slice(0, 4).join(':')}::/64`;
}

/** Without leading zeros; an IPv4 address at the end is two groups. */
function groupsOf(text: string): string[] {
  if (text === '') return [];
  return text.split(':').flatMap((group) => (group.includes('.') ? ['0', '0'] : [group.replace(/^0+(?=.)/, '')]));
}
