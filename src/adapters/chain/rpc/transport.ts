import { Transform } from 'node:stream';
import type { Dispatcher } from 'undici';
import { CodedError, codeOf } from '../../../lib/coded-error.ts';
import { GateRefusal } from '../../../plugin/request.ts';
import type { Clock } from '../../../ports/clock.ts';
import type { Upstream, UpstreamConfig, UpstreamReply, UpstreamRequest } from '../../../ports/upstream.ts';
import { EXIT } from '../../../runtime/errors.ts';
import { undici } from '../../undici.ts';
import { createCallQueue } from './call-queue.ts';

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
