import { hash } from 'node:crypto';
import type { PluginContext } from '../../../src/kernel/plugin.ts';
import type { Clock, Random } from '../../../src/ports/clock.ts';
import type { StoreTx } from '../../../src/ports/store.ts';
import type { WebhooksConfig } from '../config.ts';

const OPERATIONAL_TYPES = [
  'webhook.disabled',
  'webhook.failing',
  'webhook.recovered',
  'delivery.exhausted',
  'webhook.paused',
  'chain.gap',
  'chain.reverted',
  'chain.stalled',
  'chain.resumed',
] as const;
export type OperationalType = (typeof OPERATIONAL_TYPES)[number];

/** One event for the operator. */
export interface OperationalEvent {
  readonly type: OperationalType;
  /** ISO 8601, UTC. */
  readonly timestamp: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** The operator's own webhook. */
export interface Operational {
  readonly isOn: boolean;
  /**
   * Puts an event into the outbox, with the transaction that caused it; one with the name `once` only once. Does nothing where no
   * address is configured.
   */
  tell(tx: StoreTx, type: OperationalType, data: OperationalEvent['data'], options?: TellOptions): Promise<void>;
}

export interface TellOptions {
  readonly once?: string;
  /** By which the event is found again. */
  readonly group?: string;
}

export const OPERATIONAL_KIND = 'webhooks.operational';
const ID_BYTES = 16;

export interface OperationalParts {
  readonly config: WebhooksConfig['operational'];
  readonly enqueue: PluginContext['enqueue'];
  readonly clock: Clock;
  readonly random: Random;
}

const digest = (text: string): string => hash('sha256', text, 'hex').slice(0, 2 * ID_BYTES);

export function createOperational({ config, enqueue, clock, random }: OperationalParts): Operational {
  return {
    isOn: config !== null,
    async tell(tx, type, data, { once, group = 'operator' } = {}) {
      if (config === null) return;
      const payload: OperationalEvent = { type, timestamp: new Date(clock.now()).toISOString(), data };
      const key = `evt_${once === undefined ? Buffer.from(random.bytes(ID_BYTES)).toString('hex') : digest(once)}`;
      await enqueue(tx, [{ kind: OPERATIONAL_KIND, key, group, payload }]);
    },
  };
}
