/** Drills of several hosts on one PostgreSQL: a process or the database is hurt as a seed has it, and everything has to be well again. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Role } from '../../../src/ports/role.ts';
import { startReplica } from '../../helpers/postgres-replica.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { mountDisk } from '../../helpers/small-disk.ts';
import { eventually } from '../roles/bed.ts';
import { endHosts, epochOf, type HostsBed, leading, type Seat, startHosts, untilMoves } from './bed.ts';
import { stepClock } from './clock-drill.ts';
import { fillDisk } from './disk-drill.ts';
import { type Drill, type Field, leaderOf, pickOf } from './field.ts';

const LEASE_MS = 1_000;
/** With each webhook every payment is delivered once more. */
const MOST_HOOKS = 5;
/** What was paid during a drill has to be delivered after it, also on a slow machine. */
const PAY_EVERY_MS = 300;
const SETTLE_S = 120;
const START_TRIES = 5;
/** Only as much memory as is written is used. */
const DISK_BYTES = 1_073_741_824;
/** Needs a disk for the database alone. */
const ON_DISK = 'the disk of the database is full';

async function pause(seat: Seat, ms: number): Promise<void> {
  seat.daemon.child.kill('SIGSTOP');
  await sleep(ms);
  seat.daemon.child.kill('SIGCONT');
}

/** Everything that may happen to hosts, by name. Times are long enough for a lease to run out, or too short for it. */
const DRILLS: Readonly<Record<string, Drill>> = {
  'the leader is killed': async (field) => await (await leaderOf(field)).daemon.kill('SIGKILL'),
  'a process is killed': async (field) => await pickOf(field).daemon.kill('SIGKILL'),
  'the leader hands over': async (field) => await (await leaderOf(field)).daemon.kill('SIGTERM'),
  'the leader is paused': async (field) => await pause(await leaderOf(field), field.draw.between(200, 3 * LEASE_MS)),
  'a process is paused': async (field) => await pause(pickOf(field), field.draw.between(200, 3 * LEASE_MS)),
  async 'the way to the database breaks'({ bed, draw }) {
    bed.proxy.set({
      up: { resetAfterBytes: 0 },
      down: { resetAfterBytes: 0 },
      probability: draw.below(2) === 0 ? 1 : 0.5,
    });
    bed.proxy.cut();
    await sleep(draw.between(100, 3_000));
  },
  async 'the way to the database swallows everything'({ bed, draw }) {
    bed.proxy.set({ up: { blackhole: draw.below(2) === 0 }, down: { blackhole: true } });
    await sleep(draw.between(100, 3_000));
    // What was swallowed would be waited for.
    bed.proxy.cut();
  },
  async 'the way to the database is slow'({ bed, draw }) {
    bed.proxy.set({ down: { latencyMs: draw.between(5, 100), jitterMs: 5 } });
    await sleep(draw.between(500, 3_000));
  },
  async 'the database restarts'({ bed, draw }) {
    await bed.database().down();
    await sleep(draw.below(1_500));
    await bed.database().up();
  },
  async 'the database crashes'({ bed, draw }) {
    await bed.database().crash();
    await sleep(draw.below(1_500));
    await bed.database().up();
  },
  async 'the receiver is down'({ bed, draw }) {
    bed.receiver.setFallback({ kind: 'answer', status: 503 });
    await sleep(draw.between(200, 3_000));
  },
  'a replica takes the place of the database': failOver,
  'the clock of a process steps': stepClock,
  [ON_DISK]: fillDisk,
};

/** What was acknowledged while commits waited for the replica is there when the first server is lost for good. */
async function failOver({ bed, seats }: Field): Promise<void> {
  const replica = await startReplica(bed.database());
  const api = seats.find(({ role }) => role === 'api') as Seat;
  let isOver = false;
  const asking = (async () => {
    // Some of these are answered before the end, some find the database gone.
    while (!isOver) {
      if (bed.ledger.acknowledged < MOST_HOOKS)
        await bed.ledger.create(api.api, [bed.payments.addresses[0] as string]).catch(() => 0);
      await sleep(20);
    }
  })();
  await sleep(300);
  await bed.database().crash();
  await replica.promote();
  await bed.moveTo(replica);
  isOver = true;
  await asking;
}

/** A start that finds the database in trouble ends with 75, and is tried again. */
async function seatAgain(bed: HostsBed, role: Role): Promise<Seat> {
  for (let tries = 1; ; tries += 1)
    try {
      return await bed.seat(role);
    } catch (error) {
      if (tries >= START_TRIES || !(error as Error).message.includes('ended with 75')) throw error;
    }
}

