import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { exceeds } from '../lib/json.ts';
import { RequestError } from '../plugin/request.ts';

const MAX_JSON_DEPTH = 64;

/** Thrown when the client disconnects before its body is complete. */
export class BodyAborted extends Error {
  constructor() {
    super('the client disconnected while it sent its body');
    this.name = 'BodyAborted';
  }
}

function tooLarge(limitBytes: number): RequestError {
  return new RequestError(413, 'Request body too large', { details: `The limit is ${limitBytes} bytes` });
}

export function noRoom(): RequestError {
  return new RequestError(503, 'Service unavailable', { details: 'Too many request bodies are being received' });
}

/** The declared length, or null when the body is chunked or absent. */
export function declaredLength(request: IncomingMessage): number | null {
  const text = request.headers['content-length'];
  return text === undefined ? null : Number(text);
}

/** Refuses a body whose declared length is above the limit (413), without reading it. */
export function checkDeclaredLength(request: IncomingMessage, limitBytes: number): void {
  const length = declaredLength(request);
  if (length !== null && length > limitBytes) throw tooLarge(limitBytes);
}

/**
 * Some clients send `Content-Encoding: gzip` with plain JSON, which nodes accept. So do we: only a body that is really encoded is refused
 * (415). It is not decoded, because nodes do not accept encoded bodies either, and a decoder could be abused to exhaust memory.
 */
export function checkBodyEncoding(request: IncomingMessage, body: Buffer): void {
  const encoding = request.headers['content-encoding'];
  if (encoding === undefined || /^\s*(identity)?\s*$/i.test(encoding) || beginsLikeJson(withoutMark(body))) return;
  throw new RequestError(415, 'Unsupported content encoding');
}

/** No common compression format starts with white space or the first character of a JSON value. */
function beginsLikeJson(body: Buffer): boolean {
  return body.length === 0 || /^[\s{["tfn\d-]/.test(body.toString('latin1', 0, 1));
}

/**
 * Reads the whole body. Throws 413 as soon as it exceeds the limit, the error of `take` if the bytes do not fit a budget, and
 * `BodyAborted` when the connection breaks. The request timeout of the listener bounds its duration.
 */
export function readBody(request: IncomingMessage, limitBytes: number, take: (bytes: number) => void): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    let over = false;
    const refuse = (error: unknown) => {
      over = true;
      chunks.length = 0;
      request.pause();
      reject(error);
    };
    // The listeners stay: removing them would cost more than their last calls.
    request.on('data', (chunk: Buffer) => {
      if (over) return;
      size += chunk.length;
      if (size > limitBytes) {
        refuse(tooLarge(limitBytes));
        return;
      }
      try {
        take(chunk.length);
        chunks.push(chunk);
      } catch (error) {
        refuse(error);
      }
    });
    request.on('end', () => {
      if (over) return;
      over = true;
      resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, size));
    });
    request.on('close', () => {
      if (!over) reject(new BodyAborted());
    });
    if (request.destroyed && !request.readableEnded) reject(new BodyAborted());
  });
}

/** Skips a byte-order mark at the start. */
export function withoutMark(body: Buffer): Buffer {
  return body.length >= 3 && body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf ? body.subarray(3) : body;
}

/** Parses a JSON body; throws 400 `Invalid JSON body` for anything else. */
export function parseJsonBody(bytes: Buffer): unknown {
  const body = withoutMark(bytes);
  if (!isUtf8(body)) throw new RequestError(400, 'Invalid JSON body', { details: 'The body is not UTF-8' });
  if (exceeds(body, { depth: MAX_JSON_DEPTH }))
    throw new RequestError(400, 'Invalid JSON body', { details: `Nested deeper than ${MAX_JSON_DEPTH} levels` });
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    throw new RequestError(400, 'Invalid JSON body');
  }
}
