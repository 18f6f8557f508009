import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { createSfc32, type Sfc32 } from './sfc32.ts';

/** What happens to the bytes of one direction. All of it can be combined. */
export interface Fault {
  /** Each piece waits this long … */
  readonly latencyMs?: number;
  /** … give or take this much. */
  readonly jitterMs?: number;
  readonly bytesPerSecond?: number;
  /** Pieces are cut into writes of at most this size. */
  readonly sliceBytes?: number;
  /** After this many bytes of a connection both sides are reset. 0: at its first byte. */
  readonly resetAfterBytes?: number;
  /** After this many bytes of a connection its stream ends in good order; the rest is lost. */
  readonly endAfterBytes?: number;
  /** The end of a stream is passed on this much later. */
  readonly slowCloseMs?: number;
  /** Bytes are taken and never come out; the connection stays open. */
  readonly blackhole?: boolean;
}

export interface FaultPlan {
  /** From the client to the target. */
  readonly up?: Fault;
  /** From the target to the client. */
  readonly down?: Fault;
  /** Share of the connections that it befalls; default 1. Each connection draws once, from the seed. */
  readonly probability?: number;
}

export interface FaultProxy {
  readonly port: number;
  readonly seed: number;
  /** From now on, for open connections too. */
  set(plan: FaultPlan): void;
  /** Passes everything on again; what was swallowed stays lost. */
  clear(): void;
  /** New connections go to another port of loopback. */
  aim(port: number): void;
  /** Resets all open connections. */
  cut(): void;
  /** Connections so far, and those that a fault broke off. */
  readonly seen: { readonly connections: number; readonly broken: number; readonly bytes: number };
  close(): Promise<void>;
}

interface Link {
  readonly client: Socket;
  readonly target: Socket;
  readonly dice: number;
}

/** A TCP proxy on loopback in front of a port of loopback, which spoils what passes through it. */
export async function startFaultProxy(targetPort: number, seed = 1): Promise<FaultProxy> {
  const random = createSfc32(seed);
  const links = new Set<Link>();
  const seen = { connections: 0, broken: 0, bytes: 0 };
  let plan: FaultPlan = {};
  let aimedAt = targetPort;

  const breakOff = (link: Link) => {
    seen.broken += 1;
    link.client.resetAndDestroy();
    link.target.resetAndDestroy();
  };
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    const target = connect({ host: '127.0.0.1', port: aimedAt, allowHalfOpen: true, noDelay: true });
    const link: Link = { client, target, dice: random.float() };
    seen.connections += 1;
    links.add(link);
    const faultOf = (direction: 'up' | 'down') => (): Fault =>
      link.dice < (plan.probability ?? 1) ? (plan[direction] ?? {}) : {};
    const shared = { random, seen, reset: () => breakOff(link) };
    void pump({ ...shared, from: client, to: target, fault: faultOf('up') });
    void pump({ ...shared, from: target, to: client, fault: faultOf('down') });
    for (const socket of [client, target]) {
      socket.on('error', () => breakOff(link));
      socket.on('close', () => {
        if (client.destroyed && target.destroyed) links.delete(link);
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const cut = () => {
    for (const link of links) breakOff(link);
  };
  return {
    port: (server.address() as AddressInfo).port,
    seed,
    seen,
    set: (next) => {
      plan = next;
    },
    clear: () => {
      plan = {};
    },
    aim: (port) => {
      aimedAt = port;
    },
    cut,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const { client, target } of links) {
          client.destroy();
          target.destroy();
        }
      }),
  };
}

interface Pump {
  readonly from: Socket;
  readonly to: Socket;
  readonly fault: () => Fault;
  readonly random: Sfc32;
  readonly seen: { bytes: number };
  reset(): void;
}

/** Moves one direction, piece by piece; nothing is read ahead of what was written. */
async function pump({ from, to, fault, random, seen, reset }: Pump): Promise<void> {
  let passed = 0;
  try {
    for await (const piece of from.iterator({ destroyOnReturn: false })) {
      const chunk = piece as Buffer;
      const { latencyMs = 0, jitterMs = 0, resetAfterBytes } = fault();
      const delayMs = latencyMs + jitterMs * (2 * random.float() - 1);
      if (delayMs > 0) await sleep(delayMs);
      for (let at = 0; at < chunk.length; ) {
        const now = fault();
        if (now.blackhole === true) break;
        const limit = now.resetAfterBytes ?? resetAfterBytes ?? now.endAfterBytes ?? Number.POSITIVE_INFINITY;
        if (passed >= limit) {
          if (now.endAfterBytes === undefined) return reset();
          to.end();
          return void from.resume();
        }
        const size = Math.min(now.sliceBytes ?? chunk.length, limit - passed, chunk.length - at);
        await write(to, chunk.subarray(at, at + size));
        at += size;
        passed += size;
        seen.bytes += size;
        if (now.bytesPerSecond !== undefined) await sleep((size * 1_000) / now.bytesPerSecond);
      }
    }
    const { slowCloseMs = 0, blackhole = false } = fault();
    if (slowCloseMs > 0) await sleep(slowCloseMs);
    if (!blackhole) to.end();
  } catch {
    // The socket broke: its error listener has ended both sides.
  }
}

/** Resolves when the bytes are on their way. */
function write(to: Socket, bytes: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    if (to.destroyed) reject(new Error('closed'));
    else to.write(bytes, (error) => (error ? reject(error) : resolve()));
  });
}
