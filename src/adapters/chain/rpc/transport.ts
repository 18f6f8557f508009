import type { IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import type { Dispatcher, Pool } from 'undici';
import { CodedError, codeOf, EXIT } from '../../../lib/coded-error.ts';
import { admits } from '../../../lib/fair-share.ts';
import { lazy } from '../../../lib/lazy.ts';
import { OWN_WORK, type Tenant } from '../../../ports/access.ts';
import type { Clock } from '../../../ports/clock.ts';
import type { Upstream, UpstreamConfig, UpstreamReply, UpstreamRequest } from '../../../ports/upstream.ts';
import { isEndOfKept, patientConnector } from '../../http-sockets.ts';
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
/** How often a read is sent again after the end of a kept connection: the next one may have been kept for too long as well. */
const MAX_REPEATS = 3;
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
  // Commands that only read the store have a transport too, and would load the client for nothing.
  const pool = lazy(() => openPool(origin, upstream.maxConcurrent, broke));
  const queue = createCallQueue(upstream.maxConcurrent);
  const headers = {
    ...basicAuth(upstream.url),
    ...upstream.headers,
    'content-type': 'application/json',
    // Without it a server may choose any coding.
    'accept-encoding': 'identity',
    'user-agent': userAgent,
  };

  return {
    send(request) {
      const call = new Call(request, upstream.label, clock);
      const run = () =>
        call.run(
          pool(),
          {
            path: pathname + withQuery(search, request.query),
            method: 'POST',
            headers: request.headers === undefined ? headers : { ...headers, ...request.headers },
            body: request.body,
          },
          () => queue.leave(request.tenant),
        );
      const refuse = (error: Error) => {
        call.release();
        return Promise.reject(error);
      };
      try {
        return queue.enter(request.tenant, call)?.then(run, refuse) ?? run();
      } catch (error) {
        return refuse(error as Error);
      }
    },
    retire: () => pool().close(),
    close: () => pool().destroy(),
  };
}

