import type { Readable } from 'node:stream';
import { decode32Into } from '../../src/lib/base58.ts';
import { gather } from '../../src/lib/gather.ts';
import { skipBlanks } from '../../src/lib/json.ts';
import { readRpcReply, rpcRequest } from '../../src/lib/json-rpc.ts';
import { RpcReplyScan } from '../../src/lib/rpc-reply-scan.ts';
import { type Clock, codeOf, GateRefusal, RpcError, type UpstreamPool } from '../../src/plugin/plugin.ts';
import type { Tenant } from '../../src/ports/access.ts';
import { retryAfterMs } from '../../src/runtime/waiting.ts';
import {
  isFinalAnswer,
  isMoreUseful,
  meaningOfNodeError,
  type NodeErrorLike,
  type NodeErrorMeaning,
  outcomeOf,
} from '../../src/solana/node-errors.ts';

const PAUSE_MS = 200;
/** Longest Retry-After that is respected. */
const MAX_PAUSE_MS = 300_000;
/** Answers up to this size are parsed as a whole, for what they refuse. */
const SMALL_BYTES = 65_536;

export interface UpstreamCallOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly tenant: Tenant;
}

export interface Nodes {
  /** The bytes of the result. Throws RpcError. */
  result(method: string, params: readonly unknown[], options: UpstreamCallOptions): Promise<Buffer>;
  /** The keys of a list that is read as it comes, and the slot that it is of. `count` gets the number read so far, and may throw. */
  keys(
    method: string,
    params: readonly unknown[],
    options: UpstreamCallOptions & { readonly maxBytes: number; readonly count: (keys: number) => void },
  ): Promise<{ readonly scan: KeyScan; readonly slot: number | null }>;
}

/** An answer that cannot be used. */
class TryNext extends Error {}

/** A node refuses because of itself; another one may answer. */
class Refused extends Error {
  readonly meaning: NodeErrorMeaning;

  constructor(meaning: NodeErrorMeaning, message: string) {
    super(message);
    this.meaning = meaning;
  }
}

