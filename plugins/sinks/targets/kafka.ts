import { setTimeout as sleep } from 'node:timers/promises';
import { codeOf, messageOf } from '../../../src/lib/coded-error.ts';
import type { OpenSink, SinkKind, SinkTarget } from '../../../src/ports/sink.ts';
import { loadOptional } from '../../../src/runtime/optional-package.ts';
import { refused, targetMoved, unreachable } from '../errors.ts';
import { type LogRecord, LogTarget, type RowLog } from './row-log.ts';

/**
 * Rows in topics of Kafka, one per table. A batch is one transaction, which ends with the record of positions in a topic of its own. A new writer
 * fences the one before it: the broker first ends its transaction, so what is read then is all there is.
 */
export const kafkaKind = (folders: readonly string[]): SinkKind => ({
  kind: 'kafka',
  batch: { slots: 64, seconds: 0 },
  open: async (sink) => await openKafka(sink, folders),
});

/** What is used of @platformatic/kafka. */
interface KafkaPackage {
  readonly Producer: new (options: object) => Producer;
  readonly Consumer: new (options: object) => Consumer;
  readonly Admin: new (options: object) => Admin;
}
interface Producer {
  beginTransaction(options?: object): Promise<Transaction>;
  close(): Promise<void>;
}
interface Transaction {
  send(options: { readonly messages: readonly Message[] }): Promise<unknown>;
  commit(): Promise<void>;
}
interface Message {
  readonly topic: string;
  readonly partition: 0;
  readonly key: Buffer;
  readonly value: Buffer;
  readonly headers?: Map<Buffer, Buffer>;
}
interface Consumer {
  metadata(options: { readonly topics: readonly string[] }): Promise<{
    readonly topics: ReadonlyMap<string, Topic>;
  }>;
  listOffsets(options: {
    readonly topics: readonly string[];
    readonly timestamp?: bigint;
    readonly isolationLevel: number;
  }): Promise<ReadonlyMap<string, readonly bigint[]>>;
  fetch(options: object): Promise<{ readonly responses: readonly { readonly partitions: readonly Partition[] }[] }>;
  close(force: boolean): Promise<void>;
}
interface Topic {
  readonly id: string;
  readonly partitions: readonly { readonly leader: number }[];
  readonly partitionsCount: number;
}
interface Partition {
  readonly errorCode: number;
  readonly records?: readonly Batch[];
}
interface Batch {
  readonly firstOffset: bigint;
  readonly lastOffsetDelta: number;
  readonly attributes: number;
  readonly records: readonly {
    readonly offsetDelta: number;
    readonly key: Buffer | null;
    readonly value: Buffer | null;
    readonly headers: readonly (readonly [Buffer | null, Buffer | null])[];
  }[];
}
interface Admin {
  listTopics(): Promise<readonly string[]>;
  createTopics(options: object): Promise<unknown>;
  close(): Promise<void>;
}

const CLIENT = { name: '@platformatic/kafka', version: '1.35.0' };
/** Limit of a request, and of a transaction: a batch is sent within it. */
const TIMEOUT_MS = 30_000;
const CONNECT_TIMEOUT_MS = 10_000;
/** Brokers ask for patience while they end the transaction before. */
const RETRIES = 16;
const retryDelay = (_client: unknown, _operation: string, attempt: number): number =>
  Math.min(1_000, 10 * 2 ** attempt);
/** What brokers take as one batch of records is 1 MiB by default. */
const SEND_BYTES = 524_288;
const FETCH_BYTES = 4_194_304;
const RECORD_BYTES = 96;
/** The time until a broker ends the transaction of a writer that has died, and a bit. */
const SETTLED_MS = TIMEOUT_MS + 15_000;
const BRIEFLY_MS = 2_000;
const LOOK_MS = 20;
const EARLIEST = -2n;
const ALL = 0;
const COMMITTED = 1;
const IS_TRANSACTIONAL = 0x10;
const IS_CONTROL = 0x20;
const COMMIT = 1;
const POSITIONS = 'positions';
const PREFIX = /^[A-Za-z0-9._-]{1,200}$/;
/**
 * Without these the client names producer 0 of epoch 0. The broker then takes a third writer for a repeated second one, fences nobody, and passes its
 * records over as repeated ones.
 */
