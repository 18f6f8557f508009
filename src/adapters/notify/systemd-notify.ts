import { execFile } from 'node:child_process';
import { codeOf, messageOf } from '../../lib/coded-error.ts';
import type { NotifyEnv } from './environment.ts';

/** Hands the assignments of one message over; rejects when they were not taken. */
export type SendNotice = (lines: readonly string[]) => Promise<void>;

/** Above the five seconds that systemd-notify itself waits for an acknowledgement. */
const TIMEOUT_MS = 8_000;
const MAX_OUTPUT_BYTES = 4_096;
const DEFAULT_PATH = '/usr/local/bin:/usr/bin:/bin';

/**
 * Sends through the program systemd-notify, because Node has no datagrams of AF_UNIX. It is left to wait until the manager has read
 * the message (that is, without `--no-block`): the manager finds the service of a message by the process that sent it, and a process
 * without privileges that has ended by then belongs to none, so that READY=1 would now and then be lost. See sd_notify(3).
 */
export function systemdNotify(env: NotifyEnv, timeoutMs = TIMEOUT_MS): SendNotice {
  const childEnv = { NOTIFY_SOCKET: env['NOTIFY_SOCKET'] ?? '', PATH: env['PATH'] ?? DEFAULT_PATH };
  return (lines) =>
    new Promise((resolve, reject) => {
      const options = {
        ...({ env: childEnv, timeout: timeoutMs, killSignal: 'SIGKILL', maxBuffer: MAX_OUTPUT_BYTES } as const),
        encoding: 'utf8' as const,
      };
      execFile('systemd-notify', ['--', ...lines], options, (error, _stdout, stderr) => {
        if (error === null) resolve();
        else reject(new Error(reasonOf(error, stderr, timeoutMs)));
      });
    });
}

function reasonOf(error: Error & { readonly killed?: boolean }, stderr: string, timeoutMs: number): string {
  if (codeOf(error) === 'ENOENT') return 'the program systemd-notify is not installed';
  if (error.killed === true) return `systemd-notify did not end within ${timeoutMs} ms`;
  return stderr.trim() || messageOf(error);
}
