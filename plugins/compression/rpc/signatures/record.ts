import { encode64 } from '../../../../src/lib/base58.ts';
import type { Db } from '../../store/tables.ts';
import type { SignaturePlace } from './cursor.ts';

export interface SignatureRecord {
  readonly signature: string;
  readonly slot: number;
  /** Unix seconds. Clients want a number, so the few blocks without a time show 0. */
  readonly blockTime: number;
}

/** Signatures with the times of their blocks, in the same order. */
export async function signatureRecords(db: Db, places: readonly SignaturePlace[]): Promise<SignatureRecord[]> {
  const times = await blockTimes(
    db,
    places.map(({ slot }) => slot),
  );
  return places.map(({ slot, signature }) => ({
    signature: encode64(signature),
    slot,
    blockTime: times.get(slot) ?? 0,
  }));
}

async function blockTimes(db: Db, slots: readonly number[]): Promise<Map<number, number | null>> {
  const distinct = [...new Set(slots)];
  const rows =
    distinct.length === 0
      ? []
      : await db.selectFrom('compression_blocks').selectAll().where('slot', 'in', distinct).execute();
  return new Map(rows.map((row) => [row.slot, row.block_time]));
}
