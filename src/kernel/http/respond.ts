import { Buffer } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { stringify } from '../../lib/json.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Fault } from '../calls/fault.ts';
import { JsonText, type Reply } from '../plugin.ts';
import { declaredLength } from './body.ts';
import { createEnder } from './ending.ts';
import { errorAnswer } from './error-mapper.ts';
import type { Exchange } from './exchange.ts';
import { commonHeaders, JSON_TYPE } from './headers.ts';

/** Unread bytes that are worth reading to keep a connection. */
const KEEP_UNREAD_BYTES = 65_536;
/** How long and how much a client may go on sending after its refusal, so that it gets to read it. */
const LINGER_MS = 1_000;
const LINGER_BYTES = 4_194_304;

export type ResponseBody = string | Buffer | Readable | null;

export interface Responder {
  /** Writes an answer unless one was begun before. A null body is no content at all. */
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

export interface ResponderOptions {
  readonly clock: Clock;
  readonly cors: boolean;
  readonly draining: () => boolean;
  /** Whether the answers come from a throw-away chain. */
  readonly isLocalChain: () => boolean;
  /** Told when an answer is complete, although the client may not have read it. */
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
    pushAll(list, extra);
    return list;
  };

  const write: WriteAnswer = (exchange, status, contentType, extra, body, mustClose) => {
    if (exchange.over) {
      if (isStream(body)) body.destroy();
      return;
    }
    exchange.over = true;
    exchange.status = status;
    exchange.cancelDeadline?.();
    const { request, response } = exchange;
    const unread = hasUnreadBody(request);
    const close = mustClose || options.draining() || (unread && !worthReading(exchange));
    const length = lengthOf(body);
    response.writeHead(status, headerList(exchange, contentType, extra, status === 204 ? null : length, close));
    const content = request.method === 'HEAD' ? '' : body;
    if (content !== body && isStream(body)) body.destroy();
    if (isStream(content)) pipeBody(exchange, content);
    else {
      options.answered(exchange);
      exchange.bytesOut = content === '' ? 0 : (length ?? 0);
      // All characters below 128: header and body leave as one string.
      const encoding = typeof content === 'string' && length === content.length ? 'latin1' : 'utf8';
      if (unread && close) linger(exchange, content ?? '', encoding, options.clock);
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
  return body !== null && typeof body === 'object' && !Buffer.isBuffer(body);
}

function lengthOf(body: ResponseBody): number | null {
  if (body === null) return 0;
  if (typeof body === 'string') return Buffer.byteLength(body);
  return Buffer.isBuffer(body) ? body.length : null;
}

function hasUnreadBody(request: IncomingMessage): boolean {
  if (request.complete) return false;
  const length = declaredLength(request);
  return length === null ? request.headers['transfer-encoding'] !== undefined : length > 0;
}

/** Whether the rest of a body is small enough that node:http may throw it away and keep the connection. */
function worthReading(exchange: Exchange): boolean {
  const length = declaredLength(exchange.request);
  return length !== null && length <= KEEP_UNREAD_BYTES && !exchange.expectsContinue;
}

function pipeBody(exchange: Exchange, body: Readable): void {
  const { response } = exchange;
  body.on('data', (chunk: Buffer) => {
    exchange.bytesOut += chunk.length;
  });
  // The headers are out: cutting the connection is the only way left to say that something is missing.
  body.on('error', () => response.destroy());
  response.on('close', () => body.destroy());
  body.pipe(response);
}

/**
 * Writes the whole answer, then goes on reading for a while before it closes. Closing at once would reset the connection while the
 * client still sends, and it would never see why.
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
