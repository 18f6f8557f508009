import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Readiness } from '../../../src/http/health.ts';
import type { BuiltDaemon } from '../../helpers/built-daemon.ts';
import { startWorkBed, type WorkBed } from '../../helpers/work-harness.ts';
import { writeProbePlugin } from './probe-plugin.ts';

const TRIES = 600;

export async function eventually(what: string, ask: () => boolean | Promise<boolean>, said = () => ''): Promise<void> {
  for (let round = 0; round < TRIES; round++) {
    if (await ask()) return;
    await sleep(100);
  }
  assert.fail(`never: ${what}\n${said()}`);
}

/** A bed whose daemons have the probe plugin; its configuration can be written again. */
export async function startRolesBed(
  t: TestContext,
  config: Readonly<Record<string, unknown>> = {},
  store?: string,
): Promise<WorkBed & { readonly signals: string; readonly probe: string }> {
  const signals = mkdtempSync(join(tmpdir(), 'parhelion-signals-'));
  const probe = writeProbePlugin(signals);
  const bed = await startWorkBed({
    ...(store === undefined ? {} : { store }),
    config: {
      plugins: ['access', 'proxy', 'sender', 'webhooks', probe],
      probe: { signals },
      ...config,
    },
  });
  t.after(async () => {
    await bed.stop();
    rmSync(signals, { recursive: true, force: true });
  });
  return { ...bed, signals, probe };
}

export async function readinessOf(admin: string): Promise<Readiness> {
  return (await (await fetch(`${admin}/readyz`)).json()) as Readiness;
}

export const metricsOf = async (admin: string): Promise<string> => await (await fetch(`${admin}/metrics`)).text();

/** The value of a metric by its name and labels, as they stand in the text. */
export function sampleOf(text: string, sample: string): number | null {
  const line = text.split('\n').find((one) => one.startsWith(`${sample} `));
  return line === undefined ? null : Number(line.slice(sample.length + 1));
}

/** Lines of a JSON log that are whole. */
export function logLines(daemon: Pick<BuiltDaemon, 'output'>): readonly Record<string, unknown>[] {
  return daemon
    .output()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .flatMap((line) => {
      try {
        return [JSON.parse(line) as Record<string, unknown>];
      } catch {
        return [];
      }
    });
}
