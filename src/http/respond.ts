import { Buffer } from 'node:buffer';
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import { availableParallelism } from 'node:os';
import { pipeline, Readable, type Transform } from 'node:stream';
import zlib from 'node:zlib';
import { stringify } from '../lib/json.ts';
import { type ErrorShape, JsonBytes, JsonText, type Reply } from '../plugin/plugin.ts';
import { RequestError } from '../plugin/request.ts';
import type { Clock } from '../ports/clock.ts';
import { declaredLength } from './body.ts';
import { type Fault, faultOf } from './errors.ts';
import type { Exchange } from './exchange.ts';
import { rpcErrorText } from './json-rpc/execute.ts';
import { sendsLater } from './tapping.ts';

const FAILED_STATUS = 400;
/** Unread body bytes that are read and discarded to keep a connection. */
const KEEP_UNREAD_BYTES = 65_536;
/** How long and how much a client may continue to send after a refusal, so that it can read the answer. */
const LINGER_MS = 1_000;
const LINGER_BYTES = 4_194_304;

/** Maximum bytes of a stream in the buffers of compressor and connection. */
const STREAM_BYTES = 131_072;

type ResponseBody = string | Buffer | Readable | JsonBytes | null;

export interface Responder {
  /** Writes an answer unless one was started before. A null body means no content. */
  send(
    exchange: Exchange,
    status: number,
    contentType: string | null,
    headers: Readonly<Record<string, string>>,
    body: ResponseBody,
  ): void;
  sendReply(exchange: Exchange, reply: Reply): void;
  sendFault(exchange: Exchange, fault: Fault, options?: { readonly rpcId?: string; readonly close?: boolean }): void;
}

interface ResponderOptions {
  readonly clock: Clock;
  readonly cors: boolean;
  /** Whether answers are compressed for clients that accept it. */
  readonly compression: () => boolean;
  readonly draining: () => boolean;
  /** Whether the answers come from the local chain. */
  readonly isLocalChain: () => boolean;
  /** Called when an answer is complete, although the client may not have read it. */
  readonly answered: (exchange: Exchange) => void;
}

