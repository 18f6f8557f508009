/**
 * Subscriptions of websockets, between the thread that has the sockets and the one that has the blocks. The first reads the parameters and
 * asks; the second matches blocks and sends whole notifications, which the first only hands on. What waits between them is bounded: each
 * message is acknowledged when it was handed on, and for a replay when its client has read it.
 */

import { GateRefusal, type Log, type Metrics, messageOf } from '../../../src/plugin/plugin.ts';
import type { AccessCharges, Budgets, Lease, Tenant, Tenants } from '../../../src/ports/access.ts';
import type { OpenThreadLine } from '../../../src/ports/processes.ts';
import type { Counter } from '../../../src/ports/telemetry.ts';
import type { FilterOptions } from '../filters.ts';
import { GrpcError } from '../grpc-server.ts';
import type { Leave, Reader, StreamHub, UpdateBatch } from '../hub/index.ts';
import { createSocketFeed, type ParsedFeeds } from './feed.ts';
import type { SocketRequest } from './request.ts';

/** The project, or the address of a client without a key, that a subscription is for. */
export interface Payer {
  readonly id: string;
  readonly budgets: Budgets;
}

/** To the thread with the blocks. */
export type LineRequest =
  /** Whether it runs. */
  | { readonly ask: 'who' }
  | {
      readonly ask: 'join';
      readonly id: number;
      readonly key: string | null;
      readonly request: SocketRequest;
      readonly payer: Payer | null;
    }
  /** A replay may begin. */
  | { readonly ask: 'begin'; readonly id: number }
  | { readonly ask: 'took'; readonly id: number; readonly bytes: number }
  | { readonly ask: 'leave'; readonly id: number };

/** To the thread with the sockets. */
export type Tell =
  /** It runs; when it has just started, what was asked before is lost. */
  | { readonly tell: 'here' }
  | { readonly tell: 'accepted'; readonly id: number }
  | { readonly tell: 'refused'; readonly id: number; readonly isBusy: boolean; readonly details: string }
  | { readonly tell: 'data'; readonly id: number; readonly bytes: Uint8Array; readonly ends: Uint32Array }
  | { readonly tell: 'ended'; readonly id: number; readonly code: number; readonly details: string };

export const LINE = 'streams of websockets';

export interface BlockSideOptions {
  readonly openLine: OpenThreadLine;
  readonly hub: StreamHub;
  readonly filters: FilterOptions;
  /** Null: no transactions are decoded. */
  readonly parsed: ParsedFeeds | null;
  readonly tenants: Tenants;
  /** Null: credits are not counted. */
  readonly charges: AccessCharges | null;
  readonly replayedBlockCredits: () => number;
  /** Price of 1,000 transactions that are decoded for a subscription and not wanted. */
  readonly searchCredits: () => number;
  readonly limits: { readonly maxQueuedBytes: number; readonly maxSubscriptionBytes: number };
  /** Why no block will come, or null. */
  readonly idle: () => string | null;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** A replay reads on when fewer bytes wait. */
const REPLAY_BYTES = 524_288;
/** Close codes of websockets. */
const NOT_ALLOWED = 1008;
export const ENDED = 1012;
export const TRY_AGAIN = 1013;

interface Seat {
  /** Sent and not acknowledged. */
  waiting: number;
  mayBegin: boolean;
  isOver: boolean;
  /** Notifications were left out, and what waits has not been taken since. */
  isLate: boolean;
  leave: Leave | null;
  readonly tenant: Tenant;
  readonly lease: Lease;
  /** Continues a replay. */
  resume: (() => void) | null;
}

/**
 * The thread with the blocks: a seat for each subscription. `waiting` is the sum of what waits in all seats; a seat that is over is not among
 * them, and nothing is told about it any more.
 */
class BlockSide {
  private readonly options: BlockSideOptions;
  private readonly seats = new Map<number, Seat>();
  private waiting = 0;
  private readonly slow: Counter;
  private readonly leftOut: Counter;
  private readonly line: ReturnType<OpenThreadLine>;

  constructor(options: BlockSideOptions) {
    this.options = options;
    options.metrics.observe('socket_subscriptions', 'different subscriptions of websockets', () => this.seats.size);
    options.metrics.observe(
      'socket_queued_bytes',
      'notifications that are on their way to the websockets',
      () => this.waiting,
    );
    this.slow = options.metrics.counter(
      'socket_slow_total',
      'subscriptions of websockets that ended because too much waited',
    );
    this.leftOut = options.metrics.counter(
      'parsed_notifications_left_out_total',
      'notifications of parsed transactions that were not sent because too much was on its way to the websockets',
    );
    this.line = options.openLine(LINE, (message) => {
      const asked = message as LineRequest | Tell;
      if ('ask' in asked) this.take(asked);
    });
    this.tell({ tell: 'here' });
  }

  private tell(message: Tell): void {
    this.line.post(message);
  }

  private take(asked: LineRequest): void {
    if (asked.ask === 'who') this.tell({ tell: 'here' });
    if (asked.ask === 'join' && !this.seats.has(asked.id)) this.join(asked);
    if (asked.ask === 'join' || asked.ask === 'who') return;
    const seat = this.seats.get(asked.id);
    if (seat === undefined) return;
    if (asked.ask === 'leave') this.end(asked.id, seat);
    else if (asked.ask === 'begin') seat.mayBegin = true;
    else {
      seat.waiting -= asked.bytes;
      this.waiting -= asked.bytes;
      if (seat.waiting === 0) seat.isLate = false;
    }
    this.wake(seat);
  }

  private isReady(seat: Seat): boolean {
    return seat.isOver || (seat.mayBegin && seat.waiting < REPLAY_BYTES);
  }

