import type { Readable } from 'node:stream';
import type { RpcBatchSeat } from '../../plugin/host.ts';
import type { Lease, Tenant } from '../../ports/access.ts';
import { faultOf, type RpcFault } from '../errors.ts';
import { type Executed, rpcErrorText } from './execute.ts';

const TOO_LARGE = { code: -32603, message: 'Internal error', status: 200, details: 'batch answer too large' };
const BROKEN = { code: -32002, message: 'Service unavailable', status: 200, details: 'The upstream answer broke off' };

/** One call of a batch. */
export interface BatchTask {
  /** Raw JSON text; undefined for a notification, whose answer is dropped. */
  readonly id: string | undefined;
  run(seat: RpcBatchSeat): Executed | Promise<Executed>;
}

export interface BatchItem {
  /** Null for notifications. */
  readonly body: Buffer | null;
  readonly charged: boolean;
  readonly credits?: number | undefined;
  readonly ok: boolean;
}

export interface BatchLimits {
  readonly concurrency: number;
  readonly maxBytes: number;
}

/**
 * Runs the items of a batch, at most `concurrency` at once besides those that wait for the others, and returns their answers in request
 * order. Their total size stays within `maxBytes` and the budget of `tenant`: an item that does not fit is answered with a short error.
 */
export async function runBatch(
  tasks: readonly BatchTask[],
  limits: BatchLimits,
  tenant: Tenant,
): Promise<readonly BatchItem[]> {
  const lease = tenant.take('answerBytes', 0);
  try {
    return await new BatchRun(tasks, limits, lease).items();
  } finally {
    lease.release();
  }
}

/** Each item is not begun, running, parked (it waits until all others are parked or answered), or answered. */
class BatchRun {
  readonly #tasks: readonly BatchTask[];
  readonly #concurrency: number;
  readonly #lease: Lease;
  readonly #items: BatchItem[];
  readonly #listeners: (() => void)[] = [];
  #roomBytes: number;
  #begun = 0;
  #running = 0;
  #answered = 0;
  #resolve: (items: readonly BatchItem[]) => void = () => undefined;
  #reject: (error: unknown) => void = () => undefined;

  constructor(tasks: readonly BatchTask[], { concurrency, maxBytes }: BatchLimits, lease: Lease) {
    this.#tasks = tasks;
    this.#concurrency = concurrency;
    this.#lease = lease;
    this.#roomBytes = maxBytes;
    this.#items = new Array<BatchItem>(tasks.length);
  }

  items(): Promise<readonly BatchItem[]> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      this.#go();
    });
  }

  /** Begins what may run, and tells those that wait when nothing runs any more. */
  #go(): void {
    while (this.#running < this.#concurrency && this.#begun < this.#tasks.length) {
      const index = this.#begun;
      this.#begun += 1;
      this.#running += 1;
      void this.#run(index);
    }
    if (this.#answered === this.#tasks.length) this.#resolve(this.#items);
    else if (this.#running === 0) for (const listener of this.#listeners.splice(0)) listener();
  }

  async #run(index: number): Promise<void> {
    let isParked = false;
    const seat: RpcBatchSeat = {
      batch: this,
      park: (listener) => {
        this.#listeners.push(listener);
        if (isParked) return;
        isParked = true;
        this.#running -= 1;
        // Not at once: the caller is not waiting yet.
        queueMicrotask(() => this.#go());
      },
      resume: () => {
        if (!isParked) return;
        isParked = false;
        this.#running += 1;
      },
    };
    try {
      const task = this.#tasks[index] as BatchTask;
      this.#items[index] = await this.#itemOf(task, await task.run(seat));
    } catch (error) {
      this.#reject(error);
    }
    seat.resume();
    this.#running -= 1;
    this.#answered += 1;
    this.#go();
  }

  async #itemOf({ id }: BatchTask, executed: Executed): Promise<BatchItem> {
    const { charged, credits, ok } = executed;
    if (id === undefined) {
      discardBody(executed.body);
      return { body: null, charged, credits, ok };
    }
    const body = await collect(executed.body, this.#roomBytes);
    const fault = this.#faultOf(body);
    if (fault !== null) return { body: Buffer.from(rpcErrorText(fault, id)), charged: false, ok: false };
    this.#roomBytes -= (body as Buffer).length;
    return { body: body as Buffer, charged, credits, ok };
  }

  /** Why the answer of an item cannot be part of the batch. Null if it can; it is then counted. */
  #faultOf(body: Buffer | 'too-large' | 'broken'): RpcFault | null {
    if (body === 'broken') return BROKEN;
    if (body === 'too-large' || body.length > this.#roomBytes) return TOO_LARGE;
    try {
      this.#lease.set(this.#lease.amount + body.length);
      return null;
    } catch (error) {
      return faultOf(error, '').rpc;
    }
  }
}

/** Joins answers into one JSON array; null if there are no answers. */
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

/** Ends an answer without a reader. */
export function discardBody(body: Executed['body']): void {
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