/** Everything that was hurt is mended, and what ended is started again, as a service manager would. */
async function mend({ bed, seats }: Field): Promise<void> {
  bed.proxy.clear();
  bed.receiver.setFallback({ kind: 'answer', status: 200 });
  for (const [at, { role, daemon }] of seats.entries()) {
    if (daemon.child.exitCode === null && daemon.child.signalCode === null) continue;
    const { exitCode, signalCode } = daemon.child;
    assert.ok(
      signalCode === 'SIGKILL' || exitCode === 0 || exitCode === 75,
      `${role} ended with ${exitCode}: ${daemon.output()}`,
    );
    seats[at] = await seatAgain(bed, role);
  }
}

/** One leads, the chain is followed, a new webhook is taken, and everything that was acknowledged is delivered. */
async function checkField(field: Field): Promise<void> {
  const { bed, seats } = field;
  const count = async () => {
    const each = seats.filter(({ role }) => role === 'indexer').map((seat) => leading(seat).catch(() => null));
    return (await Promise.all(each)).reduce<number>((sum, value) => sum + (value ?? 0), 0);
  };
  // One that was paused may end only now.
  await eventually(
    'one leads',
    async () => {
      await mend(field);
      return (await count()) === 1;
    },
    bed.said,
  );
  await untilMoves(bed);
  await eventually(
    'a webhook is taken',
    async () => {
      await mend(field);
      if (bed.ledger.acknowledged >= MOST_HOOKS) return true;
      const api = seats.find(({ role }) => role === 'api') as Seat;
      const address = bed.payments.addresses[field.draw.below(bed.payments.addresses.length)] as string;
      return (await bed.ledger.create(api.api, [address]).catch(() => 0)) === 200;
    },
    bed.said,
  );
  await bed.payments.pause();
  await bed.ledger.settle(bed.openStore, SETTLE_S, bed.said);
  bed.payments.resume();
}

export interface DrillsOptions {
  readonly seed: number;
  readonly count: number;
  /** Names to draw from; default: all. */
  readonly only?: readonly string[];
  /** Drills beside the drawn ones. */
  readonly last?: readonly string[];
}

export interface DrillsReport {
  readonly drills: readonly string[];
  /** Those that this machine does not allow. */
  readonly leftOut: readonly string[];
  readonly deliveries: number;
  readonly epoch: number;
}

/** Runs so many drills, one after the other, on the same hosts; the last ones are those of `last`. */
export async function runDrills(
  t: Pick<TestContext, 'after'>,
  { seed, count, only = Object.keys(DRILLS), last = [] }: DrillsOptions,
  tell: (line: object) => void = () => undefined,
): Promise<DrillsReport> {
  const unknown = [...only, ...last].filter((name) => !Object.hasOwn(DRILLS, name));
  assert.deepEqual(unknown, [], `there are ${Object.keys(DRILLS).join('; ')}`);
  const draw = createSfc32(seed);
  const disk = mountDisk(DISK_BYTES);
  const leftOut = disk === null ? [ON_DISK] : [];
  if (disk !== null) t.after(disk.unmount);
  const folder = disk === null ? {} : { folder: disk.path };
  const bed = await startHosts(t, LEASE_MS, { payEveryMs: PAY_EVERY_MS, ...folder });
  const seats: Seat[] = [];
  for (const role of ['api', 'deliverer', 'indexer', 'indexer'] as const) seats.push(await seatAgain(bed, role));
  let drawn: object = {};
  const field: Field = { bed, disk, draw, seats, note: (values) => (drawn = values) };
  await checkField(field);
  const names = only.filter((name) => !leftOut.includes(name));
  const all = Array.from({ length: names.length === 0 ? 0 : count }, () => names[draw.below(names.length)] as string);
  const drills = [...all, ...last.filter((name) => !leftOut.includes(name))];
  for (const [at, name] of drills.entries()) {
    const begunMs = performance.now();
    drawn = {};
    try {
      await (DRILLS[name] as Drill)(field);
      await mend(field);
      await checkField(field);
    } catch (error) {
      const what = `${name} ${JSON.stringify(drawn)}`;
      throw new Error(`drill ${at + 1} of seed ${seed} (${what}): ${(error as Error).message}`, { cause: error });
    }
    tell({ drill: at + 1, name, ...drawn, seconds: Math.round((performance.now() - begunMs) / 100) / 10 });
  }
  const epoch = await epochOf(bed);
  return { drills, leftOut, epoch, deliveries: await endHosts(bed, seats) };
}
