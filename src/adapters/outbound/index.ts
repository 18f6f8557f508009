import { lookup as dnsLookup } from 'node:dns/promises';
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { rootCertificates } from 'node:tls';
import type { buildConnector, Dispatcher, Pool } from 'undici';
import { CodedError, codeOf, EXIT, messageOf } from '../../lib/coded-error.ts';
import { createLru } from '../../lib/lru.ts';
import type { Clock } from '../../ports/clock.ts';
import type {
  Outbound,
  OutboundClient,
  OutboundFailure,
  OutboundPolicy,
  OutboundRequest,
  OutboundResponse,
} from '../../ports/outbound.ts';
import type { Log } from '../../ports/telemetry.ts';
import { patientConnector } from '../http-sockets.ts';
import { undici } from '../undici.ts';
import {
  createAddressPolicy,
  createResolver,
  type LookupAll,
  type OutboundTarget,
  type ParsedTarget,
  parseOutboundTarget,
  type ResolvedAddress,
} from './resolver.ts';

interface OutboundParts {
  readonly clock: Clock;
  readonly log: Log;
  /** Default: the system resolver. */
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
  // The verdict on a URL depends only on the policy, and the same few URLs recur.
  const targets = createLru<string, ParsedTarget>({ max: MAX_TARGETS });
  let closed = false;

  const targetOf = (url: string): ParsedTarget => {
    const known = targets.get(url);
    if (known !== undefined) return known;
    const parsed = parseOutboundTarget(url, policy, addresses);
    targets.set(url, parsed);
    return parsed;
  };

  const checked = (target: OutboundTarget, all: readonly ResolvedAddress[]): readonly ResolvedAddress[] => {
    if (!target.secure && !policy.allowHttp && !all.every(({ address }) => addresses.isListed(address))) {
      throw new CodedError('OUTBOUND_BLOCKED_ADDRESS', 'http is allowed only to the networks of allowCidrs');
    }
    return all;
  };

  const send = async (
    request: OutboundRequest,
    target: OutboundTarget,
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
      const parsed = parseOutboundTarget(url, policy, addresses);
      return parsed.ok ? null : parsed.reason;
    },
    async request(request) {
      if (closed) throw outboundError('OUTBOUND_CONNECT', { reason: 'the client is closed' });
      const parsed = targetOf(request.url);
      if (!parsed.ok) throw new CodedError(parsed.code, parsed.reason);
      const { target } = parsed;
      // `parseOutboundTarget` vetted a literal, in scheme and address.
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

/** A shared look-up continues for its other callers when this request has no time left. */
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
    throw new CodedError('CONFIG_UNREADABLE', `${path}: ${messageOf(cause)}`, { cause, exitCode: EXIT.config });
  }
}

type Headers = Parameters<NonNullable<Dispatcher.DispatchHandler['onResponseStart']>>[2];

/**
 * One request and its response on a pool. `remainingMs` is the rest of the deadline; it covers the wait for a socket,
 * connect, TLS, headers and body.
 */
function exchange(
  pool: Pool,
  path: string,
  request: OutboundRequest,
  remainingMs: number,
  clock: Clock,
): Promise<OutboundResponse> {
  return new Promise((resolve, reject) => {
    const running = new Exchange(request, resolve, reject);
    if (request.signal?.aborted === true) return running.onDeadline();
    running.arm(clock, remainingMs);
    const { method, headers = {}, body = null } = request;
    pool.dispatch({ method, path, headers, body, blocking: false }, running);
  });
}