  private wake(seat: Seat): void {
    if (!this.isReady(seat)) return;
    seat.resume?.();
    seat.resume = null;
  }

  private end(id: number, seat: Seat): void {
    this.seats.delete(id);
    this.waiting -= seat.waiting;
    seat.isOver = true;
    seat.leave?.();
    seat.leave = null;
    seat.lease.release();
  }

  private join({ id, key, request, payer }: Extract<LineRequest, { ask: 'join' }>): void {
    const refuse = (isBusy: boolean, details: string) => this.tell({ tell: 'refused', id, isBusy, details });
    const why = this.options.idle();
    if (why !== null) {
      refuse(true, why);
      return;
    }
    const caller = { projectId: payer?.id ?? '', keyId: '', plan: '', wallet: null };
    const tenant = this.options.tenants.tenantOf(payer === null ? null : { ...caller, budgets: payer.budgets }, '');
    const lease = tenant.take('streamFilterBytes', 0);
    const seat: Seat = {
      waiting: 0,
      mayBegin: request.from === null,
      isOver: false,
      isLate: false,
      leave: null,
      resume: null,
      tenant,
      lease,
    };
    try {
      const { feed, filterBytes } = createSocketFeed(request, payer?.id ?? null, {
        filters: this.options.filters,
        root: this.options.hub.finalSlot,
        parsed: this.options.parsed,
      });
      lease.set(filterBytes);
      // Its first block may come at once.
      this.seats.set(id, seat);
      seat.leave = this.options.hub.join(
        { key: key === null ? null : `socket ${key}`, feed, from: request.from },
        this.readerOf(id, seat, request),
      );
      // It may be over already: the project could not hold what waits.
      if (seat.isOver) seat.leave();
      else this.tell({ tell: 'accepted', id });
    } catch (error) {
      this.seats.delete(id);
      lease.release();
      if (error instanceof GateRefusal) {
        refuse(true, error.details ?? 'the project has too many filters');
        return;
      }
      if (!(error instanceof GrpcError))
        this.options.log.error({ error: messageOf(error), kind: request.kind }, 'a subscription of a websocket failed');
      const isKnown = error instanceof GrpcError;
      refuse(!isKnown || error.status === 'unavailable', isKnown ? error.message : 'internal error');
    }
  }

  /** The daemon is behind, not the client, to which each notification comes at most once: its subscription goes on without these. */
  private leaveOut(seat: Seat, notifications: number): void {
    this.leftOut.add(notifications);
    if (seat.isLate) return;
    seat.isLate = true;
    this.options.log.warn(
      { waitingBytes: seat.waiting },
      'websockets are behind: a subscription of parsed transactions misses some',
    );
  }

  private readerOf(id: number, seat: Seat, request: SocketRequest): Reader {
    const cut = (code: number, details: string) => {
      if (seat.isOver) return;
      if (code === TRY_AGAIN) {
        this.slow.add();
        this.options.log.warn({ details, waitingBytes: seat.waiting }, 'a subscription of a websocket ended');
      }
      this.end(id, seat);
      this.wake(seat);
      this.tell({ tell: 'ended', id, code, details });
    };
    const meter =
      this.options.charges?.stream(seat.tenant.id, { product: 'laserstreamWebsocket', creditsPerByte: 0 }) ?? null;
    return {
      tenant: seat.tenant,
      payForBlock: async () => {
        const credits = this.options.replayedBlockCredits();
        if (meter === null || credits === 0) return;
        if (!meter.affords(0, credits)) await meter.refresh();
        if (!meter.affords(0, credits)) throw new GrpcError('resourceExhausted', 'max usage reached');
        meter.count(0, credits);
      },
      payForSearch: (transactions) => {
        const credits = (this.options.searchCredits() * transactions) / 1_000;
        if (meter === null || credits === 0 || seat.isOver) return;
        if (meter.affords(0, credits)) {
          meter.count(0, credits);
          return;
        }
        void meter.refresh().then(
          () => {
            if (meter.affords(0, credits)) meter.count(0, credits);
            else cut(NOT_ALLOWED, 'max usage reached');
          },
          () => cut(ENDED, 'try again later'),
        );
      },
      send: ({ bytes, ends }: UpdateBatch) => {
        if (seat.isOver) return;
        const own = seat.waiting + bytes.length;
        const isTooMuch =
          own > this.options.limits.maxSubscriptionBytes ||
          this.waiting + bytes.length > this.options.limits.maxQueuedBytes;
        // One message that is larger than the whole queue still reaches a thread that keeps up.
        if (seat.waiting > 0 && isTooMuch) {
          if (request.kind === 'parsed' && request.from === null) return this.leaveOut(seat, ends!.length);
          // What a replay sends is taken when its client has read it.
          if (request.kind === 'parsed' && own > this.options.limits.maxSubscriptionBytes)
            return cut(NOT_ALLOWED, `more than ${seat.waiting} bytes of notifications behind`);
          return cut(TRY_AGAIN, 'the service is behind, try again later');
        }
        seat.waiting = own;
        this.waiting += bytes.length;
        this.tell({ tell: 'data', id, bytes, ends: ends! });
      },
      lagged: (reason) => cut(TRY_AGAIN, reason),
      refused: (error) => cut(error.status === 'resourceExhausted' ? NOT_ALLOWED : ENDED, error.message),
      ready: () =>
        new Promise((resolve) => {
          if (this.isReady(seat)) resolve();
          else seat.resume = resolve;
        }),
    };
  }

  close(): void {
    for (const [id, seat] of [...this.seats]) {
      this.end(id, seat);
      this.wake(seat);
    }
    this.line.close();
  }
}

/** Answers the other thread until the returned function is called. */
export function serveSockets(options: BlockSideOptions): () => void {
  const side = new BlockSide(options);
  return () => side.close();
}
