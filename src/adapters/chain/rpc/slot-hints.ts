import type { WebSocket } from 'ws';
import { rpcRequest } from '../../../lib/json-rpc.ts';
import type { Clock } from '../../../ports/clock.ts';
import type { Log } from '../../../ports/telemetry.ts';
import type { UpstreamPool } from '../../../ports/upstream.ts';
import { backoffMs } from '../../../runtime/waiting.ts';

const SUBSCRIBE = rpcRequest('slotSubscribe');
/** Slots arrive several times a second; a socket that is silent for this long is dead even if it looks open. */
const SILENCE_MS = 10_000;
const RECONNECT_BACKOFF = { firstMs: 500, longestMs: 30_000 };

interface SlotHints {
  onHint(wake: () => void): () => void;
  start(): void;
  stop(): Promise<void>;
}

/** Listens for slot notifications of one upstream. They only shorten waits: nothing depends on their arrival. */
export function createSlotHints({ pool, clock, log }: { pool: UpstreamPool; clock: Clock; log: Log }): SlotHints {
  const listeners = new Set<() => void>();
  let socket: WebSocket | null = null;
  let cancelTimer = (): void => {};
  /** Consecutive pauses without a notification between them. */
  let pauses = 0;
  /** Consecutive sockets without a notification: the next one is opened to the next upstream. */
  let useless = 0;
  let stopped = true;

  function connect(): void {
    const candidates = pool.candidates();
    const upstream = candidates[useless % Math.max(1, candidates.length)];
    if (stopped) return;
    if (upstream === undefined) {
      again();
      return;
    }
    const opened = pool.openSocket(upstream);
    socket = opened;
    let ended = false;
    const end = (): void => {
      if (ended) return;
      ended = true;
      opened.terminate();
      again();
    };
    const watch = (): void => {
      cancelTimer();
      cancelTimer = clock.timeout(SILENCE_MS, end);
    };
    useless += 1;
    watch();
    opened.on('open', () => opened.send(SUBSCRIBE));
    opened.on('message', (data) => {
      if (ended) return;
      const kind = kindOf(String(data));
      // A busy node refuses subscriptions, at once or later: treated as if it had closed the socket.
      if (kind === 'refused') return end();
      if (kind === 'accepted') return;
      useless = 0;
      pauses = 0;
      watch();
      for (const wake of listeners) wake();
    });
    opened.on('error', () => log.debug({ upstream: upstream.label }, 'no slot notifications from this upstream'));
    opened.on('close', end);
  }

  function again(): void {
    cancelTimer();
    if (stopped) return;
    pauses += 1;
    cancelTimer = clock.timeout(backoffMs(pauses, null, RECONNECT_BACKOFF), connect);
  }

  return {
    onHint(wake) {
      listeners.add(wake);
      return () => listeners.delete(wake);
    },
    start() {
      stopped = false;
      connect();
    },
    async stop() {
      stopped = true;
      cancelTimer();
      socket?.terminate();
      socket = null;
    },
  };
}

function kindOf(text: string): 'notice' | 'accepted' | 'refused' {
  if (text.includes('"slotNotification"')) return 'notice';
  return text.includes('"error"') ? 'refused' : 'accepted';
}
