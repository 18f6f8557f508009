import { readFile } from 'node:fs/promises';
import { codeOf, messageOf } from '../../../src/lib/coded-error.ts';
import type { OpenSink, SinkKind, SinkTarget } from '../../../src/ports/sink.ts';
import { loadOptional } from '../../../src/runtime/optional-package.ts';
import { refused, targetMoved, unreachable } from '../errors.ts';
import { type LogRecord, LogTarget, type RowLog } from './row-log.ts';

/**
 * Rows as messages of a JetStream stream. Every message names the sequence before it, so the stream takes it only behind what this writer has
 * seen: a message is never there twice, whatever was sent again, and of two writers one is refused.
 */
export const natsKind = (folders: readonly string[]): SinkKind => ({
  kind: 'nats',
  batch: { slots: 64, seconds: 0 },
  open: async (sink) => await openNats(sink, folders),
});

/** What is used of @nats-io/transport-node. */
interface Transport {
  connect(options: object): Promise<Connection>;
  headers(): Headers;
  credsAuthenticator(bytes: Uint8Array): unknown;
}
interface Connection {
  close(): Promise<void>;
}
interface Headers {
  set(name: string, value: string): void;
  get(name: string): string;
}
/** What is used of @nats-io/jetstream. */
interface JetStreamPackage {
  jetstream(connection: Connection, options: object): JetStream;
  jetstreamManager(connection: Connection, options: object): Promise<Manager>;
}
interface JetStream {
  publish(
    subject: string,
    text: string,
    options: object,
  ): Promise<{ readonly seq: number; readonly duplicate: boolean }>;
  readonly consumers: { get(stream: string, options: object): Promise<Consumer> };
}
interface Consumer {
  consume(options?: object): Promise<AsyncIterable<Stored>>;
}
interface Stored {
  readonly seq: number;
  readonly subject: string;
  readonly header?: Headers;
  readonly headers?: Headers;
  string(): string;
}
interface Manager {
  readonly streams: {
    info(stream: string): Promise<{ readonly config: StreamConfig; readonly state: StreamState }>;
    add(config: object): Promise<unknown>;
    getMessage(stream: string, query: object): Promise<Stored | null>;
  };
}
interface StreamConfig {
  readonly retention: string;
  readonly subjects?: readonly string[];
}
interface StreamState {
  readonly messages: number;
  readonly last_seq: number;
}

const VERSION = '3.4.0';
const CONNECT_TIMEOUT_MS = 10_000;
const ACK_TIMEOUT_MS = 30_000;
/** Messages on their way. */
const WINDOW = 1_024;
const WRONG_LAST_SEQUENCE = 10_071;
const NO_STREAM = 10_059;
const NO_MESSAGE = 10_037;
const POSITION = 'position';
const ROW = 'Parhelion-Row';

