import assert from 'node:assert/strict';
import { after, before, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { endWell } from '../../e2e/crash/kills.ts';
import type { BuiltDaemon } from '../../helpers/built-daemon.ts';
import { chainMissing } from '../../helpers/chain.ts';
import { type FaultProxy, startFaultProxy } from '../../helpers/fault-proxy.ts';
import { type PostgresServer, startPostgresServer } from '../../helpers/postgres-server.ts';
import { startWorkBed, type WorkBed } from '../../helpers/work-harness.ts';
import { assertSaid, endOf, type Witness, watch } from './harness.ts';

const skip = (await chainMissing()) ?? false;
const STATEMENT_MS = 1_000;
let server: PostgresServer;
let databases = 0;

// A server of its own: this suite stops it.
before(async () => {
  server = await startPostgresServer();
});
after(() => server?.stop());

interface Bed {
  readonly bed: WorkBed;
  readonly proxy: FaultProxy;
  readonly daemon: BuiltDaemon;
  readonly witness: Witness;
  /** Runs a statement beside the daemon, on a connection that the proxy does not touch. */
  sql(text: string): Promise<void>;
  connect(): Promise<pg.Client>;
}

/** A daemon that works on a database of its own, with a fault proxy between them. */
async function startBed(t: TestContext): Promise<Bed> {
  const name = `fault_${++databases}`;
  const maintenance = await client(server.url);
  await maintenance.query(`create database ${name} template template0`);
  await maintenance.end();
  const proxy = await startFaultProxy(server.port);
  const store = server.url.replace('/postgres', `/${name}`);
  const bed = await startWorkBed({
    store,
    config: {
      store: {
        url: store.replace(`:${server.port}/`, `:${proxy.port}/`),
        statementTimeoutMs: STATEMENT_MS,
        poolSize: 6,
      },
    },
  });
  t.after(async () => {
    await bed.stop();
    await proxy.close();
  });
  const daemon = bed.start();
  const witness = await watch(bed, daemon);
  await bed.receiver.waitFor(5);
  const connect = () => client(store);
  return {
    bed,
    proxy,
    daemon,
    witness,
    connect,
    async sql(text) {
      const connection = await connect();
      await connection.query(text);
      await connection.end();
    },
  };
}

async function client(url: string): Promise<pg.Client> {
  const made = new pg.Client({ connectionString: url });
  made.on('error', () => undefined);
  await made.connect();
  return made;
}

/** The same process delivers again, stops in order, and the books agree. */
async function healed(t: TestContext, { bed, daemon, witness }: Bed): Promise<void> {
  const before = bed.receiver.received.length;
  await bed.receiver.waitFor(before + 10);
  await witness.stop();
  assert.equal(daemon.child.exitCode, null, daemon.output());
  const deliveries = await endWell(bed, [daemon]);
  t.diagnostic(`${deliveries} deliveries; readiness said ${[...witness.reasons].join(' | ')}`);
}

test('a database server that stops and comes back: not ready meanwhile, then everything goes on', {
  skip,
}, async (t) => {
  const made = await startBed(t);
  await server.down();
  await sleep(3_000);
  assert.equal(made.daemon.child.exitCode, null, made.daemon.output());
  assertSaid(made.witness, made.daemon, /STORE_UNREACHABLE/);
  assert.ok((made.witness.statuses.get(503) ?? 0) > 0);
  await server.up();
  await healed(t, made);
});

test('connections that are cut again and again, also in the middle of a commit', { skip }, async (t) => {
  const made = await startBed(t);
  for (let cut = 0; cut < 40; cut += 1) {
    await sleep(60 + ((cut * 37) % 80));
    made.proxy.cut();
  }
  await healed(t, made);
});

test('a server whose answers vanish: statements are given up, and nothing is taken for done or undone', {
  skip,
}, async (t) => {
  const made = await startBed(t);
  made.proxy.set({ down: { blackhole: true } });
  await sleep(STATEMENT_MS + 7_000);
  made.proxy.clear();
  made.proxy.cut();
  await healed(t, made);
});

test('statements that run into their time-out', { skip }, async (t) => {
  const made = await startBed(t);
  const holder = await made.connect();
  await holder.query('begin');
  await holder.query('lock table outbox in access exclusive mode');
  await sleep(3 * STATEMENT_MS);
  await holder.query('rollback');
  await holder.end();
  assert.match(made.daemon.output(), /STORE_BUSY|canceled the statement/);
  await healed(t, made);
});

for (const [state, code] of [
  ['53100', 'STORE_FULL'],
  ['25006', 'STORE_READ_ONLY'],
  ['58030', 'STORE_IO'],
] as const)
  test(`a server that answers every write with ${state} ends the daemon with 75 and ${code}`, { skip }, async (t) => {
    const made = await startBed(t);
    await made.sql(`create function refuse() returns trigger language plpgsql as
      $$ begin raise exception 'refused' using errcode = '${state}'; end $$`);
    await made.sql('create trigger refuse before insert or update on outbox execute function refuse()');
    assert.equal(await endOf(made.daemon, 60), 75, made.daemon.output());
    await made.witness.stop();
    assertSaid(made.witness, made.daemon, new RegExp(code));
    await made.sql('drop trigger refuse on outbox');
    t.diagnostic(`${await endWell(made.bed)} deliveries; readiness said ${[...made.witness.reasons].join(' | ')}`);
  });
