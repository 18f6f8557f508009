import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { Webhook } from 'standardwebhooks';
import type { ChainBlock } from '../../../src/ports/block.ts';
import { type Received, type Receiver, startReceiver } from '../../helpers/receiver.ts';
import { sqliteStore } from '../../helpers/store.ts';
import { until } from '../../helpers/until.ts';
import { addressOf, makeBlock } from './blocks.ts';
import { type Harness, type HarnessOptions, startHarness } from './harness.ts';

/** The plugin with a receiver. */
export interface Stage extends Harness {
  readonly receiver: Receiver;
  create(patch?: object): Promise<{ webhookID: string; signingSecret: string }>;
  /** One block with a transaction for each name; all touch address 1. */
  event(...names: string[]): Promise<ChainBlock>;
  deliveries(id: string): Promise<Delivery[]>;
  /** Waits until every delivery of the webhook is finished. */
  finished(id: string): Promise<Delivery[]>;
}

export interface Delivery {
  readonly deliveryId: string;
  readonly status: string;
  readonly signature: string;
  readonly reason: string | null;
  readonly nextAttemptAt: string | null;
  readonly attempts: {
    statusCode: number | null;
    failure: string | null;
    attempt: number;
    responseBody: string | null;
  }[];
}

export async function stage(t: TestContext, options: Partial<HarnessOptions> = {}): Promise<Stage> {
  const harness = await startHarness(t, { store: await sqliteStore(t), ...options });
  const receiver = await startReceiver();
  t.after(() => receiver.close());
  let slot = 100;
  const deliveries = async (id: string) =>
    (await harness.call('GET', `/v0/webhooks/${id}/deliveries`)).body.data as Delivery[];
  return {
    ...harness,
    receiver,
    deliveries,
    async create(patch = {}) {
      const { status, body } = await harness.call('POST', '/v0/webhooks', {
        webhookURL: `${receiver.url}/hook?a=b`,
        webhookType: 'raw',
        accountAddresses: [addressOf(1)],
        ...patch,
      });
      assert.equal(status, 200, JSON.stringify(body));
      return body;
    },
    async event(...names) {
      slot += 1;
      const block = makeBlock({ slot, transactions: names.map((name) => ({ name, keys: [1] })) });
      await harness.apply(block);
      return block;
    },
    async finished(id) {
      let all: Delivery[] = [];
      const isFinished = async () => {
        all = await deliveries(id);
        return all.length > 0 && all.every(({ status }) => status !== 'pending');
      };
      await until(isFinished, `all deliveries of ${id} are finished`);
      return all;
    },
  };
}

/** Quick retries, so that a test need not wait, and time enough for a busy machine. */
export const patient = {
  webhooks: {
    retry: {
      durable: { steps: [0.01, 0.01], jitter: 0, timeoutMs: 30_000 },
      compat: { steps: [0.01], timeoutMs: 30_000 },
    },
  },
};
/** Quick retries, so that a test need not wait. */
export const quick = {
  webhooks: {
    retry: { durable: { steps: [0.01, 0.01], jitter: 0, timeoutMs: 300 }, compat: { steps: [0.01], timeoutMs: 300 } },
  },
};
export const header = ({ headers }: Received, name: string): string => String(headers[name]);
export const verify = (secret: string, request: Received): unknown =>
  new Webhook(secret).verify(request.body.toString(), request.headers as Record<string, string>);