export function createNodes(pool: UpstreamPool, clock: Clock, limits: { readonly maxUpstreamBytes: number }): Nodes {
  /** Asks one node after the other until `read` is content. */
  async function ask<T>(
    method: string,
    params: readonly unknown[],
    options: UpstreamCallOptions & { readonly maxBytes: number },
    read: (body: Readable) => Promise<T>,
  ): Promise<T> {
    const body = rpcRequest(method, params);
    const untilMs = clock.monotonic() + options.timeoutMs;
    let refused: Refused | null = null;
    for (;;) {
      let isBehind = false;
      const ready = pool.candidates({ exceptLimited: true });
      for (const upstream of ready.length > 0 ? ready : pool.candidates()) {
        options.signal.throwIfAborted();
        const timeoutMs = Math.ceil(untilMs - clock.monotonic());
        if (timeoutMs <= 0) throw new RpcError('timeout');
        let pauseMs: number | null = null;
        try {
          const { maxBytes: most, signal, tenant } = options;
          const reply = await pool.send(upstream, { body, timeoutMs, maxBytes: most, isRead: true, signal, tenant });
          pauseMs = retryAfterMs(reply.headers['retry-after'], null, MAX_PAUSE_MS);
          if (reply.status !== 200 && reply.status !== 400) {
            reply.body.on('error', () => undefined).destroy();
            if (reply.status === 429) throw new Limited(pauseMs);
            throw new TryNext(`status ${reply.status}`);
          }
          const found = await read(reply.body);
          pool.report(upstream, { kind: 'ok' });
          return found;
        } catch (error) {
          if (options.signal.aborted || error instanceof GateRefusal) throw error;
          if (error instanceof RpcError) throw error;
          if (codeOf(error) === 'UPSTREAM_TOO_LARGE') {
            throw new RpcError('internal', {
              details: `the answer of the upstream is larger than ${options.maxBytes} bytes`,
            });
          }
          if (error instanceof Refused) {
            if (refused === null || isMoreUseful(error.meaning, refused.meaning)) refused = error;
            if (error.meaning === 'not-yet') isBehind = true;
            pool.report(upstream, outcomeOf(error.meaning, pauseMs));
          } else if (error instanceof Limited) pool.report(upstream, { kind: 'limited', retryAfterMs: error.pauseMs });
          else pool.report(upstream, { kind: 'failed', reason: `no usable answer to ${method}` });
        }
      }
      // Nodes that lag come to the slot of the list within seconds.
      if (!isBehind || clock.monotonic() + PAUSE_MS >= untilMs) break;
      await clock.sleep(PAUSE_MS, options.signal);
    }
    throw refused === null ? new RpcError('unavailable', { retryAfterS: 1 }) : refusalOf(refused);
  }

  return {
    result: (method, params, options) =>
      ask(method, params, { ...options, maxBytes: limits.maxUpstreamBytes }, async (body) => {
        const { bytes } = await gather(body, limits.maxUpstreamBytes);
        return resultOf(bytes, method);
      }),
    keys: (method, params, options) =>
      ask(method, params, options, async (body) => {
        const scan = createKeyScan();
        // Long answers are checked as they come: a part of a list is not a shorter list.
        const reply = new RpcReplyScan(OUR_ID);
        const head: Buffer[] = [];
        let size = 0;
        try {
          for await (const chunk of body as AsyncIterable<Buffer>) {
            if (size < SMALL_BYTES) head.push(chunk);
            size += chunk.length;
            scan.take(chunk);
            options.count(scan.count);
            const fault = reply.take(chunk);
            if (fault !== null && size > SMALL_BYTES) throw new TryNext(fault);
          }
        } catch (error) {
          body.destroy();
          throw error instanceof RangeError ? new TryNext(error.message) : error;
        }
        if (size <= SMALL_BYTES) resultOf(Buffer.concat(head), method);
        const fault = reply.end() ?? (reply.hasError ? 'an error longer than a list' : null);
        if (fault !== null) throw new TryNext(fault);
        // The context stands at the beginning of what nodes send; where it does not, pages are of any slot.
        const slot = /"context"\s*:\s*\{[^{}]*"slot"\s*:\s*(\d{1,15})/.exec(
          Buffer.concat(head).subarray(0, 4_096).toString('latin1'),
        )?.[1];
        return { scan, slot: slot === undefined ? null : Number(slot) };
      }),
  };
}

/** HTTP 429. */
class Limited extends Error {
  readonly pauseMs: number | null;

  constructor(pauseMs: number | null) {
    super('rate limited');
    this.pauseMs = pauseMs;
  }
}

/** JSON-RPC id of the requests that this module sends. */
const OUR_ID = '1';

/** Throws what the node refused: RpcError when it is about the call, else Refused. */
function resultOf(bytes: Buffer, method: string): Buffer {
  const parts = readRpcReply(bytes);
  if (parts === null) throw new TryNext('no JSON-RPC answer');
  const { id, result, error } = parts;
  const idText = id === null ? 'null' : bytes.toString('utf8', id.start, id.end);
  if (idText !== OUR_ID && (result !== null || idText !== 'null')) throw new TryNext('the answer to another call');
  if (result !== null) return bytes.subarray(result.start, result.end);
  const refusal = JSON.parse(bytes.toString('utf8', error!.start, error!.end)) as NodeErrorLike;
  const meaning = meaningOfNodeError(refusal, method);
  const details = `the node refuses: ${String(refusal.message).slice(0, 300)}`;
  if (isFinalAnswer(meaning)) throw new RpcError('invalidParams', { details });
  throw new Refused(meaning, details);
}

/** What the caller gets when no node answers. */
function refusalOf({ meaning, message: details }: Refused): RpcError {
  if (meaning === 'no-index') return new RpcError('invalidParams', { details });
  if (meaning === 'not-offered') return new RpcError('methodNotFound', { details });
  return new RpcError('unavailable', meaning === 'not-yet' ? { retryAfterS: 1 } : { details, retryAfterS: 1 });
}

const KEY_BYTES = 32;
/** Keys of one chunk of a list that grows: it never has to be copied. */
export const CHUNK_KEYS = 32_768;
const MARK = Buffer.from('"pubkey"');
/** Longest text between the mark and the end of its key, blanks included. */
const TAIL_BYTES = 256;
const QUOTE = 0x22;
const COLON = 0x3a;

/** Finds the keys in the answer of getProgramAccounts or getTokenAccountsByOwner as it comes, without parsing it. */
export interface KeyScan {
  readonly count: number;
  /** Throws RangeError for an invalid key. */
  take(chunk: Buffer): void;
  /** The keys in order of appearance. */
  finish(): KeyChunks;
}

export interface KeyChunks {
  readonly chunks: readonly Uint8Array[];
  readonly count: number;
}

function createKeyScan(): KeyScan {
  const chunks: Uint8Array[] = [];
  let count = 0;
  let carried: Buffer = Buffer.alloc(0);

  function add(text: string): void {
    const place = count % CHUNK_KEYS;
    if (place === 0) chunks.push(new Uint8Array(CHUNK_KEYS * KEY_BYTES));
    if (!decode32Into(text, chunks[chunks.length - 1]!, place * KEY_BYTES)) throw new RangeError(`${text} is no key`);
    count += 1;
  }

  return {
    get count() {
      return count;
    },
    take(chunk) {
      const bytes = carried.length === 0 ? chunk : Buffer.concat([carried, chunk]);
      let from = 0;
      for (;;) {
        const mark = bytes.indexOf(MARK, from);
        if (mark < 0) break;
        const key = keyBehind(bytes, mark + MARK.length);
        if (key === 'cut' && bytes.length - mark < TAIL_BYTES) {
          carried = Buffer.from(bytes.subarray(mark));
          return;
        }
        const found = key === 'cut' ? null : key;
        if (found !== null) add(bytes.toString('latin1', found.start, found.end));
        from = found?.end ?? mark + MARK.length;
      }
      carried = Buffer.from(bytes.subarray(Math.max(from, bytes.length - MARK.length + 1)));
    },
    finish: () => ({ chunks, count }),
  };
}

/** The text of the string that follows as the value; null when something else does. */
function keyBehind(bytes: Buffer, from: number): { readonly start: number; readonly end: number } | 'cut' | null {
  let at = skipBlanks(bytes, from);
  if (at >= bytes.length) return 'cut';
  if (bytes[at] !== COLON) return null;
  at = skipBlanks(bytes, at + 1);
  if (at >= bytes.length) return 'cut';
  if (bytes[at] !== QUOTE) return null;
  const end = bytes.indexOf(QUOTE, at + 1);
  return end < 0 ? 'cut' : { start: at + 1, end };
}
