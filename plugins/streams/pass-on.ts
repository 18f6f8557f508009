/** Updates of accounts and entries, which only a Yellowstone server has: one stream there for each subscription here, over one connection. */
import { type ClientHttp2Session, connect, constants } from 'node:http2';
import { ProtobufReader, ProtobufWriter } from '../../src/lib/protobuf.ts';
import { type Clock, messageOf } from '../../src/plugin/plugin.ts';
import { frame, GrpcError, readMessages, STATUS, type StatusName } from './grpc-server.ts';

export interface PassOnOptions {
  readonly url: string;
  /** Its `x-token`; null: none. */
  readonly token: string | null;
  readonly maxMessageBytes: number;
  readonly clock: Clock;
}

export interface PassedTaker {
  /** An update as the server sent it: its labels are those of the client. */
  take(update: Buffer): void;
  ended(error: GrpcError): void;
}

export interface PassOn {
  /** `request`: bytes of the client's SubscribeRequest. The returned function ends the stream there. */
  subscribe(request: Buffer, taker: PassedTaker): () => void;
  close(): void;
}

const FIELDS = { accounts: 1, commitment: 6, slices: 7, entries: 8, ping: 9, fromSlot: 11 } as const;
const UPDATE = { account: 2, ping: 6, entry: 8 } as const;
const EMPTY = Buffer.alloc(0);
const CONNECT_TIMEOUT_MS = 10_000;
const KEEP_ALIVE_MS = 15_000;
/** Of a status text that is passed on. */
const MOST_TEXT = 200;
/** Of these the client can do something about the reason. All else of the server is its own matter: the client comes again. */
const PASSED: readonly StatusName[] = ['invalidArgument', 'outOfRange', 'internal'];

export function createPassOn({ url, token, maxMessageBytes, clock }: PassOnOptions): PassOn {
  let session: ClientHttp2Session | null = null;

  function connected(): ClientHttp2Session {
    if (session !== null && !session.closed && !session.destroyed) return session;
    const opened = connect(url);
    session = opened;
    let cancel = clock.timeout(CONNECT_TIMEOUT_MS, () => opened.destroy());
    let isAnswered = true;
    const ping = () => {
      if (opened.destroyed) return;
      // A server that has not answered the last one is gone, whatever TCP knows of it.
      if (!isAnswered) {
        opened.destroy();
        return;
      }
      isAnswered = false;
      opened.ping(() => {
        isAnswered = true;
      });
      cancel = clock.timeout(KEEP_ALIVE_MS, ping);
    };
    opened.once('connect', () => {
      cancel();
      cancel = clock.timeout(KEEP_ALIVE_MS, ping);
    });
    // Its streams end with it.
    opened.on('error', () => undefined);
    opened.once('close', () => cancel());
    return opened;
  }

  return {
    subscribe(request, { take, ended }) {
      let isOver = false;
      const finish = (status: StatusName, message: string) => {
        if (isOver) return;
        isOver = true;
        ended(new GrpcError(status, message));
      };
      const stream = connected().request({
        ...{ ':method': 'POST', ':path': '/geyser.Geyser/Subscribe' },
        ...{ 'content-type': 'application/grpc', te: 'trailers' },
        ...(token === null ? {} : { 'x-token': token }),
      });
      const told = (headers: Readonly<Record<string, unknown>>) => {
        const code = headers['grpc-status'];
        if (code === undefined) return;
        const [status] = Object.entries(STATUS).find(([, value]) => String(value) === String(code)) ?? [];
        const text = textOf(headers['grpc-message']);
        if (PASSED.includes(status as StatusName)) finish(status as StatusName, text);
        else finish('unavailable', LOST);
      };
      stream.on('response', told);
      stream.on('trailers', told);
      stream.on('error', () => finish('unavailable', LOST));
      stream.once('close', () => finish('unavailable', LOST));
      readMessages(
        {
          stream,
          headers: {},
          get isOver() {
            return isOver;
          },
        },
        { maxBytes: maxMessageBytes },
        {
          take(update) {
            const kind = kindOf(update);
            if (kind === UPDATE.ping) stream.write(frame(EMPTY, PING, 'identity'));
            else if (kind !== null) take(update);
          },
          ended: () => undefined,
          failed: (error) => finish('unavailable', `${LOST}: ${messageOf(error)}`),
        },
      );
      stream.write(frame(EMPTY, passedOf(request), 'identity'));
      return () => {
        isOver = true;
        stream.close(constants.NGHTTP2_CANCEL);
      };
    },
    close: () => session?.destroy(),
  };
}

const LOST = 'the server of accounts and entries has ended the stream, try again later';

const PING = pingRequest();

/** Servers and load balancers cut streams on which the client is silent. */
function pingRequest(): Buffer {
  const id = new ProtobufWriter();
  id.always(1, 1);
  const request = new ProtobufWriter();
  request.raw(FIELDS.ping, id.take());
  return Buffer.from(request.take());
}

/** Of a request what only a Yellowstone server answers. */
function passedOf(request: Buffer): Buffer {
  const out = new ProtobufWriter();
  const reader = new ProtobufReader(request);
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === FIELDS.accounts || field === FIELDS.slices || field === FIELDS.entries) out.raw(field, reader.view());
    else if (field === FIELDS.commitment || field === FIELDS.fromSlot) out.always(field, reader.uint64());
    else reader.skip();
  }
  return Buffer.from(out.take());
}

/** Null for what the subscription here has by itself. */
function kindOf(update: Buffer): number | null {
  const reader = new ProtobufReader(update);
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === UPDATE.account || field === UPDATE.entry || field === UPDATE.ping) return field;
    reader.skip();
  }
  return null;
}

function textOf(value: unknown): string {
  const text = typeof value === 'string' ? value.slice(0, MOST_TEXT) : '';
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
