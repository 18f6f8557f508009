import { BlockList } from 'node:net';
import { CodedError, EXIT } from '../../lib/coded-error.ts';
import { ipFamily } from '../../lib/ip-family.ts';
import { createLru } from '../../lib/lru.ts';
import type { Clock } from '../../ports/clock.ts';
import type { OutboundPolicy } from '../../ports/outbound.ts';
import { createSingleFlight } from '../../runtime/single-flight.ts';

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
  const forbidden = blockListOf(4, FORBIDDEN_V4);
  for (const [network, prefix] of FORBIDDEN_V6) forbidden.addSubnet(network, prefix, 'ipv6');
  const open = familyLists(allowed);
  const guarded = METADATA.map((range) => {
    const list = blockListOf(range.family, [[range.network, range.prefix]]);
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
  const family = ipFamily(text);
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
  if (odd)
    throw new CodedError('CONFIG_INVALID', `'${entry}' is not a network in CIDR notation`, { exitCode: EXIT.config });
  return { ...plain, prefix };
}

function blockListOf(family: 4 | 6, subnets: readonly Subnet[]): BlockList {
  const list = new BlockList();
  for (const [network, prefix] of subnets) list.addSubnet(network, prefix, family === 4 ? 'ipv4' : 'ipv6');
  return list;
}

function familyLists(cidrs: readonly Cidr[]): { readonly 4: BlockList; readonly 6: BlockList } {
  const of = (family: 4 | 6) =>
    blockListOf(
      family,
      cidrs.filter((cidr) => cidr.family === family).map(({ text, prefix }) => [text, prefix] as const),
    );
  return { 4: of(4), 6: of(6) };
}

function exactEntries(cidrs: readonly Cidr[], family: 4 | 6, prefix: number, range: BlockList): BlockList {
  const inside = cidrs.filter((cidr) => cidr.family === family && cidr.prefix >= prefix && holds(range, cidr));
  return familyLists(inside)[family];
}

export interface ResolvedAddress {
  readonly address: string;
  readonly family: 4 | 6;
}

/** Resolves a name to all its addresses. Injected, so that tests can answer like a hostile name server. */
export type LookupAll = (host: string) => Promise<readonly ResolvedAddress[]>;

interface Resolver {
  /** Cached addresses of a name; null when it has to be resolved. */
  known(host: string): readonly ResolvedAddress[] | null;
  /** All addresses of a name, each permitted by the policy. Errors: OUTBOUND_DNS, OUTBOUND_BLOCKED_ADDRESS. */
  resolve(host: string): Promise<readonly ResolvedAddress[]>;
}

const KEEP_MS = 60_000;
const KEEP_FAILURE_MS = 30_000;
const TIMEOUT_MS = 5_000;
const MAX_NAMES = 4_096;
/** Look-ups occupy threads of a small pool and cannot be cancelled: more than this are refused rather than queued. */
const MAX_RUNNING = 256;

type CachedLookup =
  | { readonly until: number; readonly addresses: readonly ResolvedAddress[] }
  | { readonly until: number; readonly failure: string };

/** Resolves each name at most once per minute, and shares a running look-up among its callers. */
export function createResolver(lookup: LookupAll, addresses: AddressPolicy, clock: Clock): Resolver {
  const kept = createLru<string, CachedLookup>({ max: MAX_NAMES });
  const running = createSingleFlight<string, readonly ResolvedAddress[]>();

  const ask = async (host: string): Promise<readonly ResolvedAddress[]> => {
    let answer: readonly ResolvedAddress[];
    try {
      answer = await withDeadline(lookup(host), clock);
    } catch (error) {
      const failure = codeText(error);
      kept.set(host, { until: clock.monotonic() + KEEP_FAILURE_MS, failure });
      throw dnsFailure(failure, error);
    }
    if (answer.length === 0) throw dnsFailure('no address');
    // A forbidden address among permitted ones is an attack or a mistake: connect to none of them and cache nothing.
    if (!answer.every(({ address }) => addresses.permits(address))) {
      throw new CodedError('OUTBOUND_BLOCKED_ADDRESS', 'the host resolves to an address that is not allowed');
    }
    const sorted = [...answer].sort((a, b) => (a.address < b.address ? -1 : 1));
    kept.set(host, { until: clock.monotonic() + KEEP_MS, addresses: sorted });
    return sorted;
  };

  return {
    known(host) {
      const found = kept.get(host);
      return found !== undefined && 'addresses' in found && found.until > clock.monotonic() ? found.addresses : null;
    },
    async resolve(host) {
      const known = kept.get(host);
      if (known !== undefined && known.until > clock.monotonic()) {
        if ('failure' in known) throw dnsFailure(known.failure);
        return known.addresses;
      }
      if (running.get(host) === undefined && running.size() >= MAX_RUNNING)
        throw dnsFailure('too many look-ups are running');
      return running.run(host, () => ask(host));
    },
  };
}

function withDeadline<T>(work: Promise<T>, clock: Clock): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.timeout(TIMEOUT_MS, () => reject(new CodedError('OUTBOUND_DNS', 'timed out')));
    work.then(resolve, reject).finally(cancel);
  });
}

