import { readdirSync, readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { networkOf } from '../lib/cidr.ts';
import type { Clock } from '../ports/clock.ts';
import type { Counter } from '../ports/metrics.ts';
import type { Exchange } from './exchange.ts';
import type { InFlight } from './in-flight.ts';
import { plain } from './remote-address.ts';
import { connectionId } from './tls.ts';

/** What the daemon opens beside the sockets of clients: files of the store, connections to upstreams, databases and receivers. */
const OWN_DESCRIPTORS = 512;
const LEAST_OWN_DESCRIPTORS = 16;
const MOST_ADMIN_CONNECTIONS = 256;

/** The file descriptors of this process; null where the system does not tell. */
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

/** How many connections the admin listener takes, of `most` that are configured. */
export function adminConnections(most: number, descriptors: Descriptors | null): number {
  if (descriptors === null) return Math.min(most, MOST_ADMIN_CONNECTIONS);
  return Math.min(most, MOST_ADMIN_CONNECTIONS, Math.max(4, Math.floor(descriptors.limit / 16)));
}

/**
 * How many connections the API listeners take, of `most` that are configured: without a free descriptor the store cannot open its files.
 * Where there are few, half of what is left stays free for the daemon itself.
 */
export function apiConnections(most: number, descriptors: Descriptors | null): number {
  if (descriptors === null) return most;
  const free = descriptors.limit - descriptors.open - adminConnections(most, descriptors);
  const own = Math.min(OWN_DESCRIPTORS, Math.max(LEAST_OWN_DESCRIPTORS, Math.ceil(free / 2)));
  return Math.max(1, Math.min(most, free - own));
}

/**
 * Bounds the open connections of the servers it is attached to, together. A new one that is too many takes the place of the one that is
 * idle for longest; only when none is idle it is closed itself.
 */
export interface ConnectionLimit {
  attach(server: Server): void;
  setMost(most: number): void;
  /** A request of the connection is being handled, or it became a websocket. */
  busy(socket: Socket): void;
  /** It waits for the next request. */
  idle(socket: Socket): void;
}

interface ConnectionCounters {
  /** New connections that were closed. */
  readonly dropped: Counter;
  /** Idle ones that were closed for them. */
  readonly evicted: Counter;
}

export function createConnectionLimit(initialMost: number, { dropped, evicted }: ConnectionCounters): ConnectionLimit {
  let most = initialMost;
  const open = new Set<Socket>();
  /** Those of `open` that are idle, for longest first. */
  const idle = new Set<Socket>();
  /** A connection that offers another protocol comes by again. */
  const known = new WeakSet<Socket>();
  /** The TCP sockets below TLS ones, which requests do not know. */
  const below = new Map<string, Socket>();

  const forget = (socket: Socket) => {
    open.delete(socket);
    idle.delete(socket);
  };
  const close = (socket: Socket) => {
    // Its descriptor is free at once, although its end is reported later.
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
 * All servers that it is attached to share one count. `maxPerAddress` 0 means no limit; exempt addresses have none. `open` holds the
 * addresses that have connections, and no others.
 */
export function createAddressLimit(
  maxPerAddress: number,
  isExempt: (address: string) => boolean,
  refused: Counter,
  open = new Map<string, number>(),
): AddressLimit {
  const known = new WeakSet<Socket>();

  const admit = (socket: Socket) => {
    // A connection whose offer of another protocol is left out comes by a second time.
    if (known.has(socket)) return;
    known.add(socket);
    const peer = plain(socket.remoteAddress ?? '');
    if (peer === '' || isExempt(peer)) return;
    const address = networkOf(peer);
    const count = (open.get(address) ?? 0) + 1;
    if (count > maxPerAddress) {
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
      if (maxPerAddress > 0) server.on('connection', admit);
    },
  };
}

/** The requests of each connection whose answers are not out yet. */
interface Connections {
  /** How many the connection has now, this one included. */
  enter(exchange: Exchange): number;
  /** False when it had left before. */
  leave(exchange: Exchange): boolean;
}

/**
 * `lost` is called for every request whose connection closed. node:http tells that only to the first of several pipelined
 * requests: the others would count as being handled for ever.
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

/** Cuts connections whose clients take their answers too slowly: what they leave unread stays in memory. */
export interface ReadingRate {
  attach(server: Server): void;
}

export interface ReadingRateParts {
  readonly clock: Clock;
  /** 0: no least rate. */
  readonly bytesPerSecond: number;
  /** Over which the rate is measured. */
  readonly windowMs: number;
  readonly cut: Counter;
}

/** Looks at the connections within one window. */
const LOOKS = 3;

/** What the streams of Node know of bytes that the system has not taken; they use it for their own time-outs. */
interface Handle {
  readonly writeQueueSize?: number;
  readonly bytesWritten?: number;
  /** Of TLS: the one of TCP below, which alone sees what has left of a large record. */
  readonly _parent?: Handle | null;
}

interface Slow {
  /** Monotonic milliseconds from when on something has been waiting without a break. */
  readonly sinceMs: number;
  readonly sentBefore: number;
}

/**
 * A connection counts while something waits to be taken at each look. Whether its client takes little, or nothing at all, is the same: a
 * message of any size is measured by the bytes that have left, not by its end.
 */
export function createReadingRate({ clock, bytesPerSecond, windowMs, cut }: ReadingRateParts): ReadingRate {
  const open = new Set<Socket>();
  const slow = new Map<Socket, Slow>();
  let cancel: (() => void) | null = null;

  const plan = () => {
    cancel ??= clock.timeout(Math.ceil(windowMs / LOOKS), look);
  };

  function look(): void {
    cancel = null;
    const now = clock.monotonic();
    for (const socket of open) {
      if (socket.writableLength === 0) {
        slow.delete(socket);
        continue;
      }
      const sent = sentBytes(socket);
      const known = slow.get(socket);
      if (known === undefined) slow.set(socket, { sinceMs: now, sentBefore: sent });
      else if (now - known.sinceMs >= windowMs) {
        if (((sent - known.sentBefore) * 1_000) / (now - known.sinceMs) < bytesPerSecond) {
          cut.add();
          socket.destroy();
        } else slow.set(socket, { sinceMs: now, sentBefore: sent });
      }
    }
    if (open.size > 0) plan();
  }

  return {
    attach(server) {
      if (bytesPerSecond === 0) return;
      server.on('setSecureContext' in server ? 'secureConnection' : 'connection', (socket: Socket) => {
        // A connection that offers another protocol comes by again.
        if (open.has(socket)) return;
        open.add(socket);
        socket.once('close', () => {
          open.delete(socket);
          slow.delete(socket);
          if (open.size > 0) return;
          cancel?.();
          cancel = null;
        });
        plan();
      });
    },
  };
}

/** Bytes that have left the process. */
function sentBytes(socket: Socket): number {
  const { _handle: handle } = socket as Socket & { readonly _handle?: Handle | null };
  const { writeQueueSize = 0, bytesWritten = socket.bytesWritten } = handle?._parent ?? handle ?? {};
  return bytesWritten - writeQueueSize;
}
