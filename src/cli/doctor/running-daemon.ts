import type { Readiness } from '../../kernel/health.ts';
import { messageOf } from '../../lib/coded-error.ts';
import { askReadiness } from '../ask-daemon.ts';
import type { RunFile } from '../run-file.ts';
import { type Finding, fail, ok, warn } from './finding.ts';

/** Readiness, lag and open gaps of each process that runs with this data folder. */
export async function daemonFindings(running: readonly RunFile[], maxLagSlots: number): Promise<Finding[]> {
  if (running.length === 0) return [ok('daemon', 'does not run')];
  return (await Promise.all(running.map((one) => processFindings(one, maxLagSlots)))).flat();
}

async function processFindings(running: RunFile, maxLagSlots: number): Promise<Finding[]> {
  try {
    return readinessFindings(running.pid, await askReadiness(running), maxLagSlots);
  } catch (error) {
    const detail = `process ${running.pid} runs, but ${messageOf(error)}`;
    return [fail('daemon', detail, 'look at its log; if it hangs, restart it')];
  }
}

export function readinessFindings(pid: number, readiness: Readiness, maxLagSlots: number): Finding[] {
  const { ready, draining, checks, chain } = readiness;
  const state = draining ? 'is draining' : ready ? 'is ready' : 'is not ready';
  const failing = checks
    .filter((check) => !check.ok)
    .map(({ name, detail }) => fail('daemon', `${name}: ${detail}`, 'its log says more; parhelion status shows all'));
  const chains = chain.flatMap((one): Finding[] => {
    const lag = one.lagSlots;
    const lines = [ok('chain', `${one.chain}: ${one.cluster}, cursor ${one.cursorSlot ?? '-'}, behind ${lag ?? '-'}`)];
    if (lag !== null && lag > maxLagSlots / 2 && lag <= maxLagSlots)
      lines.push(warn('chain', `${one.chain}: ${lag} slots behind`, 'faster upstreams or disk; is it catching up?'));
    if (one.openGaps > 0) lines.push(gapFinding(one.chain, one.openGaps));
    return lines;
  });
  const line = `process ${pid} ${state}`;
  return [ready ? ok('daemon', line) : fail('daemon', line, 'wait, or mend what is named here'), ...failing, ...chains];
}

export const gapFinding = (chain: string, count: number): Finding =>
  warn('gaps', `${chain}: ${count} open`, 'parhelion backfill --gaps fills them where an upstream has the blocks');