function codeText(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : 'failed';
}

const dnsFailure = (why: string, cause?: unknown): CodedError =>
  new CodedError('OUTBOUND_DNS', `the host name could not be resolved (${why})`, { cause, retryable: true });

export interface OutboundTarget {
  /** `http://host:port`: key of a pool. */
  readonly origin: string;
  /** Path and query. */
  readonly path: string;
  /** A name, or an address without brackets. */
  readonly host: string;
  /** The vetted address when the host is a literal; null for a name. */
  readonly literal: readonly ResolvedAddress[] | null;
  readonly secure: boolean;
}

export type ParsedTarget =
  | { readonly ok: true; readonly target: OutboundTarget }
  | { readonly ok: false; readonly code: 'OUTBOUND_BAD_URL' | 'OUTBOUND_BLOCKED_ADDRESS'; readonly reason: string };

/**
 * Checks everything about a URL that needs no look-up. The WHATWG parser runs first: it normalises every
 * spelling of an IPv4 address (`127.1`, `0x7f.1`, `2130706433`, full-width digits) to dotted decimal.
 */
export function parseOutboundTarget(text: string, policy: OutboundPolicy, addresses: AddressPolicy): ParsedTarget {
  const bad = (reason: string): ParsedTarget => ({ ok: false, code: 'OUTBOUND_BAD_URL', reason });
  if (!URL.canParse(text)) return bad('not a valid URL');
  const url = new URL(text);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return bad(`scheme '${url.protocol}' is not allowed`);
  if (url.username !== '' || url.password !== '') return bad('user information is not allowed');
  if (url.hostname === '') return bad('the host is missing');
  const secure = url.protocol === 'https:';
  const port = url.port === '' ? (secure ? 443 : 80) : Number(url.port);
  if (port === 0) return bad('port 0 is not allowed');
  if (policy.allowPorts !== null && !policy.allowPorts.includes(port)) return bad(`port ${port} is not allowed`);

  if (policy.onlyOrigins !== undefined && !policy.onlyOrigins.includes(url.origin))
    return {
      ok: false,
      code: 'OUTBOUND_BLOCKED_ADDRESS',
      reason: 'the origin is not configured',
    };

  const host = url.hostname.replace(/^\[|\]$/g, '');
  const family = ipFamily(host);
  const isLiteral = family !== 0;
  const key = policy.section === undefined ? 'allowCidrs' : `${policy.section}.allowCidrs`;
  const blocked = (what: string, range: string): ParsedTarget => ({
    ok: false,
    code: 'OUTBOUND_BLOCKED_ADDRESS',
    reason: `${what} is not allowed; add its network to ${key}, such as ${range}`,
  });
  if (isLiteral && !addresses.permits(host)) return blocked(`address ${host}`, `${host}/${family === 6 ? 128 : 32}`);
  if (isLocalhost(host) && !addresses.permits('127.0.0.1') && !addresses.permits('::1'))
    return blocked(`host ${host}`, '127.0.0.1/32');
  if (!secure && !policy.allowHttp) {
    // Only resolution shows whether a name is within the allowed networks.
    const hopeless = isLiteral ? !addresses.isListed(host) : policy.allowCidrs.length === 0;
    if (hopeless) return bad(`http is not allowed, use https`);
  }
  const literal = isLiteral ? [{ address: host, family: family === 6 ? 6 : 4 } as const] : null;
  return { ok: true, target: { origin: url.origin, path: url.pathname + url.search, host, literal, secure } };
}

function isLocalhost(host: string): boolean {
  const name = host.replace(/\.$/, '');
  return name === 'localhost' || name.endsWith('.localhost');
}