export function createResponder(options: ResponderOptions): Responder {
  const end = createEnder();
  const headerList = (
    exchange: Exchange,
    contentType: string | null,
    extra: Readonly<Record<string, string>>,
    length: number | null,
    close: boolean,
  ): string[] => {
    const list = commonHeaders(exchange.requestId, {
      cors: options.cors,
      hasOrigin: exchange.request.method !== 'OPTIONS' && exchange.request.headers.origin !== undefined,
      ownCacheControl: 'Cache-Control' in extra || 'cache-control' in extra,
    });
    if (contentType !== null) list.push('Content-Type', contentType);
    if (length !== null) list.push('Content-Length', String(length));
    if (options.isLocalChain()) list.push('x-parhelion-chain', 'local');
    if (close) list.push('Connection', 'close');
    const rate = exchange.admission?.headers;
    if (rate !== undefined) pushAll(list, rate);
    if (exchange.payment !== null) pushAll(list, exchange.payment.headers);
    pushAll(list, extra);
    return list;
  };

  const write: WriteAnswer = (exchange, status, contentType, extra, body, mustClose) => {
    if (exchange.over) {
      if (isStream(body)) body.destroy();
      return;
    }
    if (status >= FAILED_STATUS) exchange.noteFailure(inOnePiece(body));
    const { tapping } = exchange;
    if (tapping !== null) {
      exchange.tapping = null;
      const own = { status, contentType, body: inOnePiece(body) };
      const send = (answer: typeof own) =>
        write(exchange, answer.status, answer.contentType, extra, answer.body, mustClose);
      if (sendsLater(tapping, own, send)) return;
    }
    // Counting the bytes of a long text takes as long as sending it.
    const length = lengthOf(body);
    try {
      exchange.holdAnswer(length ?? STREAM_BYTES);
    } catch (error) {
      if (isStream(body)) body.destroy();
      // The refusal is small, and not counted.
      const fault = faultOf(error, exchange.requestId);
      const {
        status: refused,
        contentType: type,
        headers,
        body: text,
      } = errorAnswer(fault, exchange.shape, exchange.rpcId?.());
      begin(exchange, refused);
      writeOut(exchange, type, headers, text, mustClose);
      return;
    }
    begin(exchange, status);
    if (!options.compression() || !isCompressible(contentType, length, extra)) {
      writeOut(exchange, contentType, extra, body, mustClose, length);
      return;
    }
    const varying = { ...extra, Vary: 'Accept-Encoding' };
    const plain = () => writeOut(exchange, contentType, varying, body, mustClose, length);
    const coding = acceptedCoding(exchange.request.headers['accept-encoding']);
    if (coding === null) {
      plain();
      return;
    }
    const encoded = (content: ResponseBody) =>
      writeOut(exchange, contentType, { ...varying, 'Content-Encoding': coding }, content, mustClose);
    if (exchange.request.method === 'HEAD') {
      if (isStream(body)) body.destroy();
      // The length is known only after compression.
      encoded(Readable.from([]));
    } else if (isStream(body)) {
      const compressor = createCompressor(coding);
      if (compressor === null) plain();
      else encoded(pipeline(body, compressor, () => undefined));
    } else {
      const made = compress(coding, typeof body === 'string' ? Buffer.from(body) : (inOnePiece(body) as Buffer));
      const compressed = (bytes: Buffer) => {
        // Compressed bytes never exceed the plain ones significantly.
        if (bytes.length < (length ?? 0)) exchange.holdAnswer(bytes.length);
        encoded(bytes);
      };
      if (made === null) plain();
      else if (Buffer.isBuffer(made)) compressed(made);
      else made.then(compressed, plain).catch(() => exchange.response.destroy());
    }
  };

  const begin = (exchange: Exchange, status: number) => {
    exchange.over = true;
    exchange.status = status;
    exchange.cancelDeadline?.();
  };

  const writeOut = (
    exchange: Exchange,
    contentType: string | null,
    extra: Readonly<Record<string, string>>,
    body: ResponseBody,
    mustClose: boolean,
    length = lengthOf(body),
  ) => {
    const { request, response, status } = exchange;
    // The client disconnected, perhaps while its answer was compressed.
    if (response.destroyed) {
      if (isStream(body)) body.destroy();
      return;
    }
    const unread = hasUnreadBody(request);
    const close = mustClose || options.draining() || (unread && !worthReading(exchange));
    response.writeHead(status, headerList(exchange, contentType, extra, status === 204 ? null : length, close));
    const content = request.method === 'HEAD' ? '' : body;
    if (content !== body && isStream(body)) body.destroy();
    if (isStream(content)) pipeBody(exchange, content);
    else {
      options.answered(exchange);
      exchange.bytesOut = content === '' ? 0 : (length ?? 0);
      // ASCII only: header and body leave as one string.
      const encoding = typeof content === 'string' && length === content.length ? 'latin1' : 'utf8';
      if (unread && close) linger(exchange, inOnePiece(content ?? ''), encoding, options.clock);
      else end({ response, content: content ?? '', encoding });
    }
  };

  return {
    send: (exchange, status, contentType, headers, body) => write(exchange, status, contentType, headers, body, false),
    sendReply: (exchange, reply) => writeReply(write, exchange, reply),
    sendFault: (exchange, fault, extra = {}) => {
      const answer = errorAnswer(fault, exchange.shape, extra.rpcId);
      const close = extra.close === true || fault.status === 413;
      write(exchange, answer.status, answer.contentType, answer.headers, answer.body, close);
    },
  };
}

type WriteAnswer = (
  exchange: Exchange,
  status: number,
  contentType: string | null,
  extra: Readonly<Record<string, string>>,
  body: ResponseBody,
  mustClose: boolean,
) => void;

function writeReply(write: WriteAnswer, exchange: Exchange, reply: Reply): void {
  const { status, headers = {} } = reply;
  const go = (contentType: string | null, body: ResponseBody) =>
    write(exchange, status, contentType, headers, body, false);
  if (reply.stream !== undefined) go(reply.contentType ?? null, reply.stream);
  else if (reply.jsonBytes !== undefined) go(JSON_TYPE, asBuffer(reply.jsonBytes));
  else if (reply.bytes !== undefined) go(reply.contentType ?? 'application/octet-stream', asBuffer(reply.bytes));
  else if (reply.json instanceof JsonText) go(JSON_TYPE, reply.json.text);
  else if (reply.json instanceof JsonBytes) go(JSON_TYPE, reply.json);
  else if (reply.json !== undefined) go(JSON_TYPE, stringify(reply.json));
  else go(null, '');
}