/** A class, unlike the factories elsewhere: one instance per request, with its methods allocated once. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly onDeadline = (): void => this.fail(outboundError('OUTBOUND_TIMEOUT'), true);
  private readonly request: OutboundRequest;
  private readonly resolve: (response: OutboundResponse) => void;
  private readonly reject: (error: unknown) => void;
  private cancelTimer: (() => void) | null = null;
  private controller: Dispatcher.DispatchController | null = null;
  private status = 0;
  private headers: Headers | null = null;
  private isSettled = false;
  private seenBytes = 0;
  private kept: Buffer[] | null = null;
  private keptBytes = 0;

  constructor(
    request: OutboundRequest,
    resolve: (response: OutboundResponse) => void,
    reject: (error: unknown) => void,
  ) {
    this.request = request;
    this.resolve = resolve;
    this.reject = reject;
  }

  arm(clock: Clock, remainingMs: number): void {
    this.cancelTimer = clock.timeout(remainingMs, this.onDeadline);
    this.request.signal?.addEventListener('abort', this.onDeadline, { once: true });
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller;
    // The deadline passed while the request waited for a socket: abort before a byte is written.
    if (this.isSettled) controller.abort(outboundError('OUTBOUND_TIMEOUT'));
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    if (status < 200) return;
    this.status = status;
    this.headers = headers;
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.seenBytes += chunk.length;
    const room = this.request.keepBytes - this.keptBytes;
    if (room > 0) {
      // A copy: the parser reuses its buffer.
      const part = Buffer.from(chunk.subarray(0, room));
      this.kept ??= [];
      this.kept.push(part);
      this.keptBytes += part.length;
    }
    if (this.seenBytes > this.request.maxBytes) this.fail(outboundError('OUTBOUND_TOO_LARGE'), true);
  }

  onResponseEnd(): void {
    this.answer(false, true);
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.fail(error, false);
  }

  /** Whether this call ended the request; false when it had ended before. */
  private finish(cutOff: boolean): boolean {
    if (this.isSettled) return false;
    this.isSettled = true;
    this.cancelTimer?.();
    this.request.signal?.removeEventListener('abort', this.onDeadline);
    if (cutOff) this.controller?.abort(outboundError('OUTBOUND_TIMEOUT'));
    return true;
  }

  private answer(cutOff: boolean, isComplete: boolean): void {
    if (!this.finish(cutOff)) return;
    const { status, headers, kept } = this;
    const body = kept === null ? Buffer.alloc(0) : kept.length === 1 ? kept[0]! : Buffer.concat(kept);
    const truncated = !isComplete || this.seenBytes > this.keptBytes;
    this.resolve({ status, headers: flat(headers ?? {}), body, truncated });
  }

  private fail(error: unknown, cutOff: boolean): void {
    // Status and headers have arrived: a later failure of the body does not change them.
    if (this.headers !== null && this.request.bodyOptional === true) this.answer(cutOff, false);
    else if (this.finish(cutOff)) this.reject(toOutboundError(error));
  }
}

function flat(headers: Headers): Readonly<Record<string, string>> {
  const out: Record<string, string> = Object.create(null);
  for (const name in headers) {
    const value = headers[name];
    if (value !== undefined) out[name.toLowerCase()] = typeof value === 'string' ? value : value.join(', ');
  }
  return out;
}

const BY_CODE: Readonly<Record<string, OutboundFailure>> = {
  UND_ERR_CONNECT_TIMEOUT: 'OUTBOUND_TIMEOUT',
  UND_ERR_HEADERS_TIMEOUT: 'OUTBOUND_TIMEOUT',
  UND_ERR_BODY_TIMEOUT: 'OUTBOUND_TIMEOUT',
  ETIMEDOUT: 'OUTBOUND_TIMEOUT',
  ECONNREFUSED: 'OUTBOUND_CONNECT',
  EHOSTUNREACH: 'OUTBOUND_CONNECT',
  ENETUNREACH: 'OUTBOUND_CONNECT',
  EADDRNOTAVAIL: 'OUTBOUND_CONNECT',
  EACCES: 'OUTBOUND_CONNECT',
  EMFILE: 'OUTBOUND_CONNECT',
  ERR_SOCKET_CONNECTION_TIMEOUT: 'OUTBOUND_TIMEOUT',
  UND_ERR_SOCKET: 'OUTBOUND_RESET',
  ECONNRESET: 'OUTBOUND_RESET',
  EPIPE: 'OUTBOUND_RESET',
  UND_ERR_HEADERS_OVERFLOW: 'OUTBOUND_BAD_RESPONSE',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'OUTBOUND_BAD_RESPONSE',
  UND_ERR_INVALID_ARG: 'OUTBOUND_BAD_URL',
  EPROTO: 'OUTBOUND_TLS',
  CERT_HAS_EXPIRED: 'OUTBOUND_TLS',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'OUTBOUND_TLS',
  SELF_SIGNED_CERT_IN_CHAIN: 'OUTBOUND_TLS',
};
const BY_PREFIX: readonly (readonly [string, OutboundFailure])[] = [
  ['ERR_TLS_', 'OUTBOUND_TLS'],
  ['ERR_SSL_', 'OUTBOUND_TLS'],
  ['CERT_', 'OUTBOUND_TLS'],
  ['UNABLE_TO_', 'OUTBOUND_TLS'],
  ['HPE_', 'OUTBOUND_BAD_RESPONSE'],
];

