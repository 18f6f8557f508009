/** Assets as the index of followed assets stores them, for the rows about the asset API. */

import { createHash } from 'node:crypto';
import { keccak_256 } from '@noble/hashes/sha3.js';
import { CONCURRENT_TREE } from '../../../plugins/compression/indexing/cnft.ts';
import { type CompressionDb, LEAF_STATE } from '../../../plugins/compression/store/tables.ts';
import { createReadBook } from '../../../plugins/das/indexing/read-book.ts';
import { type AssetDb, migrations } from '../../../plugins/das/indexing/tables.ts';
import { writeReads } from '../../../plugins/das/indexing/write.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import type { SqlValue, Store } from '../../../src/ports/store.ts';
import { editionAddress, metadataAddress } from '../../../src/solana/addresses.ts';
import { METADATA_PROGRAM, TOKEN_PROGRAM } from '../../../src/solana/programs.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { mintOf } from '../../helpers/bubblegum.ts';
import { createCompressionTables, setHead, treeRow } from '../../helpers/compression-rows.ts';
import { writeMetadata } from '../../helpers/write-metadata.ts';

/** The index is at this slot. */
const HEAD = 312_345_678;
/** Assets that a fill writes in one transaction. */
const BATCH = 200;

/** Spread over all keys, as those of the chain are. */
const keyOf = (kind: string, number: number): Uint8Array => createHash('sha256').update(`${kind} ${number}`).digest();

export const mintKey = (number: number): string => encode32(keyOf('mint', number));
export const ownerKey = (number: number): string => encode32(keyOf('owner', number));

function key(kind: string, number: number): string {
  return encode32(keyOf(kind, number));
}

/** Mint, metadata, edition and token account of an NFT. */
function accountsOf(number: number, owned: number) {
  const mint = mintKey(number);
  const [mintData, held, edition] = [Buffer.alloc(82), Buffer.alloc(165), Buffer.alloc(282)];
  const [place, editionPlace] = [metadataAddress(mint), editionAddress(mint)];
  mintData.writeUInt32LE(1);
  mintData.set(keyOf('edition', number), 4);
  mintData.writeBigUInt64LE(1n, 36);
  mintData.set([0, 1], 44);
  held.set([...keyOf('mint', number), ...keyOf('owner', Math.floor(number / owned)), 1]);
  held[108] = 1;
  edition.set([6]);
  const collection = { key: key('collection', number % 100), verified: true };
  const { data } = writeMetadata(
    {
      mint,
      updateAuthority: key('authority', number % 100),
      name: `Picture #${number}`,
      symbol: 'PIC',
      uri: `https://arweave.net/${key('document', number)}`,
      sellerFeeBasisPoints: 500,
      creators: [0, 1].map((at) => ({ address: key('creator', (number % 100) + at), verified: at === 0, share: 50 })),
      primarySaleHappened: true,
      isMutable: true,
      editionNonce: 254,
      tokenStandard: 'NonFungible',
      collection,
      uses: null,
      collectionDetails: null,
      programmableConfig: null,
    },
    true,
  );
  return [
    [mint, TOKEN_PROGRAM, mintData],
    [key('holder', number), TOKEN_PROGRAM, held],
    [place, METADATA_PROGRAM, data],
    [editionPlace, METADATA_PROGRAM, edition],
  ] as const;
}

export async function createAssetTables(store: Store): Promise<void> {
  await migrate(store, [{ scope: 'das', migrations }]);
  await store.write((tx) => (tx.db as AssetDb).updateTable('das_state').set({ slot: HEAD }).execute());
}

/** Writes NFTs, each owner with `owned` of them, by the code that a fill writes them with. */
export async function plantAssets(store: Store, from: number, to: number, owned: number): Promise<void> {
  for (let at = from; at < to; at += BATCH) {
    const book = createReadBook();
    const kept = new Map<string, string>();
    const ids: string[] = [];
    for (let number = at; number < Math.min(to, at + BATCH); number += 1) {
      const accounts = accountsOf(number, owned);
      const id = accounts[0][0];
      ids.push(id);
      for (const [address, owner, data] of accounts) {
        book.note(address, { account: { owner, lamports: 1n, data }, slot: HEAD });
        kept.set(address, id);
      }
    }
    await store.write((tx) => writeReads(tx, { slot: HEAD, book, kept, ids, isSpare: () => false }));
  }
  const owners = Array.from({ length: Math.ceil(to / owned) }, (_, at) => ['owner', keyOf('owner', at), 'ready', null]);
  await store.write((tx) =>
    tx.insertMany('das_followed', ['kind', 'key', 'state', 'parent'], owners as SqlValue[][], 'ignore'),
  );
}

