import type { Clock } from '../../../src/plugin/plugin.ts';
import type { Tenant } from '../../../src/ports/access.ts';

export interface IncomingOptions {
  /** Undefined when nothing is counted. */
  readonly tenant: Tenant;
  readonly clock: Clock;
  /** Largest message of a client. */
  readonly maxMessageBytes: () => number;
  /** Largest message that is no subscription of a kind that may be large. */
  readonly maxCallBytes: () => number;
  /** Whether the parameters of subscriptions by this method may be larger than a call. */
  readonly isLarge: (method: string) => boolean;
  /** Time from the first byte of a message to its last. */
  readonly messageTimeoutMs: () => number;
  /** Whether we are the ones who do not read. */
  readonly isPaused: () => boolean;
  /** Ends the connection; called once. */
  refuse(code: number, reason: string): void;
}

/** Bytes that a frame or a chunk of an unfinished message takes beside its payload. */
const PIECE_BYTES = 128;
/** First bytes of a message, in which its method is looked for. */
const HEAD_BYTES = 1_024;
const MAX_FRAME_HEAD_BYTES = 14;
const METHOD = /"method"\s*:\s*"(\w{1,64})"/;

/**
 * What a client has sent of a message that is not complete (RFC 6455, section 5.2). The library keeps such bytes until the last one has
 * come, so they count as `requestBytes` of the tenant from the first one, and have a deadline. It is given every chunk before the library.
 */
export class IncomingMessages {
  readonly #options: IncomingOptions;
  readonly #lease: ReturnType<Tenant['take']> | undefined;
  #isOver = false;
  /** Head of the frame that is being read; empty between frames. */
  readonly #frameHead = Buffer.alloc(MAX_FRAME_HEAD_BYTES);
  #frameHeadBytes = 0;
  /** Bytes of the head of this frame, or null until its second byte is known. */
  #frameHeadSize: number | null = null;
  #payloadLeft = 0;
  #payloadAt = 0;
  /** A data message has begun and its last frame has not ended. */
  #isOpen = false;
  /** Payload of the open message. */
  #messageBytes = 0;
  /** Frames and chunks of the open message. */
  #pieces = 0;
  /** First bytes of the open message, without their mask. */
  readonly #first = Buffer.alloc(HEAD_BYTES);
  /** Counted for messages that have ended and are not handed over yet. */
  #endedBytes = 0;
  #cancelDeadline: (() => void) | null = null;

  constructor(options: IncomingOptions) {
    this.#options = options;
    this.#lease = options.tenant.take('requestBytes', 0);
  }