const WORDS: Readonly<Record<OutboundFailure, string>> = {
  OUTBOUND_BAD_URL: 'the request cannot be sent',
  OUTBOUND_BLOCKED_ADDRESS: 'the address is not allowed',
  OUTBOUND_DNS: 'the host name could not be resolved',
  OUTBOUND_CONNECT: 'the connection could not be opened',
  OUTBOUND_TLS: 'the certificate or the TLS handshake failed',
  OUTBOUND_TIMEOUT: 'no answer in time',
  OUTBOUND_RESET: 'the connection broke',
  OUTBOUND_BAD_RESPONSE: 'the answer is not valid HTTP',
  OUTBOUND_TOO_LARGE: 'the answer is too large',
};

/** An error of this client. `facts` never hold the URL: it may carry a token in its query. */
function outboundError(code: OutboundFailure, facts: Readonly<Record<string, unknown>> = {}): CodedError {
  return new CodedError(code, WORDS[code], { facts, retryable: code !== 'OUTBOUND_BAD_URL' });
}

/** Classifies any error of the HTTP client or the socket. */
function toOutboundError(error: unknown): CodedError {
  if (error instanceof CodedError) return error;
  const raw = codeOf(error) ?? codeOf((error as { cause?: unknown } | null)?.cause) ?? 'unknown';
  if ((error as { name?: unknown } | null)?.name === 'HTTPParserError') return outboundError('OUTBOUND_BAD_RESPONSE');
  const code = BY_CODE[raw] ?? BY_PREFIX.find(([prefix]) => raw.startsWith(prefix))?.[1] ?? 'OUTBOUND_RESET';
  return outboundError(code, { reason: raw });
}

interface PoolLease {
  readonly pool: Pool;
  /** Must be called exactly once per lease. */
  release(): void;
}

export interface Pools {
  /** A pool whose sockets connect only to `addresses`. */
  lease(target: OutboundTarget, addresses: readonly ResolvedAddress[]): PoolLease;
  close(): Promise<void>;
}

interface PoolEntry {
  readonly pool: Pool;
  leases: number;
  idleSince: number;
}

interface PoolsOptions {
  readonly clock: Clock;
  readonly maxConnections: number;
  /** PEM texts of all trusted authorities; null for the defaults of Node. */
  readonly ca: readonly string[] | null;
}

const CONNECT_TIMEOUT_MS = 5_000;
const SOCKET_IDLE_MS = 4_000;
const POOL_IDLE_MS = 30_000;
const SWEEP_MS = 10_000;
const MAX_HEADER_BYTES = 16_384;
/** Idle pools beyond this number are closed at once. */
const MAX_POOLS = 2_048;

