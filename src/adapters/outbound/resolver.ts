import { isIP } from 'node:net';
import { CodedError } from '../../lib/coded-error.ts';
import { createLru } from '../../lib/lru.ts';
import type { Clock } from '../../ports/clock.ts';
import type { OutboundPolicy } from '../../ports/outbound.ts';
import type { AddressPolicy } from './address-policy.ts';

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

type Kept =
  | { readonly until: number; readonly addresses: readonly ResolvedAddress[] }
  | { readonly until: number; readonly failure: string };

/** Resolves each name at most once per minute, and shares a running look-up among its callers. */
export function createResolver(lookup: LookupAll, addresses: AddressPolicy, clock: Clock): Resolver {
  const kept = createLru<string, Kept>({ max: MAX_NAMES });
  const running = new Map<string, Promise<readonly ResolvedAddress[]>>();

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
      const asked = running.get(host);
      if (asked !== undefined) return asked;
      if (running.size >= MAX_RUNNING) throw dnsFailure('too many look-ups are running');
      const promise = ask(host).finally(() => running.delete(host));
      running.set(host, promise);
      return promise;
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

export interface Target {
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
  | { readonly ok: true; readonly target: Target }
  | { readonly ok: false; readonly code: 'OUTBOUND_BAD_URL' | 'OUTBOUND_BLOCKED_ADDRESS'; readonly reason: string };

/**
 * Checks everything about a URL that needs no look-up. The WHATWG parser runs first: it normalises every
 * spelling of an IPv4 address (`127.1`, `0x7f.1`, `2130706433`, full-width digits) to dotted decimal.
 */
export function parseTarget(text: string, policy: OutboundPolicy, addresses: AddressPolicy): ParsedTarget {
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
  const family = isIP(host);
  const isLiteral = family !== 0;
  const key = policy.section === undefined ? 'allowCidrs' : `${policy.section}.allowCidrs`;
  const blocked = (what: string): ParsedTarget => ({
    ok: false,
    code: 'OUTBOUND_BLOCKED_ADDRESS',
    reason: `${what} is not allowed; add its network to ${key}`,
  });
  if (isLiteral && !addresses.permits(host)) return blocked(`address ${host}`);
  if (isLocalhost(host) && !addresses.permits('127.0.0.1') && !addresses.permits('::1')) return blocked(`host ${host}`);
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
