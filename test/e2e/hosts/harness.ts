import assert from 'node:assert/strict';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Role } from '../../../src/ports/daemon-view.ts';
import { openStore } from '../../../src/store/index.ts';
import { BOOTSTRAP_KEY, type BuiltDaemon } from '../../helpers/built-daemon.ts';
import { type FaultProxy, startFaultProxy } from '../../helpers/fault-proxy.ts';
import { runSql } from '../../helpers/postgres-replica.ts';
import { POSTGRES_PASSWORD, type PostgresServer, startPostgresServer } from '../../helpers/postgres-server.ts';
import { createSteppedClock, type SteppedClock } from '../../helpers/stepped-clock.ts';
import { startWorkBed, type WorkBed, type WorkBedOptions } from '../../helpers/work-harness.ts';
import { eventually, metricsOf, readinessOf, sampleOf } from '../roles/harness.ts';

/** A process with one role; several may have the same. */
export interface Seat {
  /** Of its connections to the database. */
  readonly name: string;
  readonly role: Role;
  readonly daemon: BuiltDaemon;
  readonly api: string;
  readonly admin: string;
  readonly clock: SteppedClock;
  /** Monotonic; null while it runs. */
  endedMs: number | null;
}

export interface HostsBed extends WorkBed {
  /** The server that holds the database now. */
  database(): PostgresServer;
  /** From now on that is another one, for the daemons too; the one before goes away. */
  moveTo(server: PostgresServer): Promise<void>;
  /** Between all daemons and the server. */
  readonly proxy: FaultProxy;
  /** Starts a process and waits until it listens. */
  seat(role: Role): Promise<Seat>;
  said(): string;
  /** Pieces of what processes printed that had a key or a password in them. */
  leaks(): readonly string[];
  /** Runs a statement on a connection of its own, past the proxy. */
  query(text: string): Promise<readonly Record<string, unknown>[]>;
}

const STATEMENT_MS = 2_000;
const SECRETS = [BOOTSTRAP_KEY, POSTGRES_PASSWORD];

interface HostsOptions {
  readonly payEveryMs?: number;
  /** Where the data of PostgreSQL is; default: with other temporary files. */
  readonly folder?: string;
  readonly lightAssets?: WorkBedOptions['lightAssets'];
}

/** Work for many processes on a PostgreSQL server of their own. */
export async function startHosts(
  t: Pick<TestContext, 'after'>,
  leaseMs: number,
  { payEveryMs = 100, folder, lightAssets = false }: HostsOptions = {},
): Promise<HostsBed> {
  let current = await startPostgresServer(folder === undefined ? {} : { folder });
  const database = () => current;
  const proxy = await startFaultProxy(database().port);
  const url = database().url.replace(`:${database().port}/`, `:${proxy.port}/`);
  const bed = await startWorkBed({
    payEveryMs,
    lightAssets,
    config: {
      follow: { pollMs: 100, leaseMs, maxReadyLagSlots: 50 },
      store: { url, statementTimeoutMs: STATEMENT_MS, poolSize: 6 },
    },
  });
  t.after(async () => {
    await bed.stop();
    await proxy.close();
    await current.stop();
  });
  const seats: Seat[] = [];
  const leaks: string[] = [];
  let count = 0;
  return {
    ...bed,
    database,
    proxy,
    openStore: () =>
      openStore({ url: database().url, poolSize: 2, busyTimeoutMs: 5_000, statementTimeoutMs: 30_000 }, bed.dataDir),
    async moveTo(server) {
      const before = current;
      current = server;
      proxy.aim(server.port);
      proxy.cut();
      await before.stop();
    },
    async seat(role) {
      const name = `parhelion-${role}-${count++}`;
      const clock = createSteppedClock(join(bed.dataDir, `clock-${name}`));
      // The database knows by the name of a connection who writes.
      const store = `${url}?application_name=${name}`;
      const daemon = bed.start({ role, env: { ...clock.env, PARHELION_STORE__URL: store } });
      watchOutput(daemon, leaks);
      const seat: Seat = { name, role, daemon, clock, endedMs: null, ...(await daemon.ready()) };
      void daemon.ended.then(() => {
        seat.endedMs = performance.now();
      });
      seats.push(seat);
      return seat;
    },
    said: () => seats.map(({ role, daemon }) => `--- ${role} ${daemon.child.pid}\n${daemon.output()}`).join('\n'),
    leaks: () => leaks,
    query: (text) => runSql(database().url, text),
  };
}

/** Also where a secret is cut in two by the way that it is read. */
function watchOutput({ child }: BuiltDaemon, leaks: string[]): void {
  const longest = Math.max(...SECRETS.map(({ length }) => length));
  for (const stream of [child.stdout, child.stderr]) {
    let rest = '';
    stream?.on('data', (chunk: Buffer) => {
      const text = rest + chunk.toString();
      for (const secret of SECRETS) if (text.includes(secret)) leaks.push(text.replaceAll(secret, '<secret>'));
      rest = text.slice(-longest + 1);
    });
  }
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
