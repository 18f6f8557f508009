import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BuiltDaemon } from '../../helpers/built-daemon.ts';
import { mountDisk, type SmallDisk } from '../../helpers/small-disk.ts';
import type { WorkBed } from '../../helpers/work-harness.ts';

/** Looks at a daemon from outside while its store fails. */
export interface Witness {
  /** Details of the checks that failed, by name, as /readyz told them. */
  readonly reasons: ReadonlySet<string>;
  /** Answers of /readyz by status. */
  readonly statuses: ReadonlyMap<number, number>;
  /** Statuses of the webhooks that were asked for all the time. */
  readonly created: ReadonlyMap<number, number>;
  stop(): Promise<void>;
}

const LOOK_MS = 15;
const CREATE_MS = 100;

/** Asks for readiness and makes webhooks without a pause, until it is stopped. Whatever is acknowledged is in the ledger. */
export async function watch(bed: WorkBed, daemon: BuiltDaemon): Promise<Witness> {
  const { api, admin } = await daemon.ready();
  const reasons = new Set<string>();
  const statuses = new Map<number, number>();
  const created = new Map<number, number>();
  const count = (map: Map<number, number>, status: number) => map.set(status, (map.get(status) ?? 0) + 1);
  let over = false;
  const look = async () => {
    while (!over) {
      const answer = await fetch(`${admin}/readyz`, { signal: AbortSignal.timeout(5_000) }).catch(() => null);
      if (answer !== null) {
        count(statuses, answer.status);
        const { checks } = (await answer.json()) as { checks: { name: string; ok: boolean; detail: string }[] };
        for (const { name, ok, detail } of checks) if (!ok) reasons.add(`${name}: ${detail}`);
      }
      await sleep(LOOK_MS);
    }
  };
  const create = async () => {
    for (let turn = 0; !over; turn += 1) {
      const address = bed.payments.addresses[turn % bed.payments.addresses.length] as string;
      // At most a few dozen webhooks: each payment is delivered to all of them.
      if (bed.ledger.acknowledged < 30) count(created, await bed.ledger.create(api, [address]).catch(() => 0));
      await sleep(CREATE_MS);
    }
  };
  const running = [look(), create()];
  return {
    reasons,
    statuses,
    created,
    async stop() {
      over = true;
      await Promise.all(running);
    },
  };
}

/** Waits until the daemon has ended by itself; it is given `seconds`. */
export async function endOf(daemon: BuiltDaemon, seconds: number): Promise<number | null> {
  const late = sleep(seconds * 1_000, 'late' as const, { ref: false });
  const end = await Promise.race([daemon.ended, late]);
  if (end === 'late') assert.fail(`the daemon still runs after ${seconds} s:\n${daemon.output()}`);
  return end;
}

/** It was ready; whenever it was not, it said why. A daemon that ends at once may have had no time to be asked. */
export function assertSaid(witness: Witness, daemon: BuiltDaemon, pattern: RegExp): void {
  const said = [...witness.reasons];
  assert.ok((witness.statuses.get(200) ?? 0) > 0, 'it was ready before');
  const isUnready = (witness.statuses.get(503) ?? 0) > 0;
  assert.ok(!isUnready || said.some((reason) => pattern.test(reason)), `/readyz said ${JSON.stringify(said)}`);
  assert.match(daemon.output(), pattern);
}

export function mountSmallDisk(t: TestContext, bytes: number): SmallDisk | null {
  const disk = mountDisk(bytes);
  if (disk === null) t.skip('needs the right to mount a tmpfs');
  else t.after(disk.unmount);
  return disk;
}

/** Arguments that make system calls of a daemon fail with `error` from the `from`th of each thread on; null without strace. */
export function failingCalls(t: TestContext, calls: string, error: string, from: number): readonly string[] | null {
  const inject = [
    '-f',
    '-qq',
    '-o',
    '/dev/null',
    '-e',
    `trace=${calls}`,
    '-e',
    `inject=${calls}:error=${error}:when=${from}+`,
  ];
  try {
    execFileSync('strace', ['-f', '-o', '/dev/null', '-e', 'trace=fsync', 'true'], { stdio: 'ignore' });
  } catch {
    t.skip('needs strace, and the right to trace');
    return null;
  }
  return ['strace', ...inject];
}
