import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { startReplica } from '../../helpers/postgres-replica.ts';
import { createHook } from './check-field.ts';
import { stepClock } from './clock-drill.ts';
import { fillDisk } from './disk-drill.ts';
import { type Drill, type Field, LEASE_MS, leaderOf, pickOf } from './field.ts';
import type { Seat } from './harness.ts';

/** Needs a disk for the database alone. */
export const ON_DISK = 'the disk of the database is full';

async function pause(seat: Seat, ms: number): Promise<void> {
  seat.daemon.child.kill('SIGSTOP');
  await sleep(ms);
  seat.daemon.child.kill('SIGCONT');
}

/** Everything that may happen to hosts, by name. Times are long enough for a lease to run out, or too short for it. */
export const DRILLS: Readonly<Record<string, Drill>> = {
  'the leader is killed': async (field) => await (await leaderOf(field)).daemon.kill('SIGKILL'),
  'a process is killed': async (field) => await pickOf(field).daemon.kill('SIGKILL'),
  async 'the leader hands over'(field) {
    const { daemon } = await leaderOf(field);
    await daemon.kill('SIGTERM');
    assert.equal(daemon.child.exitCode, 0, daemon.output());
  },
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

/** While these run, and until they are mended, the store may refuse whatever it is asked. */
export const STORE_DRILLS: ReadonlySet<string> = new Set([
  'the way to the database breaks',
  'the way to the database swallows everything',
  'the way to the database is slow',
  'the database restarts',
  'the database crashes',
  'a replica takes the place of the database',
  ON_DISK,
]);

/** What was acknowledged while commits waited for the replica is there when the first server is lost for good. */
async function failOver(field: Field): Promise<void> {
  const { bed } = field;
  const replica = await startReplica(bed.database());
  let isOver = false;
  const asking = (async () => {
    // Some of these are answered before the end, some find the database gone.
    while (!isOver) {
      await createHook(field, bed.payments.addresses[0] as string);
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
