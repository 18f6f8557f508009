import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../roles/harness.ts';
import { type Field, leaderOf, pickOf } from './field.ts';
import type { Seat } from './harness.ts';

const MIN_MS = 1_000;
/** Doublings of the least step: up to four and a half hours. */
const DOUBLINGS = 14;

/**
 * A wall clock is set by seconds or hours, in either direction, perhaps while attempts fail and are planned again. It stays so, or is
 * set right; a process that is started again has the right time.
 */
export async function stepClock(field: Field): Promise<void> {
  const { bed, draw } = field;
  const seat = pickOf(field);
  const byMs = Math.round(MIN_MS * 2 ** (DOUBLINGS * draw.float()));
  const aheadMs = draw.below(2) === 0 ? byMs : -byMs;
  const isReceiverDown = draw.below(2) === 0;
  const isSetRight = draw.below(2) === 0;
  const leads = seat === (await leaderOf(field));
  field.note({ role: seat.role, leads, aheadMs, isReceiverDown, isSetRight });
  if (isReceiverDown) bed.receiver.setFallback({ kind: 'answer', status: 503 });
  await setClock(seat, aheadMs);
  await sleep(draw.between(200, 3_000));
  if (isSetRight) await setClock(seat, 0);
}

async function setClock({ clock, daemon }: Seat, aheadMs: number): Promise<void> {
  clock.set(aheadMs);
  const isOver = () => daemon.child.exitCode !== null || daemon.child.signalCode !== null;
  await eventually('the process has the time', () => isOver() || daemon.output().includes(clock.said(aheadMs)));
}
