/** Receivers without a network: each answers as configured, after a delay, and all requests are recorded. */
import { CodedError } from '../../../src/lib/coded-error.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { Outbound, OutboundRequest, OutboundResponse } from '../../../src/ports/outbound.ts';
import type { Sfc32 } from '../../helpers/sfc32.ts';

/** `lost`: taken with 200, and the connection breaks before the answer is heard. */
export type Mood = 'good' | 'bad' | 'mixed' | 'silent' | 'gone' | 'refused' | 'lost';

/** One request. Times are of the clock that never jumps. */
export interface Request {
  readonly hook: string;
  readonly id: string;
  readonly body: string;
  readonly signatures: readonly string[];
  readonly startedMs: number;
  /** Null while it is in flight. */
  endedMs: number | null;
  readonly process: { readonly isDead: boolean };
  /** Null while it is in flight, or was given up. */
  status: number | null;
  isOpen: boolean;
}

export interface Network {
  readonly requests: Request[];
  readonly moods: Map<string, Mood>;
  /** The way out of one process. */
  outbound(process: { readonly isDead: boolean }): Outbound;
}

const LONGEST_MS = 400;

export function createNetwork(clock: Clock, random: Sfc32): Network {
  const requests: Request[] = [];
  const moods = new Map<string, Mood>();

  function statusOf(mood: Mood): number {
    if (mood === 'good' || mood === 'lost') return 200;
    if (mood === 'gone') return 410;
    if (mood === 'refused') return 403;
    return mood === 'bad' || random.below(2) === 0 ? [500, 429, 404, 302][random.below(4)]! : 204;
  }

  const send = (request: OutboundRequest, process: Request['process']): Promise<OutboundResponse> => {
    const body = Buffer.from(request.body ?? []).toString();
    const headers = request.headers ?? {};
    const hook = String(headers['x-parhelion-webhook']);
    const entry: Request = {
      hook,
      body,
      process,
      id: String(headers['webhook-id']),
      status: null,
      isOpen: true,
      signatures: (JSON.parse(body) as { transaction: { signatures: string[] } }[]).map(
        ({ transaction }) => transaction.signatures[0] ?? '',
      ),
      startedMs: clock.monotonic(),
      endedMs: null,
    };
    requests.push(entry);
    const mood = moods.get(hook) ?? 'good';
    const latencyMs = mood === 'silent' ? request.timeoutMs : random.below(LONGEST_MS);
    return new Promise((resolve, reject) => {
      const end = (finish: () => void) => {
        if (!entry.isOpen) return;
        entry.isOpen = false;
        entry.endedMs = clock.monotonic();
        cancel();
        finish();
      };
      const giveUp = () => end(() => reject(new CodedError('OUTBOUND_TIMEOUT', 'no answer')));
      const cancel = clock.timeout(Math.min(latencyMs, request.timeoutMs), () => {
        if (mood === 'silent') return giveUp();
        end(() => {
          entry.status = statusOf(mood);
          if (mood === 'lost') return reject(new CodedError('OUTBOUND_RESET', 'the connection broke'));
          resolve({ status: entry.status, headers: {}, body: Buffer.alloc(0), truncated: false });
        });
      });
      if (request.signal?.aborted === true) giveUp();
      request.signal?.addEventListener('abort', giveUp, { once: true });
    });
  };

  return {
    requests,
    moods,
    outbound: (process) => ({
      open: () => ({ request: (request) => send(request, process), refusal: () => null, close: async () => {} }),
    }),
  };
}
