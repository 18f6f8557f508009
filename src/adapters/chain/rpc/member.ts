import { createRequire } from 'node:module';
import type WebSocket from 'ws';
import type { Clock } from '../../../ports/clock.ts';
import type { Upstream, UpstreamConfig, UpstreamState } from '../../../ports/upstream.ts';
import { type Health, isHealthy, isInService, newHealth, reasonOf } from './health.ts';
import { createTransport, type Transport } from './transport.ts';

export interface Member {
  readonly config: UpstreamConfig;
  readonly upstream: Upstream;
  readonly health: Health;
  readonly transport: Transport;
  /** Websocket addresses to try, and the index of the next one. */
  readonly socketUrls: readonly string[];
  socketTurn: number;
  /** Lasts from its first failure until it has been healthy for long enough. */
  outage: Outage | null;
}

/** Times are monotonic milliseconds. */
export interface Outage {
  readonly since: number;
  fineSince: number | null;
}

export interface MemberOptions {
  readonly label: string;
  readonly userAgent?: string;
  readonly clock: Clock;
  /** How bytes reach an upstream; default: HTTP over persistent connections. */
  readonly makeTransport?: typeof createTransport;
}

const DEFAULT_MAX_CONCURRENT = 64;

/** `broke`: called when the other side or the network closed a connection. */
export function makeMember(
  config: UpstreamConfig,
  label: string,
  options: MemberOptions,
  broke: () => void = () => undefined,
): Member {
  const upstream: Upstream = {
    label,
    url: config.url,
    headers: config.headers ?? {},
    archive: config.archive ?? false,
    maxConcurrent: config.maxConcurrent ?? DEFAULT_MAX_CONCURRENT,
  };
  return {
    config,
    upstream,
    health: newHealth(),
    transport: (options.makeTransport ?? createTransport)(
      upstream,
      options.userAgent ?? 'parhelion',
      options.clock,
      broke,
    ),
    socketUrls: config.websocketUrl === undefined ? socketUrlsOf(upstream.url) : [config.websocketUrl],
    socketTurn: 0,
    outage: null,
  };
}

/** The same address; a validator listens for websockets one port higher, so that address follows when a port is given. */
function socketUrlsOf(url: string): string[] {
  const same = new URL(url.replace(/^http/i, 'ws'));
  if (same.port === '') return [same.href];
  const higher = new URL(same);
  higher.port = String(Number(same.port) + 1);
  return [same.href, higher.href];
}

const SOCKET_OPTIONS = { handshakeTimeout: 5_000, maxPayload: 64 * 1024 * 1024, perMessageDeflate: false };

/** Loaded with the first socket: the deliverer opens none, and the API only for subscriptions. */
const loadSockets = (): typeof WebSocket => createRequire(import.meta.url)('ws') as typeof WebSocket;

/** Opens the socket; when it fails before it is open, the next call tries the next address. */
export function openSocket(member: Member | undefined, label: string): WebSocket {
  if (member === undefined) throw new TypeError(`no such upstream in pool ${label}`);
  const url = member.socketUrls[member.socketTurn % member.socketUrls.length] as string;
  const socket = new (loadSockets())(url, { ...SOCKET_OPTIONS, headers: { ...member.upstream.headers } });
  const onError = () => {
    member.socketTurn += 1;
  };
  socket.once('error', onError);
  socket.once('open', () => socket.off('error', onError));
  return socket;
}

export function stateOf({ upstream, health }: Member, now: number): UpstreamState {
  return {
    label: upstream.label,
    healthy: isHealthy(health, now),
    reason: reasonOf(health, now),
    slot: health.slot,
    inFlight: health.inFlight,
    otherChain: health.otherChain,
    inService: isInService(health),
  };
}
