import type pg from 'pg';
import { codeOf } from '../../lib/coded-error.ts';
import type { Clock, Random } from '../../ports/clock.ts';
import type { Log } from '../../ports/telemetry.ts';
import { backoffMs } from '../../runtime/waiting.ts';

export interface PostgresLineOptions {
  /** postgres://user:password@host:port/database; never logged. */
  readonly url: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

/** A parcel with its sender: the server delivers every notification to all listeners, including the sender. */
interface Notice {
  readonly from: string;
  readonly topic: string;
  readonly message: unknown;
}

export const CHANNEL = 'parhelion_bus';
/** Channel and texts; each text is a `Notice`. */
export const NOTIFY = 'select pg_notify($1, t) from unnest($2::text[]) as t';
/** The server accepts less than 8,000 bytes. */
const MAX_BYTES = 7_900;
/** Parcels that wait while another send is in flight; beyond this the oldest are dropped. */
const MAX_WAITING = 1_000;
const BATCH = 100;
const CONNECT_TIMEOUT_MS = 10_000;
const QUERY_TIMEOUT_MS = 10_000;
/** Random, so that all processes do not reconnect at the same moment after a server restart. */
const RECONNECT_BACKOFF = { firstMs: 500, longestMs: 30_000, jitter: 0.5 };

/**
 * A line to all processes on one PostgreSQL database, over LISTEN and NOTIFY on its own connection. It connects in the background
 * and reconnects when the connection is lost; messages sent without a connection are lost.
 */
export function postgresLine(options: PostgresLineOptions): BusLine {
  const { clock, random, log } = options;
  const own = random.uuid();
  const ended = new AbortController();
  const waiting: string[] = [];
  let take: (parcel: Parcel) => void = () => undefined;
  let client: pg.Client | null = null;
  let sending: Promise<void> = Promise.resolve();
  let isSending = false;

  function receive(payload: string | undefined): void {
    let notice: Notice;
    try {
      notice = JSON.parse(payload ?? '') as Notice;
    } catch {
      return;
    }
    if (notice === null || notice.from === own || typeof notice.topic !== 'string') return;
    take({ topic: notice.topic, message: notice.message });
  }

  async function sendWaiting(): Promise<void> {
    while (waiting.length > 0 && client !== null) {
      const batch = waiting.splice(0, BATCH);
      try {
        await client.query(NOTIFY, [CHANNEL, batch]);
      } catch (error) {
        log.debug({ code: codeOf(error), lost: batch.length }, 'messages to other processes were lost');
      }
    }
    isSending = false;
  }

  /** Resolves when the connection is lost or could not be opened. Returns whether it was open. */
  async function listenOnce(library: typeof pg): Promise<boolean> {
    const made = new library.Client({
      connectionString: options.url,
      application_name: 'parhelion bus',
      keepAlive: true,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      query_timeout: QUERY_TIMEOUT_MS,
    });
    const lost = new Promise<void>((resolve) => {
      made.on('error', () => resolve());
      made.on('end', () => resolve());
      ended.signal.addEventListener('abort', () => resolve(), { once: true });
    });
    made.on('notification', ({ payload }) => receive(payload));
    try {
      await made.connect();
      await made.query(`listen ${CHANNEL}`);
    } catch (error) {
      log.debug({ code: codeOf(error) }, 'no connection for messages between processes');
      await made.end().catch(() => undefined);
      return false;
    }
    client = made;
    await lost;
    client = null;
    await made.end().catch(() => undefined);
    return true;
  }

  async function run(): Promise<void> {
    const { default: library } = await import('pg');
    let failures = 0;
    while (!ended.signal.aborted) {
      failures = (await listenOnce(library)) ? 1 : failures + 1;
      await clock.sleep(backoffMs(failures, random, RECONNECT_BACKOFF), ended.signal).catch(() => undefined);
    }
  }
  const running = run();

  return {
    send({ topic, message }) {
      if (client === null) return;
      const text = JSON.stringify({ from: own, topic, message } satisfies Notice);
      if (Buffer.byteLength(text) > MAX_BYTES) {
        log.warn({ topic, bytes: Buffer.byteLength(text) }, 'a message is too large for other processes');
        return;
      }
      waiting.push(text);
      if (waiting.length > MAX_WAITING) waiting.shift();
      if (isSending) return;
      isSending = true;
      sending = sendWaiting();
    },
    onParcel(fn) {
      take = fn;
    },
    async close() {
      await sending;
      ended.abort(new Error('the bus is closed'));
      await running;
    },
  };
}

/** What a bus sends over a line. */
export interface Parcel {
  readonly topic: string;
  readonly message: unknown;
}

/** A transport to other buses. It never returns what was sent over it, and drops what it cannot carry. */
export interface BusLine {
  send(parcel: Parcel): void;
  /** Called once, before anything is sent. */
  onParcel(take: (parcel: Parcel) => void): void;
  close(): Promise<void>;
}
