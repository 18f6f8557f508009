import type { Random } from '../../ports/clock.ts';
import type { Line, Parcel } from './line.ts';
import { CHANNEL, NOTIFY } from './postgres-line.ts';

const TIMEOUT_MS = 2_000;

/**
 * A line for who has something to tell once and listens to nothing: what was sent goes to all processes on the database when the line is
 * closed. Without anything to tell it opens no connection; whatever goes wrong, it is lost.
 */
export function postgresLetter(url: string, random: Random): Line {
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
