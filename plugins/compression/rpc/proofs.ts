import { type TSchema, Type } from '@sinclair/typebox';
import { decode32 } from '../../../src/lib/base58.ts';
import { JsonText, type RpcMethod } from '../../../src/plugin/plugin.ts';
import { noLeaves, pathsOfAccounts } from '../proofs/account-paths.ts';
import { type AskedAddress, pathsOfAddresses } from '../proofs/address-paths.ts';
import { isLeaf } from '../proofs/fold.ts';
import type { Proofs } from '../proofs/index.ts';
import type { Db } from '../store/tables.ts';
import { key32, listOf, notFound, objectOf } from './fields.ts';
import { enveloped, plainMethod, requireIndexed, requireSlot } from './method.ts';
import { key, type RecordVersion, treeContextSchema } from './records.ts';
import type { SlotWatch } from './slot-watch.ts';
import { type ProofParts, textMethod } from './text-method.ts';

/** getCompressedAccountProof and its V2: the siblings of one leaf. Mostly one statement, and no hash is made. */
export const getCompressedAccountProof = (slots: SlotWatch, proofs: Proofs, version: RecordVersion): RpcMethod =>
  plainMethod(slots, {
    name: version === 1 ? 'getCompressedAccountProof' : 'getCompressedAccountProofV2',
    summary: 'Merkle proof of a compressed account: all siblings from its leaf to the newest root of its tree',
    fields: { hash: key32('hash of the account') },
    tolerant: true,
    result: enveloped(accountProofSchema(version)),
    run: ({ hash, minContextSlot }) => proofs.guarded(() => proofOf(slots, proofs, version, hash, minContextSlot)),
  });

async function proofOf(
  slots: SlotWatch,
  { finder, texts }: Proofs,
  version: RecordVersion,
  hash: Uint8Array,
  minContextSlot: number | null,
) {
  const { slot, leaf } = await finder.find(hash);
  requireIndexed(slot);
  requireSlot(slot, minContextSlot);
  slots.saw(slot);
  if (leaf === null) throw version === 1 ? noLeaves(0, 1) : notFound('Account not found');
  // What waits in the output queue is proved by its index, with the path as it stands.
  const isWaiting = version === 2 && leaf.queued;
  if (!isWaiting && !isLeaf(leaf.pages, leaf.leafIndex, hash)) throw noLeaves(0, 1);
  const proof = { ...leaf, hash };
  const value = version === 1 ? texts.plain(proof) : texts.inContext(proof, isWaiting);
  return new JsonText(`{"context":{"slot":${slot}},"value":${value}}`);
}

/** getMultipleCompressedAccountProofs and its V2. */
export const getMultipleCompressedAccountProofs = (parts: ProofParts, version: RecordVersion): RpcMethod =>
  textMethod(parts, {
    name: version === 1 ? 'getMultipleCompressedAccountProofs' : 'getMultipleCompressedAccountProofsV2',
    summary: 'Merkle proofs of up to 1000 compressed accounts, in the order asked for',
    fields: { hashes: listOf(key32('hash'), { items: 'hashes', empty: 'No hashes provided' }) },
    bare: 'hashes',
    result: Type.Array(accountProofSchema(version)),
    run: async ({ hashes }, db) => {
      const { reader, texts } = parts.proofs;
      const paths = await pathsOfAccounts(db, reader, hashes, version === 1 ? 'leaf' : 'account');
      return hashes.map((hash) => {
        // Each has one, or all had been refused.
        const { account, pages } = paths.get(hash)!;
        const proof = { hash, leafIndex: account.leaf_index, tree: account, pages };
        return version === 1 ? texts.plain(proof) : texts.inContext(proof, account.queued === 1);
      });
    },
  });

/** The tree of methods that name none. */
const FIRST_ADDRESS_TREE = 'amt1Ayt45jfbdw5YSo7iz6WZxUmnZsQTYXy82hVwyC2';

const LIST = { items: 'addresses', empty: 'No addresses provided' };

/** An address with its tree, as params name it. */
export const addressWithTree = () =>
  objectOf({ address: key32('address that is to be new'), tree: key32('address tree') });

/** Addresses of methods that name no tree. */
export function inFirstTree(addresses: readonly Uint8Array[]): readonly AskedAddress[] {
  const tree = decode32(FIRST_ADDRESS_TREE)!;
  return addresses.map((address) => ({ address, tree }));
}

async function proofTexts({ proofs }: ProofParts, db: Db, asked: readonly AskedAddress[]): Promise<readonly string[]> {
  const paths = await pathsOfAddresses(db, proofs, asked);
  return paths.map((path) => proofs.texts.absence(path));
}

export const getMultipleNewAddressProofs = (parts: ProofParts): RpcMethod =>
  textMethod(parts, {
    name: 'getMultipleNewAddressProofs',
    summary: 'Proofs that addresses are not in the first address tree, in the order asked for',
    fields: { addresses: listOf(key32('address'), LIST) },
    bare: 'addresses',
    result: Type.Array(addressProofSchema()),
    run: ({ addresses }, db) => proofTexts(parts, db, inFirstTree(addresses)),
  });

export const getMultipleNewAddressProofsV2 = (parts: ProofParts): RpcMethod =>
  textMethod(parts, {
    name: 'getMultipleNewAddressProofsV2',
    summary: 'Proofs that addresses are not in the address trees named with them, in the order asked for',
    fields: { addresses: listOf(addressWithTree(), LIST) },
    bare: 'addresses',
    result: Type.Array(addressProofSchema()),
    run: ({ addresses }, db) => proofTexts(parts, db, addresses),
  });

const path = () => ({
  proof: Type.Array(key('sibling'), { description: 'siblings bottom-up, as many as the tree has levels' }),
  root: key('root'),
  rootSeq: Type.Integer({ description: 'sequence number of the root; its place on chain is this modulo the capacity' }),
});

const accountProofSchema = (version: RecordVersion): TSchema =>
  Type.Object({
    ...path(),
    leafIndex: Type.Integer({ minimum: 0 }),
    hash: key('hash of the account'),
    ...(version === 1
      ? { merkleTree: key('Merkle tree') }
      : {
          proveByIndex: Type.Boolean({ description: 'still waits in the output queue' }),
          treeContext: Type.Object(treeContextSchema()),
        }),
  });

const addressProofSchema = (): TSchema =>
  Type.Object({
    ...path(),
    address: key('address'),
    lowerRangeAddress: key('largest address of the tree below it'),
    higherRangeAddress: key('smallest one above it'),
    nextIndex: Type.Integer({ description: 'leaf of the one above' }),
    lowElementLeafIndex: Type.Integer({ description: 'leaf of the one below' }),
    merkleTree: key('address tree'),
  });
