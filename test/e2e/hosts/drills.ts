/** Drills of several hosts on one PostgreSQL: a process or the database is hurt as a seed has it, and everything has to be well again. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { lightMissing } from '../../helpers/light/missing.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { mountDisk } from '../../helpers/small-disk.ts';
import { checkField, mend, seatAgain } from './check-field.ts';
import { DRILLS, ON_DISK, STORE_DRILLS } from './drill-list.ts';
import { type Drill, type Field, LEASE_MS } from './field.ts';
import { endHosts, epochOf, type Seat, startHosts } from './harness.ts';
import { type Figures, startWitness } from './witness.ts';

/** What was paid during a drill has to be delivered after it, also on a slow machine. */
const PAY_EVERY_MS = 300;
/** Longer than usage waits to be written: what was counted before must not be lost. */
const MAX_CALM_MS = 2_500;
/** Only as much memory as is written is used. */
const DISK_BYTES = 1_073_741_824;
/** Clients draw beside the drills, which are the same for a seed however long they take. */
const CLIENT_SEED = 1_000_003;

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
  /** What was checked of the last writes. */
  readonly end: Figures;
}

/** Runs so many drills, one after the other, on the same hosts; the last ones are those of `last`. */
export async function runDrills(
  t: Pick<TestContext, 'after'>,
  { seed, count, only = Object.keys(DRILLS), last = [] }: DrillsOptions,
  tell: (line: object) => void = () => undefined,
): Promise<DrillsReport> {
  const unknown = [...only, ...last].filter((name) => !Object.hasOwn(DRILLS, name));
  assert.deepEqual(unknown, [], `there are ${Object.keys(DRILLS).join('; ')}`);
  let drawn: object = {};
  const field = await startField(t, seed, (values) => (drawn = values));
  const { bed, disk, draw, seats, witness } = field;
  const leftOut = disk === null ? [ON_DISK] : [];
  await checkField(field);
  const names = only.filter((name) => !leftOut.includes(name));
  const all = Array.from({ length: names.length === 0 ? 0 : count }, () => names[draw.below(names.length)] as string);
  const drills = [...all, ...last.filter((name) => !leftOut.includes(name))];
  for (const [at, name] of drills.entries()) {
    // Clients are in the middle of something when it begins.
    await sleep(draw.below(MAX_CALM_MS));
    const begunMs = performance.now();
    field.drill = { begunMs, hurtsStore: STORE_DRILLS.has(name) };
    drawn = {};
    let figures: Figures;
    try {
      await (DRILLS[name] as Drill)(field);
      await mend(field);
      figures = await checkField(field);
    } catch (error) {
      const what = `${name} ${JSON.stringify(drawn)}`;
      throw new Error(`drill ${at + 1} of seed ${seed} (${what}): ${(error as Error).message}`, { cause: error });
    }
    tell({ drill: at + 1, name, ...drawn, ...figures, seconds: Math.round((performance.now() - begunMs) / 100) / 10 });
  }
  const epoch = await epochOf(bed);
  await witness.pause();
  const deliveries = await endHosts(bed, seats);
  return { drills, leftOut, epoch, deliveries, end: await witness.checkEnd() };
}

async function startField(t: Pick<TestContext, 'after'>, seed: number, note: Field['note']): Promise<Field> {
  const disk = mountDisk(DISK_BYTES);
  if (disk !== null) t.after(disk.unmount);
  const folder = disk === null ? {} : { folder: disk.path };
  const hasLight = (await lightMissing()) === false;
  const lightAssets = hasLight ? null : false;
  const bed = await startHosts(t, LEASE_MS, { payEveryMs: PAY_EVERY_MS, lightAssets, ...folder });
  const seats: Seat[] = [];
  for (const role of ['api', 'deliverer', 'indexer', 'indexer'] as const) seats.push(await seatAgain(bed, role));
  const api = () => (seats.find(({ role }) => role === 'api') as Seat).api;
  const witness = await startWitness({ bed, hasLight, api, draw: createSfc32(seed + CLIENT_SEED) });
  t.after(witness.pause);
  witness.resume();
  const drill = { begunMs: performance.now(), hurtsStore: false };
  return { bed, disk, draw: createSfc32(seed), seats, note, witness, drill };
}
