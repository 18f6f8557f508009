import { Transform } from 'node:stream';
import type { Dispatcher } from 'undici';
import { admits } from '../../../budgets.ts';
import { CodedError, codeOf } from '../../../lib/coded-error.ts';
import { GateRefusal } from '../../../plugin/request.ts';
import type { Tenant } from '../../../ports/access.ts';
import type { Clock } from '../../../ports/clock.ts';
import type { Upstream, UpstreamConfig, UpstreamReply, UpstreamRequest } from '../../../ports/upstream.ts';
import { EXIT } from '../../../runtime/errors.ts';
import { undici } from '../../undici.ts';

export interface Transport {
  send(request: UpstreamRequest): Promise<UpstreamReply>;
  /** Ends after the requests in flight; further ones are UPSTREAM_CONNECT. */
  retire(): Promise<void>;
  /** Ends now. */
  close(): Promise<void>;
}

const CONNECT_TIMEOUT_MS = 5_000;
const KEEP_ALIVE_MS = 30_000;
/** Errors of undici, the socket and TLS that occur before any byte of the request was sent. */
const NOTHING_SENT =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|UND_ERR_CONNECT_TIMEOUT|UND_ERR_CLOSED|ERR_TLS_|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_)/;

/** HTTP to one upstream over persistent connections. Requests beyond `maxConcurrent` wait within their own deadline. */
export function createTransport(
  upstream: Upstream,
  userAgent: string,
  clock: Clock,
  broke: () => void = () => undefined,
): Transport {
  const { origin, pathname, search } = new URL(upstream.url);
  const { Pool } = undici();
  const pool = new Pool(origin, {
    connections: upstream.maxConcurrent,
    pipelining: 1,
    connectTimeout: CONNECT_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  // After a reconnect this address may lead to another node, or another chain.
  pool.on('disconnect', (_origin, _targets, error) => {
    if (codeOf(error) !== 'UND_ERR_INFO') broke();
  });
  const queue = createCallQueue(upstream.maxConcurrent);
  const headers = {
    ...basicAuth(upstream.url),
    ...upstream.headers,
    'content-type': 'application/json',
    'user-agent': userAgent,
  };

  return {
    async send(request) {
      const deadline = new AbortController();
      const cancel = clock.timeout(request.timeoutMs, () =>
        deadline.abort(timedOut(upstream.label, request.timeoutMs)),
      );
      const onAbort = () => deadline.abort(request.signal?.reason);
      if (request.signal?.aborted) onAbort();
      request.signal?.addEventListener('abort', onAbort, { once: true });
      let hasPlace = false;
      const release = () => {
        cancel();
        request.signal?.removeEventListener('abort', onAbort);
        if (hasPlace) queue.leave(request.tenant);
        hasPlace = false;
      };
      try {
        const turn = queue.enter(request.tenant, deadline.signal);
        if (turn !== null) await turn;
        hasPlace = true;
        const asked = pool.request({
          path: pathname + withQuery(search, request.query),
          method: 'POST',
          headers: request.headers === undefined ? headers : { ...headers, ...request.headers },
          body: request.body,
          signal: deadline.signal,
        });
        const reply = await orAborted(asked, deadline.signal);
        return {
          status: reply.statusCode,
          headers: flat(reply.headers),
          body: limit(reply.body, upstream.label, request.maxBytes, deadline.signal, release),
        };
      } catch (error) {
        release();
        if (error instanceof GateRefusal) throw error;
        throw explain(error, upstream.label, deadline.signal);
      }
    },
    retire: () => pool.close(),
    close: () => pool.destroy(),
  };
}

const withQuery = (search: string, more: string | undefined): string =>
  more === undefined ? search : `${search === '' ? '?' : `${search}&`}${more}`;

/** A request that waits for a connection does not see its abort before it gets one, so the caller watches the signal. */
function orAborted(asked: Promise<Dispatcher.ResponseData>, signal: AbortSignal): Promise<Dispatcher.ResponseData> {
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      reject(signal.reason as Error);
      // Discards an answer that arrived at the same moment.
      asked.then(({ body }) => body.on('error', () => undefined).destroy()).catch(() => undefined);
    };
    signal.addEventListener('abort', onAbort, { once: true });
    asked.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

/** Passes the body on up to a size limit; its errors become coded ones. */
function limit(
  body: Dispatcher.ResponseData['body'],
  label: string,
  maxBytes: number,
  signal: AbortSignal,
  release: () => void,
): Transform {
  let total = 0;
  const limited = new Transform({
    transform(chunk: Buffer, _encoding, next) {
      total += chunk.length;
      if (total > maxBytes)
        next(new CodedError('UPSTREAM_TOO_LARGE', `the answer of ${label} is larger than ${maxBytes} bytes`));
      else next(null, chunk);
    },
  });
  // It may break before the caller reads it, who then meets the error; without a listener the error would end the process.
  limited.on('error', () => undefined);
  body.on('error', (error) => limited.destroy(explain(error, label, signal)));
  limited.on('close', () => {
    release();
    body.destroy();
  });
  body.pipe(limited);
  return limited;
}

function timedOut(label: string, timeoutMs: number): CodedError {
  return new CodedError('UPSTREAM_TIMEOUT', `${label} did not answer within ${timeoutMs} ms`, { retryable: true });
}

/** The reason of an abort unchanged; other errors without the address, which may hold a secret. */
function explain(error: unknown, label: string, signal: AbortSignal): Error {
  if (signal.aborted && signal.reason instanceof Error) return signal.reason;
  const cause = codeOf(error) ?? 'unknown';
  if (NOTHING_SENT.test(cause))
    return new CodedError('UPSTREAM_CONNECT', `${label} cannot be reached (${cause})`, { retryable: true });
  return new CodedError('UPSTREAM_FAILED', `the connection to ${label} broke (${cause})`, { retryable: true });
}

function flat(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  const out: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined) out[name] = Array.isArray(value) ? value.join(', ') : value;
  return out;
}

/** Rejects unusable addresses without quoting them: they may contain a key. Error: CONFIG_INVALID. */
export function checkAddresses(label: string, upstreams: readonly UpstreamConfig[]): void {
  const problems = upstreams.flatMap(({ url, websocketUrl }, index) => [
    ...(isAddress(url, /^https?:$/)
      ? []
      : [`${label} upstreams: address ${index + 1} is not an http or https address`]),
    ...(websocketUrl === undefined || isAddress(websocketUrl, /^wss?:$/)
      ? []
      : [`${label} upstreams: websocketUrl ${index + 1} is not a ws or wss address`]),
  ]);
  if (problems.length === 0) return;
  throw new CodedError('CONFIG_INVALID', problems.join('; '), { exitCode: EXIT.config, facts: { problems } });
}

function isAddress(text: string, scheme: RegExp): boolean {
  // The error of `new URL` quotes its input.
  return URL.canParse(text) && scheme.test(new URL(text).protocol);
}

/** Converts credentials in the URL to an Authorization header. */
function basicAuth(url: string): Readonly<Record<string, string>> {
  const { username, password } = new URL(url);
  if (username === '' && password === '') return {};
  const pair = [username, password].map(decoded).join(':');
  return { authorization: `Basic ${Buffer.from(pair).toString('base64')}` };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * Shares the connections of one upstream among tenants. While there is room every call starts at once; otherwise the next free
 * place goes to the tenant with the fewest calls in flight. The last eighth is reserved for tenants below their share, because places held
 * by slow calls are freed only when these are answered.
 */
interface CallQueue {
  /**
   * Null: the call may start at once. Otherwise it may start when the promise resolves; it rejects with the reason of the signal. Every call
   * that started must `leave`. Throws GateRefusal when too many calls of the tenant wait. No tenant: the daemon itself.
   */
  enter(tenant: Tenant | undefined, signal: AbortSignal): Promise<void> | null;
  leave(tenant: Tenant | undefined): void;
}

/** Calls that may wait for one upstream, over all tenants. Each waits inside a request that is being handled. */
const MAX_WAITING = 1_000;
/** Calls that may wait per tenant: this many times its limit, but at least this number. */
const WAITING_PER_CALL = 4;
const LEAST_WAITING = 64;
const OWN = '';

interface Lane {
  readonly tenant: Tenant | undefined;
  running: number;
  readonly waiting: Set<() => void>;
  /** When it last got a place; breaks ties. */
  servedAt: number;
}

export function createCallQueue(room: number): CallQueue {
  /** Tenants with calls here. */
  const lanes = new Map<string, Lane>();
  const reserve = room >= 4 ? Math.max(1, Math.floor(room / 8)) : 0;
  let running = 0;
  let waiting = 0;
  let turns = 0;

  function laneOf(tenant: Tenant | undefined): Lane {
    const id = tenant?.id ?? OWN;
    const known = lanes.get(id);
    if (known !== undefined) return known;
    const made: Lane = { tenant, running: 0, waiting: new Set(), servedAt: 0 };
    lanes.set(id, made);
    return made;
  }

  function mayStart(lane: Lane): boolean {
    const limit = lane.tenant?.limit('upstreamCalls') ?? null;
    if (limit !== null && lane.running >= Math.max(1, limit)) return false;
    const free = room - running;
    if (free > reserve) return true;
    // Using the reserve requires as much of it to remain free as the tenant holds.
    return free > 0 && (reserve === 0 || (lane.running < room / lanes.size && lane.running < free));
  }

  function start(lane: Lane): void {
    running += 1;
    lane.running += 1;
    turns += 1;
    lane.servedAt = turns;
    lane.tenant?.count('upstreamCalls', 1);
  }

  function serve(): void {
    while (waiting > 0) {
      let next: Lane | null = null;
      for (const lane of lanes.values()) {
        if (lane.waiting.size === 0 || !mayStart(lane)) continue;
        const isBefore =
          next === null ||
          lane.running < next.running ||
          (lane.running === next.running && lane.servedAt < next.servedAt);
        if (isBefore) next = lane;
      }
      if (next === null) return;
      const [go] = next.waiting;
      start(next);
      go?.();
    }
  }

  function demandPlace({ tenant, waiting: own }: Lane): void {
    // The number of the daemon's own calls is bounded.
    if (tenant === undefined) return;
    const limit = tenant.limit('upstreamCalls');
    const isOver = limit !== null && own.size >= Math.max(LEAST_WAITING, WAITING_PER_CALL * limit);
    const holders = [...lanes.values()].filter((lane) => lane.waiting.size > 0).length;
    if (isOver || !admits({ room: MAX_WAITING, used: waiting, holders }, own.size, 1))
      throw tenant.refusal('upstreamCalls');
  }

  function forget(lane: Lane): void {
    if (lane.running === 0 && lane.waiting.size === 0) lanes.delete(lane.tenant?.id ?? OWN);
  }

  function wait(lane: Lane, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = () => {
        lane.waiting.delete(go);
        waiting -= 1;
        signal.removeEventListener('abort', onAbort);
      };
      const go = () => {
        end();
        resolve();
      };
      const onAbort = () => {
        end();
        forget(lane);
        reject(signal.reason as Error);
      };
      lane.waiting.add(go);
      waiting += 1;
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  return {
    enter(tenant, signal) {
      const lane = laneOf(tenant);
      if (lane.waiting.size === 0 && mayStart(lane)) {
        start(lane);
        return null;
      }
      try {
        demandPlace(lane);
      } catch (error) {
        // A tenant without calls is removed: it would reduce the share of the others.
        forget(lane);
        throw error;
      }
      if (signal.aborted) {
        forget(lane);
        return Promise.reject(signal.reason as Error);
      }
      return wait(lane, signal);
    },
    leave(tenant) {
      const lane = laneOf(tenant);
      running -= 1;
      lane.running -= 1;
      lane.tenant?.count('upstreamCalls', -1);
      forget(lane);
      serve();
    },
  };
}
