import { encode32 } from '../../lib/base58.ts';
import type { KeyTable, NormalTransaction } from '../../ports/block.ts';
import { knownKey } from '../addresses.ts';
import { decodeConcurrent } from '../concurrent/decode-concurrent.ts';
import { assetId, type ConcurrentIds, createConcurrentFinder } from '../concurrent/tree.ts';
import { type WalkStep, walkInstructions } from '../movements/movement.ts';
import type { TransferRow } from '../movements/transfers.ts';
import { CORE_PROGRAM, METADATA_PROGRAM } from '../programs.ts';

/** `bubblegum`: a compressed NFT; `core`: an asset or collection of Core; `token`: an NFT with a mint; `metadata`: what Token Metadata says of a mint. */
export type AssetStandard = 'bubblegum' | 'core' | 'token' | 'metadata';

/** What one call did to one asset. Keys are base58; null: there is none, or the transaction does not contain it. */
export interface AssetChange {
  readonly standard: AssetStandard;
  /** Name of the instruction, empty if it is unknown; of a token: mint, transfer or burn. */
  readonly operation: string;
  readonly asset: string | null;
  /** Account of its metadata (`metadata`). */
  readonly metadata: string | null;
  /** Who owns it from then on. */
  readonly owner: string | null;
  /** Address of the collection that the call names (`core` only). */
  readonly collection: string | null;
  readonly leaf: { readonly tree: string; readonly index: number; readonly seq: number } | null;
}

/** Programs of assets that occur in a block. */
export interface AssetPrograms {
  readonly trees: ConcurrentIds;
  /** Ids in the key table; -1: absent. */
  readonly core: number;
  readonly metadata: number;
}

const findTrees = createConcurrentFinder();

export const assetPrograms = (keys: KeyTable): AssetPrograms => ({
  trees: findTrees(keys),
  core: keys.find(knownKey(CORE_PROGRAM)),
  metadata: keys.find(knownKey(METADATA_PROGRAM)),
});

/** All changes of assets in a transaction: leaves of trees first, then the others; both in the order of execution. None of a failed one. */
export function readAssetChanges(
  tx: NormalTransaction,
  keys: KeyTable,
  programs: AssetPrograms,
  /** Transfers of the same transaction, read on use. */
  transfers: () => readonly TransferRow[],
): readonly AssetChange[] {
  if (tx.error !== null) return [];
  const calls: (readonly [outer: number, inner: number, change: AssetChange])[] = [];
  if (programs.core >= 0 || programs.metadata >= 0)
    for (const step of walkInstructions(tx)) {
      const change =
        step.program < 0
          ? null
          : step.program === programs.core
            ? coreChange(step, tx, keys)
            : step.program === programs.metadata
              ? metadataChange(step, tx, keys)
              : null;
      if (change !== null) calls.push([step.outer, step.inner, change]);
    }
  const isToken = ({ decimals }: { readonly decimals: number }) => decimals === 0;
  if (tx.preTokenBalances.some(isToken) || tx.postTokenBalances.some(isToken))
    for (const transfer of transfers()) {
      const change = tokenChange(transfer);
      if (change !== null) calls.push([transfer.outer, transfer.inner, change]);
    }
  calls.sort(([outer, inner], [otherOuter, otherInner]) => outer - otherOuter || inner - otherInner);
  return [...leafChanges(tx, keys, programs.trees), ...calls.map(([, , change]) => change)];
}

const NOTHING = { asset: null, metadata: null, owner: null, collection: null, leaf: null } as const;

function leafChanges(tx: NormalTransaction, keys: KeyTable, trees: ConcurrentIds): readonly AssetChange[] {
  if (trees.length === 0) return [];
  return decodeConcurrent(tx, keys, trees).events.flatMap((event): AssetChange[] => {
    // Leaves of other programs are no assets.
    if (event.kind !== 'change' || event.operation === null) return [];
    const { tree, leafIndex, seq, asset, operation } = event;
    // An emptied leaf names no asset: its number is that of its leaf.
    const id = asset?.id ?? assetId(tree, BigInt(leafIndex));
    const leaf = { tree: encode32(tree), index: leafIndex, seq };
    const owner = asset === null ? null : encode32(asset.owner);
    return [{ ...NOTHING, standard: 'bubblegum', operation, asset: encode32(id), owner, leaf }];
  });
}