const AS_NEW = { producerId: -1n, producerEpoch: -1 };
const FENCED = ['INVALID_PRODUCER_EPOCH', 'PRODUCER_FENCED', 'INVALID_PRODUCER_ID_MAPPING'];

async function openKafka(sink: OpenSink, folders: readonly string[]): Promise<SinkTarget> {
  const { prefix = `parhelion.${sink.name}`, replicas } = sink.options;
  if (!PREFIX.test(prefix)) throw refused(`sink ${sink.name}: the prefix must match ${PREFIX.source}`);
  if (replicas !== undefined && !/^[1-9]\d?$/.test(replicas))
    throw refused(`sink ${sink.name}: replicas must be a number`);
  const base = connectOptions(sink);
  const kafka = await loadOptional<KafkaPackage>(CLIENT, folders, refused);
  const log = new KafkaLog({ sink, kafka, base, prefix });
  try {
    await log.prepare(replicas === undefined ? -1 : Number(replicas));
  } catch (error) {
    await log.close();
    throw error;
  }
  return new LogTarget(sink, log);
}

/** `kafka://[user:password@]host[:port][,host[:port]…][?sasl=PLAIN]`; `kafkas:` asks for TLS. */
function connectOptions({ name, target }: OpenSink): object {
  const found = /^(kafkas?):\/\/(?:([^:@/]*):([^@/]*)@)?([^@/?]+)\/?(?:\?sasl=([A-Z0-9-]+))?$/.exec(target);
  if (found === null) throw refused(`sink ${name}: the target must be kafka://HOST:PORT or kafkas://HOST:PORT`);
  const [, scheme, user, password, hosts, mechanism = 'PLAIN'] = found;
  const login =
    user === undefined
      ? {}
      : { sasl: { mechanism, username: decodeURIComponent(user), password: decodeURIComponent(password!) } };
  return {
    clientId: `parhelion-sink-${name}`,
    bootstrapBrokers: hosts!.split(',').map((host) => (host.includes(':') ? host : `${host}:9092`)),
    timeout: TIMEOUT_MS,
    requestTimeout: TIMEOUT_MS,
    connectTimeout: CONNECT_TIMEOUT_MS,
    retries: RETRIES,
    retryDelay,
    ...(scheme === 'kafkas' ? { tls: {} } : {}),
    ...login,
  };
}

interface KafkaParts {
  readonly sink: OpenSink;
  readonly kafka: KafkaPackage;
  readonly base: object;
  readonly prefix: string;
}

interface Found {
  readonly offset: bigint;
  readonly key: string;
  readonly text: string;
  readonly part: string;
}

class KafkaLog implements RowLog<bigint> {
  readonly #parts: KafkaParts;
  readonly #consumer: Consumer;
  readonly #topics = new Map<string, Topic>();
  #producer: Producer | null = null;
  /** Opened by `claim`, for the first batch. */
  #begun: Transaction | null = null;

  constructor(parts: KafkaParts) {
    this.#parts = parts;
    // It joins no group: it only asks for offsets and records.
    this.#consumer = new parts.kafka.Consumer({ ...parts.base, groupId: `parhelion-sink-${parts.sink.name}` });
  }