function pushAll(list: string[], headers: Readonly<Record<string, string>>): void {
  for (const name in headers) list.push(name, headers[name] as string);
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function isStream(body: ResponseBody): body is Readable {
  return body !== null && typeof body === 'object' && !Buffer.isBuffer(body) && !(body instanceof JsonBytes);
}

const inOnePiece = <T>(body: T | JsonBytes): T | Buffer =>
  body instanceof JsonBytes ? Buffer.concat(body.pieces) : body;

function lengthOf(body: ResponseBody): number | null {
  if (body === null) return 0;
  if (typeof body === 'string') return Buffer.byteLength(body);
  if (body instanceof JsonBytes) return body.pieces.reduce((sum, { length }) => sum + length, 0);
  return Buffer.isBuffer(body) ? body.length : null;
}

function hasUnreadBody(request: IncomingMessage): boolean {
  if (request.complete) return false;
  const length = declaredLength(request);
  return length === null ? request.headers['transfer-encoding'] !== undefined : length > 0;
}

/** Whether the rest of a body is small enough for node:http to discard it and keep the connection. */
function worthReading(exchange: Exchange): boolean {
  const length = declaredLength(exchange.request);
  return length !== null && length <= KEEP_UNREAD_BYTES && !exchange.expectsContinue;
}

function pipeBody(exchange: Exchange, body: Readable): void {
  const { response } = exchange;
  body.on('data', (chunk: Buffer) => {
    exchange.bytesOut += chunk.length;
  });
  // The headers were sent: closing the connection is the only way to signal an incomplete answer.
  body.on('error', () => {
    exchange.isBroken = true;
    response.destroy();
  });
  response.on('close', () => body.destroy());
  body.pipe(response);
}

/**
 * Writes the whole answer, then continues to read for a limited time before it closes. Closing at once would reset the connection while
 * the client still sends, and it would never see the answer.
 */
function linger(exchange: Exchange, content: string | Buffer, encoding: 'latin1' | 'utf8', clock: Clock): void {
  const { request, response } = exchange;
  let read = 0;
  const finish = () => {
    cancel();
    response.end();
  };
  const cancel = clock.timeout(LINGER_MS, finish);
  if (content.length === 0) response.flushHeaders();
  else response.write(content, encoding);
  request.on('data', (chunk: Buffer) => {
    read += chunk.length;
    if (read > LINGER_BYTES) finish();
  });
  request.once('end', finish);
  request.once('close', finish);
  request.resume();
}

interface Ending {
  readonly response: ServerResponse;
  readonly content: string | Buffer | JsonBytes;
  readonly encoding: 'latin1' | 'utf8';
}

/**
 * Writes answers together at the end of the event loop turn that produced them. Writing them one by one would wake clients while we
 * still work, which is expensive on a busy daemon; a single answer loses nothing, because the turn ends at once.
 */
function createEnder(): (ending: Ending) => void {
  let waiting: Ending[] = [];
  const flush = () => {
    const endings = waiting;
    waiting = [];
    for (const { response, content, encoding } of endings)
      if (content instanceof JsonBytes) {
        const last = content.pieces.length - 1;
        for (let at = 0; at < last; at++) response.write(content.pieces[at]);
        response.end(content.pieces[last]);
      } else response.end(content, encoding);
  };
  return (ending) => {
    if (waiting.push(ending) === 1) setImmediate(flush);
  };
}

/** Writes errors: every refusal and failure of the HTTP front passes here. */
interface ErrorAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** `rpcId` is the raw JSON text of the id, if known. */
export function errorAnswer(fault: Fault, shape: ErrorShape, rpcId = 'null'): ErrorAnswer {
  const retry: Record<string, string> =
    fault.retryAfterS === undefined ? {} : { 'Retry-After': String(Math.max(1, Math.ceil(fault.retryAfterS))) };
  const headers = { ...fault.headers, ...retry };
  if (shape === 'text')
    return { status: fault.status, contentType: 'text/plain; charset=utf-8', body: textBody(fault), headers };
  if (shape === 'rpc')
    return {
      status: fault.rpc.status,
      contentType: JSON_TYPE,
      body: withMembers(rpcErrorText(fault.rpc, rpcId), fault),
      headers,
    };
  const value = shape === 'admin' ? adminBody(fault) : shape === 'wallet' ? walletBody(fault) : plainBody(fault);
  return { status: fault.status, contentType: JSON_TYPE, body: withMembers(JSON.stringify(value), fault), headers };
}

/** Adds the members of a fault to the text of an object. */
const withMembers = (text: string, { members }: Fault) =>
  members === undefined ? text : `${text.slice(0, -1)},${JSON.stringify(members).slice(1)}`;

/** The error shape of paths without a route. */
export function shapeOfPath(path: string): ErrorShape {
  if (path === '/v0/admin' || path.startsWith('/v0/admin/')) return 'admin';
  if (path === '/v1/wallet' || path.startsWith('/v1/wallet/')) return 'wallet';
  return 'plain';
}

function textBody(fault: Fault): string {
  return fault.status === 503 ? 'service unavailable' : fault.message;
}

/** The shape has room for one sentence: if `message` only names the kind, use `details`. */
function plainBody(fault: Fault): object {
  const { status, message, details } = fault;
  if (details === undefined || status > 403 || status === 401) return { error: message, code: status };
  return { error: status === 403 ? details : `${message}: ${details}`, code: status };
}

function walletBody(fault: Fault): object {
  const { status, message, details } = fault;
  return details === undefined ? { error: message, code: status } : { error: message, code: status, details };
}

function adminBody(fault: Fault): object {
  return { statusCode: fault.status, message: adminMessage(fault), error: STATUS_CODES[fault.status] ?? 'Error' };
}

function adminMessage(fault: Fault): string {
  const { refusal, status } = fault;
  if (refusal === 'no-key' || refusal === 'bad-key') return 'Missing or invalid API key';
  if (refusal === 'rate') return 'Too many requests: at most 5 per second';
  if (status === 500) return 'Internal server error';
  if (status === 404 && fault.message === 'invalid path') return 'Invalid path';
  return (status === 403 || status === 400) && fault.details !== undefined ? fault.details : fault.message;
}

export const JSON_TYPE = 'application/json; charset=utf-8';
const EXPOSED = 'Retry-After, X-Request-Id, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset';

/** Header names and values alternating, which is the cheapest form for node:http. */
type HeaderList = string[];

/** More headers than clients and proxies send together. */
const MAX_HEADERS = 300;

/**
 * Refuses a request with ambiguous headers: so many that a proxy may drop some, or several hosts. Throws 431 and 400.
 */
export function checkHead({ rawHeaders }: IncomingMessage): void {
  if (rawHeaders.length > 2 * MAX_HEADERS)
    throw new RequestError(431, 'Too many request headers', { details: `A request has at most ${MAX_HEADERS}` });
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string;
    if (name.length === 4 && name.toLowerCase() === 'host') hosts += 1;
  }
  if (hosts > 1) throw new RequestError(400, 'Malformed HTTP request', { details: 'It names several hosts' });
}

