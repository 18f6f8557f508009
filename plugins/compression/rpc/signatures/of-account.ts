import { Type } from '@sinclair/typebox';
import { notFound } from '../errors.ts';
import { key32 } from '../fields.ts';
import { compressionMethod, type MethodFactory } from '../method.ts';
import { signatureSchema } from '../records/schemas.ts';
import type { SignaturePlace } from './cursor.ts';
import { signatureRecords } from './record.ts';

/** getCompressionSignaturesForAccount */
export const getCompressionSignaturesForAccount = (): MethodFactory =>
  compressionMethod({
    name: 'getCompressionSignaturesForAccount',
    summary: 'The transaction that created a compressed account, then the one that spent it',
    fields: { hash: key32('hash of the account') },
    tolerant: true,
    result: Type.Object({ items: Type.Array(signatureSchema(), { maxItems: 2 }) }),
    async run({ hash }, { db }) {
      const row = await db
        .selectFrom('compression_accounts')
        .select(['slot_created', 'created_by', 'slot_spent', 'spent_by'])
        .where('hash', '=', hash)
        .executeTakeFirst();
      if (row === undefined) throw notFound('Account not found');
      const places: SignaturePlace[] = [{ slot: row.slot_created, signature: row.created_by }];
      if (row.slot_spent !== null && row.spent_by !== null)
        places.push({ slot: row.slot_spent, signature: row.spent_by });
      return { items: await signatureRecords(db, places) };
    },
  });
