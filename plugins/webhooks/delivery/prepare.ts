import { LRUCache } from 'lru-cache';
import type { Job } from '../../../src/plugin/plugin.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { Store } from '../../../src/ports/store.ts';
import { wrapElement } from '../bodies/form.ts';
import type { Webhook } from '../model/webhook.ts';
import { type Member, readBatches } from '../store/batches.ts';
import { blobKey, readBlobs } from '../store/blobs.ts';
import { pausedProjects } from '../store/health.ts';
import { hooksById, readSecrets } from '../store/hooks.ts';
import type { Db } from '../store/tables.ts';
import type { DeliveryPayload } from './queue.ts';
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
  /** Of the deliveries that lead a batch. */
  readonly batches: ReadonlyMap<number, readonly Member[]>;
  /** Projects whose deliveries wait for credits. */
  readonly paused: ReadonlySet<string>;
  /** The request body of a delivery; the same bytes for all webhooks and at every attempt. Undefined when its source is gone. */
  body(payload: DeliveryPayload): Buffer | undefined;
}

/** Bodies that were made not long ago: they never change, and a delivery that waits is prepared anew from time to time. */
export type Bodies = LRUCache<string, Buffer>;

const MAX_BODY_BYTES = 16 * 1024 * 1024;
/** Of an entry beside its bytes, about. */
const ENTRY_BYTES = 300;

export function createBodies(): Bodies {
  return new LRUCache({ maxSize: MAX_BODY_BYTES, sizeCalculation: ({ length }) => length + ENTRY_BYTES });
}

/** Loads webhooks, secrets and elements of all jobs of a claim in three queries. */
export async function prepareDeliveries(
  store: Store,
  clock: Clock,
  bodies: Bodies,
  jobs: readonly Job[],
): Promise<Prepared> {
  const db = store.read as Db;
  const [hooks, found, paused] = await Promise.all([
    hooksById(db, store.dialect, [...new Set(jobs.map((job) => job.group))]),
    loadBodies(
      store,
      bodies,
      jobs.map((job) => job.payload as DeliveryPayload),
    ),
    pausedProjects(db),
  ]);
  const batching = new Set(hooks.filter(({ batchSize }) => batchSize > 1).map(({ id }) => id));
  // A batch can be older than an edit that ended batches.
  const leaders = jobs.filter(({ again, group }) => again === true || batching.has(group)).map(({ id }) => id);
  const secrets = await readSecrets(
    db,
    store.dialect,
    hooks.map(({ number }) => number),
    clock.now(),
  );
  return {
    hooks: new Map(
      hooks.map((hook) => [hook.id, { hook, keys: (secrets.get(hook.number) ?? []).map(secretKey) }] as const),
    ),
    batches: await readBatches(db, store.dialect, leaders),
    paused,
    body: (payload) => found.get(blobKey(payload)),
  };
}

/** The bodies of the payloads by `blobKey`; those whose source is gone are missing. */
async function loadBodies(
  store: Store,
  bodies: Bodies,
  payloads: readonly DeliveryPayload[],
): Promise<ReadonlyMap<string, Buffer>> {
  const found = new Map<string, Buffer>();
  const wanted = new Map<string, DeliveryPayload>();
  for (const payload of payloads) {
    const key = blobKey(payload);
    const known = found.get(key) ?? bodies.get(key);
    if (known !== undefined) found.set(key, known);
    else wanted.set(key, payload);
  }
  const elements = await readBlobs(store, [...new Set([...wanted.values()].map(({ signature }) => signature))]);
  for (const [key, { form }] of wanted) {
    const json = elements.get(key);
    if (json === undefined) continue;
    const body = wrapElement(form ?? 'raw', json);
    bodies.set(key, body);
    found.set(key, body);
  }
  return found;
}
