import { type TSchema, Type } from '@sinclair/typebox';
import { encode32 } from '../../../src/lib/base58.ts';
import type { RpcMethod } from '../../../src/plugin/plugin.ts';
import { eachSibling, HASH_BYTES } from '../../../src/solana/merkle/path.ts';
import { orNull } from '../../../src/solana/schemas.ts';
import type { CompressionDb, TreeRow } from '../store/tables.ts';
import type { Hashing } from '../trees/hashing.ts';
import type { PathPages } from '../trees/page-book.ts';
import { type AddressPath, type AskedAddress, pathsOfAddresses } from './address-paths.ts';
import { invalid, key32, listField, optional, unavailable } from './fields.ts';
import { enveloped, plainMethod } from './method.ts';
import { requireProvable } from './path-reader.ts';
import {
  type AccountPath,
  addressWithTree,
  findProvable,
  inFirstTree,
  type ProofParts,
  type ProvableAccount,
  pathsOfAccounts,
  provenAtOneSlot,
} from './proofs.ts';
import { type AccountToProve, type AddressToProve, type Prover, proofRequest } from './prover.ts';
import { distinctBytes, indexByBytes, key, merkleContext, merkleContextSchema, NO_KEY } from './records.ts';

/** getValidityProof: lists of proven values, accounts first, then addresses. */
export const getValidityProof = (parts: ValidityParts): RpcMethod =>
  plainMethod(parts.slots, {
    name: 'getValidityProof',
    errors: ['notFound'],
    summary: 'Groth16 proof that accounts exist and addresses are new',
    ...validityTexts(parts),
    fields: {
      hashes: optional(listField(key32('hash of an account'), { items: 'hashes' })),
      newAddresses: optional(listField(key32('address for the first address tree'), { items: 'addresses' })),
      newAddressesWithTrees: optional(listField(addressWithTree(), { items: 'addresses' })),
    },
    result: enveloped(
      Type.Object({
        compressedProof: compressedProofSchema(),
        roots: Type.Array(key('root'), { description: 'roots of the trees' }),
        rootIndices: Type.Array(whole('place of the root on the chain'), { description: 'places of the roots' }),
        leafIndices: Type.Array(whole('leaf'), { description: 'leaves' }),
        leaves: Type.Array(key('hash or address'), { description: 'hashes and addresses' }),
        merkleTrees: Type.Array(key('tree'), { description: 'trees' }),
      }),
    ),
    async run({ hashes, newAddresses, newAddressesWithTrees, minContextSlot }, { signal }) {
      if (newAddresses !== null && newAddressesWithTrees !== null)
        throw invalid('Cannot provide both newAddresses and newAddressesWithTree');
      const addresses = newAddressesWithTrees ?? inFirstTree(newAddresses ?? []);
      if ((hashes ?? []).length + addresses.length === 0)
        throw invalid('No hashes or new addresses provided for proof generation');
      const { slot, value } = await provenAtOneSlot(parts, minContextSlot, (db) =>
        prepareV1(parts, db, hashes ?? [], addresses),
      );
      const compressedProof = await parts.prover.prove(value.body, signal);
      return { context: { slot }, value: { compressedProof, ...value.lists } };
    },
  });

