import { BroadcastChannel } from 'node:worker_threads';
import { messageOf } from '../../lib/coded-error.ts';
import type { Clock, Random } from '../../ports/clock.ts';
import type { Bus, OpenThreadLine } from '../../ports/processes.ts';
import type { Log } from '../../ports/telemetry.ts';
import { type BusLine, CHANNEL, NOTIFY, type Parcel, postgresLine } from './postgres-line.ts';

interface BusOptions {
  /** Name that the threads of this process share; null when there is only one thread. */
  readonly channel: string | null;
  /** `store.url` when other processes can be reached through the store: only PostgreSQL carries messages. */
  readonly storeUrl: string | null;
  /** Lines to other processes of this daemon. */
  readonly lines?: readonly BusLine[];
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

const CARRIES = /^postgres(ql)?:/;

/** The bus of one thread, over all available lines. */
export function openBus({ channel, storeUrl, clock, random, log, ...given }: BusOptions): Bus {
  const lines: BusLine[] = [...(channel === null ? [] : [broadcastLine(channel)]), ...(given.lines ?? [])];
  if (storeUrl !== null && CARRIES.test(storeUrl)) lines.push(postgresLine({ url: storeUrl, clock, random, log }));
  return createBus(lines, log);
}

/** The bus of a command. It receives nothing; on `close` it sends its messages to the daemons on the same database. */
export function openTellingBus({ storeUrl, random, log }: Pick<BusOptions, 'storeUrl' | 'random' | 'log'>): Bus {
  return createBus(storeUrl !== null && CARRIES.test(storeUrl) ? [postgresLetter(storeUrl, random)] : [], log);
}

/** A line to the other threads of this process that open a line of the same name. It does not keep the thread alive. */
export function broadcastLine(name: string): BusLine {
  const channel = new BroadcastChannel(name);
  channel.unref();
  return {
    send: (parcel) => channel.postMessage(parcel),
    onParcel(take) {
      channel.onmessage = (event) => take((event as { readonly data: Parcel }).data);
    },
    async close() {
      channel.close();
    },
  };
}

/** Lines between the threads of this process that share the name. They keep no thread alive. */
export function threadLines(shared: string): OpenThreadLine {
  return (name, take) => {
    const channel = new BroadcastChannel(`${shared} ${name}`);
    channel.unref();
    channel.onmessage = (event) => take((event as { readonly data: unknown }).data);
    return { post: (message) => channel.postMessage(message), close: () => channel.close() };
  };
}

const TIMEOUT_MS = 2_000;

/**
 * A line that only sends. Messages go to all processes on the database when the line is closed.
 * Without messages it opens no connection. Messages are lost on any failure.
 */
function postgresLetter(url: string, random: Random): BusLine {
  const parcels: Parcel[] = [];
  return {
    send: (parcel) => void parcels.push(parcel),
    onParcel: () => undefined,
    async close() {
      if (parcels.length === 0) return;
      const { default: library } = await import('pg');
      const client = new library.Client({
        connectionString: url,
        application_name: 'parhelion bus',
        connectionTimeoutMillis: TIMEOUT_MS,
        query_timeout: TIMEOUT_MS,
      });
      // The failing call reports the error too.
      client.on('error', () => undefined);
      const from = random.uuid();
      const texts = parcels.map(({ topic, message }) => JSON.stringify({ from, topic, message }));
      try {
        await client.connect();
        await client.query(NOTIFY, [CHANNEL, texts]);
      } catch {
        // Receivers also poll the store, so a lost message only delays them.
      } finally {
        await client.end().catch(() => undefined);
      }
    },
  };
}

/**
 * A bus over any number of lines; without lines, messages stay in this thread. A message from one line is forwarded to the others, so that
 * the threads of a process share one connection to other processes.
 */
export function createBus(lines: readonly BusLine[], log: Log): Bus {
  const listeners = new Map<string, Set<(message: unknown) => void>>();
  let closed = false;

  const hand = ({ topic, message }: Parcel): void => {
    for (const listener of listeners.get(topic) ?? []) {
      try {
        listener(message);
      } catch (error) {
        log.warn({ topic, error: messageOf(error) }, 'a bus listener threw');
      }
    }
  };
  const sendOver = (parcel: Parcel, except: BusLine | null): void => {
    for (const line of lines) if (line !== except) line.send(parcel);
  };
  for (const line of lines) {
    line.onParcel((parcel) => {
      if (closed) return;
      sendOver(parcel, line);
      hand(parcel);
    });
  }

  return {
    publish(topic, message) {
      if (closed) return;
      try {
        const text = JSON.stringify(message);
        sendOver({ topic, message }, null);
        if (listeners.has(topic)) setImmediate(() => hand({ topic, message: JSON.parse(text) }));
      } catch (error) {
        log.warn({ topic, error: messageOf(error) }, 'a message could not be sent on the bus');
      }
    },
    subscribe(topic, listener) {
      const known = listeners.get(topic) ?? new Set();
      known.add(listener);
      listeners.set(topic, known);
      return () => {
        known.delete(listener);
        if (known.size === 0) listeners.delete(topic);
      };
    },
    async close() {
      closed = true;
      listeners.clear();
      await Promise.all(lines.map((line) => line.close()));
    },
  };
}