/** The headers of every answer. `cors` is enabled on the API listener; the longer header is sent only to browsers, which send an Origin. */
function commonHeaders(
  requestId: string,
  options: { readonly cors: boolean; readonly hasOrigin: boolean; readonly ownCacheControl: boolean },
): HeaderList {
  const list = ['X-Content-Type-Options', 'nosniff', 'X-Request-Id', requestId];
  if (!options.ownCacheControl) list.push('Cache-Control', 'no-store');
  if (options.cors) list.push('Access-Control-Allow-Origin', '*');
  if (options.cors && options.hasOrigin) list.push('Access-Control-Expose-Headers', EXPOSED);
  return list;
}

/** The answer to OPTIONS on any path. The `*` in the allowed headers does not include Authorization, hence the list. */
export const preflightHeaders: Readonly<Record<string, string>> = {
  'Access-Control-Allow-Methods': 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS',
  'Access-Control-Allow-Headers':
    'Content-Type, X-Api-Key, Authorization, X-Helius-Client, solana-client, User-Agent, *',
  'Access-Control-Expose-Headers': EXPOSED,
  'Access-Control-Max-Age': '86400',
};

export type Coding = 'gzip' | 'zstd';

/** Smaller answers fit into one packet; decoding them costs a client more than it saves. */
const MIN_BYTES = 1_024;
/** Up to this size, compressing costs less than passing the work to another thread and back. */
const AT_ONCE_BYTES = 8_192;
/** JSON shrinks to a fifth at the lowest level; higher levels take twice the time for a few percent. */
const LEVEL = 1;
/** Maximum concurrent compressions in other threads; further answers are sent uncompressed, to bound the load of the machine. */
const MAX_RUNNING = 4 * availableParallelism();

