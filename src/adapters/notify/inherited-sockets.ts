import { CodedError } from '../../lib/coded-error.ts';
import type { InheritedSockets } from '../../ports/inherited-sockets.ts';
import { EXIT } from '../../runtime/errors.ts';

/** Where the protocol begins: after the three standard streams. */
const FIRST_DESCRIPTOR = 3;
const MAX_DESCRIPTORS = 64;
const FRONTS = ['api', 'websocket', 'admin'] as const;
type Front = (typeof FRONTS)[number];

/**
 * The sockets of socket activation (LISTEN_FDS, LISTEN_PID, LISTEN_FDNAMES); all null when they are meant for another process. The
 * first one without a name of its own is the API's. Errors: NOTIFY_SOCKETS_INVALID, exit 78, for a socket that nobody would serve: its
 * clients would wait for ever.
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

/** systemd calls a socket without FileDescriptorName= by its unit, and other starters `unknown` or nothing. */
function frontOf(name: string): Front | null {
  const isUnnamed = name === '' || name === 'unknown' || name.endsWith('.socket');
  return isUnnamed ? 'api' : (FRONTS.find((front) => front === name) ?? null);
}

function invalid(what: string): CodedError {
  return new CodedError('NOTIFY_SOCKETS_INVALID', what, { exitCode: EXIT.config });
}

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
