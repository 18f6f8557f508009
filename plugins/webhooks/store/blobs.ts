import { sql } from 'kysely';
import { inList } from '../../../src/lib/in-list.ts';
import type { ChainId } from '../../../src/ports/chain.ts';
import type { Store, StoreTx } from '../../../src/ports/store.ts';
import type { BodyForm } from '../bodies/form.ts';
import type { Db } from './tables.ts';

/**
 * The element of one transaction in one form, shared by all deliveries that carry it. A transaction that lands again after a fork has one per
 * slot: deliveries that were tried repeat the bytes they sent.
 */
export interface Blob {
  readonly signature: string;
  readonly slot: number;
  readonly chain: ChainId;
  readonly form: BodyForm;
  readonly json: string;
  /** Deliveries that were made with it. */
  readonly refs: number;
}

const CHUNK = 1_000;

export const blobKey = (blob: Pick<Blob, 'signature' | 'slot' | 'chain'> & { readonly form?: BodyForm }): string =>
  `${blob.chain}:${placeKey(blob.slot, blob.form ?? 'raw')}:${blob.signature}`;

/** A form of a transaction in one of the blocks that held it. */
export const placeKey = (slot: number, form: BodyForm): string => `${slot}:${form}`;

export async function insertBlobs(tx: StoreTx, blobs: readonly Blob[], now: number): Promise<void> {
  await tx.insertMany(
    'webhook_blobs',
    ['signature', 'slot', 'chain', 'form', 'json', 'refs', 'created_at'],
    blobs.map(({ signature, slot, chain, form, json, refs }) => [signature, slot, chain, form, json, refs, now]),
  );
}

export async function addRefs(tx: StoreTx, blob: Blob): Promise<void> {
  await (tx.db as Db)
    .updateTable('webhook_blobs')
    .set({ refs: sql`refs + ${blob.refs}` })
    .where('signature', '=', blob.signature)
    .where('slot', '=', blob.slot)
    .where('chain', '=', blob.chain)
    .where('form', '=', blob.form)
    .execute();
}

/** The slots and forms in which elements of the given transactions are kept already, as `placeKey`s. */
export async function knownPlaces(
  tx: StoreTx,
  chain: ChainId,
  signatures: readonly string[],
): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const known = new Map<string, Set<string>>();
  for (let from = 0; from < signatures.length; from += CHUNK) {
    const rows = await (tx.db as Db)
      .selectFrom('webhook_blobs')
      .select(['signature', 'slot', 'form'])
      .where(inList(tx.dialect, 'signature', signatures.slice(from, from + CHUNK)))
      .where('chain', '=', chain)
      .execute();
    for (const { signature, slot, form } of rows) {
      const place = placeKey(slot, form as BodyForm);
      const places = known.get(signature);
      if (places === undefined) known.set(signature, new Set([place]));
      else places.add(place);
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
    .select(['signature', 'slot', 'chain', 'form', 'json'])
    .where(inList(dialect, 'signature', signatures))
    .execute();
  for (const row of rows) {
    found.set(blobKey({ ...row, chain: row.chain as ChainId, form: row.form as BodyForm }), row.json);
  }
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
  // The references of all slots and forms of a transaction are one sum: which of them gives one back does not matter.
  for (const [count, group] of bySize) {
    await sql`UPDATE webhook_blobs SET refs = refs - ${count} WHERE chain = ${chain} AND signature IN (${sql.join(group)})
      AND (slot, form) = (SELECT slot, form FROM webhook_blobs AS other
        WHERE other.signature = webhook_blobs.signature AND other.chain = webhook_blobs.chain
        ORDER BY slot, form LIMIT 1)`.execute(db);
  }
  const all = [...counts.keys()];
  if (all.length === 0) return;
  await sql`DELETE FROM webhook_blobs WHERE chain = ${chain} AND signature IN (
      SELECT signature FROM webhook_blobs WHERE chain = ${chain} AND signature IN (${sql.join(all)})
      GROUP BY signature HAVING sum(refs) <= 0)`.execute(db);
}