  /** Creates topics that are missing: one partition, which keeps the order. Positions never expire. */
  async prepare(replicas: number): Promise<void> {
    const { sink, kafka, base } = this.#parts;
    await this.#guarded(async () => {
      const names = [...sink.tables.map(({ name }) => name), POSITIONS];
      const admin = new kafka.Admin(base);
      try {
        const there = new Set(await admin.listTopics());
        for (const name of names.filter((one) => !there.has(this.#topic(one)))) {
          const configs = [{ name: 'cleanup.policy', value: name === POSITIONS ? 'compact' : 'delete' }];
          await admin.createTopics({ topics: [this.#topic(name)], partitions: 1, replicas, configs }).catch((error) => {
            // Another writer that starts at the same time.
            if (!hasApiId(error, ['TOPIC_ALREADY_EXISTS'])) throw error;
          });
        }
      } finally {
        await admin.close().catch(() => undefined);
      }
      const { topics } = await this.#consumer.metadata({ topics: names.map((name) => this.#topic(name)) });
      for (const name of names) {
        const topic = topics.get(this.#topic(name))!;
        if (topic.partitionsCount !== 1)
          throw refused(
            `sink ${sink.name}: topic ${this.#topic(name)} has ${topic.partitionsCount} partitions; it must have one`,
          );
        this.#topics.set(name, topic);
      }
    });
  }

  async newestState(): Promise<string | null> {
    return await this.#guarded(async () => {
      // What a writer that has died left open ends with the claim, and is not waited for.
      const end = (await this.#settled(POSITIONS, BRIEFLY_MS)) ?? (await this.#offset(POSITIONS, COMMITTED));
      const start = await this.#offset(POSITIONS, ALL, EARLIEST);
      for (let count = 16n; ; count *= 4n) {
        const isWhole = end - count <= start;
        const from = isWhole ? start : end - count;
        let newest: string | null = null;
        for await (const { text } of this.#committed(POSITIONS, from, end)) newest = text;
        if (newest !== null || isWhole) return newest;
      }
    });
  }

  /** Records of a transaction are read when it is committed, all of them: nothing is ever unfinished. */
  newest(): Promise<null> {
    return Promise.resolve(null);
  }

  async claim(): Promise<void> {
    const { kafka, base, prefix } = this.#parts;
    await this.#guarded(async () => {
      this.#producer = new kafka.Producer({ ...base, transactionalId: prefix, idempotent: true, acks: -1 });
      this.#begun = await this.#producer.beginTransaction(AS_NEW);
    });
  }

