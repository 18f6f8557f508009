import type { Dispatcher, Pool } from 'undici';
import type { Clock } from '../../ports/clock.ts';
import type { OutboundRequest, OutboundResponse } from '../../ports/outbound.ts';
import { outboundError, toOutboundError } from './failure.ts';

type Headers = Parameters<NonNullable<Dispatcher.DispatchHandler['onResponseStart']>>[2];

/**
 * One request and its answer on a pool. `remainingMs` is what is left of the deadline; it covers the wait for a socket,
 * connect, TLS, headers and body.
 */
export function exchange(
  pool: Pool,
  path: string,
  request: OutboundRequest,
  remainingMs: number,
  clock: Clock,
): Promise<OutboundResponse> {
  return new Promise((resolve, reject) => {
    let controller: Dispatcher.DispatchController | null = null;
    let response: { status: number; headers: Headers } | null = null;
    let settled = false;
    let seenBytes = 0;
    const kept: Buffer[] = [];
    let keptBytes = 0;

    const finish = (deliver: () => void, cutOff: boolean): void => {
      if (settled) return;
      settled = true;
      cancelTimer();
      request.signal?.removeEventListener('abort', onDeadline);
      if (cutOff) controller?.abort(outboundError('OUTBOUND_TIMEOUT'));
      deliver();
    };
    const answer = (cutOff: boolean, complete: boolean): void => {
      const { status, headers } = response ?? { status: 0, headers: {} };
      const body = kept.length === 1 ? (kept[0] ?? Buffer.alloc(0)) : Buffer.concat(kept);
      const truncated = !complete || seenBytes > keptBytes;
      finish(() => resolve({ status, headers: flatten(headers), body, truncated }), cutOff);
    };
    const fail = (error: unknown, cutOff: boolean): void => {
      // Status and headers are there: what happened to the body later does not change what the other side said.
      if (response !== null && request.bodyOptional === true) answer(cutOff, false);
      else finish(() => reject(toOutboundError(error)), cutOff);
    };
    const onDeadline = (): void => fail(outboundError('OUTBOUND_TIMEOUT'), true);

    const cancelTimer = clock.timeout(remainingMs, onDeadline);
    if (request.signal?.aborted === true) return onDeadline();
    request.signal?.addEventListener('abort', onDeadline, { once: true });
    pool.dispatch(
      { method: request.method, path, headers: request.headers ?? {}, body: request.body ?? null, blocking: false },
      {
        onRequestStart(started) {
          controller = started;
          // The deadline passed while the request waited for a socket: it is taken back before a byte is written.
          if (settled) started.abort(outboundError('OUTBOUND_TIMEOUT'));
        },
        onResponseStart(_controller, status, headers) {
          if (status >= 200) response = { status, headers };
        },
        onResponseData(_controller, chunk) {
          seenBytes += chunk.length;
          const room = request.keepBytes - keptBytes;
          if (room > 0) {
            // A copy: the parser reuses its memory.
            const part = Buffer.from(chunk.subarray(0, room));
            kept.push(part);
            keptBytes += part.length;
          }
          if (seenBytes > request.maxBytes) fail(outboundError('OUTBOUND_TOO_LARGE'), true);
        },
        onResponseEnd: () => answer(false, true),
        onResponseError: (_controller, error) => fail(error, false),
      },
    );
  });
}

function flatten(headers: Headers): Readonly<Record<string, string>> {
  const flat: Record<string, string> = Object.create(null);
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) flat[name.toLowerCase()] = typeof value === 'string' ? value : value.join(', ');
  }
  return flat;
}
