import { Type } from '@sinclair/typebox';
import { decode, encode64 } from '../../../../src/lib/base58.ts';
import type { Db } from '../../store/tables.ts';
import { limit } from '../fields.ts';
import { compressionMethod, type MethodFactory } from '../method.ts';
import { pageOf } from '../page.ts';
import { pageSchema, signatureSchema } from '../records/schemas.ts';
import { after } from '../sql.ts';
import { cursorOf, placeOf, type SignaturePlace, signatureCursor } from './cursor.ts';
import { signatureRecords } from './record.ts';

interface Failing extends SignaturePlace {
  /** JSON of the transaction's error. */
  readonly error: string | null;
}

interface Timed extends Failing {
  readonly blockTime: number;
}

/** getLatestCompressionSignatures */
export const getLatestCompressionSignatures = (): MethodFactory =>
  compressionMethod({
    name: 'getLatestCompressionSignatures',
    summary: 'The newest transactions that use compression, newest first',
    fields: { cursor: signatureCursor(), limit: limit() },
    result: pageSchema(signatureSchema()),
    async run({ cursor, limit: most }, { db }) {
      const from = cursor === null ? null : placeOf(cursor);
      const page = pageOf(await compressionTransactions(db, from, most + 1), most, cursorOf);
      return { items: await signatureRecords(db, page.rows), cursor: page.cursor };
    },
  });

/** getLatestNonVotingSignatures */
export const getLatestNonVotingSignatures = (): MethodFactory =>
  compressionMethod({
    name: 'getLatestNonVotingSignatures',
    summary:
      'The newest transactions that are no votes, newest first: about 1000 of them, and all that use compression',
    fields: { cursor: signatureCursor(), limit: limit() },
    result: Type.Object({ items: Type.Array(signatureSchema(true)) }),
    async run({ cursor, limit: most }, { db }) {
      const from = cursor === null ? null : placeOf(cursor);
      const own = await compressionTransactions(db, from, most);
      const records = await signatureRecords(db, own);
      const shown = own.map((one, at) => ({ ...one, blockTime: records[at]?.blockTime ?? 0 }));
      const newest = [...shown, ...(await recentTransactions(db, from, most))].sort(newestFirst).slice(0, most);
      return {
        items: newest.map(({ slot, signature, blockTime, error }) => ({
          ...{ signature: encode64(signature), slot, blockTime, error },
        })),
      };
    },
  });

async function compressionTransactions(db: Db, from: SignaturePlace | null, count: number): Promise<Failing[]> {
  const query = db
    .selectFrom('compression_transactions')
    .selectAll()
    .orderBy('slot', 'desc')
    .orderBy('signature', 'desc')
    .limit(count);
  return await (from === null
    ? query
    : query.where(after(['slot', 'signature'], 'desc', [from.slot, from.signature]))
  ).execute();
}

/** A row holds the transactions of a block, so the place is looked for in the first one. */
async function recentTransactions(db: Db, from: SignaturePlace | null, count: number): Promise<Timed[]> {
  let query = db.selectFrom('compression_recent').select(['slot', 'body', 'block_time']).orderBy('slot', 'desc');
  if (from !== null) query = query.where('slot', '<=', from.slot);
  const found: Timed[] = [];
  for (const { slot, body, block_time: blockTime } of await query.execute()) {
    const block = (JSON.parse(body) as [string, string | null][]).map(([signature, error]) => {
      return { slot, signature: decode(signature) ?? new Uint8Array(64), blockTime: blockTime ?? 0, error };
    });
    found.push(...block.filter((one) => from === null || newestFirst(from, one) < 0));
    if (found.length >= count) break;
  }
  return found;
}

const newestFirst = (a: SignaturePlace, b: SignaturePlace): number =>
  b.slot - a.slot || Buffer.compare(b.signature, a.signature);
