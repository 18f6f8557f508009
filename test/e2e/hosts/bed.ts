import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import pg from 'pg';
import type { Role } from '../../../src/ports/role.ts';
import type { BuiltDaemon } from '../../helpers/built-daemon.ts';
import { type FaultProxy, startFaultProxy } from '../../helpers/fault-proxy.ts';
import { type PostgresServer, startPostgresServer } from '../../helpers/postgres-server.ts';
import { startWorkBed, type WorkBed } from '../../helpers/work-bed.ts';
import { eventually, metricsOf, readinessOf, sampleOf } from '../roles/bed.ts';

/** A process with one role; several may have the same. */
export interface Seat {
  readonly role: Role;
  readonly daemon: BuiltDaemon;
  readonly api: string;
  readonly admin: string;
}

export interface HostsBed extends WorkBed {
  readonly server: PostgresServer;
  /** Between all daemons and the server. */
  readonly proxy: FaultProxy;
  /** Starts a process and waits until it listens. */
  seat(role: Role): Promise<Seat>;
  said(): string;
  /** Runs a statement on a connection of its own, past the proxy. */
  query(text: string): Promise<readonly Record<string, unknown>[]>;
}

const STATEMENT_MS = 2_000;

/** Work for many processes on a PostgreSQL server of their own. */
export async function startHosts(t: TestContext, leaseMs: number): Promise<HostsBed> {
  const server = await startPostgresServer();
  const proxy = await startFaultProxy(server.port);
  const url = server.url.replace(`:${server.port}/`, `:${proxy.port}/`);
  const bed = await startWorkBed({
    store: server.url,
    config: {
      follow: { pollMs: 100, leaseMs, maxReadyLagSlots: 50 },
      store: { url, statementTimeoutMs: STATEMENT_MS, poolSize: 6 },
    },
  });
  t.after(async () => {
    await bed.stop();
    await proxy.close();
    await server.stop();
  });
  const seats: Seat[] = [];
  return {
    ...bed,
    ...{ server, proxy },
    async seat(role) {
      const daemon = bed.start({ role });
      const seat = { role, daemon, ...(await daemon.ready()) };
      seats.push(seat);
      return seat;
    },
    said: () => seats.map(({ role, daemon }) => `--- ${role} ${daemon.child.pid}\n${daemon.output()}`).join('\n'),
    async query(text) {
      const client = new pg.Client({ connectionString: server.url });
      await client.connect();
      try {
        return (await client.query(text)).rows as Record<string, unknown>[];
      } finally {
        await client.end();
      }
    },
  };
}

/** 1 for the process that leads, 0 for one that stands by. */
export const leading = async ({ admin }: Seat): Promise<number | null> =>
  sampleOf(await metricsOf(admin), 'parhelion_follow_leading');

export async function untilLeads(bed: HostsBed, seat: Seat): Promise<void> {
  await eventually(`${seat.daemon.child.pid} leads`, async () => (await leading(seat)) === 1, bed.said);
  assert.match((await chainOf(seat))?.leader?.name ?? '', new RegExp(`:${seat.daemon.child.pid}$`));
}

export const chainOf = async ({ admin }: Seat) => (await readinessOf(admin)).chain[0];

/** The chain's cursor goes on. */
export async function untilMoves(bed: HostsBed): Promise<void> {
  const cursor = async () =>
    Number((await bed.query(`select slot from follow_cursors where processor = '*'`))[0]?.['slot'] ?? 0);
  let then: number | null = null;
  await eventually(
    'the cursor moves',
    async () => {
      const now = await cursor();
      then ??= now;
      return now > then + 2;
    },
    bed.said,
  );
}

export const epochOf = async (bed: HostsBed): Promise<number> =>
  Number((await bed.query('select epoch from follow_leaders'))[0]?.['epoch'] ?? 0);

/** All that was paid is delivered, the processes stop in order, and the books agree. */
export async function endHosts(bed: HostsBed, seats: readonly Seat[]): Promise<number> {
  await bed.payments.stop();
  await bed.ledger.settle(bed.openStore, 120, bed.said);
  for (const { daemon } of seats) await daemon.kill('SIGTERM');
  for (const { role, daemon } of seats) assert.equal(daemon.child.exitCode, 0, `${role}: ${daemon.output()}`);
  const store = await bed.openStore();
  try {
    return await bed.ledger.check(store);
  } finally {
    await store.close();
  }
}
