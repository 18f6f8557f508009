import { createRequire } from 'node:module';
import type WebSocket from 'ws';
import type { CoreConfig } from '../../../config/core.ts';
import { isLagBeyond, type LagLimit } from '../../../lib/slot-length.ts';
import { stateAfter } from '../../../lib/transitions.ts';
import type { Clock } from '../../../ports/clock.ts';
import type { Upstream, UpstreamConfig, UpstreamOutcome, UpstreamState } from '../../../ports/upstream.ts';
import { COOL_DOWN, type CoolDown, SERVED_CHAIN, type ServedChain } from './transitions.ts';
import { createTransport, type Transport } from './transport.ts';

/** State of one upstream. Times are monotonic milliseconds. */
export interface UpstreamHealth {
  /** Place in the list of upstreams. */
  order: number;
  failures: number;
  /** Valid until `restUntil`: see `coolDownOf`. */
  coolDown: CoolDown;
  /** Cooling down until then. */
  restUntil: number;
  /** The upstream asked for no requests until then. */
  limitedUntil: number;
  /** Why it is cooling down, as text for people. */
  reason: string | null;
  slot: number | null;
  /** When its slot last rose. */
  slotRoseAt: number;
  /** It answers -32602 to `confirmed`, which clusters with Alpenglow plan to remove: `finalized` is sent in its place. */
  refusesConfirmed: boolean;
  behind: boolean;
  /** Not far enough behind to be excluded, but others report newer slots. */
  late: boolean;
  inFlight: number;
  /** Time of the last good answer. */
  answeredAt: number;
  /** Genesis hash of the other chain that it serves; null when it serves ours or has not answered. */
  otherChain: string | null;
  /** `other`: `otherChain` says which. */
  chain: ServedChain;
}

export const newHealth = (order = 0): UpstreamHealth => ({
  order,
  failures: 0,
  coolDown: 'none',
  restUntil: Number.NEGATIVE_INFINITY,
  limitedUntil: Number.NEGATIVE_INFINITY,
  reason: null,
  slot: null,
  slotRoseAt: Number.NEGATIVE_INFINITY,
  refusesConfirmed: false,
  behind: false,
  late: false,
  inFlight: 0,
  answeredAt: Number.NEGATIVE_INFINITY,
  otherChain: null,
  chain: 'ours',
});

/** Reason of a cool-down that the upstream asked for. */
export const RATE_LIMITED = 'rate limited';

/** How the reason of a cool-down begins after an answer that was proven wrong. */
export const DISTRUSTED = 'contradicted the chain';

/** Cool-down of an upstream that limits its rate and does not say for how long. */
const UNKNOWN_LIMIT_MS = 1_000;

/** Consecutive failures after which the next upstream is preferred. */
const FAILURES_TO_REST = 2;

/** The cool-down of now. */
const coolDownOf = ({ coolDown, restUntil }: UpstreamHealth, now: number): CoolDown =>
  restUntil > now ? coolDown : (stateAfter(COOL_DOWN, 'time is up', coolDown) ?? coolDown);

/** Applies the outcome that a caller reports for an answer. */
export function applyOutcome(health: UpstreamHealth, outcome: UpstreamOutcome, now: number, core: CoreConfig): void {
  const { coolDownMs, distrustMs } = core.upstream;
  const move = (event: keyof typeof COOL_DOWN, ms = 0, reason: string | null = null): void => {
    const after = stateAfter(COOL_DOWN, event, coolDownOf(health, now));
    if (after === null) return;
    health.coolDown = after;
    health.restUntil = after === 'none' ? Number.NEGATIVE_INFINITY : Math.max(health.restUntil, now + ms);
    health.reason = reason;
  };
  switch (outcome.kind) {
    case 'ok':
      health.failures = 0;
      health.answeredAt = now;
      move('ok');
      break;
    case 'failed':
      health.failures += 1;
      if (health.failures < FAILURES_TO_REST) move('failed');
      else move('failed again', coolDownMs, `failing: ${outcome.reason}`);
      break;
    case 'limited':
      if (outcome.retryAfterMs !== null) health.limitedUntil = now + outcome.retryAfterMs;
      move('limited', outcome.retryAfterMs ?? UNKNOWN_LIMIT_MS, RATE_LIMITED);
      break;
    case 'exhausted':
      move('refused', coolDownMs, 'refuses us: its credits are used up, or its key is not accepted');
      break;
    case 'denied':
      move('refused', coolDownMs, `refuses us with status ${outcome.status}: check its key`);
      break;
    case 'contradicted':
      move('contradicted', distrustMs, `${DISTRUSTED}: ${outcome.reason}`);
      break;
  }
}

