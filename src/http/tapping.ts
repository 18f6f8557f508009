import type { Readable } from 'node:stream';
import { maskQuery } from '../lib/mask-keys.ts';
import type { TappedRequest, Tapping, TapSeat, WholeAnswer } from '../ports/answer-tap.ts';
import type { Exchange } from './exchange.ts';
import { credentialsOf } from './query.ts';

type Body = string | Buffer | Readable | null;

/** Lets the tap choose an admitted request. Without a tap it costs a comparison. */
export function beginTap({ tap }: TapSeat, exchange: Exchange, body: Buffer | null): void {
  if (tap === null) return;
  const name = `${exchange.request.method ?? ''} ${exchange.route}`;
  if (!tap.wants(name)) return;
  const request = withoutKey(exchange, name, body);
  if (request !== null) exchange.tapping = tap.begin(request);
}

/** Null: the key of the client stands where it cannot be removed, such as in the path or the body. */
function withoutKey({ request, target }: Exchange, name: string, body: Buffer | null): TappedRequest | null {
  const { query, header, bearer } = credentialsOf(target.query, request.headers);
  const keys = [...query, header, bearer].filter((key) => key !== undefined && key !== '');
  const rest = target.query
    .split('&')
    .filter((part) => part !== '' && !maskQuery(part).endsWith('=***'))
    .join('&');
  const isInside = keys.some((key) => target.path.includes(key!) || rest.includes(key!) || body?.includes(key!));
  return isInside ? null : { name, path: target.path, query: rest, body };
}

interface Sendable {
  readonly status: number;
  readonly contentType: string | null;
  readonly body: Body;
}

/** Hands our answer over. True: `send` is called later, with the answer of the reference or with ours. */
export function sendsLater(tapping: Tapping, own: Sendable, send: (answer: Sendable) => void): boolean {
  if (tapping.instead === null) {
    hearAnswer(tapping, own.status, own.body);
    return false;
  }
  void tapping.instead.then((other) => {
    hearAnswer(tapping, own.status, own.body);
    if (other === null) return send(own);
    // Ours flows on into the comparison.
    if (own.body !== null && typeof own.body === 'object' && !Buffer.isBuffer(own.body)) own.body.resume();
    send({ status: other.status, contentType: OTHER_TYPE, body: other.body });
  });
  return true;
}

const OTHER_TYPE = 'application/json; charset=utf-8';

/** Hands over the answer that is about to be sent; a stream is collected while it flows. */
function hearAnswer(tapping: Tapping, status: number, body: Body): void {
  if (body === null || typeof body === 'string' || Buffer.isBuffer(body)) {
    const isWhole = body !== null && body.length <= tapping.maxAnswerBytes;
    tapping.answered(isWhole ? { status, body } : null);
    return;
  }
  const chunks: Buffer[] = [];
  let bytes = 0;
  let isOver = false;
  const end = (answer: WholeAnswer | null) => {
    if (!isOver) tapping.answered(answer);
    isOver = true;
  };
  body.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes <= tapping.maxAnswerBytes) chunks.push(chunk);
    else chunks.length = 0;
  });
  body.once('end', () => end(bytes <= tapping.maxAnswerBytes ? { status, body: Buffer.concat(chunks, bytes) } : null));
  body.once('close', () => end(null));
}
