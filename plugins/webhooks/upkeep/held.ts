import type { ChainId } from '../../../src/ports/chain.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { Outbox } from '../../../src/ports/outbox.ts';
import type { Store, StoreTx } from '../../../src/ports/store.ts';
import type { WebhooksConfig } from '../config.ts';
import { deliveryKind } from '../delivery/payload.ts';
import type { DeliveryQueue } from '../delivery/queue.ts';
import { REASONS } from '../delivery/reasons.ts';
import { endBatches, oldLeaders, readBatches } from '../store/batches.ts';
import type { Db } from '../store/tables.ts';

export interface HeldParts {
  readonly store: Store;
  readonly outbox: Outbox;
  readonly queue: DeliveryQueue;
  readonly chains: readonly ChainId[];
  readonly clock: Clock;
  readonly config: WebhooksConfig;
}

const HOUR_MS = 3_600_000;
/** Longer than any transaction or attempt that began before a change. */
const RECENT_MS = 600_000;
const BATCH = 1_000;

/** Held deliveries that are too old go; such that nobody holds any more go on. */
export async function lookAfterHeld(parts: HeldParts): Promise<void> {
  await dropOld(parts);
  await releaseLeft(parts);
  await releaseOrphans(parts);
}

async function dropOld({ store, queue, clock, config }: HeldParts): Promise<void> {
  const off = (store.read as Db).selectFrom('webhooks').select('id').where('active', '=', 0);
  const createdBefore = clock.now() - config.hold.ttlHours * HOUR_MS;
  for (const { id } of await off.where('on_inactive', '=', 'hold').execute()) {
    const drop = (tx: StoreTx) => queue.discardHeld(tx, id, { limit: BATCH, createdBefore }, REASONS.heldTooLong);
    let dropped = BATCH;
    while (dropped === BATCH) dropped = await store.write(drop);
  }
}

/** An attempt or a block that began while a webhook was off can hold its delivery after the webhook was switched on. */
async function releaseLeft({ store, queue, clock }: HeldParts): Promise<void> {
  const on = (store.read as Db).selectFrom('webhooks').select('id').where('active', '=', 1);
  for (const { id } of await on.where('updated_at', '>', clock.now() - RECENT_MS).execute()) {
    await store.write((tx) => queue.releaseHeld(tx, id, REASONS.inactive));
  }
}

/** A batch whose leader is over without it, because its process died once too often: the others go on by themselves. */
async function releaseOrphans({ store, outbox, queue, chains, clock }: HeldParts): Promise<void> {
  const leaders = await oldLeaders(store.read as Db, clock.now() - RECENT_MS, BATCH);
  if (leaders.length === 0) return;
  const alive = new Set<number>();
  for (const chain of chains) {
    const states = ['pending', 'running', 'held'] as const;
    const rows = await outbox.list({ kind: deliveryKind(chain), ids: leaders, states }, { limit: BATCH });
    for (const { id } of rows) alive.add(id);
  }
  const dead = leaders.filter((id) => !alive.has(id));
  if (dead.length === 0) return;
  await store.write(async (tx) => {
    const batches = [...(await readBatches(tx.db, tx.dialect, dead))];
    await queue.releaseMembers(tx, new Map(batches.map(([leader, members]) => [leader, members.map(({ id }) => id)])));
    await endBatches(tx, dead);
  });
}
