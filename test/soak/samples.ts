import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** One look at a daemon from outside. */
export interface Sample {
  readonly atSeconds: number;
  readonly rssMb: number;
  /** Of the main thread. */
  readonly heapMb: number;
  readonly descriptors: number;
  readonly threads: number;
  readonly loopLagMs: number;
  readonly chainLagSlots: number;
  /** Deliveries that are not over. */
  readonly openDeliveries: number;
  /** p95 of the calls since the sample before, as a client has it. */
  readonly callMs: number;
  /** Of the data folder. */
  readonly diskMb: number;
}

export type Quantity = Exclude<keyof Sample, 'atSeconds'>;

export const QUANTITIES: readonly Quantity[] = [
  ...(['rssMb', 'heapMb', 'descriptors', 'threads', 'loopLagMs', 'chainLagSlots', 'openDeliveries'] as const),
  ...(['callMs', 'diskMb'] as const),
];

/** Where a daemon is looked at. */
export interface Sight {
  readonly pid: number;
  readonly admin: string;
  readonly dataDir: string;
  /** p95 of the calls since this was asked before, in ms. */
  callMs(): number;
}

export async function takeSample({ pid, admin, dataDir, callMs }: Sight, atSeconds: number): Promise<Sample> {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const field = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? Number.NaN);
  const metrics = await (await fetch(`${admin}/metrics`)).text();
  const ready = (await (await fetch(`${admin}/readyz`)).json()) as { chain: { lagSlots: number | null }[] };
  return {
    atSeconds,
    rssMb: round(field('VmRSS') / 1_024),
    heapMb: round(largest(metrics, 'nodejs_heap_size_used_bytes') / 1_048_576),
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    threads: field('Threads'),
    loopLagMs: round(largest(metrics, 'nodejs_eventloop_lag_p99_seconds') * 1_000),
    chainLagSlots: ready.chain[0]?.lagSlots ?? 0,
    openDeliveries: sum(metrics, 'parhelion_jobs_pending_rows') + sum(metrics, 'parhelion_jobs_running'),
    callMs: round(callMs()),
    diskMb: round(bytesOf(dataDir) / 1_048_576),
  };
}

function bytesOf(folder: string): number {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files.reduce((total, { parentPath, name }) => {
    // Some come and go.
    return total + (statSync(join(parentPath, name), { throwIfNoEntry: false })?.size ?? 0);
  }, 0);
}

const round = (value: number) => Math.round(value * 10) / 10;

function values(metrics: string, name: string): number[] {
  const lines = metrics.split('\n').filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`));
  return lines.map((line) => Number(line.slice(line.lastIndexOf(' ') + 1)));
}

function sum(metrics: string, name: string): number {
  return values(metrics, name).reduce((total, value) => total + value, 0);
}

/** The roles of a daemon have values of their own. */
function largest(metrics: string, name: string): number {
  return Math.max(0, ...values(metrics, name));
}
