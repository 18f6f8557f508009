import { lookup as dnsLookup } from 'node:dns/promises';
import { readFileSync } from 'node:fs';
import { rootCertificates } from 'node:tls';
import { CodedError, messageOf } from '../../lib/coded-error.ts';
import { createLru } from '../../lib/lru.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Log } from '../../ports/log.ts';
import type {
  Outbound,
  OutboundClient,
  OutboundPolicy,
  OutboundRequest,
  OutboundResponse,
} from '../../ports/outbound.ts';
import { createAddressPolicy } from './address-policy.ts';
import { exchange } from './exchange.ts';
import { outboundError } from './failure.ts';
import { createPools } from './pools.ts';
import { createResolver, type LookupAll, type ResolvedAddress } from './resolver.ts';
import { type ParsedTarget, parseTarget, type Target } from './target.ts';

export interface OutboundParts {
  readonly clock: Clock;
  readonly log: Log;
  /** Default: the system's own resolver. */
  readonly lookup?: LookupAll;
}

const MAX_TARGETS = 4_096;

/**
 * The guarded client for addresses that users give. A name is resolved once, all its addresses are vetted, and sockets go to
 * the vetted ones only; literal addresses are vetted as they are. Redirects are not followed and proxy variables not read.
 * `open` throws CONFIG_INVALID for a bad CIDR and CONFIG_UNREADABLE for a CA file that cannot be read.
 */
export function createOutbound({ clock, log, lookup = systemLookup }: OutboundParts): Outbound {
  return { open: (policy) => openClient(policy, clock, log, lookup) };
}

function openClient(policy: OutboundPolicy, clock: Clock, log: Log, lookup: LookupAll): OutboundClient {
  const addresses = createAddressPolicy(policy.allowCidrs);
  const resolver = createResolver(lookup, addresses, clock);
  const ca = policy.caFile === null ? null : [...rootCertificates, readPem(policy.caFile)];
  const pools = createPools({ clock, maxConnections: policy.maxConnections, ca });
  // The verdict on a URL depends on nothing but the policy, and the same few URLs come again and again.
  const targets = createLru<string, ParsedTarget>({ max: MAX_TARGETS });
  let closed = false;

  const targetOf = (url: string): ParsedTarget => {
    const known = targets.get(url);
    if (known !== undefined) return known;
    const parsed = parseTarget(url, policy, addresses);
    targets.set(url, parsed);
    return parsed;
  };

  const checked = (target: Target, all: readonly ResolvedAddress[]): readonly ResolvedAddress[] => {
    if (!target.secure && !policy.allowHttp && !all.every(({ address }) => addresses.isListed(address))) {
      throw new CodedError('OUTBOUND_BLOCKED_ADDRESS', 'http is allowed only to the networks of allowCidrs');
    }
    return all;
  };

  const send = async (
    request: OutboundRequest,
    target: Target,
    vetted: readonly ResolvedAddress[],
    remainingMs: number,
  ): Promise<OutboundResponse> => {
    const { pool, release } = pools.lease(target, vetted);
    try {
      return await exchange(pool, target.path, request, remainingMs, clock);
    } catch (error) {
      log.debug({ host: target.host, code: (error as CodedError).code }, 'outbound request failed');
      throw error;
    } finally {
      release();
    }
  };

  return {
    refusal: (url) => {
      const parsed = parseTarget(url, policy, addresses);
      return parsed.ok ? null : parsed.reason;
    },
    async request(request) {
      if (closed) throw outboundError('OUTBOUND_CONNECT', { reason: 'the client is closed' });
      const parsed = targetOf(request.url);
      if (!parsed.ok) throw new CodedError(parsed.code, parsed.reason);
      const { target } = parsed;
      // `parseTarget` vetted a literal, in scheme and address.
      if (target.literal !== null) return await send(request, target, target.literal, request.timeoutMs);
      const known = resolver.known(target.host);
      if (known !== null) return await send(request, target, checked(target, known), request.timeoutMs);
      const startedAt = clock.monotonic();
      const vetted = checked(target, await within(resolver.resolve(target.host), request.timeoutMs, clock));
      const remainingMs = request.timeoutMs - (clock.monotonic() - startedAt);
      if (remainingMs <= 0) throw outboundError('OUTBOUND_TIMEOUT');
      return await send(request, target, vetted, remainingMs);
    },
    close: () => {
      closed = true;
      return pools.close();
    },
  };
}

/** A shared look-up goes on for its other askers when this request has no time left. */
function within<T>(work: Promise<T>, timeoutMs: number, clock: Clock): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.timeout(timeoutMs, () => reject(outboundError('OUTBOUND_TIMEOUT', { reason: 'DNS' })));
    work.then(resolve, reject).finally(cancel);
  });
}

const systemLookup: LookupAll = async (host) => {
  const all = await dnsLookup(host, { all: true, verbatim: true });
  return all.map(({ address, family }) => ({ address, family: family === 6 ? 6 : 4 }));
};

function readPem(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    throw new CodedError('CONFIG_UNREADABLE', `${path}: ${messageOf(cause)}`, { cause, exitCode: 78 });
  }
}
