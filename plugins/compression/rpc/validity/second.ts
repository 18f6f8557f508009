import { Type } from '@sinclair/typebox';
import type { RpcMethod } from '../../../../src/kernel/plugin.ts';
import { encode32 } from '../../../../src/lib/base58.ts';
import { findProvable, type ProvableAccount, pathsOfAccounts } from '../../proofs/account-paths.ts';
import { type AddressPath, type AskedAddress, pathsOfAddresses } from '../../proofs/address-paths.ts';
import { requireProvable } from '../../proofs/refusal.ts';
import type { Db } from '../../store/tables.ts';
import { invalid } from '../errors.ts';
import { key32, listOf, optional } from '../fields.ts';
import { enveloped, plainMethod } from '../method.ts';
import { addressWithTree } from '../proofs/address-proofs.ts';
import { provenAtOneSlot } from '../proofs/text-method.ts';
import { merkleContext, NO_KEY } from '../records/account.ts';
import { byBytes, distinctBytes } from '../records/by-bytes.ts';
import { key, orNull, treeContextSchema } from '../records/schemas.ts';
import { distinctAddresses } from './distinct.ts';
import { type ValidityParts, validityTexts } from './parts.ts';
import { compressedProofSchema } from './schemas.ts';
import { bodyFor, rootIndexOf } from './to-prove.ts';

const contextSchema = () =>
  Type.Object({ ...treeContextSchema(), nextTreeContext: orNull(Type.Object(treeContextSchema())) });

const resultSchema = () =>
  Type.Object({
    compressedProof: orNull(compressedProofSchema()),
    accounts: Type.Array(
      Type.Object({
        hash: key('hash'),
        root: key('root; 32 ones for what is proved by its index'),
        rootIndex: Type.Object({ rootIndex: Type.Integer(), proveByIndex: Type.Boolean() }),
        leafIndex: Type.Integer(),
        merkleContext: contextSchema(),
      }),
    ),
    addresses: Type.Array(
      Type.Object({
        address: key('address'),
        root: key('root'),
        rootIndex: Type.Integer(),
        merkleContext: contextSchema(),
      }),
    ),
  });

/** getValidityProofV2: what waits in an output queue is proved by its index and needs no prover. */
export const getValidityProofV2 = (parts: ValidityParts): RpcMethod =>
  plainMethod(parts.slots, {
    name: 'getValidityProofV2',
    summary: 'Groth16 proof that accounts exist and addresses are new, with the trees of each',
    ...validityTexts(parts),
    fields: {
      hashes: optional(listOf(key32('hash of an account'), { items: 'hashes' })),
      newAddressesWithTrees: optional(listOf(addressWithTree(), { items: 'addresses' })),
    },
    result: enveloped(resultSchema()),
    async run({ hashes, newAddressesWithTrees, minContextSlot }, { signal }) {
      const { slot, value } = await provenAtOneSlot(parts, minContextSlot, (db) =>
        prepare(parts, db, hashes ?? [], newAddressesWithTrees ?? []),
      );
      const { body, ...lists } = value;
      const compressedProof = body === null ? null : await parts.prover.prove(body, signal);
      return { context: { slot }, value: { compressedProof, ...lists } };
    },
  });

async function prepare(
  { proofs }: ValidityParts,
  db: Db,
  hashes: readonly Uint8Array[],
  addresses: readonly AskedAddress[],
) {
  const accounts = await unspentAccounts(db, hashes);
  const proved = distinctBytes(hashes.filter((hash) => accounts.get(hash)?.queued === 0));
  const paths = await pathsOfAccounts(db, proofs.reader, proved, 'leaf');
  const free = await pathsOfAddresses(db, proofs, addresses);
  const nextOf = await nextTrees(db, free);
  return {
    body:
      proved.length + free.length === 0
        ? null
        : bodyFor(
            proofs.hashing,
            proved.map((hash) => paths.get(hash)!),
            distinctAddresses(free),
          ),
    accounts: hashes.map((hash) => accountEntry(accounts.get(hash)!)),
    addresses: free.map((path) => addressEntry(path, nextOf(path.tree.next_tree))),
  };
}

/** Errors: -32602 when one is unknown or spent, -32603 for a tree that may not be proved. */
async function unspentAccounts(db: Db, hashes: readonly Uint8Array[]) {
  const rows = await findProvable(db, hashes);
  const accounts = byBytes(
    rows.filter(({ spent }) => spent === 0),
    ({ hash }) => hash,
  );
  const missing = distinctBytes(hashes).filter((hash) => accounts.get(hash) === undefined);
  if (missing.length > 0) {
    const list = missing.map((hash) => encode32(hash)).join(', ');
    throw invalid(`Not all requested account hashes exist or are available (might be spent). Missing: ${list}`);
  }
  for (const row of rows) requireProvable(row);
  return accounts;
}

function accountEntry(account: ProvableAccount) {
  const isWaiting = account.queued === 1;
  const { key, type, queue } = account;
  return {
    hash: encode32(account.hash),
    root: isWaiting ? NO_KEY : encode32(account.root),
    rootIndex: { rootIndex: isWaiting ? 0 : rootIndexOf(account), proveByIndex: isWaiting },
    leafIndex: account.leaf_index,
    merkleContext: merkleContext({ ...account, tree_key: key, tree_type: type, tree_queue: queue }),
  };
}

interface NextTree {
  readonly next_type: number | null;
  readonly next_queue: Uint8Array | null;
}

function addressEntry({ address, tree }: AddressPath, next: NextTree) {
  const { key, type, queue, next_tree } = tree;
  return {
    address: encode32(address),
    root: encode32(tree.root),
    rootIndex: rootIndexOf(tree),
    merkleContext: merkleContext({ tree_key: key, tree_type: type, tree_queue: queue, next_tree, ...next }),
  };
}

/** Trees go on in others only once in their life: mostly nothing is read. */
async function nextTrees(db: Db, paths: readonly AddressPath[]): Promise<(key: Uint8Array | null) => NextTree> {
  const keys = distinctBytes(paths.flatMap(({ tree }) => (tree.next_tree === null ? [] : [tree.next_tree])));
  const rows =
    keys.length === 0
      ? []
      : await db.selectFrom('compression_trees').select(['key', 'type', 'queue']).where('key', 'in', keys).execute();
  const byKey = byBytes(rows, ({ key }) => key);
  return (key) => {
    const row = key === null ? undefined : byKey.get(key);
    return { next_type: row?.type ?? null, next_queue: row?.queue ?? null };
  };
}
