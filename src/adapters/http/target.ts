import { isIP } from 'node:net';
import type { OutboundPolicy } from '../../ports/outbound.ts';
import type { AddressPolicy } from './address-policy.ts';
import type { ResolvedAddress } from './resolver.ts';

export interface Target {
  /** `http://host:port`, what a pool is opened for. */
  readonly origin: string;
  /** Path and query. */
  readonly path: string;
  /** A name, or an address without brackets. */
  readonly host: string;
  /** The address itself, vetted, where the host is one; null for a name. */
  readonly literal: readonly ResolvedAddress[] | null;
  readonly secure: boolean;
}

export type ParsedTarget =
  | { readonly ok: true; readonly target: Target }
  | { readonly ok: false; readonly code: 'OUTBOUND_BAD_URL' | 'OUTBOUND_BLOCKED_ADDRESS'; readonly reason: string };

/**
 * Checks everything about a URL that can be known without a look-up. The WHATWG parser goes first: it writes every
 * spelling of an IPv4 address (`127.1`, `0x7f.1`, `2130706433`, full-width digits) in the one dotted form.
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
    // Whether a name stays within the allowed networks shows only when it is resolved.
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
