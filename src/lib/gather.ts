import type { Readable } from 'node:stream';

/** The start of a body, or all of it. */
export interface GatheredBody {
  readonly bytes: Buffer;
  /** Whether `bytes` is the whole body. Otherwise the stream is paused, and still begins with them. */
  readonly ended: boolean;
}

/**
 * Reads until the body ends or more than `limitBytes` have arrived. Rejects with the error of the stream, which its owner then destroys.
 * Holds at most one chunk beyond the limit. `count` is called with the number of bytes so far; its errors reject the promise.
 */
export function gather(body: Readable, limitBytes: number, count?: (bytes: number) => void): Promise<GatheredBody> {
  return new Promise((resolve, reject) => {
    // It broke before: its events are over.
    if (body.destroyed) {
      reject(body.errored ?? new Error('the body was closed before its end'));
      return;
    }
    const chunks: Buffer[] = [];
    let total = 0;
    const finish = (ended: boolean) => {
      detach();
      const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, total);
      // Put back at once: a stream that has nothing more to read emits its end in the next tick, paused or not.
      if (!ended) body.unshift(bytes);
      resolve({ bytes, ended });
    };
    const onData = (chunk: Buffer) => {
      chunks.push(chunk);
      total += chunk.length;
      try {
        count?.(total);
      } catch (error) {
        onError(error as Error);
        return;
      }
      if (total <= limitBytes) return;
      body.pause();
      finish(false);
    };
    const onEnd = () => finish(true);
    const onError = (error: Error) => {
      detach();
      reject(error);
    };
    const onClose = () => onError(new Error('the body was closed before its end'));
    const detach = () => {
      body.off('data', onData).off('end', onEnd).off('error', onError).off('close', onClose);
    };
    body.on('end', onEnd).on('error', onError).on('close', onClose).on('data', onData);
    // An earlier call may have left it paused.
    body.resume();
  });
}
