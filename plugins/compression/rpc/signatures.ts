import { Type } from '@sinclair/typebox';
import { decode, encode, encode64 } from '../../../src/lib/base58.ts';
import { type Db, SUBJECT } from '../store/tables.ts';
import { after, cursor, invalid, key32, limit, notFound, pageOf } from './fields.ts';
import { compressionMethod, type MethodFactory } from './method.ts';
import { pageSchema, signatureSchema } from './records.ts';

/** getCompressionSignaturesForAccount */
export const getCompressionSignaturesForAccount = (): MethodFactory =>
  compressionMethod({
    name: 'getCompressionSignaturesForAccount',
    summary: 'The transaction that created a compressed account, then the one that spent it',
    fields: { hash: key32('hash of the account') },
    tolerant: true,
    result: Type.Object({ items: Type.Array(signatureSchema(), { maxItems: 2, description: 'the transactions' }) }),
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
    result: Type.Object({ items: Type.Array(signatureSchema(true), { description: 'the transactions' }) }),
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

/** A row holds the transactions of a block, so the position is searched in the first row. */
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

interface SignatureRecord {
  readonly signature: string;
  readonly slot: number;
  /** Unix seconds. Clients require a number, so blocks without a time show 0. */
  readonly blockTime: number;
}

/** Signatures with the times of their blocks, in the same order. */
async function signatureRecords(db: Db, places: readonly SignaturePlace[]): Promise<SignatureRecord[]> {
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

/** A position in a list of signatures, newest first. */
interface SignaturePlace {
  readonly slot: number;
  /** 64 bytes. */
  readonly signature: Uint8Array;
}

/** Slot, little-endian, and signature. */
const CURSOR_BYTES = 72;
const SLOT_BYTES = 8;

const signatureCursor = () => cursor(CURSOR_BYTES);

/** Errors: -32602 for an impossible slot. */
function placeOf(bytes: Uint8Array): SignaturePlace {
  const slot = Buffer.from(bytes.buffer, bytes.byteOffset, SLOT_BYTES).readBigUInt64LE();
  if (slot > BigInt(Number.MAX_SAFE_INTEGER)) throw invalid('Invalid cursor');
  return { slot: Number(slot), signature: bytes.subarray(SLOT_BYTES) };
}

function cursorOf({ slot, signature }: SignaturePlace): string {
  const bytes = Buffer.alloc(CURSOR_BYTES);
  bytes.writeBigUInt64LE(BigInt(slot));
  bytes.set(signature, SLOT_BYTES);
  return encode(bytes);
}