function openPool(origin: string, connections: number, broke: () => void): Pool {
  const { Pool, buildConnector } = undici();
  const pool = new Pool(origin, {
    connections,
    pipelining: 1,
    // Over HTTP/2 `connections` would bound nothing; undici 8 chooses it by default.
    allowH2: false,
    connect: patientConnector(buildConnector({ timeout: CONNECT_TIMEOUT_MS, allowH2: false })),
    keepAliveTimeout: KEEP_ALIVE_MS,
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  // After a reconnect this address may lead to another node, or another chain.
  pool.on('disconnect', (_origin, _targets, error) => {
    if (codeOf(error) !== 'UND_ERR_INFO') broke();
  });
  return pool;
}

const withQuery = (search: string, more: string | undefined): string =>
  more === undefined ? search : `${search === '' ? '?' : `${search}&`}${more}`;

/**
 * One request and its answer: the deadline covers the wait for a place and a connection, and the answer until its last byte is read. A
 * class, and at most one stream for its answer, because there is one for each call that is passed on.
 */
class Call implements Dispatcher.DispatchHandler {
  readonly #request: UpstreamRequest;
  readonly #label: string;
  readonly #cancelTimer: () => void;
  readonly #onAbort = (): void => {
    const reason: unknown = this.#request.signal?.reason;
    this.#stop(reason instanceof Error ? reason : explain(reason, this.#label));
  };
  /** Why no answer is wanted any more. */
  #stopped: Error | null = null;
  #waiting: AbortController | null = null;
  #leave: (() => void) | null = null;
  #resolve: (reply: UpstreamReply) => void = () => undefined;
  #reject: (error: Error) => void = () => undefined;
  #controller: Dispatcher.DispatchController | null = null;
  #pool: Pool | null = null;
  #options: Dispatcher.DispatchOptions | null = null;
  #repeats = 0;
  #status = 0;
  #headers: Readonly<Record<string, string>> = {};
  /** The answer so far, while it may still arrive whole. */
  #chunks: Buffer[] = [];
  #body: ReplyBody | null = null;
  #bytes = 0;
  #isComplete = false;
  /** Its end is not that of the connection. Another answer is not paused, because undici cannot end a paused one. */
  #mayPause = false;

  constructor(request: UpstreamRequest, label: string, clock: Clock) {
    this.#request = request;
    this.#label = label;
    this.#cancelTimer = clock.timeout(request.timeoutMs, () => this.#stop(timedOut(label, request.timeoutMs)));
    if (request.signal?.aborted === true) this.#onAbort();
    else request.signal?.addEventListener('abort', this.#onAbort, { once: true });
  }

  /** Aborts when no answer is wanted any more. Created on first use: most calls do not wait for a place. */
  get signal(): AbortSignal {
    this.#waiting ??= new AbortController();
    if (this.#stopped !== null) this.#waiting.abort(this.#stopped);
    return this.#waiting.signal;
  }

  /** `leave` is called once, when the call needs its place no longer. */
  run(pool: Pool, options: Dispatcher.DispatchOptions, leave: () => void): Promise<UpstreamReply> {
    this.#leave = leave;
    this.#pool = pool;
    this.#options = options;
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      if (this.#stopped === null) pool.dispatch(options, this);
      else this.#fail(this.#stopped);
    });
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    // It ended while it waited for a connection: nothing is sent.
    if (this.#stopped !== null) controller.abort(this.#stopped);
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    if (status < 200) return;
    this.#status = status;
    this.#headers = flat(headers);
    this.#mayPause = hasOwnEnd(this.#headers);
    if (status >= 300 || this.#request.wholeBytes === undefined) this.#openBody();
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const { maxBytes, wholeBytes = 0 } = this.#request;
    this.#bytes += chunk.length;
    if (this.#bytes > maxBytes)
      this.#fail(new CodedError('UPSTREAM_TOO_LARGE', `the answer of ${this.#label} is larger than ${maxBytes} bytes`));
    else if (this.#body !== null) {
      if (!this.#body.push(chunk) && this.#mayPause) controller.pause();
    } else {
      this.#chunks.push(chunk);
      if (this.#bytes > wholeBytes && !this.#openBody() && this.#mayPause) controller.pause();
    }
  }

  onResponseEnd(): void {
    this.#isComplete = true;
    if (this.#body !== null) {
      this.#body.push(null);
      return;
    }
    const chunks = this.#chunks;
    const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, this.#bytes);
    this.release();
    this.#resolve(new WholeReply(this.#status, this.#headers, bytes));
  }

  /** From here on the answer is a stream. False: its reader is behind. */
  #openBody(): boolean {
    const body = new ReplyBody(this);
    this.#body = body;
    let wants = true;
    for (const chunk of this.#chunks) wants = body.push(chunk);
    this.#chunks = [];
    this.#resolve({ status: this.#status, headers: this.#headers, whole: null, body });
    return wants;
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    const wasIgnored = this.#stopped === null && this.#status === 0 && isEndOfKept(error);
    if (wasIgnored && this.#request.isRead === true && this.#repeats < MAX_REPEATS) {
      this.#repeats += 1;
      // In the next turn: others that were kept for as long have often ended too, and are told of first.
      setImmediate(() => this.#pool!.dispatch(this.#options!, this));
    } else this.#fail(this.#stopped ?? explain(error, this.#label));
  }

  /** The reader of the body wants more. */
  resume(): void {
    this.#controller?.resume();
  }

  /** The body was read, or nobody wants the rest of it. */
  closed(): void {
    this.release();
    if (!this.#isComplete) this.#controller?.abort(new Error('the answer is not wanted'));
  }

  release(): void {
    this.#cancelTimer();
    this.#request.signal?.removeEventListener('abort', this.#onAbort);
    this.#leave?.();
    this.#leave = null;
  }

  #stop(reason: Error): void {
    if (this.#stopped !== null) return;
    this.#stopped = reason;
    this.#waiting?.abort(reason);
    this.#fail(reason);
  }

  #fail(error: Error): void {
    if (this.#body !== null) {
      this.#body.destroy(error);
      return;
    }
    this.#reject(error);
    this.closed();
  }
}

const hasOwnEnd = (headers: Readonly<Record<string, string>>): boolean =>
  (headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined) &&
  !/\bclose\b/i.test(headers['connection'] ?? '');

class ReplyBody extends Readable {
  readonly #call: Call;

  constructor(call: Call) {
    super();
    this.#call = call;
    // It may break before the caller reads it, who then meets the error; without a listener the error would end the process.
    this.on('error', () => undefined);
  }

  override _read(): void {
    this.#call.resume();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#call.closed();
    done(error);
  }
}

/** A class, so that its stream is created only for a caller that reads one. */
class WholeReply implements UpstreamReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly whole: Buffer;

  constructor(status: number, headers: Readonly<Record<string, string>>, whole: Buffer) {
    this.status = status;
    this.headers = headers;
    this.whole = whole;
  }

  get body(): Readable {
    return Readable.from([this.whole]);
  }
}

function timedOut(label: string, timeoutMs: number): CodedError {
  return new CodedError('UPSTREAM_TIMEOUT', `${label} did not answer within ${timeoutMs} ms`, { retryable: true });
}

/** Without the address, which may hold a secret. */
function explain(error: unknown, label: string): Error {
  const cause = codeOf(error) ?? 'unknown';
  if (NOTHING_SENT.test(cause))
    return new CodedError('UPSTREAM_CONNECT', `${label} cannot be reached (${cause})`, { retryable: true });
  return new CodedError('UPSTREAM_FAILED', `the connection to ${label} broke (${cause})`, { retryable: true });
}

function flat(headers: IncomingHttpHeaders): Record<string, string> {
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
   * Null: the call may start at once. Otherwise it may start when the promise resolves; it rejects with the reason of the signal, which is
   * read only then. Every call that started must `leave`. Throws GateRefusal when too many calls of the tenant wait.
   */
  enter(tenant: Tenant, call: { readonly signal: AbortSignal }): Promise<void> | null;
  leave(tenant: Tenant): void;
}

/** Calls that may wait for one upstream, over all tenants. Each waits inside a request that is being handled. */
const MAX_WAITING = 1_000;
/** Calls that may wait per tenant: this many times its limit, but at least this number. */
const WAITING_PER_CALL = 4;
const MIN_WAITING = 64;

interface Lane {
  readonly tenant: Tenant;
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

  function laneOf(tenant: Tenant): Lane {
    const id = tenant.id;
    const known = lanes.get(id);
    if (known !== undefined) return known;
    const made: Lane = { tenant, running: 0, waiting: new Set(), servedAt: 0 };
    lanes.set(id, made);
    return made;
  }

  function mayStart(lane: Lane): boolean {
    const limit = lane.tenant.limit('upstreamCalls');
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
    lane.tenant.count('upstreamCalls', 1);
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
    if (tenant === OWN_WORK) return;
    const limit = tenant.limit('upstreamCalls');
    const isOver = limit !== null && own.size >= Math.max(MIN_WAITING, WAITING_PER_CALL * limit);
    const holders = [...lanes.values()].filter((lane) => lane.waiting.size > 0).length;
    if (isOver || !admits({ room: MAX_WAITING, used: waiting, holders }, own.size, 1))
      throw tenant.refusal('upstreamCalls');
  }

  function forget(lane: Lane): void {
    if (lane.running === 0 && lane.waiting.size === 0) lanes.delete(lane.tenant.id);
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
    enter(tenant, call) {
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
      const { signal } = call;
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
      lane.tenant.count('upstreamCalls', -1);
      forget(lane);
      serve();
    },
  };
}
