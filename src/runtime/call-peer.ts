import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';

export interface PeerCall {
  readonly method?: string;
  readonly headers?: Headers | Record<string, string>;
  readonly body?: string | Uint8Array;
  readonly signal?: AbortSignal;
  /** How long the peer may send nothing, before the answer and within it; default: five minutes, as with `fetch`. */
  readonly silenceMs?: number;
}

/** `Response` takes no body with these. */
const WITHOUT_BODY: readonly number[] = [204, 205, 304];
const MAX_STATUS = 599;
const SILENCE_MS = 300_000;

/**
 * Asks a server of somebody else, as `fetch` does: Node's own closes the connection at an answer `100 Continue` that it did not ask for, which
 * RFC 9110 15.2 wants a client to skip. For what is asked seldom: upstreams and receivers have pools of their own. A redirect is an answer.
 * Errors: of the socket, or the reason of the signal.
 */
export async function callPeer(address: string | URL, call: PeerCall = {}): Promise<Response> {
  const { method = 'GET', body, signal, silenceMs = SILENCE_MS } = call;
  signal?.throwIfAborted();
  const url = new URL(address);
  const headers = { accept: '*/*', 'user-agent': 'parhelion', ...Object.fromEntries(new Headers(call.headers)) };
  const { request } = await (url.protocol === 'https:' ? import('node:https') : import('node:http'));
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    const asked = request(url, { method, headers, ...(signal === undefined ? {} : { signal }) }, resolve);
    asked.setTimeout(silenceMs, () => asked.destroy(new Error('the peer has stopped sending')));
    asked.on('error', (error) => reject(signal?.aborted === true ? signal.reason : error));
    // An answer that changes the protocol ends the connection and is no error.
    asked.on('close', () => reject(new Error('the connection was closed before an answer')));
    asked.end(body);
  });
  const status = answer.statusCode ?? 0;
  if (status > MAX_STATUS) {
    answer.destroy();
    throw new Error(`the answer has the status ${status}`);
  }
  const given = new Headers();
  for (let at = 0; at < answer.rawHeaders.length; at += 2)
    given.append(answer.rawHeaders[at]!, answer.rawHeaders[at + 1]!);
  if (!WITHOUT_BODY.includes(status))
    return new Response(Readable.toWeb(answer) as ReadableStream<Uint8Array>, { status, headers: given });
  answer.resume();
  return new Response(null, { status, headers: given });
}