/** Keeps one pool per (scheme, host, port, vetted addresses); an idle pool is closed. */
export function createPools({ clock, maxConnections, ca }: PoolsOptions): Pools {
  const entries = new Map<string, PoolEntry>();
  let cancelSweep: (() => void) | null = null;

  const discard = (key: string, entry: PoolEntry): void => {
    entries.delete(key);
    entry.pool.destroy().catch(() => {});
  };
  const sweep = (): void => {
    cancelSweep = null;
    const limit = clock.monotonic() - POOL_IDLE_MS;
    for (const [key, entry] of entries) {
      if (entry.leases === 0 && entry.idleSince <= limit) discard(key, entry);
    }
    planSweep();
  };
  const planSweep = (): void => {
    if (cancelSweep === null && entries.size > 0) cancelSweep = clock.timeout(SWEEP_MS, sweep);
  };
  const makeRoom = (): void => {
    if (entries.size < MAX_POOLS) return;
    for (const [key, entry] of entries) {
      if (entry.leases > 0) continue;
      discard(key, entry);
      return;
    }
  };
  const open = (key: string, target: OutboundTarget, addresses: readonly ResolvedAddress[]): PoolEntry => {
    makeRoom();
    const { Pool } = undici();
    const pool = new Pool(target.origin, {
      connections: maxConnections,
      pipelining: 1,
      keepAliveTimeout: SOCKET_IDLE_MS,
      // A receiver's keep-alive hint must not hold sockets longer than this.
      keepAliveMaxTimeout: SOCKET_IDLE_MS,
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: vettedConnector(addresses, ca),
    });
    const entry = { pool, leases: 0, idleSince: clock.monotonic() };
    entries.set(key, entry);
    planSweep();
    return entry;
  };

  return {
    lease(target, addresses) {
      const key = poolKey(target, addresses);
      const entry = entries.get(key) ?? open(key, target, addresses);
      entry.leases += 1;
      return {
        pool: entry.pool,
        release: () => {
          entry.leases -= 1;
          entry.idleSince = clock.monotonic();
        },
      };
    },
    async close() {
      cancelSweep?.();
      const pools = [...entries.values()];
      entries.clear();
      await Promise.all(pools.map(({ pool }) => pool.destroy()));
    },
  };
}

function poolKey({ origin }: OutboundTarget, addresses: readonly ResolvedAddress[]): string {
  let key = origin;
  for (const { address } of addresses) key += ` ${address}`;
  return key;
}

/** Connects to the vetted addresses: the look-up of the socket is answered from the list, so no second resolution happens. */
function vettedConnector(
  addresses: readonly ResolvedAddress[],
  ca: readonly string[] | null,
): buildConnector.connector {
  const first = addresses[0];
  type Done = (error: null, address: string | ResolvedAddress[] | undefined, family?: number) => void;
  const lookup = (_host: string, options: { all?: boolean }, done: Done): void =>
    options.all === true ? done(null, [...addresses]) : done(null, first?.address, first?.family);
  const connect = undici().buildConnector({
    timeout: CONNECT_TIMEOUT_MS,
    autoSelectFamily: true,
    lookup: lookup as never,
    ...(ca === null ? {} : { ca: [...ca] }),
  } as buildConnector.BuildOptions);
  return patientConnector((options, done) => {
    connect(options, (error, socket) => {
      if (error !== null) return done(error, null);
      // Defence in depth: whatever the runtime did with the list, bytes go only to a vetted address.
      if (isVetted(socket, addresses)) return done(null, socket);
      socket.destroy();
      done(new CodedError('OUTBOUND_BLOCKED_ADDRESS', 'the socket reached an address that was not vetted'), null);
    });
  });
}

function isVetted(socket: Socket, addresses: readonly ResolvedAddress[]): boolean {
  const remote = socket.remoteAddress ?? '';
  return addresses.some(({ address }) => sameAddress(address, remote));
}

function sameAddress(a: string, b: string): boolean {
  if (a === b) return true;
  const canonical = (text: string) =>
    text.includes(':') ? new URL(`http://[${text.split('%', 1)[0]}]`).hostname : `[::ffff:${text}]`;
  return new URL(`http://${canonical(a)}`).hostname === new URL(`http://${canonical(b)}`).hostname;
}
