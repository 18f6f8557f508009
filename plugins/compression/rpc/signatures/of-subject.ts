import { SUBJECT } from '../../store/tables.ts';
import { key32, limit } from '../fields.ts';
import { compressionMethod, type MethodFactory } from '../method.ts';
import { pageOf } from '../page.ts';
import { pageSchema, signatureSchema } from '../records/schemas.ts';
import { after } from '../sql.ts';
import { cursorOf, placeOf, signatureCursor } from './cursor.ts';
import { signatureRecords } from './record.ts';

const SUBJECTS = {
  address: { name: 'getCompressionSignaturesForAddress', kind: SUBJECT.address, what: 'an address' },
  owner: { name: 'getCompressionSignaturesForOwner', kind: SUBJECT.owner, what: 'an owner of accounts' },
  tokenOwner: { name: 'getCompressionSignaturesForTokenOwner', kind: SUBJECT.tokenOwner, what: 'an owner of tokens' },
} as const;

/** getCompressionSignaturesForAddress, …ForOwner and …ForTokenOwner. */
export function getCompressionSignaturesFor(subject: keyof typeof SUBJECTS): MethodFactory {
  const { name, kind, what } = SUBJECTS[subject];
  return compressionMethod({
    name,
    summary: `Transactions that created or spent compressed accounts of ${what}, newest first`,
    fields: {
      ...(subject === 'address' ? { address: key32('address of accounts') } : { owner: key32('owner') }),
      cursor: signatureCursor(),
      limit: limit(),
    },
    result: pageSchema(signatureSchema()),
    async run(params, { db }) {
      const { cursor, limit: most } = params;
      let query = db
        .selectFrom('compression_subjects')
        .select(['slot', 'signature'])
        .where('kind', '=', kind)
        .where('subject', '=', 'address' in params ? params.address : params.owner)
        .orderBy('slot', 'desc')
        .orderBy('signature', 'desc')
        .limit(most + 1);
      if (cursor !== null) {
        const { slot, signature } = placeOf(cursor);
        query = query.where(after(['slot', 'signature'], 'desc', [slot, signature]));
      }
      const page = pageOf(await query.execute(), most, cursorOf);
      return { items: await signatureRecords(db, page.rows), cursor: page.cursor };
    },
  });
}
