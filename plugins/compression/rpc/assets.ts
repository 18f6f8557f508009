import { type TSchema, Type } from '@sinclair/typebox';
import { decode32, encode32 } from '../../../src/lib/base58.ts';
import { type Price, RPC_CODES, type RpcCall, RpcError, type RpcMethod } from '../../../src/plugin/plugin.ts';
import { type InvalidCode, refusedKey, TOO_MANY_IDS } from '../../../src/ports/compressed-assets.ts';
import { ASSET_METHODS } from '../../../src/solana/assets/methods.ts';
import { eachSibling } from '../../../src/solana/merkle/path.ts';
import * as s from '../../../src/solana/schemas.ts';
import {
  type CompressedAssetRow,
  type CompressionDb,
  LEAF_STATE,
  readAtOneSlot,
  type TreeRow,
} from '../store/tables.ts';
import { isLeaf, type PathPages } from '../trees/page-book.ts';
import { type Fields, invalid, key32, listField, type ParamField, recordNotFound } from './fields.ts';
import { type MethodParts, type PlainMethod, plainMethod, requireIndexed, requireSlot } from './method.ts';
import { type DamageGuard, type PathReader, requireProvable } from './path-reader.ts';
import { distinctBytes } from './records.ts';

interface AssetParts extends Pick<MethodParts, 'store' | 'slots'> {
  readonly reader: PathReader;
  readonly guarded: DamageGuard;
  /** Hashes of empty subtrees of concurrent trees. */
  readonly zeros: () => Uint8Array;
  readonly invalidCode: () => InvalidCode;
}

/** A proof in the form of asset APIs. */
interface AssetProof {
  readonly root: string;
  readonly proof: readonly string[];
  /** Number of the leaf when the root is 1 and the children of n are 2n and 2n + 1. */
  readonly node_index: number;
  readonly leaf: string;
  readonly tree_id: string;
}

/** Refused with the words of the other methods of the asset API. */
function idField(description: string): ParamField<Uint8Array> {
  return {
    ...key32(description),
    read: (value, name) => {
      const message = refusedKey(value);
      if (message !== null) throw invalid(`${name}: ${message}`, message);
      return decode32(value as string) as Uint8Array;
    },
  };
}

const PRICE: Price = { product: 'das', credits: 10, groups: ['das'] };

/** getAssetProof, and the same for many. */
export function assetMethods(parts: AssetParts): readonly RpcMethod[] {
  return [getAssetProof(parts), getAssetProofs(parts)];
}

function getAssetProof(parts: AssetParts): RpcMethod {
  return assetMethod(parts, {
    name: 'getAssetProof',
    aliases: ASSET_METHODS.getAssetProof,
    errors: ['notFound'],
    summary: 'Merkle proof of a compressed NFT: all siblings from its leaf to the newest root of its tree',
    fields: { id: idField('id of the asset') },
    result: proofSchema(),
    run: async ({ id, minContextSlot }) => {
      const [found] = await findAtOneSlot(parts, [id], minContextSlot);
      if (found === undefined) throw recordNotFound('Asset Proof Not Found');
      return proofOf(parts, found);
    },
  });
}

function getAssetProofs(parts: AssetParts): RpcMethod {
  return assetMethod(parts, {
    name: 'getAssetProofBatch',
    aliases: ASSET_METHODS.getAssetProofBatch,
    summary: 'Merkle proofs of up to 1000 compressed NFTs by their ids; null for missing ones',
    fields: {
      ids: listField(idField('id of an asset'), { items: 'ids', empty: 'No ids provided', tooMany: TOO_MANY_IDS }),
    },
    bare: 'ids',
    result: Type.Record(Type.String(), Type.Union([proofSchema(), Type.Null()])),
    run: async ({ ids, minContextSlot }) => {
      const found = await findAtOneSlot(parts, ids, minContextSlot);
      const proofs = new Map<string, AssetProof | null>(ids.map((id) => [encode32(id), null]));
      for (const path of found) proofs.set(encode32(path.id), proofOf(parts, path));
      return Object.fromEntries(proofs);
    },
  });
}

