import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { BlockList } from 'node:net';
import { CodedError, EXIT } from '../lib/coded-error.ts';
import { ipFamily } from '../lib/ip-family.ts';
import { derived } from '../lib/reloadable.ts';
import type { Log } from '../ports/telemetry.ts';

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
  const family = ipFamily(address);
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
  if (ipFamily(address) !== 6) return address;
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

/** A request of HTTP/1.1, or what is known of one of HTTP/2. */
export interface AddressedRequest {
  readonly socket: { readonly remoteAddress?: string | undefined };
  readonly headers: IncomingHttpHeaders;
}

export type RemoteAddress = (request: AddressedRequest) => string;

/**
 * Creates the function that determines a client's address: that of the socket, or, behind trusted proxies, the right-most untrusted entry
 * of X-Forwarded-For. Throws CONFIG_INVALID for a malformed network.
 */
export function createRemoteAddress(trustedProxies: () => readonly string[]): RemoteAddress {
  const trust = derived(trustedProxies, createTrust);
  // A malformed network is an error of the start.
  trust();
  return (request) => {
    if (trustedProxies().length === 0) return plain(request.socket.remoteAddress ?? '');
    const isTrusted = trust();
    const forwardedFor = request.headers['x-forwarded-for'];
    let address = plain(request.socket.remoteAddress ?? '');
    const chain = (Array.isArray(forwardedFor) ? forwardedFor.join(',') : (forwardedFor ?? '')).split(',');
    for (let i = chain.length - 1; i >= 0; i -= 1) {
      if (ipFamily(address) === 0 || !isTrusted(address)) break;
      const next = canonical(withoutPort((chain[i] ?? '').trim()));
      // An entry that is not an address cannot be trusted; the last valid address counts.
      if (ipFamily(next) === 0) break;
      address = next;
    }
    return address;
  };
}

/**
 * Detects a proxy that is not in `http.trustedProxies`: then all clients have its address and share the limits per address.
 */
export interface ProxyWatch {
  see(request: IncomingMessage): void;
  /** The address that sends all requests, with an untrusted X-Forwarded-For; null: no such address. */
  undeclared(): string | null;
}

/** Consecutive requests with X-Forwarded-For from a single address after which it is taken for a proxy. */
const PROXY_REQUESTS = 100;

/** Logs at most once per process. */
export function createProxyWatch(trustedProxies: () => readonly string[], log: Log): ProxyWatch {
  const trust = derived(trustedProxies, createTrust);
  let peer = '';
  let forwarded = 0;
  let isWritten = false;
  return {
    see(request) {
      const { remoteAddress = '' } = request.socket;
      if (remoteAddress !== peer) forwarded = 0;
      peer = remoteAddress;
      if (forwarded >= PROXY_REQUESTS || request.headers['x-forwarded-for'] === undefined) return;
      if (ipFamily(plain(peer)) === 0 || trust()(plain(peer))) return;
      forwarded += 1;
      if (forwarded < PROXY_REQUESTS || isWritten) return;
      isWritten = true;
      log.warn(
        { peer: plain(peer) },
        'all requests come from one address, with X-Forwarded-For: if that is a proxy, name it in http.trustedProxies; until then all clients count as one',
      );
    },
    undeclared: () => (forwarded >= PROXY_REQUESTS ? plain(peer) : null),
  };
}

/** Whether an address lies in one of the networks. Throws CONFIG_INVALID for a malformed one. */
export function createTrust(networks: readonly string[]): (address: string) => boolean {
  const trusted = new BlockList();
  for (const cidr of networks) addNetwork(trusted, cidr);
  return (address) => trusted.check(address, ipFamily(address) === 6 ? 'ipv6' : 'ipv4');
}

function addNetwork(list: BlockList, cidr: string): void {
  const network = parseCidr(cidr);
  if (network === null)
    throw new CodedError('CONFIG_INVALID', `http.trustedProxies: "${cidr}" is not a network like 10.0.0.0/8`, {
      exitCode: EXIT.config,
    });
  list.addSubnet(network.address, network.prefix, network.family === 6 ? 'ipv6' : 'ipv4');
}

/** Dual-stack sockets report IPv4 addresses as `::ffff:1.2.3.4`. */
export function plain(address: string): string {
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address;
}

/** The canonical text of an address, so that limits and lists recognize it in any notation; other texts stay unchanged. */
function canonical(address: string): string {
  // A zone is meaningful only on the machine that wrote it.
  if (ipFamily(address) !== 6 || address.includes('%')) return address.includes('%') ? '' : address;
  const text = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const mapped = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(text);
  if (mapped === null) return text;
  const [high, low] = [Number.parseInt(mapped[1] ?? '', 16), Number.parseInt(mapped[2] ?? '', 16)];
  return [high >> 8, high & 255, low >> 8, low & 255].join('.');
}

/** Proxies write `1.2.3.4:80`, `[::1]:80` and `[::1]`; an unclosed bracket is invalid. */
function withoutPort(entry: string): string {
  if (entry.startsWith('[')) return /^\[([^\]]*)\](:\d+)?$/.exec(entry)?.[1] ?? '';
  return /^[\d.]+:\d+$/.test(entry) ? entry.slice(0, entry.lastIndexOf(':')) : entry;
}
