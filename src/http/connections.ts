import { readdirSync, readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import type { Server as NetServer, Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { CoreConfig } from '../config/core.ts';
import type { Clock } from '../ports/clock.ts';
import type { Counter } from '../ports/telemetry.ts';
import { networkOf, plain } from '../runtime/network-address.ts';
import type { Exchange, InFlight } from './exchange.ts';
import { connectionId } from './tls.ts';

/** File descriptors other than client sockets: files of the store, connections to upstreams, databases and receivers. */
const OWN_DESCRIPTORS = 512;
const MIN_OWN_DESCRIPTORS = 16;
const MAX_ADMIN_CONNECTIONS = 256;

/** The file descriptors of this process; null if the system does not report them. */
interface Descriptors {
  readonly limit: number;
  readonly open: number;
}

export function readDescriptors(): Descriptors | null {
  try {
    const soft = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
    return soft === undefined ? null : { limit: Number(soft), open: readdirSync('/proc/self/fd').length };
  } catch {
    return null;
  }
}

/** Connection limit of the admin listener; `most` is the configured one. */
export function adminConnections(most: number, descriptors: Descriptors | null): number {
  if (descriptors === null) return Math.min(most, MAX_ADMIN_CONNECTIONS);
  return Math.min(most, MAX_ADMIN_CONNECTIONS, Math.max(4, Math.floor(descriptors.limit / 16)));
}

/**
 * Connection limit of the API listeners; `most` is the configured one. It is lower if few descriptors are available: without a free one
 * the store cannot open its files, so half of the remaining ones stay reserved for the daemon.
 */
export function apiConnections(most: number, descriptors: Descriptors | null): number {
  if (descriptors === null) return most;
  const free = descriptors.limit - descriptors.open - adminConnections(most, descriptors);
  const own = Math.min(OWN_DESCRIPTORS, Math.max(MIN_OWN_DESCRIPTORS, Math.ceil(free / 2)));
  return Math.max(1, Math.min(most, free - own));
}

/**
 * Limits the total open connections of the servers it is attached to. A connection above the limit replaces the one that has been idle
 * longest; if none is idle, the new one is closed.
 */
export interface ConnectionLimit {
  attach(server: Server): void;
  setMost(most: number): void;
  /** The connection has a request in flight, or became a websocket. */
  busy(socket: Socket): void;
  /** The connection waits for the next request. */
  idle(socket: Socket): void;
}

interface ConnectionCounters {
  /** New connections that were closed. */
  readonly dropped: Counter;
  /** Idle connections that were closed in favor of new ones. */
  readonly evicted: Counter;
}

export function createConnectionLimit(initialMost: number, { dropped, evicted }: ConnectionCounters): ConnectionLimit {
  let most = initialMost;
  const open = new Set<Socket>();
  /** The idle connections of `open`, longest idle first. */
  const idle = new Set<Socket>();
  /** A connection that offers another protocol is reported twice. */
  const known = new WeakSet<Socket>();
  /** The TCP sockets below TLS sockets; requests do not know them. */
  const below = new Map<string, Socket>();

  const forget = (socket: Socket) => {
    open.delete(socket);
    idle.delete(socket);
  };
  const close = (socket: Socket) => {
    // The descriptor is free at once, although the close is reported later.
    forget(socket);
    socket.destroy();
  };
  const admit = (socket: Socket, isTls: boolean) => {
    if (known.has(socket)) return;
    known.add(socket);
    open.add(socket);
    idle.add(socket);
    const id = isTls ? connectionId(socket) : null;
    if (id !== null) below.set(id, socket);
    socket.once('close', () => {
      forget(socket);
      if (id !== null && below.get(id) === socket) below.delete(id);
    });
    if (open.size <= most) return;
    const [oldest = socket] = idle;
    (oldest === socket ? dropped : evicted).add();
    close(oldest);
  };
  const tcpOf = (socket: Socket) => (socket instanceof TLSSocket ? below.get(connectionId(socket)) : socket);

  return {
    attach(server) {
      const isTls = 'setSecureContext' in server;
      server.on('connection', (socket: Socket) => admit(socket, isTls));
    },
    setMost(next) {
      most = next;
    },
    busy(socket) {
      const tcp = tcpOf(socket);
      if (tcp !== undefined) idle.delete(tcp);
    },
    idle(socket) {
      const tcp = tcpOf(socket);
      if (tcp !== undefined && open.has(tcp)) idle.add(tcp);
    },
  };
}

/** Closes connections of client addresses (IPv6: /64) that have too many open. */
interface AddressLimit {
  attach(server: Server): void;
}

/**
 * All servers that it is attached to share the counts. `maxPerAddress` 0 means no limit; exempt addresses have no limit. `open` contains
 * only addresses that have connections.
 */
export function createAddressLimit(
  maxPerAddress: () => number,
  isExempt: (address: string) => boolean,
  refused: Counter,
  open = new Map<string, number>(),
): AddressLimit {
  const known = new WeakSet<Socket>();

  const admit = (socket: Socket) => {
    // A connection whose offer of another protocol was removed is reported a second time.
    if (known.has(socket)) return;
    known.add(socket);
    const peer = plain(socket.remoteAddress ?? '');
    if (peer === '' || isExempt(peer)) return;
    const address = networkOf(peer);
    const count = (open.get(address) ?? 0) + 1;
    const most = maxPerAddress();
    if (most > 0 && count > most) {
      refused.add();
      socket.destroy();
      return;
    }
    open.set(address, count);
    socket.once('close', () => {
      const left = (open.get(address) ?? 1) - 1;
      if (left === 0) open.delete(address);
      else open.set(address, left);
    });
  };
  return {
    attach(server) {
      server.on('connection', admit);
    },
  };
}

/** The requests of each connection whose answers are not sent yet. */
interface Connections {
  /** Returns the requests of the connection, including this one. */
  enter(exchange: Exchange): number;
  /** Returns false if the request had already left. */
  leave(exchange: Exchange): boolean;
}

/**
 * Calls `lost` for every request whose connection closed. node:http reports the close only to the first of several pipelined requests:
 * the others would stay in flight forever.
 */
export function createConnections(
  lost: (exchange: Exchange) => void,
  limit: Pick<ConnectionLimit, 'busy' | 'idle'>,
): Connections {
  const pending = new WeakMap<Socket, Exchange[]>();
  return {
    enter: (exchange) => {
      const { socket } = exchange.request;
      let exchanges = pending.get(socket);
      if (exchanges === undefined) {
        const mine: Exchange[] = [];
        socket.once('close', () => {
          for (const one of [...mine]) lost(one);
        });
        pending.set(socket, mine);
        exchanges = mine;
      }
      limit.busy(socket);
      return exchanges.push(exchange);
    },
    leave: (exchange) => {
      const { socket } = exchange.request;
      const exchanges = pending.get(socket);
      const at = exchanges?.indexOf(exchange) ?? -1;
      if (at < 0) return false;
      exchanges?.splice(at, 1);
      if (exchanges?.length === 0) limit.idle(socket);
      return true;
    },
  };
}

/** New connections may come without end, and the process has to stop. */
const MAX_QUEUE_MS = 500;

/**
 * The system completes connections before the process accepts them; those that still wait when the last handle of their socket is closed are
 * reset. Resolves in a turn of the event loop in which none arrived: what is closed at once then resets none that waited before the turn.
 */
export async function acceptQueued(servers: readonly Server[], deadline: AbortSignal): Promise<void> {
  const listening = servers.filter((server) => server.listening);
  if (listening.length === 0) return;
  let arrived = false;
  const onConnection = () => {
    arrived = true;
  };
  for (const server of listening) server.on('connection', onConnection);
  const endsAtMs = performance.now() + MAX_QUEUE_MS;
  // What is left of this turn may accept nothing: the first whole one counts.
  await nextTurn();
  do {
    arrived = false;
    await nextTurn();
  } while (arrived && !deadline.aborted && performance.now() < endsAtMs);
  for (const server of listening) server.off('connection', onConnection);
}

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Longer than a request takes to follow its connection on most networks. */
const LINGER_MS = 500;
const LOOK_MS = 20;

/**
 * A connection that was accepted just before the server stopped listening may not have sent its request yet. Waits, for at most half a
 * second, until such connections have sent one, so that they are answered instead of reset. Silent connections and websockets never do.
 */
export async function lingerFor(
  servers: readonly Server[],
  /** Their connections are counted as well; `servers` handle them. */
  further: () => readonly NetServer[],
  /** Resolves when the last connection has closed. */
  closed: Promise<unknown>,
  inFlight: InFlight,
  clock: Clock,
  deadline: AbortSignal,
): Promise<void> {
  const ended = new AbortController();
  const signal = AbortSignal.any([deadline, ended.signal]);
  // Not only `clock`: its timers do not keep the process alive, and the last connection may be all that does.
  void closed.then(() => ended.abort());
  const endsAtMs = clock.monotonic() + LINGER_MS;
  while (!signal.aborted && clock.monotonic() < endsAtMs) {
    for (const server of servers) server.closeIdleConnections();
    const open = await Promise.all([...servers, ...further()].map(countConnections));
    if (open.reduce((sum, count) => sum + count, 0) <= inFlight.count) return;
    await clock.sleep(LOOK_MS, signal).catch(() => undefined);
  }
}

function countConnections(server: NetServer): Promise<number> {
  return new Promise((resolve) => server.getConnections((error, count) => resolve(error === null ? count : 0)));
}

/** Closes connections whose clients read answers too slowly, because unread bytes stay in memory. */
export interface ReadingRate {
  attach(server: Server): void;
}

export interface ReadingRateParts {
  readonly clock: Clock;
  /** Read at each check; a rate of 0: no minimum. */
  readonly limits: Pick<CoreConfig['http'], 'minReadBytesPerSecond' | 'readWindowMs'>;
  readonly cut: Counter;
}

/** Checks of the connections per window. */
const LOOKS = 3;

/** Internals of Node's streams that count bytes not yet accepted by the system; Node uses them for its own timeouts. */
interface Handle {
  readonly writeQueueSize?: number;
  readonly bytesWritten?: number;
  /** Only with TLS: the TCP handle below, which alone knows how much of a large record was sent. */
  readonly _parent?: Handle | null;
}

interface Watched {
  /** Bytes that the connection had been given at the last look. */
  givenBefore: number;
  /** Since when bytes have been waiting from look to look, in monotonic milliseconds, and what had left by then. */
  slow: { readonly sinceMs: number; readonly sentBefore: number } | null;
}

/**
 * A connection is measured while what it had been given at one look has not left by the next: what is written in the turn of a look, such as a
 * ping, does not count as unread. The rate counts the bytes that have left the process, not finished messages, so large messages are
 * measured correctly too.
 */
export function createReadingRate({ clock, limits, cut }: ReadingRateParts): ReadingRate {
  const open = new Map<Socket, Watched>();
  let cancel: (() => void) | null = null;

  /** Monotonic milliseconds of the next look. */
  let dueMs = 0;

  const plan = () => {
    if (cancel !== null) return;
    const waitMs = Math.ceil(limits.readWindowMs / LOOKS);
    dueMs = clock.monotonic() + waitMs;
    cancel = clock.timeout(waitMs, look);
  };

  function look(): void {
    cancel = null;
    const now = clock.monotonic();
    // While the process did not run, nothing left it: that is not the time of its clients.
    const lateMs = Math.max(0, now - dueMs);
    for (const [socket, watched] of open) {
      const { given, sent } = bytesOf(socket);
      const keepsUp = socket.writableLength === 0 || sent >= watched.givenBefore;
      watched.givenBefore = given;
      if (keepsUp) watched.slow = null;
      else if (watched.slow === null) watched.slow = { sinceMs: now, sentBefore: sent };
      else {
        const { sentBefore } = watched.slow;
        const sinceMs = watched.slow.sinceMs + lateMs;
        watched.slow = { sinceMs, sentBefore };
        if (now - sinceMs < limits.readWindowMs) continue;
        const rate = ((sent - sentBefore) * 1_000) / (now - sinceMs);
        watched.slow = { sinceMs: now, sentBefore: sent };
        if (rate >= limits.minReadBytesPerSecond) continue;
        cut.add();
        socket.destroy();
      }
    }
    if (open.size > 0) plan();
  }

  return {
    attach(server) {
      server.on('setSecureContext' in server ? 'secureConnection' : 'connection', (socket: Socket) => {
        // A connection that offers another protocol is reported twice.
        if (open.has(socket)) return;
        open.set(socket, { givenBefore: 0, slow: null });
        socket.once('close', () => {
          open.delete(socket);
          if (open.size > 0) return;
          cancel?.();
          cancel = null;
        });
        plan();
      });
    },
  };
}

/** Bytes that the handle of a connection was given, and those of them that have left the process. */
function bytesOf(socket: Socket): { readonly given: number; readonly sent: number } {
  const { _handle: handle } = socket as Socket & { readonly _handle?: Handle | null };
  const { writeQueueSize = 0, bytesWritten = socket.bytesWritten } = handle?._parent ?? handle ?? {};
  return { given: bytesWritten, sent: bytesWritten - writeQueueSize };
}
