import type { Socket } from 'node:net';
import type { buildConnector, Pool } from 'undici';
import { CodedError } from '../../lib/coded-error.ts';
import type { Clock } from '../../ports/clock.ts';
import { undici } from '../undici.ts';
import type { ResolvedAddress, Target } from './resolver.ts';

export interface PoolLease {
  readonly pool: Pool;
  /** Must be called exactly once per lease. */
  release(): void;
}

export interface Pools {
  /** A pool whose sockets connect only to `addresses`. */
  lease(target: Target, addresses: readonly ResolvedAddress[]): PoolLease;
  close(): Promise<void>;
}

interface Entry {
  readonly pool: Pool;
  leases: number;
  idleSince: number;
}

export interface PoolsOptions {
  readonly clock: Clock;
  readonly maxConnections: number;
  /** PEM texts of all trusted authorities; null for the defaults of Node. */
  readonly ca: readonly string[] | null;
}

const CONNECT_TIMEOUT_MS = 5_000;
const SOCKET_IDLE_MS = 4_000;
const POOL_IDLE_MS = 30_000;
const SWEEP_MS = 10_000;
const MAX_HEADER_BYTES = 16_384;
/** Idle pools beyond this number are closed at once. */
const MAX_POOLS = 2_048;

/** Keeps one pool per (scheme, host, port, vetted addresses); an idle pool is closed. */
export function createPools({ clock, maxConnections, ca }: PoolsOptions): Pools {
  const entries = new Map<string, Entry>();
  let cancelSweep: (() => void) | null = null;

  const discard = (key: string, entry: Entry): void => {
    entries.delete(key);
    entry.pool.destroy().catch(() => {});
  };
  const sweep = (): void => {
    cancelSweep = null;
    const limit = clock.monotonic() - POOL_IDLE_MS;
    for (const [key, entry] of entries) {
      if (entry.leases === 0 && entry.idleSince <= limit) discard(key, entry);
    }
    planSweep();
  };
  const planSweep = (): void => {
    if (cancelSweep === null && entries.size > 0) cancelSweep = clock.timeout(SWEEP_MS, sweep);
  };
  const makeRoom = (): void => {
    if (entries.size < MAX_POOLS) return;
    for (const [key, entry] of entries) {
      if (entry.leases > 0) continue;
      discard(key, entry);
      return;
    }
  };
  const open = (key: string, target: Target, addresses: readonly ResolvedAddress[]): Entry => {
    makeRoom();
    const { Pool } = undici();
    const pool = new Pool(target.origin, {
      connections: maxConnections,
      pipelining: 1,
      keepAliveTimeout: SOCKET_IDLE_MS,
      // A receiver's keep-alive hint must not hold sockets longer than this.
      keepAliveMaxTimeout: SOCKET_IDLE_MS,
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: vettedConnector(addresses, ca),
    });
    const entry = { pool, leases: 0, idleSince: clock.monotonic() };
    entries.set(key, entry);
    planSweep();
    return entry;
  };

  return {
    lease(target, addresses) {
      const key = keyOf(target, addresses);
      const entry = entries.get(key) ?? open(key, target, addresses);
      entry.leases += 1;
      return {
        pool: entry.pool,
        release: () => {
          entry.leases -= 1;
          entry.idleSince = clock.monotonic();
        },
      };
    },
    async close() {
      cancelSweep?.();
      const pools = [...entries.values()];
      entries.clear();
      await Promise.all(pools.map(({ pool }) => pool.destroy()));
    },
  };
}

function keyOf({ origin }: Target, addresses: readonly ResolvedAddress[]): string {
  let key = origin;
  for (const { address } of addresses) key += ` ${address}`;
  return key;
}

/** Connects to the vetted addresses: the look-up of the socket is answered from the list, so no second resolution happens. */
function vettedConnector(
  addresses: readonly ResolvedAddress[],
  ca: readonly string[] | null,
): buildConnector.connector {
  const first = addresses[0];
  type Done = (error: null, address: string | ResolvedAddress[] | undefined, family?: number) => void;
  const lookup = (_host: string, options: { all?: boolean }, done: Done): void =>
    options.all === true ? done(null, [...addresses]) : done(null, first?.address, first?.family);
  const connect = undici().buildConnector({
    timeout: CONNECT_TIMEOUT_MS,
    autoSelectFamily: true,
    lookup: lookup as never,
    ...(ca === null ? {} : { ca: [...ca] }),
  } as buildConnector.BuildOptions);
  return (options, done) => {
    connect(options, (error, socket) => {
      if (error !== null) return done(error, null);
      // Defence in depth: whatever the runtime did with the list, bytes go only to a vetted address.
      if (isVetted(socket, addresses)) return done(null, socket);
      socket.destroy();
      done(new CodedError('OUTBOUND_BLOCKED_ADDRESS', 'the socket reached an address that was not vetted'), null);
    });
  };
}

function isVetted(socket: Socket, addresses: readonly ResolvedAddress[]): boolean {
  const remote = socket.remoteAddress ?? '';
  return addresses.some(({ address }) => sameAddress(address, remote));
}

function sameAddress(a: string, b: string): boolean {
  if (a === b) return true;
  const canonical = (text: string) =>
    text.includes(':') ? new URL(`http://[${text.split('%', 1)[0]}]`).hostname : `[::ffff:${text}]`;
  return new URL(`http://${canonical(a)}`).hostname === new URL(`http://${canonical(b)}`).hostname;
}
