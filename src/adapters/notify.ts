import { execFile } from 'node:child_process';
import { CodedError, codeOf, EXIT, messageOf } from '../lib/coded-error.ts';
import type { InheritedSockets, Notice, Notify } from '../ports/processes.ts';
import type { Log } from '../ports/telemetry.ts';

/** Notices that wait while another one is sent; more are dropped. */
const MAX_WAITING = 32;

interface NotifyOptions {
  readonly env: NotifyEnv;
  readonly pid: number;
  readonly log: Log;
  /** CLOCK_MONOTONIC in microseconds, as the service manager reads it. */
  readonly monotonicUs?: () => bigint;
  readonly send?: SendNotice;
}

/** Speaks the notify protocol of systemd (NOTIFY_SOCKET). Failures are logged once and have no other effect. */
export function createNotify(options: NotifyOptions): Notify {
  const { env, log } = options;
  const monotonicUs = options.monotonicUs ?? (() => process.hrtime.bigint() / 1_000n);
  const send = options.send ?? systemdNotify(env);
  const enabled = (env['NOTIFY_SOCKET'] ?? '') !== '';
  let waiting = 0;
  let failed = false;
  let last: Promise<void> = Promise.resolve();

  const fail = (reason: string) => {
    if (!failed) log.warn({ reason }, 'the service manager could not be notified; later failures are not logged');
    failed = true;
  };
  const hand = async (lines: readonly string[]) => {
    try {
      await send(lines);
    } catch (error) {
      fail(messageOf(error));
    } finally {
      waiting -= 1;
    }
  };
  return {
    enabled,
    watchdogMs: enabled ? watchdogMs(env, options.pid) : null,
    tell(notice: Notice) {
      if (!enabled) return Promise.resolve();
      if (waiting >= MAX_WAITING) {
        fail(`${MAX_WAITING} notices are already waiting`);
        return Promise.resolve();
      }
      waiting += 1;
      // The time is that of the call, not of the sending.
      const lines = noticeLines(notice, monotonicUs());
      last = last.then(() => hand(lines));
      return last;
    },
  };
}

/** Sends the assignments of one message; rejects when they were not accepted. */
type SendNotice = (lines: readonly string[]) => Promise<void>;

/** Above the five seconds for which systemd-notify itself waits for an acknowledgement. */
const TIMEOUT_MS = 8_000;
const MAX_OUTPUT_BYTES = 4_096;
const DEFAULT_PATH = '/usr/local/bin:/usr/bin:/bin';

/**
 * Sends through the program systemd-notify, because Node has no AF_UNIX datagrams. It waits until the manager has read the message
 * (no `--no-block`): the manager finds the service by the sending process, and an unprivileged process that has
 * already exited belongs to no service, so that READY=1 would sometimes be lost. See sd_notify(3).
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

/** Longer texts are cut: a datagram that is too large would be lost entirely. */
const MAX_STATUS_CHARS = 500;
const CONTROL = /\p{Cc}+/gu;

/** The assignments of one message. `monotonicUs` lets the manager distinguish this reload from an earlier one. */
export function noticeLines({ state, status }: Notice, monotonicUs: bigint): string[] {
  const lines: string[] = [];
  if (state === 'ready') lines.push('READY=1');
  if (state === 'reloading') lines.push('RELOADING=1', `MONOTONIC_USEC=${monotonicUs}`);
  if (state === 'stopping') lines.push('STOPPING=1');
  if (state === 'alive') lines.push('WATCHDOG=1');
  // A line break would start another assignment.
  if (status !== undefined)
    lines.push(`STATUS=${[...status.replace(CONTROL, ' ')].slice(0, MAX_STATUS_CHARS).join('')}`);
  return lines;
}

/** First inherited descriptor: after the three standard streams. */
const FIRST_DESCRIPTOR = 3;
const MAX_DESCRIPTORS = 64;
const FRONTS = ['api', 'websocket', 'admin'] as const;
type Front = (typeof FRONTS)[number];

/**
 * The sockets of socket activation (LISTEN_FDS, LISTEN_PID, LISTEN_FDNAMES); all null when they are meant for another process. The
 * first socket without its own name belongs to the API. Errors: NOTIFY_SOCKETS_INVALID, exit 78, for a socket that no listener serves:
 * its clients would wait forever.
 */
export function inheritedSockets(env: NotifyEnv, pid: number): InheritedSockets {
  const found: Record<Front, number | null> = { api: null, websocket: null, admin: null };
  const text = env['LISTEN_FDS'] ?? '';
  if (env['LISTEN_PID'] !== String(pid) || text === '') return found;
  const count = /^\d{1,4}$/.test(text) ? Number(text) : Number.NaN;
  if (!(count <= MAX_DESCRIPTORS)) throw invalid(`LISTEN_FDS is not a number up to ${MAX_DESCRIPTORS}`);
  const names = (env['LISTEN_FDNAMES'] ?? '').split(':');
  for (let i = 0; i < count; i++) {
    const front = frontOf(names[i] ?? '');
    if (front === null) throw invalid(`socket ${i + 1} is called "${names[i]}"; the names are ${FRONTS.join(', ')}`);
    if (found[front] !== null) throw invalid(`there are two sockets for ${front}; give each a FileDescriptorName=`);
    found[front] = FIRST_DESCRIPTOR + i;
  }
  return found;
}

/** systemd names a socket without FileDescriptorName= after its unit; other starters say `unknown` or nothing. */
function frontOf(name: string): Front | null {
  const isUnnamed = name === '' || name === 'unknown' || name.endsWith('.socket');
  return isUnnamed ? 'api' : (FRONTS.find((front) => front === name) ?? null);
}

function invalid(what: string): CodedError {
  return new CodedError('NOTIFY_SOCKETS_INVALID', what, { exitCode: EXIT.config });
}

/** Environment of the process. */
export type NotifyEnv = Readonly<Record<string, string | undefined>>;

/** WATCHDOG_USEC in milliseconds when it is meant for this process; else null. */
export function watchdogMs(env: NotifyEnv, pid: number): number | null {
  const owner = env['WATCHDOG_PID'];
  if (owner !== undefined && owner !== '' && owner !== String(pid)) return null;
  const text = env['WATCHDOG_USEC'] ?? '';
  if (!/^\d{1,15}$/.test(text)) return null;
  const ms = Number(text) / 1_000;
  return ms > 0 ? ms : null;
}
