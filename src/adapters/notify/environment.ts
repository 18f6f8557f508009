/** Environment of the process. */
export type NotifyEnv = Readonly<Record<string, string | undefined>>;

/** WATCHDOG_USEC in milliseconds, when it is meant for this process; null otherwise. */
export function watchdogMs(env: NotifyEnv, pid: number): number | null {
  const owner = env['WATCHDOG_PID'];
  if (owner !== undefined && owner !== '' && owner !== String(pid)) return null;
  const text = env['WATCHDOG_USEC'] ?? '';
  if (!/^\d{1,15}$/.test(text)) return null;
  const ms = Number(text) / 1_000;
  return ms > 0 ? ms : null;
}