/** Instructions of Core by their first byte. The asset, or the collection, is their first account. */
const CORE_CALLS: readonly (string | null)[] = [
  'CreateV1',
  'CreateCollectionV1',
  'AddPluginV1',
  'AddCollectionPluginV1',
  'RemovePluginV1',
  'RemoveCollectionPluginV1',
  'UpdatePluginV1',
  'UpdateCollectionPluginV1',
  'ApprovePluginAuthorityV1',
  'ApproveCollectionPluginAuthorityV1',
  'RevokePluginAuthorityV1',
  'RevokeCollectionPluginAuthorityV1',
  'BurnV1',
  'BurnCollectionV1',
  'TransferV1',
  'UpdateV1',
  'UpdateCollectionV1',
  'CompressV1',
  'DecompressV1',
  // Collects fees of all assets.
  null,
  'CreateV2',
  'CreateCollectionV2',
  'AddExternalPluginAdapterV1',
  'AddCollectionExternalPluginAdapterV1',
  'RemoveExternalPluginAdapterV1',
  'RemoveCollectionExternalPluginAdapterV1',
  'UpdateExternalPluginAdapterV1',
  'UpdateCollectionExternalPluginAdapterV1',
  'WriteExternalPluginAdapterDataV1',
  'WriteCollectionExternalPluginAdapterDataV1',
  'UpdateV2',
  'ExecuteV1',
  'UpdateCollectionInfoV1',
];

function coreChange({ accounts, data }: WalkStep, tx: NormalTransaction, keys: KeyTable): AssetChange | null {
  const tag = data[0];
  const operation = tag === undefined ? null : tag < CORE_CALLS.length ? CORE_CALLS[tag]! : '';
  if (operation === null) return null;
  /** For an absent optional account the program names itself. */
  const at = (position: number): string | null => {
    const account = keyAt(accounts[position], tx, keys);
    return account === CORE_PROGRAM ? null : account;
  };
  const isCreation = operation === 'CreateV1' || operation === 'CreateV2';
  return {
    ...NOTHING,
    standard: 'core',
    operation,
    asset: at(0),
    collection: operation.includes('Collection') ? null : at(1),
    owner: isCreation ? (at(4) ?? at(2) ?? at(3)) : operation === 'TransferV1' ? at(4) : null,
  };
}

/** Instructions of Token Metadata that write the metadata, by their first byte: positions of its account and of the mint, if it is there. */
const METADATA_CALLS: Readonly<Record<number, readonly [name: string, metadata: number, mint: number | null]>> = {
  4: ['UpdatePrimarySaleHappenedViaToken', 0, null],
  7: ['SignMetadata', 0, null],
  15: ['UpdateMetadataAccountV2', 0, null],
  16: ['CreateMetadataAccountV2', 0, 1],
  18: ['VerifyCollection', 0, null],
  22: ['UnverifyCollection', 0, null],
  25: ['SetAndVerifyCollection', 0, null],
  28: ['RemoveCreatorVerification', 0, null],
  30: ['VerifySizedCollectionItem', 0, null],
  31: ['UnverifySizedCollectionItem', 0, null],
  32: ['SetAndVerifySizedCollectionItem', 0, null],
  33: ['CreateMetadataAccountV3', 0, 1],
  42: ['Create', 0, 2],
  50: ['Update', 4, 3],
  52: ['Verify', 2, null],
  53: ['Unverify', 2, null],
};

function metadataChange({ accounts, data }: WalkStep, tx: NormalTransaction, keys: KeyTable): AssetChange | null {
  const call = METADATA_CALLS[data[0] ?? -1];
  if (call === undefined) return null;
  const [operation, metadata, mint] = call;
  return {
    ...NOTHING,
    standard: 'metadata',
    operation,
    metadata: keyAt(accounts[metadata], tx, keys),
    asset: mint === null ? null : keyAt(accounts[mint], tx, keys),
  };
}

/** A single indivisible unit is an NFT. */
function tokenChange({ type, mint, decimals, amount, to }: TransferRow): AssetChange | null {
  if (decimals !== 0 || amount !== 1n || mint === null || mint === '') return null;
  if (type !== 'transfer' && type !== 'mint' && type !== 'burn' && type !== 'changeOwner') return null;
  const operation = type === 'changeOwner' ? 'transfer' : type;
  return { ...NOTHING, standard: 'token', operation, asset: mint, owner: to };
}

function keyAt(position: number | undefined, { keys: ids }: NormalTransaction, keys: KeyTable): string | null {
  const id = position === undefined ? undefined : ids[position];
  return id === undefined ? null : keys.base58(id);
}
