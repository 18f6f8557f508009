import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { type Finding, fail, ok, warn } from './finding.ts';

const CHECK = 'service';
const UNIT = 'parhelion.service';
const TIMEOUT_MS = 3_000;
const PROPERTIES = 'LoadState,ActiveState,UnitFileState,Result,NRestarts,NeedDaemonReload';

/** What the service manager says of the unit; a machine without one is fine. */
export async function serviceFindings(): Promise<Finding[]> {
  if (!existsSync('/run/systemd/system')) return [ok(CHECK, 'systemd does not run here')];
  const text = await askManager();
  return text === null ? [ok(CHECK, 'systemctl does not answer')] : unitFindings(text);
}

/** Reads the answer of `systemctl show`. */
export function unitFindings(text: string): Finding[] {
  const lines = text.split('\n').map((line) => line.split('='));
  const unit = new Map(lines.map(([name = '', ...value]) => [name, value.join('=')]));
  if (unit.get('LoadState') !== 'loaded') return [ok(CHECK, `${UNIT} is not installed`)];
  const state = unit.get('ActiveState') ?? 'unknown';
  const findings: Finding[] = [];
  if (state === 'failed') {
    const detail = `${UNIT} has failed (${unit.get('Result') ?? 'unknown'})`;
    findings.push(fail(CHECK, detail, `journalctl -u ${UNIT} -e; then: systemctl reset-failed ${UNIT}`));
  }
  if (unit.get('NeedDaemonReload') === 'yes')
    findings.push(warn(CHECK, `${UNIT} has changed on disk`, 'systemctl daemon-reload, then restart it'));
  if (unit.get('UnitFileState') === 'disabled')
    findings.push(warn(CHECK, `${UNIT} does not start with the machine`, `systemctl enable ${UNIT}`));
  const restarts = Number(unit.get('NRestarts') ?? 0);
  if (restarts > 0)
    findings.push(warn(CHECK, `${UNIT} was restarted ${restarts} times`, `journalctl -u ${UNIT} -e says why`));
  return findings.length > 0 ? findings : [ok(CHECK, `${UNIT} is ${state}`)];
}

function askManager(): Promise<string | null> {
  return new Promise((resolve) => {
    const child = spawn('systemctl', ['show', UNIT, `--property=${PROPERTIES}`], {
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: TIMEOUT_MS,
    });
    let text = '';
    child.stdout.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
    child.once('error', () => resolve(null));
    child.once('close', (code) => resolve(code === 0 ? text : null));
  });
}
