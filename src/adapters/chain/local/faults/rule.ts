import type { ForkRequest } from '../ledger/types.ts';

/** What a rule applies to; all given fields must agree. */
export interface FaultMatch {
  readonly method?: string;
  /** First parameter of the call. */
  readonly slot?: number;
  /** First and last slot, both included. */
  readonly slots?: readonly [number, number];
  /** Kind of a notification, such as `slot` or `logs`. */
  readonly subscription?: string;
  /** Index in a batch; 0 for a single call. */
  readonly item?: number;
  /** Part of the User-Agent. */
  readonly client?: string;
}

/** What happens to the HTTP exchange as a whole. */
export type TransportFault =
  | { readonly action: 'latency'; readonly ms: number; readonly jitterMs?: number; readonly afterHeaders?: boolean }
  | {
      readonly action: 'status';
      readonly status: number;
      readonly retryAfter?: number;
      readonly body?: 'json' | 'html' | 'text' | 'empty';
    }
  | { readonly action: 'truncate'; readonly bytes: number; readonly mode?: 'close' | 'clean' | 'chunked' }
  | { readonly action: 'garbage'; readonly form?: 'contentType' | 'text' | 'bom' | 'trailing' }
  | { readonly action: 'oversize'; readonly bytes: number }
  | { readonly action: 'reset'; readonly during?: boolean }
  | { readonly action: 'hang' | 'noBatch' };

/** What happens to the answer of one call. */
export type AnswerFault =
  | { readonly action: 'rpcError'; readonly code: number; readonly message?: string }
  | {
      readonly action:
        | 'wrongSkip'
        | 'notYet'
        | 'nullBlock'
        | 'wrongHash'
        | 'nullBlockTime'
        | 'nullMeta'
        | 'shuffleSlot';
    }
  | { readonly action: 'hideSlots'; readonly hidden: readonly number[] }
  | { readonly action: 'wrongParent' | 'tipBack'; readonly by?: number }
  | { readonly action: 'dropTx' | 'missingSignature'; readonly index?: number }
  | { readonly action: 'rollback'; readonly fork: ForkRequest }
  | { readonly action: 'lag'; readonly slots: number }
  | { readonly action: 'pruned'; readonly first: number };

/** What happens to the order: calls of a batch, parallel single calls, or notifications. */
export type OrderFault =
  | { readonly action: 'duplicate' }
  /** Holds `window` calls or notifications and lets them go in reverse. */
  | { readonly action: 'outOfOrder'; readonly window?: number };

/** What happens to a WebSocket when a notification is due. */
export type SocketFault =
  | { readonly action: 'wsDrop'; readonly code?: number }
  | { readonly action: 'wsSilent' | 'wsSkipSlots' | 'wsHalf' | 'wsNoPong' };

export type FaultRule = {
  readonly id?: string;
  readonly match?: FaultMatch;
  /** Leaves the first matches alone. */
  readonly after?: number;
  /** Fires so often and then no more. */
  readonly times?: number;
  /** Chance of each match, 0 to 1. */
  readonly rate?: number;
} & (TransportFault | AnswerFault | OrderFault | SocketFault);

export interface FaultScript {
  readonly seed?: number;
  readonly rules: readonly FaultRule[];
}

/** One firing. */
export interface FaultLogEntry {
  readonly atMs: number;
  readonly rule: string;
  readonly action: string;
  readonly method: string | null;
  readonly subscription: string | null;
  readonly slot: number | null;
}

export interface Faults {
  /** Replaces all rules. */
  set(rules: FaultScript | readonly FaultRule[]): void;
  clear(): void;
  /** Firings, oldest first; at most the last 10,000. */
  log(): readonly FaultLogEntry[];
}