const TEXT =
  /^(?:text\/(?!event-stream)|application\/(?:[\w.+-]*json|javascript|xml|openmetrics-text)|image\/svg\+xml)/i;

/** The functions of newer versions of Node (22.15 and 24) that the types of the oldest one lack. */
interface Zstd {
  readonly constants: { readonly ZSTD_c_compressionLevel: number; readonly ZSTD_e_flush: number };
  zstdCompress(data: Buffer, options: object, done: (error: Error | null, result: Buffer) => void): void;
  zstdCompressSync(data: Buffer, options: object): Buffer;
  createZstdCompress(options: object): Transform;
}
const zstd = 'createZstdCompress' in zlib ? (zlib as unknown as Zstd) : null;
const zstdOptions = zstd === null ? {} : { params: { [zstd.constants.ZSTD_c_compressionLevel]: LEVEL } };

/** Preferred first, for clients that weight several codings equally. */
const OFFERED: readonly Coding[] = zstd === null ? ['gzip'] : ['zstd', 'gzip'];

/** Whether the answer has one form for those that can decode and one for the others; a length of null is that of a stream. */
function isCompressible(contentType: string | null, length: number | null, headers: object): boolean {
  if (contentType === null || (length !== null && length <= MIN_BYTES) || !TEXT.test(contentType)) return false;
  return !Object.entries(headers).some(
    ([name, value]) =>
      /^(content-encoding|content-range)$/i.test(name) ||
      (/^cache-control$/i.test(name) && /no-transform/i.test(value)),
  );
}

/** The coding that a request prefers, or null for no encoding. */
export function acceptedCoding(header: string | undefined, offered = OFFERED): Coding | null {
  if (header === undefined || header === '') return null;
  const weights = new Map<string, number>();
  for (const part of header.toLowerCase().split(',')) {
    const [name = '', ...params] = part.split(';').map((text) => text.trim());
    if (name !== '') weights.set(name === 'x-gzip' ? 'gzip' : name, weightOf(params));
  }
  const others = weights.get('*') ?? 0;
  let best: Coding | null = null;
  // The identity coding stays acceptable unless it is named, as the last choice.
  let least = weights.get('identity') ?? 0;
  for (const coding of offered) {
    const weight = weights.get(coding) ?? others;
    if (weight <= 0 || weight < least || (best !== null && weight === least)) continue;
    best = coding;
    least = weight;
  }
  return best;
}

/** 1 without a weight; 0, which refuses the coding, if malformed. */
function weightOf(params: readonly string[]): number {
  const text = params.find((param) => /^q\s*=/.test(param))?.replace(/^q\s*=\s*/, '');
  if (text === undefined) return 1;
  return /^(0(\.\d{0,3})?|1(\.0{0,3})?)$/.test(text) ? Number(text) : 0;
}

let running = 0;

/** A stream that compresses its input without delaying it; null if too many compressions are running. */
function createCompressor(coding: Coding): Transform | null {
  if (running >= MAX_RUNNING) return null;
  running += 1;
  const compressor =
    coding === 'zstd' && zstd !== null
      ? zstd.createZstdCompress({ ...zstdOptions, flush: zstd.constants.ZSTD_e_flush })
      : zlib.createGzip({ level: LEVEL, flush: zlib.constants.Z_SYNC_FLUSH });
  return compressor.once('close', () => {
    running -= 1;
  });
}

/** The compressed bytes: synchronously for small inputs, otherwise as a promise; null if too many compressions are running. */
function compress(coding: Coding, content: Buffer): Buffer | Promise<Buffer> | null {
  const isZstd = coding === 'zstd' && zstd !== null;
  if (content.length <= AT_ONCE_BYTES)
    return isZstd ? zstd.zstdCompressSync(content, zstdOptions) : zlib.gzipSync(content, { level: LEVEL });
  if (running >= MAX_RUNNING) return null;
  running += 1;
  return new Promise((resolve, reject) => {
    const done = (error: Error | null, result: Buffer) => {
      running -= 1;
      if (error === null) resolve(result);
      else reject(error);
    };
    if (isZstd) zstd.zstdCompress(content, zstdOptions, done);
    else zlib.gzip(content, { level: LEVEL }, done);
  });
}
