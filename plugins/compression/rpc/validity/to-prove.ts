import { encode32 } from '../../../../src/lib/base58.ts';
import { eachSibling } from '../../../../src/solana/merkle/path.ts';
import { HASH_BYTES } from '../../../../src/solana/merkle/zero-hashes.ts';
import type { AccountPath } from '../../proofs/account-paths.ts';
import type { AddressPath } from '../../proofs/address-paths.ts';
import type { PathPages } from '../../proofs/path-reader.ts';
import { type AccountToProve, type AddressToProve, proofRequest } from '../../prover/proof-request.ts';
import type { TreeRow } from '../../store/tables.ts';
import type { Hashing } from '../../trees/hashing.ts';
import { invalid, unavailable } from '../errors.ts';

const V1_HEIGHT = 26;
/** Counts of accounts that no circuit of the first version takes, while one takes more. */
const WITHOUT_CIRCUIT = [5, 6, 7];

/** The body of the request to the prover. Each leaf and each address is there once. Errors: -32602 for what no circuit takes. */
export function bodyFor(
  hashing: Pick<Hashing, 'poseidon' | 'zeros'>,
  accounts: readonly AccountPath[],
  addresses: readonly AddressPath[],
): string {
  const heights = accounts.map(({ account }) => account.height);
  if (new Set(heights).size > 1) throw invalid('All state trees for account proofs must have the same height');
  if (new Set(addresses.map(({ tree }) => tree.height)).size > 1)
    throw invalid('All address trees for new address proofs must have the same height');
  if (heights[0] === V1_HEIGHT && WITHOUT_CIRCUIT.includes(accounts.length))
    throw invalid(`No proving circuit for ${accounts.length} accounts; use 1, 2, 3, 4 or 8`);
  return proofRequest(
    hashing.poseidon,
    accounts.map((path) => accountToProve(path, hashing.zeros)),
    addresses.map((path) => addressToProve(path, hashing.zeros)),
  );
}

function accountToProve({ account, pages }: AccountPath, zeros: Uint8Array): AccountToProve {
  const { root, height, leaf_index: leafIndex, hash } = account;
  return { root, height, leafIndex, leaf: hash, siblings: siblings(height, leafIndex, pages, zeros) };
}

function addressToProve(path: AddressPath, zeros: Uint8Array): AddressToProve {
  const { tree, pages, address, value, next_value, next_index, leaf_index: leafIndex } = path;
  const { root, height } = tree;
  return {
    ...{ root, height, leafIndex, siblings: siblings(height, leafIndex, pages, zeros) },
    ...{ address, lowerValue: value, higherValue: next_value, nextIndex: next_index },
  };
}

function siblings(height: number, leafIndex: number, pages: PathPages, zeros: Uint8Array): readonly Uint8Array[] {
  const list: Uint8Array[] = [];
  eachSibling(height, leafIndex, pages, zeros, (bytes, offset) => {
    list.push(bytes.subarray(offset, offset + HASH_BYTES));
  });
  return list;
}

/** Where the account of the tree keeps its newest root. Errors: -32002 while nobody knows how many it keeps. */
export function rootIndexOf({
  key,
  seq,
  root_capacity: capacity,
}: Pick<TreeRow, 'key' | 'seq' | 'root_capacity'>): number {
  if (capacity === null || capacity <= 0)
    throw unavailable(`root history capacity of tree ${encode32(key)} is not known yet`);
  return seq % capacity;
}