const STREAM = /^[A-Za-z0-9_-]{1,64}$/;
const SUBJECT = /^[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*$/;

async function openNats(sink: OpenSink, folders: readonly string[]): Promise<SinkTarget> {
  const { stream = `sink_${sink.name}`, subject = `parhelion.${sink.name}`, replicas = '1' } = sink.options;
  if (!STREAM.test(stream)) throw refused(`sink ${sink.name}: the stream must match ${STREAM.source}`);
  if (!SUBJECT.test(subject)) throw refused(`sink ${sink.name}: the subject must match ${SUBJECT.source}`);
  if (!/^[1-5]$/.test(replicas)) throw refused(`sink ${sink.name}: replicas must be 1 to 5`);
  const transport = await loadOptional<Transport>(
    { name: '@nats-io/transport-node', version: VERSION },
    folders,
    refused,
  );
  const jetstream = await loadOptional<JetStreamPackage>(
    { name: '@nats-io/jetstream', version: VERSION },
    folders,
    refused,
  );
  const options = await connectOptions(sink, transport);
  let connection: Connection;
  try {
    connection = await transport.connect(options);
  } catch (error) {
    throw unreachable(`sink ${sink.name}: NATS does not answer: ${messageOf(error)}`, error);
  }
  const log = new NatsLog({ sink, transport, jetstream, connection, stream, subject });
  try {
    await log.prepare(Number(replicas));
  } catch (error) {
    await log.close();
    throw error;
  }
  return new LogTarget(sink, log);
}

/** `nats://[user:password@|token@]host[:port][,host[:port]…]`; `tls:` asks for TLS. */
async function connectOptions({ name, target, options }: OpenSink, transport: Transport): Promise<object> {
  const found = /^(nats|tls):\/\/(?:([^@/]*)@)?([^@/]+)\/?$/.exec(target);
  if (found === null) throw refused(`sink ${name}: the target must be nats://HOST or tls://HOST`);
  const [, scheme, login, hosts] = found;
  const [user, password] = (login ?? '').split(':').map(decodeURIComponent);
  const { credentials } = options;
  return {
    servers: hosts!.split(','),
    name: `parhelion sink ${name}`,
    timeout: CONNECT_TIMEOUT_MS,
    // The sink opens it again, and asks for its position before it goes on.
    reconnect: false,
    ...(scheme === 'tls' ? { tls: {} } : {}),
    ...(user === undefined || user === '' ? {} : password === undefined ? { token: user } : { user, pass: password }),
    ...(credentials === undefined ? {} : { authenticator: transport.credsAuthenticator(await readFile(credentials)) }),
  };
}

interface NatsParts {
  readonly sink: OpenSink;
  readonly transport: Transport;
  readonly jetstream: JetStreamPackage;
  readonly connection: Connection;
  readonly stream: string;
  readonly subject: string;
}

class NatsLog implements RowLog<number> {
  readonly #parts: NatsParts;
  readonly #js: JetStream;
  #manager: Manager | null = null;
  /** Newest sequence that this writer knows. */
  #last = 0;

  constructor(parts: NatsParts) {
    this.#parts = parts;
    this.#js = parts.jetstream.jetstream(parts.connection, { timeout: ACK_TIMEOUT_MS });
  }

  /** Creates the stream if it is missing. One that forgets messages when they are consumed would forget the position. */
  async prepare(replicas: number): Promise<void> {
    const { jetstream, connection, stream, subject, sink } = this.#parts;
    await this.#guarded(async () => {
      this.#manager = await jetstream.jetstreamManager(connection, { timeout: ACK_TIMEOUT_MS });
      const config = await this.#config();
      if (config === null)
        await this.#manager.streams.add({
          name: stream,
          subjects: [`${subject}.>`],
          retention: 'limits',
          storage: 'file',
          // A full stream refuses messages, and the sink waits, instead of losing old ones.
          discard: 'new',
          num_replicas: replicas,
        });
      else if (config.retention !== 'limits')
        throw refused(`sink ${sink.name}: stream ${stream} has the retention ${config.retention}; it must be limits`);
    });
  }

  async #config(): Promise<StreamConfig | null> {
    try {
      return (await this.#manager!.streams.info(this.#parts.stream)).config;
    } catch (error) {
      if (apiCode(error) === NO_STREAM) return null;
      throw error;
    }
  }

  async newestState(): Promise<string | null> {
    const { stream, sink } = this.#parts;
    return await this.#guarded(async () => {
      const { state } = await this.#manager!.streams.info(stream);
      const message = await this.#newestOf(POSITION);
      if (message === null && state.last_seq > 0 && state.messages === 0)
        throw refused(
          `sink ${sink.name}: stream ${stream} has lost its messages, and with them the position: delete the stream to begin again`,
        );
      // The last sequence before this write: what came since is another writer's.
      this.#last = state.last_seq;
      return message === null ? null : message.string();
    });
  }

  async newest(table: string): Promise<LogRecord | null> {
    const message = await this.#guarded(() => this.#newestOf(table));
    return message === null ? null : this.#recordOf(table, message);
  }

  claim(): Promise<void> {
    return Promise.resolve();
  }

  async append(records: readonly LogRecord[], state: string): Promise<void> {
    const { sink, subject } = this.#parts;
    await this.#guarded(async () => {
      const waiting: Promise<void>[] = [];
      let failure: { readonly error: unknown } | null = null;
      const send = (name: string, text: string, options: object) => {
        const expected = this.#last;
        this.#last += 1;
        waiting.push(
          this.#js
            .publish(`${subject}.${name}`, text, {
              timeout: ACK_TIMEOUT_MS,
              expect: { lastSequence: expected },
              ...options,
            })
            .then(
              ({ seq, duplicate }) => {
                if (duplicate || seq !== expected + 1) failure ??= { error: targetMoved(sink.name) };
              },
              (error: unknown) => {
                failure ??= { error };
              },
            ),
        );
      };
      for (const { table, part, key, text } of records) {
        const headers = this.#parts.transport.headers();
        headers.set(ROW, `${part} ${key.join(' ')}`);
        send(table, text, { headers, msgID: `${sink.name}:${table}:${key.join(':')}` });
        if (waiting.length < WINDOW) continue;
        await Promise.all(waiting.splice(0, WINDOW / 2));
        if (failure !== null) break;
      }
      if (failure === null) send(POSITION, state, {});
      await Promise.all(waiting);
      const failed = failure as { readonly error: unknown } | null;
      if (failed === null) return;
      throw apiCode(failed.error) === WRONG_LAST_SEQUENCE ? targetMoved(sink.name) : failed.error;
    });
  }

  async *scan(table: string, from: number | null): AsyncIterable<{ place: number; record: LogRecord }> {
    const { stream, subject } = this.#parts;
    const end = (await this.#guarded(() => this.#newestOf(table)))?.seq ?? 0;
    if (end === 0 || (from !== null && from > end)) return;
    const start =
      from === null ? { deliver_policy: 'all' } : { deliver_policy: 'by_start_sequence', opt_start_seq: from };
    const messages = await this.#guarded(async () => {
      const consumer = await this.#js.consumers.get(stream, { filter_subjects: [`${subject}.${table}`], ...start });
      return await consumer.consume();
    });
    for await (const message of messages) {
      yield { place: message.seq, record: this.#recordOf(table, message) };
      if (message.seq >= end) return;
    }
    throw unreachable(`sink ${this.#parts.sink.name}: NATS ended a read`, null);
  }

  async close(): Promise<void> {
    await this.#parts.connection.close().catch(() => undefined);
  }

  async #newestOf(name: string): Promise<Stored | null> {
    const { stream, subject } = this.#parts;
    try {
      return await this.#manager!.streams.getMessage(stream, { last_by_subj: `${subject}.${name}` });
    } catch (error) {
      if (apiCode(error) === NO_MESSAGE) return null;
      throw error;
    }
  }

  #recordOf(table: string, message: Stored): LogRecord {
    const [part = '', slot, index] = ((message.header ?? message.headers)?.get(ROW) ?? '').split(' ');
    const key = [Number(slot), Number(index)] as const;
    if (part === '' || !key.every(Number.isSafeInteger))
      throw refused(`sink ${this.#parts.sink.name}: message ${message.seq} is not of this sink`);
    return { table, part, key, text: message.string() };
  }

  async #guarded<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (codeOf(error)?.startsWith('SINKS_') === true) throw error;
      throw unreachable(`sink ${this.#parts.sink.name}: NATS refuses: ${messageOf(error)}`, error);
    }
  }
}

/** `err_code` of an answer of JetStream. */
const apiCode = (error: unknown): number | null => {
  const { code } = error as { readonly code?: unknown };
  return typeof code === 'number' ? code : null;
};
