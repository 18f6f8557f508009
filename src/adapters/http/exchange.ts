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
    const running = new Exchange(request, resolve, reject);
    if (request.signal?.aborted === true) return running.onDeadline();
    running.arm(clock, remainingMs);
    const { method, headers = {}, body = null } = request;
    pool.dispatch({ method, path, headers, body, blocking: false }, running);
  });
}

/** A class, unlike the factories elsewhere: there is one for every request, and its methods then exist once. */
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
    // The deadline passed while the request waited for a socket: it is taken back before a byte is written.
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
      // A copy: the parser reuses its memory.
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

  /** Whether this was the first end. */
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
    // Status and headers are there: what happened to the body later does not change what the other side said.
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
