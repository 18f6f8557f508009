import type { Server } from 'node:http';
import type { Clock } from '../../ports/clock.ts';
import type { InFlight } from './in-flight.ts';

/** Longer than a request needs to follow its connection over most networks. */
const LINGER_MS = 500;
const LOOK_MS = 20;

/**
 * A connection that was taken just before a server stopped listening may not have sent its request yet. Waits until such connections
 * have spoken, so that they are answered and not reset, but for half a second at most: silent ones and websockets are never done.
 */
export async function lingerFor(
  servers: readonly Server[],
  /** Resolves when the last connection has gone. */
  closed: Promise<unknown>,
  inFlight: InFlight,
  clock: Clock,
  deadline: AbortSignal,
): Promise<void> {
  const ended = new AbortController();
  const signal = AbortSignal.any([deadline, ended.signal]);
  // Not by the clock alone: its timers do not keep the process alive, and the last connection may be all that does.
  void closed.then(() => ended.abort());
  const endsAtMs = clock.monotonic() + LINGER_MS;
  while (!signal.aborted && clock.monotonic() < endsAtMs) {
    for (const server of servers) server.closeIdleConnections();
    const open = await Promise.all(servers.map(countConnections));
    if (open.reduce((sum, count) => sum + count, 0) <= inFlight.count) return;
    await clock.sleep(LOOK_MS, signal).catch(() => undefined);
  }
}

function countConnections(server: Server): Promise<number> {
  return new Promise((resolve) => server.getConnections((error, count) => resolve(error === null ? count : 0)));
}