async function prepareV1(
  { proofs }: ValidityParts,
  db: CompressionDb,
  hashes: readonly Uint8Array[],
  addresses: readonly AskedAddress[],
) {
  const accounts = await pathsOfAccounts(db, proofs.reader, hashes);
  const free = await pathsOfAddresses(db, proofs, addresses);
  const entries = [
    // Each has one, otherwise the request was refused.
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

const whole = (description: string) => Type.Integer({ minimum: 0, description, examples: [120] });

const resultSchema = () =>
  Type.Object({
    compressedProof: orNull(compressedProofSchema()),
    accounts: Type.Array(
      Type.Object({
        hash: key('hash'),
        root: key('root; 32 ones for what is proved by its index'),
        rootIndex: Type.Object(
          {
            rootIndex: whole('place of the root on the chain'),
            proveByIndex: Type.Boolean({ description: 'still waits in the output queue', examples: [false] }),
          },
          { description: 'how it is proved' },
        ),
        leafIndex: whole('leaf'),
        merkleContext: merkleContextSchema(),
      }),
      { description: 'the accounts' },
    ),
    addresses: Type.Array(
      Type.Object({
        address: key('address'),
        root: key('root'),
        rootIndex: whole('place of the root on the chain'),
        merkleContext: merkleContextSchema(),
      }),
      { description: 'the addresses' },
    ),
  });

/** getValidityProofV2: accounts in an output queue are proven by index and need no prover. */
export const getValidityProofV2 = (parts: ValidityParts): RpcMethod =>
  plainMethod(parts.slots, {
    name: 'getValidityProofV2',
    errors: ['notFound'],
    summary: 'Groth16 proof that accounts exist and addresses are new, with the trees of each',
    ...validityTexts(parts),
    fields: {
      hashes: optional(listField(key32('hash of an account'), { items: 'hashes' })),
      newAddressesWithTrees: optional(listField(addressWithTree(), { items: 'addresses' })),
    },
    result: enveloped(resultSchema()),
    async run({ hashes, newAddressesWithTrees, minContextSlot }, { signal }) {
      const { slot, value } = await provenAtOneSlot(parts, minContextSlot, (db) =>
        prepareV2(parts, db, hashes ?? [], newAddressesWithTrees ?? []),
      );
      const { body, ...lists } = value;
      const compressedProof = body === null ? null : await parts.prover.prove(body, signal);
      return { context: { slot }, value: { compressedProof, ...lists } };
    },
  });

async function prepareV2(
  { proofs }: ValidityParts,
  db: CompressionDb,
  hashes: readonly Uint8Array[],
  addresses: readonly AskedAddress[],
) {
  const accounts = await unspentAccounts(db, hashes);
  const proved = distinctBytes(hashes.filter((hash) => accounts.get(hash)?.queued === 0));
  const paths = await pathsOfAccounts(db, proofs.reader, proved);
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

/** Errors: -32602 when one is unknown or spent, -32603 for a tree whose proofs are withheld. */
async function unspentAccounts(db: CompressionDb, hashes: readonly Uint8Array[]) {
  const rows = await findProvable(db, hashes);
  const accounts = indexByBytes(
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

/** Few trees have a successor, so this mostly reads nothing. */
async function nextTrees(
  db: CompressionDb,
  paths: readonly AddressPath[],
): Promise<(key: Uint8Array | null) => NextTree> {
  const keys = distinctBytes(paths.flatMap(({ tree }) => (tree.next_tree === null ? [] : [tree.next_tree])));
  const rows =
    keys.length === 0
      ? []
      : await db.selectFrom('compression_trees').select(['key', 'type', 'queue']).where('key', 'in', keys).execute();
  const byKey = indexByBytes(rows, ({ key }) => key);
  return (key) => {
    const row = key === null ? undefined : byKey.get(key);
    return { next_type: row?.type ?? null, next_queue: row?.queue ?? null };
  };
}

const V1_HEIGHT = 26;
/** Numbers of accounts without a circuit in the first version, between numbers with one. */
const WITHOUT_CIRCUIT = [5, 6, 7];

/** The body of the request to the prover, without duplicate leaves and addresses. Errors: -32602 for counts without a circuit. */
function bodyFor(
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
    root,
    height,
    leafIndex,
    siblings: siblings(height, leafIndex, pages, zeros),
    address,
    lowerValue: value,
    higherValue: next_value,
    nextIndex: next_index,
  };
}

function siblings(height: number, leafIndex: number, pages: PathPages, zeros: Uint8Array): readonly Uint8Array[] {
  const list: Uint8Array[] = [];
  eachSibling(height, leafIndex, pages, zeros, (bytes, offset) => {
    list.push(bytes.subarray(offset, offset + HASH_BYTES));
  });
  return list;
}

/** Index of the newest root in the tree account. Errors: -32002 while its root capacity is unknown. */
function rootIndexOf({ key, seq, root_capacity: capacity }: Pick<TreeRow, 'key' | 'seq' | 'root_capacity'>): number {
  if (capacity === null || capacity <= 0)
    throw unavailable(`root history capacity of tree ${encode32(key)} is not known yet`);
  return seq % capacity;
}

/** The distinct addresses of each tree, in order of first appearance. */
function distinctAddresses(paths: readonly AddressPath[]): readonly AddressPath[] {
  const seen = new Set<string>();
  return paths.filter(({ address, tree }) => {
    const name = Buffer.concat([tree.key, address]).toString('latin1');
    const isNew = !seen.has(name);
    seen.add(name);
    return isNew;
  });
}

interface ValidityParts extends ProofParts {
  readonly prover: Prover;
  /** Deadline of one proof. */
  readonly proverTimeoutMs: number;
}

/** Time for the store, and for waiting for a slot. */
const READING_MS = 10_000;

/** Common parts of both methods. */
const validityTexts = ({ proverTimeoutMs }: ValidityParts) => ({
  credits: 100,
  timeoutMs: proverTimeoutMs + READING_MS,
});

const bytes = (count: number) =>
  Type.Array(Type.Integer({ minimum: 0, maximum: 255, examples: [7] }), { description: `${count} bytes` });

const compressedProofSchema = (): TSchema =>
  Type.Object(
    { a: bytes(32), b: bytes(64), c: bytes(32) },
    { title: 'CompressedProof', description: 'the proof; null when everything is proved by its index' },
  );
