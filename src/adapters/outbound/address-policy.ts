import { BlockList, isIP } from 'node:net';
import { CodedError } from '../../lib/coded-error.ts';

type Subnet = readonly [network: string, prefix: number];

/** Ranges that are not public unicast addresses. Never add `::/8` to the second list: it would match every IPv4 address. */
const FORBIDDEN_V4: readonly Subnet[] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['168.63.129.16', 32],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
];
const FORBIDDEN_V6: readonly Subnet[] = [
  ['::', 96],
  ['::ffff:0:0:0', 96],
  ['ff00::', 8],
  ['fe80::', 10],
  ['fec0::', 10],
  ['fc00::', 7],
  ['2001:db8::', 32],
  ['2001::', 23],
  ['3fff::', 20],
  ['100::', 64],
  ['2002::', 16],
  ['64:ff9b::', 96],
  ['64:ff9b:1::', 48],
  ['5f00::', 16],
];

/**
 * Where clouds serve instance metadata, mostly credentials. Sources: each provider's documentation on instance metadata.
 * 169.254.0.0/16 is link-local: AWS (also 169.254.170.2 for containers, 169.254.169.253 for names), Google, Azure, Oracle, DigitalOcean,
 * Hetzner, OpenStack, Tencent (169.254.0.23), IBM, Vultr, Scaleway (169.254.42.42).
 */
const METADATA_V4: readonly Subnet[] = [
  ['169.254.0.0', 16],
  // Azure WireServer: a public address, reachable from every instance.
  ['168.63.129.16', 32],
  // Alibaba Cloud: metadata and its name servers.
  ['100.100.0.0', 16],
  // Oracle Cloud, older generation.
  ['192.0.0.192', 32],
];
const METADATA_V6: readonly Subnet[] = [
  // AWS: metadata, name servers, clock, and credentials of pods (fd00:ec2::254, ::253, ::123, ::23).
  ['fd00:ec2::', 32],
  // Google Cloud.
  ['fd20:ce::254', 128],
  // Oracle Cloud.
  ['fd00:c1::a9fe:a9fe', 128],
  // Scaleway.
  ['fd00:42::42', 128],
  // OpenStack.
  ['fe80::a9fe:a9fe', 128],
  // NAT64 of a local network: that network alone knows which bits are the IPv4 address.
  ['64:ff9b:1::', 48],
];

interface Range {
  readonly family: 4 | 6;
  readonly network: string;
  readonly prefix: number;
}

/**
 * In every notation that reaches it. An allowed network opens such a range only when it lies within the range: `0.0.0.0/0` or `fc00::/7`
 * must not open it by accident.
 */
const METADATA: readonly Range[] = [
  ...METADATA_V4.flatMap(notations),
  ...METADATA_V6.map(([network, prefix]): Range => ({ family: 6, network, prefix })),
];

/** An IPv4 range, also embedded in IPv6: compatible, translated, NAT64, 6to4. */
function notations([network, prefix]: Subnet): Range[] {
  const [a = 0, b = 0, c = 0, d = 0] = network.split('.').map(Number);
  const hex = `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
  return [
    { family: 4, network, prefix },
    ...['::', '::ffff:0:', '64:ff9b::'].map(
      (head): Range => ({ family: 6, network: `${head}${hex}`, prefix: 96 + prefix }),
    ),
    { family: 6, network: `2002:${hex}::`, prefix: 16 + prefix },
  ];
}

export interface AddressPolicy {
  /** Whether a socket may connect to this address. False for anything that is not an IP address. */
  permits(address: string): boolean;
  /** Whether one of the allowed networks contains the address. */
  isListed(address: string): boolean;
}

/** Makes the check that every address passes before a socket connects. Error: CONFIG_INVALID for a bad CIDR. */
export function createAddressPolicy(allowCidrs: readonly string[]): AddressPolicy {
  const allowed = allowCidrs.map(parseCidr);
  const forbidden = listOf(4, FORBIDDEN_V4);
  for (const [network, prefix] of FORBIDDEN_V6) forbidden.addSubnet(network, prefix, 'ipv6');
  const open = familyLists(allowed);
  const guarded = METADATA.map((range) => {
    const list = listOf(range.family, [[range.network, range.prefix]]);
    return { family: range.family, list, exact: exactEntries(allowed, range.family, range.prefix, list) };
  });

  const isListed = (address: string): boolean => {
    const plain = normalise(address);
    if (plain === null) return false;
    const range = guarded.find(({ family, list }) => family === plain.family && holds(list, plain));
    return holds(range === undefined ? open[plain.family] : range.exact, plain);
  };
  return {
    isListed,
    permits: (address) => {
      const plain = normalise(address);
      return plain !== null && (!holds(forbidden, plain) || isListed(address));
    },
  };
}

interface PlainAddress {
  readonly text: string;
  readonly family: 4 | 6;
}

/** Drops the zone and converts a v4-mapped address to IPv4, so that one rule covers both spellings. */
function normalise(address: string): PlainAddress | null {
  const text = address.split('%', 1)[0] ?? '';
  const family = isIP(text);
  if (family === 4) return { text, family };
  if (family !== 6) return null;
  const mapped = mappedV4(text);
  return mapped === null ? { text, family } : { text: mapped, family: 4 };
}

function mappedV4(text: string): string | null {
  // The URL parser writes an IPv6 address in canonical form.
  const canonical = new URL(`http://[${text}]`).hostname.slice(1, -1);
  const match = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(canonical);
  if (match === null) return null;
  const high = Number.parseInt(match[1] ?? '', 16);
  const low = Number.parseInt(match[2] ?? '', 16);
  return `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`;
}

const holds = (list: BlockList, { text, family }: PlainAddress): boolean =>
  list.check(text, family === 4 ? 'ipv4' : 'ipv6');

interface Cidr extends PlainAddress {
  readonly prefix: number;
}

function parseCidr(entry: string): Cidr {
  const [network = '', size, ...rest] = entry.split('/');
  const plain = normalise(network);
  const width = plain?.family === 4 ? 32 : 128;
  const prefix = size === undefined ? width : /^\d{1,3}$/.test(size) ? Number(size) : -1;
  // A mapped network has a prefix length of the wrong family, and a zone is local to one host.
  const odd = plain === null || plain.text !== network || rest.length > 0 || prefix < 0 || prefix > width;
  if (odd) throw new CodedError('CONFIG_INVALID', `'${entry}' is not a network in CIDR notation`, { exitCode: 78 });
  return { ...plain, prefix };
}

function listOf(family: 4 | 6, subnets: readonly Subnet[]): BlockList {
  const list = new BlockList();
  for (const [network, prefix] of subnets) list.addSubnet(network, prefix, family === 4 ? 'ipv4' : 'ipv6');
  return list;
}

function familyLists(cidrs: readonly Cidr[]): { readonly 4: BlockList; readonly 6: BlockList } {
  const of = (family: 4 | 6) =>
    listOf(
      family,
      cidrs.filter((cidr) => cidr.family === family).map(({ text, prefix }) => [text, prefix] as const),
    );
  return { 4: of(4), 6: of(6) };
}

function exactEntries(cidrs: readonly Cidr[], family: 4 | 6, prefix: number, range: BlockList): BlockList {
  const inside = cidrs.filter((cidr) => cidr.family === family && cidr.prefix >= prefix && holds(range, cidr));
  return familyLists(inside)[family];
}
