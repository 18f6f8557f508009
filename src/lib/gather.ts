import type { Readable } from 'node:stream';

/** The beginning of a body, or all of it. */
export interface Gathered {
  readonly bytes: Buffer;
  /** Whether `bytes` is the whole body. Otherwise the stream stands behind them, paused. */
  readonly ended: boolean;
}

/**
 * Reads until the body ends or more than `limitBytes` have come. Rejects with the stream's error; the stream is destroyed then
 * by its owner. At most one chunk beyond the limit is held. `count` is called with the bytes so far; what it throws is the rejection.
 */
export function gather(body: Readable, limitBytes: number, count?: (bytes: number) => void): Promise<Gathered> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let total = 0;
    const finish = (ended: boolean) => {
      detach();
      resolve({ bytes: chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, total), ended });
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
  });
}
