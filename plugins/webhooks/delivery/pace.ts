import { createLru } from '../../../src/lib/lru.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { WebhooksConfig } from '../config.ts';
import { formOf, type Webhook } from '../model.ts';

export interface Pace {
  /** Deliveries of a webhook that may be in flight now; 0 while its rate, or the share of its standing, is used up. */
  concurrency(webhookId: string): number;
  /** Whether its deliveries may be claimed before a slot is free. */
  ahead(webhookId: string): boolean;
  /** Takes over the settings of a webhook. */
  learn(hook: Webhook): void;
  /** Starts a delivery. False: it was claimed on outdated state and must wait; true: `leave` must follow. */
  enter(webhookId: string): boolean;
  leave(webhookId: string): void;
  /** The receiver asked for less, or was too slow: one at a time until the next success. */
  throttle(webhookId: string): void;
  succeeded(webhookId: string): void;
}

export interface PaceOptions {
  readonly clock: Clock;
  /** Read at each use, except for `concurrency.global`. */
  readonly config: Pick<WebhooksConfig, 'concurrency' | 'ratePerSecond'>;
  /**
   * Called with a webhook that is not loaded yet, so that it gets loaded. Until then its limit is one delivery, and that one may be
   * claimed by a dead process, so that no claim of this process would load the webhook.
   */
  readonly unknown?: (webhookId: string) => void;
}

interface HookState {
  tokens: number;
  at: number;
  /** One delivery at a time: so until the settings of the webhook are known. */
  isSingle: boolean;
  isLearned: boolean;
  ahead: boolean;
  /** Last standing of the receiver: `unproven` until its first answer. */
  standing: 'unproven' | 'good' | 'throttled';
}

/** Forgetting one of this many webhooks costs at most one burst. */
const MAX_WEBHOOKS = 50_000;
/** Share of all slots for throttled receivers, and for these together with unproven ones. */
const THROTTLED_SHARE = 1 / 4;
const UNPROVEN_SHARE = 3 / 4;

/**
 * Limits of sending: deliveries in flight and per second of one webhook, one at a time for a throttled receiver, and a share of all slots
 * for receivers that hang, because each of their requests holds a slot until it times out.
 */
export function createPace({ clock, config, unknown }: PaceOptions): Pace {
  const { global } = config.concurrency;
  // The LRU allocates on creation, so it exists only in the delivering thread.
  const hooks = createLru<string, HookState>({ max: MAX_WEBHOOKS });
  const running = new Map<string, number>();
  const maxThrottled = Math.max(1, Math.floor(global * THROTTLED_SHARE));
  const maxUnproven = Math.max(1, Math.floor(global * UNPROVEN_SHARE));

  const knownOf = (id: string): HookState => {
    const now = clock.monotonic();
    const { ratePerSecond } = config;
    let known = hooks.get(id);
    if (known === undefined) {
      known = { tokens: ratePerSecond, at: now, isSingle: true, isLearned: false, ahead: false, standing: 'unproven' };
      hooks.set(id, known);
      return known;
    }
    known.tokens = Math.min(ratePerSecond, known.tokens + ((now - known.at) / 1_000) * ratePerSecond);
    known.at = now;
    return known;
  };

  /** Free slots for webhooks of this standing. Few webhooks run at a time, whatever their total number. */
  const roomOf = ({ standing }: HookState): number => {
    if (standing === 'good') return Number.POSITIVE_INFINITY;
    let throttled = 0;
    let unproven = 0;
    for (const [id, count] of running) {
      const other = hooks.peek(id)?.standing;
      if (other === 'good') continue;
      unproven += count;
      if (other === 'throttled') throttled += count;
    }
    const left = maxUnproven - unproven;
    return Math.max(0, standing === 'throttled' ? Math.min(left, maxThrottled - throttled) : left);
  };

  const limitOf = (id: string, known: HookState): number => {
    const most = known.standing === 'throttled' || known.isSingle ? 1 : config.concurrency.perWebhook;
    return Math.min(most, (running.get(id) ?? 0) + roomOf(known));
  };

  return {
    concurrency(id) {
      const known = knownOf(id);
      if (!known.isLearned) unknown?.(id);
      const most = limitOf(id, known);
      return config.ratePerSecond === 0 ? most : Math.max(0, Math.min(most, Math.floor(known.tokens)));
    },
    ahead: (id) => knownOf(id).ahead,
    learn({ id, type, ordered, batchSize }) {
      const known = knownOf(id);
      known.isLearned = true;
      // Discord has low rate limits, and messages of a channel are read in order.
      known.isSingle = ordered || formOf(type) === 'discord';
      // Deliveries of a batch must be unclaimed to be gathered.
      known.ahead = batchSize === 1;
    },
    enter(id) {
      const known = knownOf(id);
      const own = running.get(id) ?? 0;
      if (own >= limitOf(id, known)) return false;
      if (config.ratePerSecond > 0) known.tokens -= 1;
      running.set(id, own + 1);
      return true;
    },
    leave(id) {
      const own = (running.get(id) ?? 1) - 1;
      if (own > 0) running.set(id, own);
      else running.delete(id);
    },
    throttle: (id) => {
      knownOf(id).standing = 'throttled';
    },
    succeeded: (id) => {
      knownOf(id).standing = 'good';
    },
  };
}
