import type { IncomingMessage } from 'node:http';
import type { Deadlines } from '../calls/deadlines.ts';
import { BodyAborted } from './body.ts';
import type { Exchange } from './exchange.ts';
import type { InFlight } from './in-flight.ts';

/** How much of a body is read to find the id for the refusal of its key. */
const PEEK_BYTES = 16_384;
/** And for how long. */
const PEEK_MS = 1_000;

export interface PeekParts {
  readonly deadlines: Deadlines;
  readonly inFlight: Pick<InFlight, 'setBusy'>;
}

export interface Peeked {
  readonly bytes: Buffer;
  /** The whole body is in `bytes`. */
  readonly complete: boolean;
  /** The part in which an id is looked for. */
  readonly head: Buffer;
}

/**
 * Reads the first bytes of a body and no more, and does not wait long: a refusal echoes the id of the call where it can. The
 * request stays paused when there are more. Throws BodyAborted when the client has gone.
 */
export async function peekCall({ deadlines, inFlight }: PeekParts, exchange: Exchange): Promise<Peeked> {
  inFlight.setBusy(exchange, false);
  const peeked = await peek(exchange, deadlines);
  inFlight.setBusy(exchange, true);
  return { ...peeked, head: peeked.bytes.subarray(0, PEEK_BYTES) };
}

function peek(
  exchange: Exchange,
  deadlines: Deadlines,
): Promise<{ readonly bytes: Buffer; readonly complete: boolean }> {
  const { request, response } = exchange;
  if (exchange.expectsContinue) response.writeContinue();
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const done = (complete: boolean) => {
      stop();
      resolve({ bytes: Buffer.concat(chunks, size), complete });
    };
    const onData = (chunk: Buffer) => {
      chunks.push(chunk);
      size += chunk.length;
      if (size < PEEK_BYTES) return;
      request.pause();
      done(isComplete(request));
    };
    const onEnd = () => done(true);
    const onClose = () => {
      stop();
      reject(new BodyAborted());
    };
    const cancel = deadlines.watch(PEEK_MS, () => {
      request.pause();
      done(false);
    });
    const stop = () => {
      cancel();
      request.off('data', onData);
      request.off('end', onEnd);
      request.off('close', onClose);
    };
    request.on('data', onData);
    request.on('end', onEnd);
    request.on('close', onClose);
  });
}

function isComplete(request: IncomingMessage): boolean {
  return request.complete && request.readableLength === 0;
}
