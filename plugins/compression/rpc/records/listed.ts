import { encode32 } from '../../../../src/lib/base58.ts';
import { equalBytes } from '../../../../src/lib/equal-bytes.ts';
import type { AccountRow, Db } from '../../store/tables.ts';
import { type DataSlice, merkleContext, type RecordVersion } from './account.ts';
import { type ByBytes, byBytes } from './by-bytes.ts';
import type { RecordedTokens } from './token.ts';

/** What the lists show of an account: less than the single methods read, because a page has a thousand of them. */
export const LISTED_COLUMNS = [
  ...(['hash', 'tree', 'leaf_index', 'owner', 'lamports', 'address', 'discriminator', 'data'] as const),
  ...(['data_hash', 'seq', 'slot_created', 'queued'] as const),
] as const;

export type ListedAccount = Pick<AccountRow, (typeof LISTED_COLUMNS)[number]>;

/** Accounts by hash, spent ones too. */
export async function findListed(db: Db, hashes: readonly Uint8Array[]): Promise<ByBytes<ListedAccount>> {
  const query = db.selectFrom('compression_accounts').select(LISTED_COLUMNS);
  const rows = hashes.length === 0 ? [] : await query.where('hash', 'in', [...hashes]).execute();
  return byBytes(rows, ({ hash }) => hash);
}

/**
 * JSON of accounts and tokens, as `accountRecord` and `tokenRecord` give it. Text at once: the values of a page would cost several times
 * as much as their text. What neighbours have in common, owner, mint and tree, is written once.
 */
export interface RecordTexts {
  account(row: ListedAccount): string;
  tokens(row: RecordedTokens): string;
}

/** For some rows: their trees are read once. Errors: those of the store. */
export async function recordTexts(
  db: Db,
  rows: readonly ListedAccount[],
  version: RecordVersion,
  slice: DataSlice | null = null,
): Promise<RecordTexts> {
  const homes = await readHomes(db, [...new Set(rows.map(({ tree }) => tree))], version);
  const [owner, holder, mint] = [lastKey(), lastKey(), lastKey()];
  return {
    account(row) {
      const start = `{"hash":"${encode32(row.hash)}","address":${keyText(row.address)},"data":${dataText(row, slice)}`;
      const middle = `,"owner":"${owner(row.owner)}","lamports":${bigEndian(row.lamports)}`;
      const home = homes.get(row.tree) ?? '';
      const place = `"leafIndex":${row.leaf_index},"seq":${row.seq},"slotCreated":${row.slot_created}`;
      return version === 1
        ? `${start}${middle},${home},${place}}`
        : `${start}${middle},${place},"proveByIndex":${row.queued === 1},${home}}`;
    },
    tokens({ mint: of, owner: by, amount, delegate, state, tlv }) {
      const tail = `"state":"${state === 1 ? 'frozen' : 'initialized'}","tlv":${tlv === null ? null : `"${base64(tlv)}"`}}`;
      return `{"mint":"${mint(of)}","owner":"${holder(by)}","amount":${bigEndian(amount)},"delegate":${keyText(delegate)},${tail}`;
    },
  };
}

/** The members that tell the tree, by its number. */
async function readHomes(db: Db, ids: readonly number[], version: RecordVersion): Promise<ReadonlyMap<number, string>> {
  if (ids.length === 0) return new Map();
  const trees = await db
    .selectFrom('compression_trees as t')
    .leftJoin('compression_trees as n', 'n.key', 't.next_tree')
    .select(['t.id', 't.key as tree_key', 't.type as tree_type', 't.queue as tree_queue', 't.next_tree'])
    .select(['n.type as next_type', 'n.queue as next_queue'])
    .where('t.id', 'in', [...ids])
    .execute();
  return new Map(
    trees.map((tree) => [
      tree.id,
      version === 1 ? `"tree":"${encode32(tree.tree_key)}"` : `"merkleContext":${JSON.stringify(merkleContext(tree))}`,
    ]),
  );
}

/** base58, kept while it stays the same key. */
function lastKey(): (key: Uint8Array) => string {
  let last: Uint8Array | null = null;
  let text = '';
  return (key) => {
    if (last === null || !equalBytes(last, key)) {
      last = key;
      text = encode32(key);
    }
    return text;
  };
}

const keyText = (key: Uint8Array | null): string => (key === null ? 'null' : `"${encode32(key)}"`);

function dataText({ discriminator, data, data_hash: hash }: ListedAccount, slice: DataSlice | null): string {
  if (discriminator === null || data === null || hash === null) return 'null';
  const shown = slice === null ? data : data.subarray(slice.offset, slice.offset + slice.length);
  return `{"discriminator":${littleEndian(discriminator)},"data":"${base64(shown)}","dataHash":"${encode32(hash)}"}`;
}

const base64 = (bytes: Uint8Array): string => bufferOf(bytes).toString('base64');
const bufferOf = (bytes: Uint8Array): Buffer =>
  bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);

const bigEndian = (bytes: Uint8Array): string =>
  digits(bufferOf(bytes).readUInt32BE(0), bufferOf(bytes).readUInt32BE(4));
const littleEndian = (bytes: Uint8Array): string =>
  digits(bufferOf(bytes).readUInt32LE(4), bufferOf(bytes).readUInt32LE(0));

/** Of most amounts the number is exact, and quicker than a bigint. */
function digits(high: number, low: number): string {
  return high < 2 ** 21 ? String(high * 2 ** 32 + low) : String((BigInt(high) << 32n) | BigInt(low));
}