export const LEAF_COLLECTION = keyOf('collection', 0);
export const LEAF_TREE = keyOf('tree', 0);

/** Compressed assets of one tree, each hundredth of them in a collection, as blocks leave them. */
export async function plantLeaves(store: Store, count: number): Promise<void> {
  await createCompressionTables(store);
  const rows: SqlValue[][] = [];
  const bodies: SqlValue[][] = [];
  for (let leaf = 0; leaf < count; leaf += 1) {
    const creators = [{ address: keyOf('creator', leaf % 100), verified: true, share: 100 }];
    const collection = { key: keyOf('collection', leaf % 100), verified: true };
    const { schema, data } = mintOf(LEAF_TREE, leaf, leaf % 250, `Picture #${leaf}`, { collection, creators });
    const { id, owner, delegate, dataHash, creatorHash, more } = schema;
    rows.push([
      id,
      1,
      leaf,
      keyOf('leaf', leaf),
      leaf + 1,
      5,
      LEAF_STATE.present,
      leaf + 1,
      2,
      owner,
      delegate,
      dataHash,
      creatorHash,
      more!.collectionHash,
      more!.assetDataHash,
      more!.flags,
    ]);
    // Behind the discriminator, and before the two empty options.
    bodies.push([dataHash, data.subarray(8, -2)]);
  }
  const columns = [
    'id',
    'tree',
    'leaf_index',
    'leaf',
    'seq',
    'slot',
    'state',
    'leaf_seq',
    'version',
    'owner',
    'delegate',
    'data_hash',
    'creator_hash',
    'collection_hash',
    'asset_data_hash',
    'flags',
  ];
  await store.write(async (tx) => {
    const tree = treeRow(1, { key: Buffer.from(LEAF_TREE), type: CONCURRENT_TREE, seq: count, next_index: count });
    await (tx.db as CompressionDb).insertInto('compression_trees').values(tree).execute();
    await tx.insertMany('compression_assets', columns, rows);
    await tx.insertMany('compression_metadata', ['hash', 'body'], bodies);
  });
  await setHead(store, HEAD);
}

/** What the program tells of a tree whose leaves are set: it keeps all nodes, so that each change costs a path. */
export function createTree(key: Uint8Array, height: number) {
  const hash = (left: Uint8Array, right: Uint8Array) => keccak_256(Buffer.concat([left, right]));
  const zeros = [new Uint8Array(32)];
  while (zeros.length <= height) zeros.push(hash(zeros.at(-1)!, zeros.at(-1)!));
  const levels = zeros.map(() => new Map<number, Uint8Array>());
  const nodeAt = (depth: number, index: number) => levels[depth]!.get(index) ?? zeros[depth]!;
  let seq = 0;
  const told = (index: number): Buffer => {
    const [count, tail] = [Buffer.alloc(4), Buffer.alloc(12)];
    count.writeUInt32LE(height + 1);
    tail.writeBigUInt64LE(BigInt(seq));
    tail.writeUInt32LE(index, 8);
    const nodes = zeros.flatMap((_, depth) => {
      const number = Buffer.alloc(4);
      number.writeUInt32LE((2 ** height + index) >> depth);
      return [nodeAt(depth, index >> depth), number];
    });
    return Buffer.concat([Buffer.of(0, 0), key, count, ...nodes, tail]);
  };
  return {
    root: () => nodeAt(height, 0),
    started: () => told(0),
    set(index: number, leaf: Uint8Array): Uint8Array {
      levels[0]!.set(index, leaf);
      for (let depth = 0; depth < height; depth += 1) {
        const left = (index >> depth) & ~1;
        levels[depth + 1]!.set(left >> 1, hash(nodeAt(depth, left), nodeAt(depth, left + 1)));
      }
      seq += 1;
      return told(index);
    },
  };
}