  async append(records: readonly LogRecord[], state: string): Promise<void> {
    await this.#guarded(async () => {
      const transaction = this.#begun ?? (await this.#producer!.beginTransaction());
      this.#begun = null;
      let [messages, bytes]: [Message[], number] = [[], 0];
      const flush = async () => {
        if (messages.length > 0) await transaction.send({ messages });
        [messages, bytes] = [[], 0];
      };
      for (const { table, part, key, text } of records) {
        const value = Buffer.from(text);
        if (bytes + value.length > SEND_BYTES) await flush();
        bytes += value.length + RECORD_BYTES;
        messages.push({
          topic: this.#topic(table),
          partition: 0,
          key: Buffer.from(key.join(':')),
          value,
          headers: new Map([[Buffer.from('part'), Buffer.from(part)]]),
        });
      }
      messages.push({
        topic: this.#topic(POSITIONS),
        partition: 0,
        key: Buffer.from(POSITIONS),
        value: Buffer.from(state),
      });
      await flush();
      await transaction.commit();
    });
  }

  async *scan(table: string, from: bigint | null): AsyncIterable<{ place: bigint; record: LogRecord }> {
    const [start, end] = await this.#guarded(async (): Promise<readonly [bigint, bigint | null]> => {
      const first = from ?? (await this.#offset(table, ALL, EARLIEST));
      return [first, await this.#settled(table, SETTLED_MS)];
    });
    if (end === null)
      throw unreachable(`sink ${this.#parts.sink.name}: a transaction in ${this.#topic(table)} does not end`, null);
    for await (const { offset, key, text, part } of this.#committed(table, start, end)) {
      const [slot, index] = key.split(':').map(Number);
      if (part === '' || !Number.isSafeInteger(slot) || !Number.isSafeInteger(index))
        throw refused(`sink ${this.#parts.sink.name}: record ${offset} of ${this.#topic(table)} is not of this sink`);
      yield { place: offset, record: { table, part, key: [slot!, index!], text } };
    }
  }

  async close(): Promise<void> {
    await this.#producer?.close().catch(() => undefined);
    await this.#consumer.close(true).catch(() => undefined);
  }

  #topic(name: string): string {
    return `${this.#parts.prefix}.${name}`;
  }

  async #offset(name: string, isolationLevel: number, timestamp?: bigint): Promise<bigint> {
    const topic = this.#topic(name);
    const at = timestamp === undefined ? {} : { timestamp };
    const found = await this.#consumer.listOffsets({ topics: [topic], isolationLevel, ...at });
    return found.get(topic)?.[0] ?? 0n;
  }

  /**
   * The end of a topic, when all transactions that were there have ended; null if they don't. A commit is answered before its records can be
   * read.
   */
  async #settled(name: string, withinMs: number): Promise<bigint | null> {
    const end = await this.#offset(name, ALL);
    for (const until = Date.now() + withinMs; (await this.#offset(name, COMMITTED)) < end; await sleep(LOOK_MS))
      if (Date.now() > until) return null;
    return end;
  }

  /**
   * Committed records in [from, to). What counts are the marks of the broker behind the records of a transaction; there is one writer at a
   * time, so transactions do not overlap.
   */
  async *#committed(name: string, from: bigint, to: bigint): AsyncIterable<Found> {
    let next = from;
    let waiting: Found[] = [];
    for (let deadline = Date.now() + TIMEOUT_MS; next < to; ) {
      const batches = await this.#fetch(name, next);
      if (batches.length === 0 && Date.now() > deadline)
        throw unreachable(`sink ${this.#parts.sink.name}: ${this.#topic(name)} has no records from ${next} on`, null);
      if (batches.length > 0) deadline = Date.now() + TIMEOUT_MS;
      for (const batch of batches) {
        next = batch.firstOffset + BigInt(batch.lastOffsetDelta) + 1n;
        if ((batch.attributes & IS_CONTROL) === 0) {
          waiting.push(...foundIn(batch).filter(({ offset }) => offset >= from));
          if ((batch.attributes & IS_TRANSACTIONAL) !== 0) continue;
          yield* waiting;
        } else if (batch.records[0]?.key?.readInt16BE(2) === COMMIT) yield* waiting;
        waiting = [];
        if (next >= to) return;
      }
    }
  }

  async #fetch(name: string, offset: bigint): Promise<readonly Batch[]> {
    const topic = this.#topics.get(name)!;
    const partition = {
      partition: 0,
      currentLeaderEpoch: -1,
      fetchOffset: offset,
      lastFetchedEpoch: -1,
      partitionMaxBytes: FETCH_BYTES,
    };
    const { responses } = await this.#consumer.fetch({
      node: topic.partitions[0]!.leader,
      // The client's own filter lets records of transactions pass that were given up.
      isolationLevel: ALL,
      minBytes: 1,
      maxBytes: FETCH_BYTES,
      maxWaitTime: 100,
      topics: [{ topicId: topic.id, partitions: [partition] }],
    });
    return responses[0]?.partitions[0]?.records ?? [];
  }

  async #guarded<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (codeOf(error)?.startsWith('SINKS_') === true) throw error;
      if (hasApiId(error, FENCED)) throw targetMoved(this.#parts.sink.name);
      throw unreachable(`sink ${this.#parts.sink.name}: Kafka refuses: ${messageOf(error)}`, error);
    }
  }
}

const foundIn = ({ firstOffset, records }: Batch): readonly Found[] =>
  records.map(({ offsetDelta, key, value, headers }) => ({
    offset: firstOffset + BigInt(offsetDelta),
    key: key?.toString() ?? '',
    text: value?.toString() ?? '',
    part: headers.find(([name]) => name?.toString() === 'part')?.[1]?.toString() ?? '',
  }));

/** Whether an error, or one below it, is one of these of the protocol. */
function hasApiId(error: unknown, ids: readonly string[]): boolean {
  const { apiId, errors, cause } = error as { apiId?: unknown; errors?: unknown; cause?: unknown };
  if (typeof apiId === 'string' && ids.includes(apiId)) return true;
  if (Array.isArray(errors) && errors.some((one) => hasApiId(one, ids))) return true;
  return cause instanceof Error && hasApiId(cause, ids);
}
