import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Role } from '../../../src/ports/daemon-view.ts';
import type { BuiltDaemon } from '../../helpers/built-daemon.ts';
import { integrityOf } from '../../helpers/delivery-ledger.ts';
import { createSfc32, type Sfc32 } from '../../helpers/sfc32.ts';
import { until } from '../../helpers/until.ts';
import { startWorkBed, type WorkBed } from '../../helpers/work-harness.ts';

const SEED = Number(process.env['PARHELION_SEED'] ?? 20261121);
/** Multiplies the kills of every suite, for long runs. */
const TIMES = Number(process.env['PARHELION_KILL_TIMES'] ?? 1);
const LEASES_OUT_SECONDS = 120;
/** Of so many lives that end early, one goes on until it works. */
const EARLY_LIVES = 5;
const SECOND_ROLES: readonly Role[] = ['deliverer'];

export interface KillRun {
  /** Address of the store; default SQLite in the data folder. */
  readonly store?: string;
  /**
   * `starting`: most lives end before the daemon is ready, in every phase from the first migration on.
   * `working`: they end while it follows, delivers, takes webhooks and reloads.
   */
  readonly while: 'starting' | 'working';
  readonly kills: number;
}

/** Starts and kills a daemon again and again; then everything that it was paid, told and acknowledged has to add up. */
export async function killAgainAndAgain(t: TestContext, run: KillRun): Promise<void> {
  const random = createSfc32(SEED);
  const bed = await startWorkBed(run.store === undefined ? {} : { store: run.store });
  t.after(() => bed.stop());
  const kills = Math.ceil(run.kills * TIMES);
  let startMs = 300;
  let next = bed.start({ warm: true });
  for (let kill = 0; kill < kills; kill += 1) {
    const daemon = next;
    await isWarm(daemon);
    daemon.go();
    const startedMs = performance.now();
    next = bed.start({ warm: true });
    if (run.while === 'starting' && kill % EARLY_LIVES !== EARLY_LIVES - 1) await sleep(random.below(startMs * 1.2));
    else {
      const { api } = await daemon.ready();
      startMs = (startMs + (performance.now() - startedMs)) / 2;
      await live(bed, daemon, api, random);
    }
    assert.equal(daemon.child.exitCode, null, `it ended by itself before kill ${kill}:\n${daemon.output()}`);
    await daemon.kill('SIGKILL');
    if (run.store === undefined) assertIntact(bed, `after kill ${kill}`);
  }
  await next.kill('SIGKILL');
  const deliveries = await endWell(bed);
  t.diagnostic(`${kills} kills, ${deliveries} deliveries, ${bed.receiver.received.length} requests, seed ${SEED}`);
}

async function isWarm(daemon: BuiltDaemon): Promise<void> {
  await until(() => daemon.output().startsWith('warm') || daemon.child.exitCode !== null);
}

/** A little of everything that a daemon does when it has started. */
async function live(bed: WorkBed, daemon: BuiltDaemon, api: string, random: Sfc32): Promise<void> {
  const [one, two, three] = bed.payments.addresses as [string, string, string];
  const sets = [[one], [one, two], [three]];
  const { acknowledged } = bed.ledger;
  if (acknowledged < sets.length) await bed.ledger.create(api, sets[acknowledged] ?? []);
  if (random.below(4) === 0) daemon.child.kill('SIGHUP');
  if (random.below(8) === 0) {
    // The answer is not waited for: the webhook may or may not have been made when the kill comes.
    bed.ledger.create(api, [two]).catch(() => undefined);
    await sleep(random.below(20));
    return;
  }
  await sleep(random.below(1_200));
}

export function assertIntact(bed: WorkBed, when: string): void {
  const path = join(bed.dataDir, 'parhelion.db');
  if (existsSync(path)) assert.equal(integrityOf(path), 'ok', when);
}

/**
 * Everything is delivered, the daemons stop in order, and the books agree: those that run, or without any one more life of a daemon.
 */
export async function endWell(bed: WorkBed, running?: readonly BuiltDaemon[]): Promise<number> {
  const daemons = running ?? [bed.start()];
  const said = () => daemons.map((daemon) => daemon.output()).join('\n');
  const [first] = daemons as [BuiltDaemon];
  const { api } = await first.ready();
  assert.equal(await bed.ledger.create(api, [bed.payments.addresses[0] as string]), 200);
  await sleep(300);
  await bed.payments.stop();
  await bed.ledger.settle(bed.openStore, LEASES_OUT_SECONDS, said);
  for (const daemon of daemons) await daemon.kill('SIGTERM');
  for (const daemon of daemons) {
    assert.equal(daemon.child.exitCode, 0, daemon.output());
    // Parts of a daemon that do not understand each other still work, later: nothing else would show it.
    assert.doesNotMatch(daemon.output(), /could not be sent on the bus/);
  }
  const store = await bed.openStore();
  try {
    return await bed.ledger.check(store);
  } finally {
    await store.close();
  }
}

/**
 * Runs every role in a process of its own and kills one of them at a time, at a random moment, also while it starts. With PostgreSQL
 * there is a second process of the roles that may have one.
 */
export async function killRoles(t: TestContext, run: Omit<KillRun, 'while'>): Promise<void> {
  const random = createSfc32(SEED);
  const bed = await startWorkBed(run.store === undefined ? {} : { store: run.store });
  t.after(() => bed.stop());
  const kills = Math.ceil(run.kills * TIMES);
  const roles: readonly Role[] = ['api', 'indexer', 'deliverer', ...(run.store === undefined ? [] : SECOND_ROLES)];
  const seats = roles.map((role) => ({ role, daemon: bed.start({ role }) }));
  const api = seats[0] as (typeof seats)[number];
  let creating: Promise<unknown> = Promise.resolve();
  const addresses = bed.payments.addresses as [string, string, string];
  for (const set of [[addresses[0]], [addresses[0], addresses[1]], [addresses[2]]])
    assert.equal(await bed.ledger.create((await api.daemon.ready()).api, set), 200);
  for (let kill = 0; kill < kills; kill += 1) {
    const seat = seats[random.below(seats.length)] as (typeof seats)[number];
    const next = bed.start({ role: seat.role, warm: true });
    await isWarm(next);
    await sleep(random.below(600));
    if (seat === api && random.below(2) === 0) {
      const ready = await api.daemon.ready();
      creating = bed.ledger.create(ready.api, [addresses[1]]).catch(() => undefined);
      await sleep(random.below(20));
    }
    assert.equal(seat.daemon.child.exitCode, null, `${seat.role} ended by itself:\n${seat.daemon.output()}`);
    await seat.daemon.kill('SIGKILL');
    await creating;
    if (run.store === undefined) assertIntact(bed, `after kill ${kill}`);
    next.go();
    seat.daemon = next;
  }
  const deliveries = await endWell(
    bed,
    seats.map(({ daemon }) => daemon),
  );
  t.diagnostic(`${kills} kills, ${deliveries} deliveries, ${bed.receiver.received.length} requests, seed ${SEED}`);
}
