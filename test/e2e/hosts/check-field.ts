import assert from 'node:assert/strict';
import type { Role } from '../../../src/ports/daemon-view.ts';
import { unwrittenSince } from '../../helpers/usage-bounds.ts';
import { eventually } from '../roles/harness.ts';
import type { Field } from './field.ts';
import { type HostsBed, leading, type Seat, untilMoves } from './harness.ts';
import type { Figures } from './witness.ts';

/** With each webhook every payment is delivered once more. */
const MAX_HOOKS = 5;
const SETTLE_S = 120;
const START_TRIES = 5;
/** Usage is written every second by default, and on a busy machine a while later. */
const FLUSH_MS = 16_000;

/** Asks for a webhook, unless there are enough of them. Whether there are, or it was made. */
export async function createHook({ bed, seats, witness }: Field, address: string): Promise<boolean> {
  if (bed.ledger.acknowledged >= MAX_HOOKS) return true;
  const { api } = seats.find(({ role }) => role === 'api') as Seat;
  return (await witness.client.note('create', bed.ledger.create(api, [address]))) === 200;
}

/** A start that finds the database in trouble ends with 75, and is tried again. */
export async function seatAgain(bed: HostsBed, role: Role): Promise<Seat> {
  for (let tries = 1; ; tries += 1)
    try {
      return await bed.seat(role);
    } catch (error) {
      if (tries >= START_TRIES || !(error as Error).message.includes('ended with 75')) throw error;
    }
}

/** Everything that was hurt is mended, and what ended is started again, as a service manager would. */
export async function mend({ bed, seats, drill, witness }: Field): Promise<void> {
  bed.proxy.clear();
  bed.receiver.setFallback({ kind: 'answer', status: 200 });
  for (const [at, seat] of seats.entries()) {
    const { role, daemon } = seat;
    if (daemon.child.exitCode === null && daemon.child.signalCode === null) continue;
    await daemon.ended;
    const { exitCode, signalCode } = daemon.child;
    assert.ok(
      signalCode === 'SIGKILL' || exitCode === 0 || exitCode === 75,
      `${role} ended with ${exitCode}: ${daemon.output()}`,
    );
    const failing = drill.hurtsStore ? { sinceMs: drill.begunMs, untilMs: null } : null;
    const endedMs = seat.endedMs ?? performance.now();
    if (exitCode !== 0) witness.ended(seat, unwrittenSince(endedMs, failing, FLUSH_MS));
    seats[at] = await seatAgain(bed, role);
  }
}

/** One leads, the chain is followed, a new webhook is taken, everything that was acknowledged is delivered, and the witness agrees. */
export async function checkField(field: Field): Promise<Figures> {
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
      await field.witness.look();
      return (await count()) === 1;
    },
    bed.said,
  );
  await untilMoves(bed);
  await eventually(
    'a webhook is taken',
    async () => {
      await mend(field);
      return await createHook(field, bed.payments.addresses[field.draw.below(bed.payments.addresses.length)] as string);
    },
    bed.said,
  );
  await Promise.all([bed.payments.pause(), field.witness.pause()]);
  await bed.ledger.settle(bed.openStore, SETTLE_S, bed.said);
  const figures = await field.witness.check(seats);
  bed.payments.resume();
  field.witness.resume();
  return figures;
}