/** What an upstream said of its chain, or did not say. `named`: the genesis hash of another chain. */
export function noteChain(health: UpstreamHealth, event: keyof typeof SERVED_CHAIN, named: string | null = null): void {
  health.chain = stateAfter(SERVED_CHAIN, event, health.chain) ?? health.chain;
  if (health.chain !== 'other') health.otherChain = null;
  else if (named !== null) health.otherChain = named;
}

/** Whether it may be called at all: an answer of another chain must never be taken for one of ours. */
export const isInService = ({ chain }: UpstreamHealth): boolean => chain === 'ours';

export const isHealthy = (health: UpstreamHealth, now: number): boolean =>
  isInService(health) && health.restUntil <= now && !health.behind;

export function unhealthyReasonOf(health: UpstreamHealth, now: number): string | null {
  if (health.otherChain !== null) return `UPSTREAM_OTHER_CHAIN: its genesis hash is ${health.otherChain}`;
  if (health.restUntil > now) return health.reason;
  if (health.chain === 'unknown') return 'it has not identified its chain yet';
  if (!health.behind) return null;
  const isStalled = now - health.slotRoseAt >= STALLED_MS;
  return isStalled ? `stalled at slot ${health.slot}, behind the others` : 'behind the others';
}

/** Time without a new slot after which an upstream that is behind counts as stalled: Agave 4.2 never passes the move to Alpenglow. */
const STALLED_MS = 30_000;

/** A slot that the upstream reports now. */
export function sawSlotOf(health: UpstreamHealth, slot: number, now: number): void {
  if (health.slot === null || slot > health.slot) health.slotRoseAt = now;
  health.slot = slot;
}

/** Differences up to this come from polling at different moments. */
const LATE: LagLimit = { seconds: 3.2, slots: null };

/** Marks upstreams that lag behind the best known tip. `slotMs`: null until it is measured. */
export function markBehind(all: readonly UpstreamHealth[], maxLag: LagLimit, slotMs: number | null): void {
  const best = Math.max(...all.map((health) => (isInService(health) ? (health.slot ?? 0) : 0)));
  for (const health of all) {
    const lag = { lagSlots: health.slot === null ? null : best - health.slot, slotMs };
    health.behind = isLagBeyond(lag, maxLag);
    health.late = isLagBeyond(lag, LATE);
  }
}

/** Order: healthy, with room, at the tip, preferred, then as configured. */
export function byPreference(clock: Clock, prefer: number | null) {
  const now = clock.monotonic();
  const rank = (health: UpstreamHealth, full: boolean) =>
    (isHealthy(health, now) ? 0 : 8) + (full ? 4 : 0) + (health.late ? 2 : 0) + (health.order === prefer ? 0 : 1);
  return (a: { health: UpstreamHealth; full: boolean }, b: { health: UpstreamHealth; full: boolean }) =>
    rank(a.health, a.full) - rank(b.health, b.full) || a.health.order - b.health.order;
}

export interface PoolMember {
  readonly config: UpstreamConfig;
  readonly upstream: Upstream;
  readonly health: UpstreamHealth;
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
): PoolMember {
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

/** Candidates for the websocket: the same address, or with a port given also one port higher, where a validator listens. */
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
export function openSocket(member: PoolMember | undefined, label: string): WebSocket {
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

export function upstreamStateOf({ upstream, health }: PoolMember, now: number): UpstreamState {
  return {
    label: upstream.label,
    healthy: isHealthy(health, now),
    reason: unhealthyReasonOf(health, now),
    slot: health.slot,
    inFlight: health.inFlight,
    otherChain: health.otherChain,
    inService: isInService(health),
    limitedMs: Math.max(0, health.limitedUntil - now),
    silentMs: now - health.answeredAt,
  };
}