/** Clients send additional members, and bare values or lists. */
function assetMethod<F extends Fields>({ slots, invalidCode }: AssetParts, method: PlainMethod<F>): RpcMethod {
  const inner = plainMethod(slots, { ...method, tolerant: true });
  const [field = ''] = Object.keys(method.fields);
  return {
    ...inner,
    tag: ASSETS,
    price: PRICE,
    params: withBare(inner.params, method.fields[field]?.schema),
    async handler(call: RpcCall) {
      try {
        return await inner.handler({ ...call, params: namedParams(call.params, field) });
      } catch (error) {
        const code = invalidCode();
        const isInvalid = error instanceof RpcError && error.rpcCode === RPC_CODES.invalidParams.code;
        if (!isInvalid || code === 'invalidParams') throw error;
        const { message, details } = error;
        throw new RpcError(code, { message, ...(details === undefined ? {} : { details }) });
      }
    },
  };
}

const ASSETS = { name: 'Digital assets', description: 'Proofs of compressed NFTs' } as const;

/** The value or the list of the first field alone, in an array. */
function withBare(params: TSchema, schema: TSchema | undefined): TSchema {
  if (schema === undefined) return params;
  return Type.Union([...(params['anyOf'] as TSchema[]), Type.Array(schema, { minItems: 1, maxItems: 1 })]);
}

function namedParams(params: unknown, field: string): unknown {
  if (!Array.isArray(params)) return params;
  const [first] = params as readonly unknown[];
  const isSingle = params.length === 1 && (field === 'id' ? typeof first === 'string' : Array.isArray(first));
  return isSingle ? { [field]: first } : params;
}

async function findAtOneSlot(
  { store, slots, reader, guarded }: AssetParts,
  ids: readonly Uint8Array[],
  minContextSlot: number | null,
): Promise<readonly AssetPath[]> {
  const { slot, value } = await guarded(() =>
    readAtOneSlot(store, (db, at) => {
      requireIndexed(at);
      requireSlot(at, minContextSlot);
      return findAssets(db, reader, ids);
    }),
  );
  slots.saw(slot);
  return value;
}

function proofOf({ zeros }: AssetParts, { leaf, leaf_index, tree, pages }: AssetPath): AssetProof {
  const proof: string[] = [];
  eachSibling(tree.height, leaf_index, pages, zeros(), (bytes, offset) => proof.push(encode32(bytes, offset)));
  return {
    root: encode32(tree.root),
    proof,
    node_index: 2 ** tree.height + leaf_index,
    leaf: encode32(leaf),
    tree_id: encode32(tree.key),
  };
}

const proofSchema = (): TSchema =>
  Type.Object({
    root: s.hash('newest root of the tree'),
    proof: Type.Array(s.hash('a sibling'), { description: 'siblings bottom-up, as many as the tree has levels' }),
    node_index: Type.Integer({
      examples: [16_385],
      description: 'number of the leaf when the root is 1 and the children of n are 2n and 2n + 1',
    }),
    leaf: s.hash('hash of the leaf'),
    tree_id: s.address('the tree', s.EXAMPLES.address),
  });

/** An asset that is in its tree, with its path. */
interface AssetPath extends Pick<CompressedAssetRow, 'id' | 'leaf_index' | 'leaf'> {
  readonly tree: Pick<TreeRow, 'id' | 'key' | 'height' | 'seq' | 'root' | 'status' | 'reason'>;
  readonly pages: PathPages;
}

/**
 * The paths of assets, all in one state of the store, without assets that are unknown or no longer in their tree. Errors: -32603 for a
 * tree whose proofs are withheld; DamagedPage; those of the store.
 */
async function findAssets(
  db: CompressionDb,
  reader: PathReader,
  ids: readonly Uint8Array[],
): Promise<readonly AssetPath[]> {
  const distinct = distinctBytes(ids);
  if (distinct.length === 0) return [];
  const rows = await db
    .selectFrom('compression_assets as a')
    .innerJoin('compression_trees as t', 't.id', 'a.tree')
    .select(['a.id as asset', 'a.leaf_index', 'a.leaf', 'a.state'])
    .select(['t.id', 't.key', 't.height', 't.seq', 't.root', 't.status', 't.reason'])
    .where('a.id', 'in', distinct)
    .execute();
  for (const row of rows) requireProvable(row);
  const present = rows.filter(({ state }) => state === LEAF_STATE.present);
  const pages = await reader.paths(
    db,
    present.map((row) => ({ tree: row, leafIndex: row.leaf_index })),
  );
  return present
    .map(({ asset, leaf_index, leaf, state: _, ...tree }, i) => ({
      id: asset,
      leaf_index,
      leaf,
      tree,
      pages: pages[i] ?? [],
    }))
    .filter((path) => isLeaf(path.pages, path.leaf_index, path.leaf));
}
