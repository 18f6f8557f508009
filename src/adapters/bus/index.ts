import { BroadcastChannel } from 'node:worker_threads';
import { messageOf } from '../../lib/coded-error.ts';
import type { Bus } from '../../ports/bus.ts';
import type { Clock, Random } from '../../ports/clock.ts';
import type { Log } from '../../ports/log.ts';
import { CHANNEL, type Line, NOTIFY, type Parcel, postgresLine } from './postgres-line.ts';

interface BusOptions {
  /** Name that the threads of this process share; null when there is one thread only. */
  readonly channel: string | null;
  /** `store.url` when other processes may be reached through it: only PostgreSQL carries messages. */
  readonly storeUrl: string | null;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

const CARRIES = /^postgres(ql)?:/;

/** The bus of a thread, over all the ways there are. */
export function openBus({ channel, storeUrl, clock, random, log }: BusOptions): Bus {
  const lines: Line[] = channel === null ? [] : [broadcastLine(channel)];
  if (storeUrl !== null && CARRIES.test(storeUrl)) lines.push(postgresLine({ url: storeUrl, clock, random, log }));
  return createBus(lines, log);
}

/** The bus of a command: it hears nothing, and what it tells goes to the daemons on the same database when it is closed. */
export function openTellingBus({ storeUrl, random, log }: Pick<BusOptions, 'storeUrl' | 'random' | 'log'>): Bus {
  return createBus(storeUrl !== null && CARRIES.test(storeUrl) ? [postgresLetter(storeUrl, random)] : [], log);
}

/** A line to the other threads of this process that open one of the same name. It keeps no thread alive. */
export function broadcastLine(name: string): Line {
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

const TIMEOUT_MS = 2_000;

/**
 * A line for who has something to tell once and listens to nothing: what was sent goes to all processes on the database when the line is
 * closed. Without anything to tell it opens no connection; whatever goes wrong, it is lost.
 */
function postgresLetter(url: string, random: Random): Line {
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
      // The call that fails says so too.
      client.on('error', () => undefined);
      const from = random.uuid();
      const texts = parcels.map(({ topic, message }) => JSON.stringify({ from, topic, message }));
      try {
        await client.connect();
        await client.query(NOTIFY, [CHANNEL, texts]);
      } catch {
        // Whoever listens also looks at the store now and then.
      } finally {
        await client.end().catch(() => undefined);
      }
    },
  };
}

/**
 * A bus over any number of lines; without one it stays in this thread. What comes in over one line goes out over the others, so that the
 * threads of a process share its one way to other processes.
 */
export function createBus(lines: readonly Line[], log: Log): Bus {
  const listeners = new Map<string, Set<(message: unknown) => void>>();
  let closed = false;

  const hand = ({ topic, message }: Parcel): void => {
    for (const listener of listeners.get(topic) ?? []) {
      try {
        listener(message);
      } catch (error) {
        log.warn({ topic, error: messageOf(error) }, 'a listener of the bus threw');
      }
    }
  };
  const sendOver = (parcel: Parcel, except: Line | null): void => {
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
        log.warn({ topic, error: messageOf(error) }, 'a message could not be put on the bus');
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
