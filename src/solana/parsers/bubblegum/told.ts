import { LayoutError } from '../../byte-reader.ts';
import { type ChangeLog, readApplicationData, readChangeLog } from '../../concurrent/change-log.ts';
import { type LeafSchema, readLeafEvent } from '../../concurrent/leaf-schema.ts';
import type { ViewStep } from '../view.ts';

const NOOPS = ['noopb9bkMVfRPU8AsbpTUg8AQkHtKwMYZiFUjNRtMmV', 'mnoopTCrg4p8ry25e4bcWA9XZjbNjMTfgYVGGEdRsf3'];

/** What a Bubblegum instruction told about a leaf. */
export interface Told {
  readonly leaf: LeafSchema | null;
  readonly change: ChangeLog | null;
}

/** Reads the records among the calls that an instruction made. */
export function readTold(calls: readonly ViewStep[]): Told {
  let leaf: LeafSchema | null = null;
  let change: ChangeLog | null = null;
  for (const { programId, data } of calls) {
    if (!NOOPS.includes(programId)) continue;
    change ??= tolerant(() => readChangeLog(data));
    leaf ??= tolerant(() => {
      const application = readApplicationData(data);
      return application === null ? null : readLeafEvent(application);
    });
  }
  return { leaf, change };
}

function tolerant<T>(read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    if (error instanceof LayoutError || error instanceof RangeError) return null;
    throw error;
  }
}
