import { messageOf } from '../../lib/coded-error.ts';
import type { Log } from '../../ports/log.ts';
import type { Notice, Notify } from '../../ports/notify.ts';
import { type NotifyEnv, watchdogMs } from './environment.ts';
import { noticeLines } from './protocol.ts';
import { type SendNotice, systemdNotify } from './systemd-notify.ts';

/** Notices that wait for the one being handed over; more are dropped. */
const MAX_WAITING = 32;

export interface NotifyOptions {
  readonly env: NotifyEnv;
  readonly pid: number;
  readonly log: Log;
  /** CLOCK_MONOTONIC in microseconds, as the service manager reads it. */
  readonly monotonicUs?: () => bigint;
  readonly send?: SendNotice;
}

/** Speaks the notify protocol of systemd (NOTIFY_SOCKET). Failures are logged once and change nothing: the service itself is fine. */
export function createNotify(options: NotifyOptions): Notify {
  const { env, log } = options;
  const monotonicUs = options.monotonicUs ?? (() => process.hrtime.bigint() / 1_000n);
  const send = options.send ?? systemdNotify(env);
  const enabled = (env['NOTIFY_SOCKET'] ?? '') !== '';
  let waiting = 0;
  let failed = false;
  let last: Promise<void> = Promise.resolve();

  const fail = (reason: string) => {
    if (!failed) log.warn({ reason }, 'the service manager could not be told; later failures are not logged');
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
        fail(`${MAX_WAITING} notices wait already`);
        return Promise.resolve();
      }
      waiting += 1;
      // The time belongs to the moment of the call, not to that of the hand-over.
      const lines = noticeLines(notice, monotonicUs());
      last = last.then(() => hand(lines));
      return last;
    },
  };
}
