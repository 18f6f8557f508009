import { sql } from 'kysely';
import type { ChainId } from '../../../src/ports/chain.ts';
import type { Store, StoreTx } from '../../../src/ports/store.ts';
import { inList } from './in-list.ts';
import type { Db } from './tables.ts';

/**
 * The element of one transaction, shared by all deliveries that carry it. A transaction that lands again after a fork has one per
 * slot: deliveries that were tried repeat the bytes they sent.
 */
export interface Blob {
  readonly signature: string;
  readonly slot: number;
  readonly chain: ChainId;
  readonly json: string;
  /** Deliveries that were made with it. */
  readonly refs: number;
}

const CHUNK = 1_000;

export const blobKey = (blob: Pick<Blob, 'signature' | 'slot' | 'chain'>): string =>
  `${blob.chain}:${blob.slot}:${blob.signature}`;

export async function insertBlobs(tx: StoreTx, blobs: readonly Blob[], now: number): Promise<void> {
  await tx.insertMany(
    'webhook_blobs',
    ['signature', 'slot', 'chain', 'json', 'refs', 'created_at'],
    blobs.map(({ signature, slot, chain, json, refs }) => [signature, slot, chain, json, refs, now]),
  );
}

export async function addRefs(tx: StoreTx, blob: Blob): Promise<void> {
  await (tx.db as Db)
    .updateTable('webhook_blobs')
    .set({ refs: sql`refs + ${blob.refs}` })
    .where('signature', '=', blob.signature)
    .where('slot', '=', blob.slot)
    .where('chain', '=', blob.chain)
    .execute();
}

/** The slots at which elements of the given transactions are kept already. */
export async function knownSlots(
  tx: StoreTx,
  chain: ChainId,
  signatures: readonly string[],
): Promise<ReadonlyMap<string, ReadonlySet<number>>> {
  const known = new Map<string, Set<number>>();
  for (let from = 0; from < signatures.length; from += CHUNK) {
    const rows = await (tx.db as Db)
      .selectFrom('webhook_blobs')
      .select(['signature', 'slot'])
      .where(inList(tx.dialect, 'signature', signatures.slice(from, from + CHUNK)))
      .where('chain', '=', chain)
      .execute();
    for (const { signature, slot } of rows) {
      const slots = known.get(signature);
      if (slots === undefined) known.set(signature, new Set([slot]));
      else slots.add(slot);
    }
  }
  return known;
}

/** The elements of the given transactions, by `blobKey`. */
export async function readBlobs(
  { read, dialect }: Pick<Store, 'read' | 'dialect'>,
  signatures: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  if (signatures.length === 0) return found;
  const rows = await (read as Db)
    .selectFrom('webhook_blobs')
    .select(['signature', 'slot', 'chain', 'json'])
    .where(inList(dialect, 'signature', signatures))
    .execute();
  for (const row of rows) found.set(blobKey({ ...row, chain: row.chain as ChainId }), row.json);
  return found;
}

/** Gives back references of forgotten deliveries, and removes the elements that nobody needs any more. */
export async function releaseRefs(tx: StoreTx, chain: ChainId, signatures: readonly string[]): Promise<void> {
  const db = tx.db as Db;
  const counts = new Map<string, number>();
  for (const signature of signatures) counts.set(signature, (counts.get(signature) ?? 0) + 1);
  const bySize = new Map<number, string[]>();
  for (const [signature, count] of counts) {
    const group = bySize.get(count);
    if (group === undefined) bySize.set(count, [signature]);
    else group.push(signature);
  }
  // The references of all slots of a transaction are one sum: which of them gives one back does not matter.
  for (const [count, group] of bySize) {
    await sql`UPDATE webhook_blobs SET refs = refs - ${count} WHERE chain = ${chain} AND signature IN (${sql.join(group)})
      AND slot = (SELECT min(slot) FROM webhook_blobs AS other
        WHERE other.signature = webhook_blobs.signature AND other.chain = webhook_blobs.chain)`.execute(db);
  }
  const all = [...counts.keys()];
  if (all.length === 0) return;
  await sql`DELETE FROM webhook_blobs WHERE chain = ${chain} AND signature IN (
      SELECT signature FROM webhook_blobs WHERE chain = ${chain} AND signature IN (${sql.join(all)})
      GROUP BY signature HAVING sum(refs) <= 0)`.execute(db);
}
