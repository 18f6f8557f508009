import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SmallDisk } from '../../helpers/small-disk.ts';
import type { Field } from './field.ts';
import type { HostsBed, Seat } from './harness.ts';

const MEGABYTE = 1_048_576;
/** A table of about 40 MB, which no other session sees. */
const FILL_DATA = `create temp table filler as select repeat(md5(n::text), 12) as b from generate_series(1, 100000) as n`;
/** A record of a megabyte, and nothing beside the log. */
const FILL_LOG = `select pg_logical_emit_message(false, 'filler', repeat('x', ${MEGABYTE}))`;
const MAX_LEFT = 65_536;
const MAX_LOOKS = 150;
/** More than any log that the server makes ahead. */
const MAX_RECORDS = 1_000;

/**
 * The disk of the database is full for a while. Statements that need room fail; once the log finds none the server ends all its
 * processes, and itself, because it cannot start again either. Then there is room, and it is started again if it has to be.
 */
export async function fillDisk({ bed, disk, draw, note, seats }: Field): Promise<void> {
  assert.ok(disk);
  const isLogToo = draw.below(2) === 0;
  const leave = draw.below(MAX_LEFT);
  const felt = feltBy(seats);
  await whileFull(disk, leave, async () => {
    const refusal = isLogToo ? await fillLog(bed) : await refusalOf(bed, FILL_DATA);
    assert.ok(refusal !== null, 'the disk was not full');
    await untilFelt(seats, felt);
    await sleep(draw.between(200, 4_000));
    const ended = seats.filter(({ daemon }) => daemon.child.exitCode !== null).map(({ role }) => role);
    note({ isLogToo, leave, refusal, ended });
  });
  await bed.database().revive();
}

/** Resolves when a process has ended or told of it; what is written goes into pages that are there already at first. */
async function untilFelt(seats: readonly Seat[], before: number): Promise<void> {
  for (let look = 0; look < MAX_LOOKS && feltBy(seats) <= before; look += 1) await sleep(100);
}

/** How often they have told of trouble, with an end as the last of it. */
const feltBy = (seats: readonly Seat[]): number =>
  seats.reduce((sum, { daemon: { child, output } }) => {
    const told = output().match(/STORE_(FULL|UNREACHABLE)/g)?.length ?? 0;
    return sum + told + (child.exitCode === null ? 0 : 1);
  }, 0);

async function whileFull(disk: SmallDisk, leave: number, work: () => Promise<void>): Promise<void> {
  disk.fill(leave);
  try {
    await work();
  } finally {
    disk.empty();
  }
}

async function fillLog(bed: HostsBed): Promise<string | null> {
  for (let record = 0; record < MAX_RECORDS; record += 1) {
    const refusal = await refusalOf(bed, FILL_LOG);
    if (refusal !== null) return refusal;
  }
  return null;
}

/** The code that the server, or the connection to it, failed with. */
async function refusalOf(bed: HostsBed, statement: string): Promise<string | null> {
  try {
    await bed.query(statement);
    return null;
  } catch (error) {
    const { code, message } = error as { readonly code?: string; readonly message: string };
    return code ?? message;
  }
}