  /** Bytes that came from the client, in order. */
  feed(chunk: Buffer): void {
    if (this.#isOver) return;
    let at = 0;
    if (this.#isOpen) this.#pieces += 1;
    while (at < chunk.length && !this.#isOver) {
      if (this.#payloadLeft > 0) at = this.#payload(chunk, at);
      else at = this.#head(chunk, at);
    }
    if (this.#isOver) return;
    const isUnfinished = this.#isOpen || this.#frameHeadBytes > 0;
    if (isUnfinished) this.#watch();
    else this.#stopWatching();
    this.#count();
  }

  /** The library hands over what has ended: from here on its handler counts it. */
  handedOver(): void {
    this.#endedBytes = 0;
    if (!this.#isOver) this.#count();
  }

  /** The connection has closed. */
  end(): void {
    this.#isOver = true;
    this.#stopWatching();
    this.#lease?.release();
  }

  #head(chunk: Buffer, from: number): number {
    let at = from;
    while (at < chunk.length) {
      this.#frameHead[this.#frameHeadBytes] = chunk[at] as number;
      this.#frameHeadBytes += 1;
      at += 1;
      if (this.#frameHeadBytes === 2) this.#frameHeadSize = sizeOfHead(this.#frameHead[1] as number);
      if (this.#frameHeadBytes !== this.#frameHeadSize) continue;
      this.#payloadLeft = payloadSize(this.#frameHead);
      this.#payloadAt = 0;
      if (this.#isData()) {
        this.#isOpen = true;
        this.#pieces += 1;
      }
      if (this.#payloadLeft === 0) this.#frameEnded();
      return at;
    }
    return at;
  }

  #payload(chunk: Buffer, from: number): number {
    const taken = Math.min(this.#payloadLeft, chunk.length - from);
    const isData = this.#isData();
    if (isData) this.#keepFirst(chunk, from, taken);
    this.#payloadLeft -= taken;
    this.#payloadAt += taken;
    if (isData) {
      this.#messageBytes += taken;
      this.#demandSize();
    }
    if (this.#payloadLeft === 0) this.#frameEnded();
    return from + taken;
  }

  #keepFirst(chunk: Buffer, from: number, taken: number): void {
    const most = Math.min(HEAD_BYTES, this.#messageBytes + taken);
    const size = this.#frameHeadSize ?? 0;
    const isMasked = ((this.#frameHead[1] as number) & 0x80) !== 0;
    for (let i = this.#messageBytes, n = 0; i < most; i += 1, n += 1) {
      const mask = isMasked ? (this.#frameHead[size - 4 + ((this.#payloadAt + n) % 4)] as number) : 0;
      this.#first[i] = (chunk[from + n] as number) ^ mask;
    }
  }

  /** What will not be accepted is not collected either. */
  #demandSize(): void {
    const { maxCallBytes, maxMessageBytes, isLarge } = this.#options;
    // The rest of this frame belongs to the message.
    const bytes = this.#messageBytes + this.#payloadLeft;
    if (bytes <= maxCallBytes()) return;
    const method = METHOD.exec(this.#first.toString('latin1', 0, Math.min(HEAD_BYTES, this.#messageBytes)))?.[1];
    const isKnown = method !== undefined || this.#messageBytes >= HEAD_BYTES;
    const most = isKnown && (method === undefined || !isLarge(method)) ? maxCallBytes() : maxMessageBytes();
    if (bytes > most) this.#refuse(1009, `a message of this kind has at most ${most} bytes`);
  }

  #isData(): boolean {
    return ((this.#frameHead[0] as number) & 0x08) === 0;
  }

  #frameEnded(): void {
    const isLast = ((this.#frameHead[0] as number) & 0x80) !== 0;
    this.#frameHeadBytes = 0;
    this.#frameHeadSize = null;
    if (!isLast || !this.#isData()) return;
    this.#endedBytes = this.#lease?.amount ?? 0;
    this.#isOpen = false;
    this.#messageBytes = 0;
    this.#pieces = 0;
    // The next message has a deadline of its own.
    this.#stopWatching();
  }

  #count(): void {
    const bytes = this.#isOpen ? this.#messageBytes + this.#pieces * PIECE_BYTES : 0;
    try {
      this.#lease?.set(this.#endedBytes + bytes);
    } catch {
      this.#refuse(1013, 'the project has too many bytes of unfinished messages');
    }
  }

  #watch(): void {
    this.#cancelDeadline ??= this.#options.clock.timeout(this.#options.messageTimeoutMs(), () => {
      this.#cancelDeadline = null;
      if (this.#options.isPaused()) this.#watch();
      else this.#refuse(1008, 'the message did not arrive in time');
    });
  }

  #stopWatching(): void {
    this.#cancelDeadline?.();
    this.#cancelDeadline = null;
  }

  /** What has come stays counted until the connection has closed. */
  #refuse(code: number, reason: string): void {
    this.#isOver = true;
    this.#stopWatching();
    this.#options.refuse(code, reason);
  }
}

function sizeOfHead(second: number): number {
  const length = second & 0x7f;
  return 2 + (length === 126 ? 2 : length === 127 ? 8 : 0) + ((second & 0x80) === 0 ? 0 : 4);
}

function payloadSize(head: Buffer): number {
  const length = (head[1] as number) & 0x7f;
  if (length === 126) return head.readUInt16BE(2);
  return length === 127 ? Number(head.readBigUInt64BE(2)) : length;
}
