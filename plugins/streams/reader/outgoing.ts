import type { StreamMeter, Tenant } from '../../../src/ports/access.ts';
import type { GrpcCall, StatusName } from '../grpc-server.ts';
import type { UpdateBatch } from '../hub/index.ts';

/** Bytes that are handed to the connection before it has sent the ones before. */
const IN_FLIGHT_BYTES = 1_048_576;
/** A replay reads on when fewer bytes wait for the client. */
const REPLAY_BYTES = 524_288;

/** How a call ends. */
export interface Ending {
  readonly status: StatusName;
  readonly message: string;
}

export interface OutgoingParts {
  readonly call: GrpcCall;
  readonly tenant: Tenant;
  /** Null: updates cost nothing. */
  readonly meter: StreamMeter | null;
  readonly maxQueuedBytes: number;
  /** The client does not keep up: what is queued is to be dropped, and the call to end. */
  readonly lagged: () => void;
  /** Its credits are used up, or unknown. */
  readonly end: (ending: Ending) => void;
}

/** The way of updates to one client: paid, queued, handed to its connection. */
export class Outgoing {
  readonly #parts: OutgoingParts;
  /** Updates that were not read before newer ones came: those of one block are shared by all readers, and leave at once. */
  readonly #held;
  #queue: UpdateBatch[] = [];
  #queuedBytes = 0;
  /** Bytes that were ever queued. */
  #queuedInAll = 0;
  /** Updates that wait while the credits are read; null while they are known. */
  #unpaid: { batches: UpdateBatch[]; bytes: number } | null;
  #isCounted = false;
  #ending: Ending | null = null;
  /** Continues a replay that waits until the connection has sent what it was given. */
  #resume: (() => void) | null = null;

  constructor(parts: OutgoingParts) {
    this.#parts = parts;
    this.#held = parts.tenant.take('answerBytes', 0);
    this.#unpaid = parts.meter === null ? null : { batches: [], bytes: 0 };
    if (parts.meter !== null) void this.#readCredits(parts.meter);
  }

  get isEnding(): boolean {
    return this.#ending !== null;
  }

  /** Bytes that were queued and not sent. */
  get #waiting(): number {
    return this.#queuedBytes + this.#parts.call.stream.writableLength;
  }

  get progress() {
    return { queued: this.#queuedInAll, sent: this.#queuedInAll - this.#waiting, isEnding: this.isEnding };
  }

  /** Updates, which have to be paid. */
  send(batch: UpdateBatch): void {
    const { meter } = this.#parts;
    if (meter === null) this.enqueue(batch);
    else if (this.#unpaid !== null) this.#hold(this.#unpaid, batch);
    else if (meter.affords(batch.messageBytes)) {
      meter.count(batch.messageBytes);
      this.enqueue(batch);
    } else {
      this.#unpaid = { batches: [], bytes: 0 };
      this.#hold(this.#unpaid, batch);
      void this.#readCredits(meter);
    }
  }

  /** What costs nothing. */
  enqueue(batch: UpdateBatch): void {
    const { call, maxQueuedBytes } = this.#parts;
    if (this.isEnding || call.stream.destroyed) return;
    const waiting = this.#waiting;
    // One update that is larger than the whole queue still reaches a client that keeps up.
    if ((waiting > 0 && waiting + batch.bytes.length > maxQueuedBytes) || !this.#holdsWaiting()) {
      this.#parts.lagged();
      return;
    }
    this.#queue.push(batch);
    this.#queuedBytes += batch.bytes.length;
    this.#queuedInAll += batch.bytes.length;
    this.pump();
  }

  /** Hands over what the connection takes. */
  pump(): void {
    const { call } = this.#parts;
    const { stream } = call;
    while (this.#queue.length > 0 && stream.writableLength < IN_FLIGHT_BYTES && !stream.destroyed) {
      const { bytes } = this.#queue.shift()!;
      this.#queuedBytes -= bytes.length;
      stream.write(bytes);
    }
    if (this.#held.amount > this.#waiting) this.#held.set(this.#waiting);
    if (this.#ending !== null && this.#queue.length === 0) call.end(this.#ending.status, this.#ending.message);
    if (this.#isReady) this.#wakeReplay();
  }

  /** Resolves when a replay may read on. */
  ready(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#isReady) resolve();
      else this.#resume = resolve;
    });
  }

  /** Takes nothing more; the call ends when what is queued has been handed over (`pump`). */
  finish(ending: Ending): void {
    this.#ending = ending;
  }

  drop(): void {
    this.#queue = [];
    this.#queuedBytes = 0;
  }

  /** The connection is closed. */
  close(): void {
    this.#wakeReplay();
    this.#held.release();
    this.#queue = [];
    this.#unpaid = null;
  }

  get #isReady(): boolean {
    return (
      this.#parts.call.stream.destroyed || this.isEnding || (this.#unpaid === null && this.#waiting < REPLAY_BYTES)
    );
  }

  #wakeReplay(): void {
    this.#resume?.();
    this.#resume = null;
  }

  /** Counts what is left of earlier turns, once a turn. False when it is more than the tenant may hold. */
  #holdsWaiting(): boolean {
    if (this.#isCounted) return true;
    this.#isCounted = true;
    queueMicrotask(() => {
      this.#isCounted = false;
    });
    try {
      this.#held.set(this.#waiting + (this.#unpaid?.bytes ?? 0));
      return true;
    } catch {
      return false;
    }
  }

  #hold(unpaid: { batches: UpdateBatch[]; bytes: number }, batch: UpdateBatch): void {
    unpaid.bytes += batch.bytes.length;
    if (unpaid.bytes <= this.#parts.maxQueuedBytes && this.#holdsWaiting()) {
      unpaid.batches.push(batch);
      return;
    }
    unpaid.batches = [];
    unpaid.bytes = 0;
    this.#parts.lagged();
  }

  async #readCredits(meter: StreamMeter): Promise<void> {
    const { end } = this.#parts;
    try {
      await meter.refresh();
    } catch {
      return end({ status: 'unavailable', message: 'try again later' });
    }
    const batches = this.#unpaid?.batches ?? [];
    this.#unpaid = null;
    for (const batch of batches) {
      if (!meter.affords(batch.messageBytes)) return end({ status: 'resourceExhausted', message: 'max usage reached' });
      meter.count(batch.messageBytes);
      this.enqueue(batch);
    }
    if (this.#isReady) this.#wakeReplay();
  }
}
