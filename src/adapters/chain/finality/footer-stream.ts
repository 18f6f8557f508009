import { type ClientHttp2Session, connect } from 'node:http2';
import { messageOf } from '../../../lib/coded-error.ts';
import { ProtobufError, ProtobufReader, ProtobufWriter } from '../../../lib/protobuf.ts';
import type { FooterStream, StreamEnd } from '../../../ports/chain.ts';
import type { Clock } from '../../../ports/clock.ts';

export interface FooterStreamOptions {
  readonly url: string;
  /** Its `x-token`; null: none. */
  readonly token: string | null;
  readonly clock: Clock;
}

const CONNECT_TIMEOUT_MS = 10_000;
const KEEP_ALIVE_MS = 15_000;
/** A footer with three certificates of 2,000 signers is below 4 KiB. */
const MAX_MESSAGE_BYTES = 1_048_576;
/** Compressed or not, and the length. */
const FRAME_BYTES = 5;
/** Outcomes of gRPC that say something to the operator. */
const STATUS_NAMES: ReadonlyMap<string, string> = new Map([
  ['3', 'invalidArgument'],
  ['7', 'permissionDenied'],
  ['8', 'resourceExhausted'],
  ['12', 'unimplemented'],
  ['13', 'internal'],
  ['14', 'unavailable'],
  ['16', 'unauthenticated'],
]);
const FINALIZED = 2;
/** Members of `SubscribeRequest` and `SubscribeUpdate` (yellowstone-grpc-proto 14.0.1, proto/geyser.proto). */
const REQUEST = { commitment: 6, ping: 9, blockFooter: 12 } as const;
const UPDATE = { ping: 6, blockFooter: 12 } as const;

/**
 * Footers by a gRPC stream of our own: the client package that pushes blocks speaks an older proto, which has none
 * (@triton-one/yellowstone-grpc 7.0.1).
 */
export function createFooterStream({ url, token, clock }: FooterStreamOptions): FooterStream {
  return {
    open: ({ signal, onFooter }) =>
      new Promise<StreamEnd>((resolve) => {
        let isOver = false;
        let cancel = (): void => undefined;
        const onAbort = () => finish({ kind: 'failed', reason: 'stopped' });
        let session: ClientHttp2Session | null = null;

        function finish(end: StreamEnd): void {
          if (isOver) return;
          isOver = true;
          cancel();
          signal.removeEventListener('abort', onAbort);
          session?.destroy();
          resolve(end);
        }
        const failed = (reason: string) => finish({ kind: 'failed', reason });

        function status(headers: Readonly<Record<string, unknown>>): void {
          const code = headers['grpc-status'];
          if (code === undefined) return;
          failed(STATUS_NAMES.get(String(code)) ?? 'failed');
        }

        signal.addEventListener('abort', onAbort, { once: true });
        if (signal.aborted) {
          onAbort();
          return;
        }
        try {
          session = connect(url, { settings: { enablePush: false } });
        } catch (error) {
          failed(messageOf(error));
          return;
        }
        const opened = session;
        opened.on('error', () => failed('unavailable'));
        opened.once('close', () => failed('closed'));
        opened.once('goaway', () => failed('closed'));
        cancel = clock.timeout(CONNECT_TIMEOUT_MS, () => failed('timeout'));
        opened.once('remoteSettings', () => {
          cancel();
          cancel = keepAlive(opened, clock, () => failed('timeout'));
        });
        const call = opened.request({
          ':method': 'POST',
          ':path': '/geyser.Geyser/Subscribe',
          'content-type': 'application/grpc',
          te: 'trailers',
          ...(token === null ? {} : { 'x-token': token }),
        });
        call.on('response', status);
        call.on('trailers', status);
        call.on('error', () => failed('unavailable'));
        call.once('close', () => failed('closed'));
        let unread: Buffer = Buffer.alloc(0);
        call.on('data', (chunk: Buffer) => {
          if (isOver) return;
          try {
            unread = readFrames(unread.length === 0 ? chunk : Buffer.concat([unread, chunk]), (message) => {
              const footer = footerIn(message);
              if (footer === 'ping') call.write(framed(requestOf(true)));
              else if (footer !== null) onFooter(footer);
            });
          } catch {
            failed('malformed');
          }
        });
        call.write(framed(requestOf(false)));
      }),
  };
}

/** Ends a connection whose other side no longer answers, whatever TCP knows of it. The returned function stops it. */
function keepAlive(session: ClientHttp2Session, clock: Clock, lost: () => void): () => void {
  let isAnswered = true;
  const ping = (): void => {
    if (session.destroyed) return;
    if (!isAnswered) {
      lost();
      return;
    }
    isAnswered = false;
    session.ping(() => {
      isAnswered = true;
    });
    cancel = clock.timeout(KEEP_ALIVE_MS, ping);
  };
  let cancel = clock.timeout(KEEP_ALIVE_MS, ping);
  return () => cancel();
}

function framed(message: Buffer): Buffer {
  const head = Buffer.alloc(FRAME_BYTES);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

/** Hands over all whole messages and returns the rest. Throws ProtobufError: a message is too large, or compressed although nothing was accepted. */
function readFrames(bytes: Buffer, take: (message: Buffer) => void): Buffer {
  let at = 0;
  while (bytes.length - at >= FRAME_BYTES) {
    const size = bytes.readUInt32BE(at + 1);
    if (bytes[at] !== 0 || size > MAX_MESSAGE_BYTES) throw new ProtobufError('a frame cannot be read');
    const end = at + FRAME_BYTES + size;
    if (end > bytes.length) break;
    take(bytes.subarray(at + FRAME_BYTES, end));
    at = end;
  }
  return bytes.subarray(at);
}

/** Null for an update with something else. */
function footerIn(update: Buffer): Buffer | 'ping' | null {
  const reader = new ProtobufReader(update);
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === UPDATE.blockFooter) return reader.view();
    if (field === UPDATE.ping) return 'ping';
    reader.skip();
  }
  return null;
}

/** All footers with their certificates. Load balancers cut streams on which the client is silent: `isPing` answers a ping. */
function requestOf(isPing: boolean): Buffer {
  const writer = new ProtobufWriter();
  writer.always(REQUEST.commitment, FINALIZED);
  if (isPing) {
    const ping = writer.begin(REQUEST.ping);
    writer.uint(1, 1);
    writer.end(ping);
  }
  const entry = writer.begin(REQUEST.blockFooter);
  writer.text(1, 'footers');
  const filter = writer.begin(2);
  writer.always(1, 1);
  writer.end(filter);
  writer.end(entry);
  return writer.take();
}
