import { Type } from '@sinclair/typebox';
import type { RpcMethod } from '../../../../src/kernel/plugin.ts';
import { encode32 } from '../../../../src/lib/base58.ts';
import { pathsOfAccounts } from '../../proofs/account-paths.ts';
import { type AskedAddress, pathsOfAddresses } from '../../proofs/address-paths.ts';
import type { Db } from '../../store/tables.ts';
import { invalid } from '../errors.ts';
import { key32, listOf, optional } from '../fields.ts';
import { enveloped, plainMethod } from '../method.ts';
import { addressWithTree, inFirstTree } from '../proofs/address-proofs.ts';
import { provenAtOneSlot } from '../proofs/text-method.ts';
import { distinctBytes } from '../records/by-bytes.ts';
import { key } from '../records/schemas.ts';
import { distinctAddresses } from './distinct.ts';
import { type ValidityParts, validityTexts } from './parts.ts';
import { compressedProofSchema } from './schemas.ts';
import { bodyFor, rootIndexOf } from './to-prove.ts';

/** getValidityProof: lists of what is proved, accounts first, then addresses. */
export const getValidityProof = (parts: ValidityParts): RpcMethod =>
  plainMethod(parts.slots, {
    name: 'getValidityProof',
    summary: 'Groth16 proof that accounts exist and addresses are new',
    ...validityTexts(parts),
    fields: {
      hashes: optional(listOf(key32('hash of an account'), { items: 'hashes' })),
      newAddresses: optional(listOf(key32('address for the first address tree'), { items: 'addresses' })),
      newAddressesWithTrees: optional(listOf(addressWithTree(), { items: 'addresses' })),
    },
    result: enveloped(
      Type.Object({
        compressedProof: compressedProofSchema(),
        roots: Type.Array(key('root')),
        rootIndices: Type.Array(Type.Integer()),
        leafIndices: Type.Array(Type.Integer()),
        leaves: Type.Array(key('hash or address')),
        merkleTrees: Type.Array(key('tree')),
      }),
    ),
    async run({ hashes, newAddresses, newAddressesWithTrees, minContextSlot }, { signal }) {
      if (newAddresses !== null && newAddressesWithTrees !== null)
        throw invalid('Cannot provide both newAddresses and newAddressesWithTree');
      const addresses = newAddressesWithTrees ?? inFirstTree(newAddresses ?? []);
      if ((hashes ?? []).length + addresses.length === 0)
        throw invalid('No hashes or new addresses provided for proof generation');
      const { slot, value } = await provenAtOneSlot(parts, minContextSlot, (db) =>
        prepare(parts, db, hashes ?? [], addresses),
      );
      const compressedProof = await parts.prover.prove(value.body, signal);
      return { context: { slot }, value: { compressedProof, ...value.lists } };
    },
  });

async function prepare(
  { proofs }: ValidityParts,
  db: Db,
  hashes: readonly Uint8Array[],
  addresses: readonly AskedAddress[],
) {
  const accounts = await pathsOfAccounts(db, proofs.reader, hashes, 'leaf');
  const free = await pathsOfAddresses(db, proofs, addresses);
  const entries = [
    // Each has one, or all had been refused.
    ...hashes
      .map((hash) => accounts.get(hash)!.account)
      .map((account) => ({
        tree: account,
        leafIndex: account.leaf_index,
        leaf: account.hash,
      })),
    ...free.map(({ tree, leaf_index: leafIndex, address }) => ({ tree, leafIndex, leaf: address })),
  ];
  return {
    body: bodyFor(
      proofs.hashing,
      distinctBytes(hashes).map((hash) => accounts.get(hash)!),
      distinctAddresses(free),
    ),
    lists: {
      roots: entries.map(({ tree }) => encode32(tree.root)),
      rootIndices: entries.map(({ tree }) => rootIndexOf(tree)),
      leafIndices: entries.map(({ leafIndex }) => leafIndex),
      leaves: entries.map(({ leaf }) => encode32(leaf)),
      merkleTrees: entries.map(({ tree }) => encode32(tree.key)),
    },
  };
}
