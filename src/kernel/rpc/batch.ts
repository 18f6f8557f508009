import type { Readable } from 'node:stream';
import { rpcErrorText } from './envelope.ts';
import type { Executed } from './execute.ts';

const TOO_LARGE = { code: -32603, message: 'Internal error', status: 200, details: 'batch answer too large' };
const BROKEN = { code: -32002, message: 'Service unavailable', status: 200, details: 'The upstream answer broke off' };

export interface BatchTask {
  /** Raw JSON text; undefined for a notification, whose answer is dropped. */
  readonly id: string | undefined;
  run(): Promise<Executed>;
}

export interface BatchItem {
  /** Null for notifications. */
  readonly body: Buffer | null;
  readonly charged: boolean;
  readonly ok: boolean;
}

/**
 * Runs the items of a batch, at most `concurrency` at once, and gives their answers in request order. The answers together stay
 * within `maxBytes`: an item that no longer fits is answered with an error of a few bytes instead.
 */
export async function runBatch(
  tasks: readonly BatchTask[],
  limits: { readonly concurrency: number; readonly maxBytes: number },
): Promise<BatchItem[]> {
  const items = new Array<BatchItem>(tasks.length);
  let next = 0;
  let roomBytes = limits.maxBytes;

  const worker = async () => {
    for (let i = next++; i < tasks.length; i = next++) {
      const task = tasks[i] as BatchTask;
      const executed = await task.run();
      if (task.id === undefined) {
        discard(executed.body);
        items[i] = { body: null, charged: executed.charged, ok: executed.ok };
        continue;
      }
      const body = await collect(executed.body, roomBytes);
      if (Buffer.isBuffer(body) && body.length <= roomBytes) {
        roomBytes -= body.length;
        items[i] = { body, charged: executed.charged, ok: executed.ok };
      } else {
        const fault = body === 'broken' ? BROKEN : TOO_LARGE;
        items[i] = { body: Buffer.from(rpcErrorText(fault, task.id)), charged: false, ok: false };
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(limits.concurrency, tasks.length) }, worker));
  return items;
}

/** Joins answers into one JSON array; null when there is none. */
export function joinBatch(items: readonly BatchItem[]): Buffer | null {
  const parts: Buffer[] = [];
  const comma = Buffer.from(',');
  for (const item of items) {
    if (item.body === null) continue;
    parts.push(parts.length === 0 ? Buffer.from('[') : comma, item.body);
  }
  if (parts.length === 0) return null;
  parts.push(Buffer.from(']'));
  return Buffer.concat(parts);
}

export function discard(body: Executed['body']): void {
  if (typeof body !== 'string' && !Buffer.isBuffer(body)) body.destroy();
}

async function collect(body: string | Buffer | Readable, maxBytes: number): Promise<Buffer | 'too-large' | 'broken'> {
  if (typeof body === 'string') return Buffer.from(body);
  if (Buffer.isBuffer(body)) return body;
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of body) {
      size += (chunk as Buffer).length;
      if (size > maxBytes) return 'too-large';
      chunks.push(chunk as Buffer);
    }
    return Buffer.concat(chunks, size);
  } catch {
    return 'broken';
  }
}
