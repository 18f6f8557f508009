import type { Job } from '../../../src/kernel/plugin.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { Store } from '../../../src/ports/store.ts';
import type { Webhook } from '../model/webhook.ts';
import { blobKey, readBlobs } from '../store/blobs.ts';
import { hooksById } from '../store/hooks.ts';
import { readSecrets } from '../store/secrets.ts';
import type { Db } from '../store/tables.ts';
import type { DeliveryPayload } from './payload.ts';
import { secretKey } from './signature.ts';

export interface PreparedHook {
  readonly hook: Webhook;
  /** HMAC keys, newest first. */
  readonly keys: readonly Buffer[];
}

/** What the deliveries of one claim need. */
export interface Prepared {
  /** By webhook id; a deleted webhook is missing. */
  readonly hooks: ReadonlyMap<string, PreparedHook>;
  /** The request body of a delivery; the same bytes for all webhooks and at every attempt. Undefined when its source is gone. */
  body(payload: DeliveryPayload): Buffer | undefined;
}

/** Loads webhooks, secrets and elements of all jobs of a claim in three queries. */
export async function prepareDeliveries(store: Store, clock: Clock, jobs: readonly Job[]): Promise<Prepared> {
  const db = store.read as Db;
  const payloads = jobs.map((job) => job.payload as DeliveryPayload);
  const [hooks, blobs] = await Promise.all([
    hooksById(db, [...new Set(jobs.map((job) => job.group))]),
    readBlobs(db, [...new Set(payloads.map(({ signature }) => signature))]),
  ]);
  const secrets = await readSecrets(
    db,
    hooks.map(({ number }) => number),
    clock.now(),
  );
  const bodies = new Map<string, Buffer>();
  return {
    hooks: new Map(
      hooks.map((hook) => [hook.id, { hook, keys: (secrets.get(hook.number) ?? []).map(secretKey) }] as const),
    ),
    body(payload) {
      const key = blobKey(payload);
      const made = bodies.get(key);
      if (made !== undefined) return made;
      const json = blobs.get(key);
      if (json === undefined) return undefined;
      const body = Buffer.from(`[${json}]`);
      bodies.set(key, body);
      return body;
    },
  };
}
