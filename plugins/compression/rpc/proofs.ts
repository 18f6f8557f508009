import { type TSchema, Type } from '@sinclair/typebox';
import { decode32, encode32, encode32Into } from '../../../src/lib/base58.ts';
import { JsonText, type Log, type RpcMethod, type Store } from '../../../src/plugin/plugin.ts';
import { eachSibling } from '../../../src/solana/merkle/path.ts';
import { type AccountRow, type Db, readAtOneSlot, type TreeRow } from '../store/tables.ts';
import type { Hashing } from '../trees/hashing.ts';
import { isLeaf, leadsToRoot, type PathPages } from '../trees/path.ts';
import type { NewTree } from '../trees/tree-update.ts';
import {
  type AddressPath,
  type AskedAddress,
  createUnseenTrees,
  pathsOfAddresses,
  type UnseenTrees,
} from './address-paths.ts';
import { type Fields, key32, listOf, notFound, objectOf } from './fields.ts';
import {
  enveloped,
  type MethodTexts,
  type ParamsForm,
  plainMethod,
  type Read,
  requireIndexed,
  requireSlot,
  type SlotWatch,
} from './method.ts';
import {
  createDamageGuard,
  createLeafFinder,
  createPageCache,
  createPathReader,
  type DamageGuard,
  type LeafFinder,
  type PathReader,
  requireProvable,
} from './path-reader.ts';
import {
  type ByBytes,
  byBytes,
  distinctBytes,
  index,
  key,
  type RecordVersion,
  treeContext,
  treeSchema,
} from './records.ts';

export interface ProofParts {
  readonly store: Store;
  readonly slots: SlotWatch;
  readonly proofs: Proofs;
}

/** Reads at one slot; a damaged page is reported. Errors: -32002 while nothing is indexed; those of `work`. */
export async function provenAtOneSlot<T>(
  { store, slots, proofs }: ProofParts,
  minContextSlot: number | null,
  work: (db: Db) => Promise<T>,
): Promise<{ readonly slot: number; readonly value: T }> {
  const seen = await proofs.guarded(() =>
    readAtOneSlot(store, (db, slot) => {
      requireIndexed(slot);
      requireSlot(slot, minContextSlot);
      return work(db);
    }),
  );
  slots.saw(seen.slot);
  return seen;
}

interface TextMethod<F extends Fields> extends MethodTexts, ParamsForm<F> {
  /** Schema of the list. */
  readonly result: TSchema;
  /** Texts of the items of `value`. */
  run(params: Read<F>, db: Db): Promise<readonly string[]>;
}

/** A method that returns a list of proofs as text. */
function textMethod<F extends Fields>(parts: ProofParts, method: TextMethod<F>): RpcMethod {
  return plainMethod(parts.slots, {
    ...method,
    result: enveloped(method.result),
    run: async (params) => {
      const { slot, value } = await provenAtOneSlot(parts, params.minContextSlot, (db) => method.run(params, db));
      return new JsonText(`{"context":{"slot":${slot}},"value":[${value.join(',')}]}`);
    },
  });
}

/** getCompressedAccountProof and its V2: the siblings of one leaf. Mostly one statement, without hashing. */
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
  // An account in the output queue is proven by its index, with the current path.
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
    summary: 'Merkle proofs of up to 1000 compressed accounts, in the requested order',
    fields: { hashes: listOf(key32('hash'), { items: 'hashes', empty: 'No hashes provided' }) },
    bare: 'hashes',
    result: Type.Array(accountProofSchema(version)),
    run: async ({ hashes }, db) => {
      const { reader, texts } = parts.proofs;
      const paths = await pathsOfAccounts(db, reader, hashes, version === 1 ? 'leaf' : 'account');
      return hashes.map((hash) => {
        // Each has one, otherwise the request was refused.
        const { account, pages } = paths.get(hash)!;
        const proof = { hash, leafIndex: account.leaf_index, tree: account, pages };
        return version === 1 ? texts.plain(proof) : texts.inContext(proof, account.queued === 1);
      });
    },
  });

/** Default tree of methods without a tree parameter. */
const FIRST_ADDRESS_TREE = 'amt1Ayt45jfbdw5YSo7iz6WZxUmnZsQTYXy82hVwyC2';

const LIST = { items: 'addresses', empty: 'No addresses provided' };

/** An address with its tree, as in params. */
export const addressWithTree = () =>
  objectOf({ address: key32('address that is to be new'), tree: key32('address tree') });

/** Addresses of methods without a tree parameter. */
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
    summary: 'Proofs that addresses are not in the first address tree, in the requested order',
    fields: { addresses: listOf(key32('address'), LIST) },
    bare: 'addresses',
    result: Type.Array(addressProofSchema()),
    run: ({ addresses }, db) => proofTexts(parts, db, inFirstTree(addresses)),
  });

export const getMultipleNewAddressProofsV2 = (parts: ProofParts): RpcMethod =>
  textMethod(parts, {
    name: 'getMultipleNewAddressProofsV2',
    summary: 'Proofs that addresses are not in the address trees named with them, in the requested order',
    fields: { addresses: listOf(addressWithTree(), LIST) },
    bare: 'addresses',
    result: Type.Array(addressProofSchema()),
    run: ({ addresses }, db) => proofTexts(parts, db, addresses),
  });

const path = () => ({
  proof: Type.Array(key('sibling'), { description: 'siblings bottom-up, as many as the tree has levels' }),
  root: key('root'),
  rootSeq: Type.Integer({
    examples: [121],
    description: 'sequence number of the root; its place on chain is this modulo the capacity',
  }),
});

const accountProofSchema = (version: RecordVersion): TSchema =>
  Type.Object({
    ...path(),
    leafIndex: index(),
    hash: key('hash of the account'),
    ...(version === 1
      ? { merkleTree: key('Merkle tree') }
      : {
          proveByIndex: Type.Boolean({ description: 'still waits in the output queue' }),
          treeContext: treeSchema(),
        }),
  });

const addressProofSchema = (): TSchema =>
  Type.Object({
    ...path(),
    address: key('address'),
    lowerRangeAddress: key('largest address of the tree below it'),
    higherRangeAddress: key('smallest one above it'),
    nextIndex: Type.Integer({ description: 'leaf of the one above', examples: [7] }),
    lowElementLeafIndex: Type.Integer({ description: 'leaf of the one below', examples: [6] }),
    merkleTree: key('address tree'),
  });

type TreeColumns = Pick<
  TreeRow,
  'id' | 'key' | 'type' | 'queue' | 'height' | 'seq' | 'root' | 'status' | 'reason' | 'root_capacity' | 'next_tree'
>;

/** An account, its tree, and the successor of that tree. */
export interface ProvableAccount extends Pick<AccountRow, 'hash' | 'leaf_index' | 'queued' | 'spent'>, TreeColumns {
  readonly next_type: number | null;
  readonly next_queue: Uint8Array | null;
}

export interface AccountPath {
  readonly account: ProvableAccount;
  readonly pages: PathPages;
}

/**
 * Which hashes have a proof. `leaf`: leaves of a tree. `account`: also accounts in the output queue,
 * whose path is that of the empty leaf.
 */
export type Provable = 'leaf' | 'account';

/** Existing accounts with their trees. The hashes must be distinct. */
export async function findProvable(db: Db, hashes: readonly Uint8Array[]): Promise<readonly ProvableAccount[]> {
  const distinct = distinctBytes(hashes);
  if (distinct.length === 0) return [];
  return await db
    .selectFrom('compression_accounts as a')
    .innerJoin('compression_trees as t', 't.id', 'a.tree')
    .leftJoin('compression_trees as n', 'n.key', 't.next_tree')
    .select(['a.hash', 'a.leaf_index', 'a.queued', 'a.spent'])
    .select(['t.id', 't.key', 't.type', 't.queue', 't.height', 't.seq', 't.root', 't.status', 't.reason'])
    .select(['t.root_capacity', 't.next_tree', 'n.type as next_type', 'n.queue as next_queue'])
    .where('a.hash', 'in', distinct)
    .execute();
}

/**
 * The paths of accounts, all in one state of the store. Errors: -32000 when a hash has no proof, -32603 for a tree whose proofs are
 * withheld; DamagedPage; those of the store.
 */
export async function pathsOfAccounts(
  db: Db,
  reader: PathReader,
  hashes: readonly Uint8Array[],
  provable: Provable,
): Promise<ByBytes<AccountPath>> {
  const accounts = await findProvable(db, hashes);
  const expected = distinctBytes(hashes).length;
  if (provable === 'account' && accounts.length < expected) throw notFound('Account not found');
  for (const account of accounts) requireProvable(account);
  const pages = await reader.paths(
    db,
    accounts.map((account) => ({ tree: account, leafIndex: account.leaf_index })),
  );
  const paths = accounts
    .map((account, i) => ({ account, pages: pages[i] ?? [] }))
    .filter(
      ({ account, pages }) =>
        (provable === 'account' && account.queued === 1) || isLeaf(pages, account.leaf_index, account.hash),
    );
  if (paths.length < expected) throw noLeaves(paths.length, expected);
  return byBytes(paths, ({ account }) => account.hash);
}

/** Both counts are of distinct hashes. */
const noLeaves = (got: number, expected: number) =>
  notFound(`Leaf nodes not found for hashes. Got ${got} hashes. Expected ${expected}.`);

/** Dependencies of methods with proofs. */
export interface Proofs {
  readonly reader: PathReader;
  readonly finder: LeafFinder;
  readonly texts: ProofTexts;
  readonly unseen: UnseenTrees;
  readonly guarded: DamageGuard;
  readonly hashing: Hashing;
}

interface ProofsParts {
  readonly store: Store;
  readonly log: Log;
  readonly config: { readonly pageCacheBytes: number; readonly verifyOnRead: boolean };
  readonly hashing: Hashing;
  /** Trees that exist from the start. */
  readonly known: readonly NewTree[];
}

export function createProofs({ store, log, config, hashing, known }: ProofsParts): Proofs {
  const reader = createPathReader({
    store,
    cache: createPageCache(config.pageCacheBytes),
    ...(config.verifyOnRead
      ? { verify: (place, pages) => leadsToRoot(hashing.poseidon, hashing.zeros, place, pages) }
      : {}),
  });
  return {
    ...{ reader, hashing },
    finder: createLeafFinder(store, reader),
    texts: createProofTexts(() => hashing.zeros),
    unseen: createUnseenTrees(known, hashing),
    guarded: createDamageGuard(store, log),
  };
}

/** Longest base58 of 32 bytes, with quotes and comma. */
const HASH_CHARACTERS = 47;
/** No tree has more levels. */
const MOST_LEVELS = 40;
const [QUOTE, COMMA] = [0x22, 0x2c];

/** Contents of a proof without its siblings. */
interface ProofHead {
  readonly hash: Uint8Array;
  readonly leafIndex: number;
  readonly tree: Pick<TreeRow, 'key' | 'type' | 'queue' | 'height' | 'seq' | 'root'>;
  readonly pages: PathPages;
}

/**
 * JSON of proofs. These are the hot responses, so no intermediate value is built: all base58 of the siblings is written to one buffer and
 * copied out at once. One instance per thread: calls never overlap.
 */
interface ProofTexts {
  /** Form of the first version. */
  plain(proof: ProofHead): string;
  /** Form of the V2 methods. */
  inContext(proof: ProofHead, proveByIndex: boolean): string;
  /** Proof that no leaf has this address. */
  absence(proof: AddressPath): string;
}

function createProofTexts(zeros: () => Uint8Array): ProofTexts {
  const target = Buffer.alloc(MOST_LEVELS * HASH_CHARACTERS);

  const siblings = (height: number, leafIndex: number, pages: PathPages): string => {
    let at = 0;
    eachSibling(height, leafIndex, pages, zeros(), (bytes, offset) => {
      if (at > 0) target[at++] = COMMA;
      target[at++] = QUOTE;
      at += encode32Into(bytes, offset, target, at);
      target[at++] = QUOTE;
    });
    return target.toString('latin1', 0, at);
  };
  const start = ({ leafIndex, tree, pages }: Pick<ProofHead, 'leafIndex' | 'tree' | 'pages'>): string =>
    `{"proof":[${siblings(tree.height, leafIndex, pages)}],"root":"${encode32(tree.root)}","rootSeq":${tree.seq}`;
  const common = (proof: ProofHead): string =>
    `${start(proof)},"leafIndex":${proof.leafIndex},"hash":"${encode32(proof.hash)}"`;

  return {
    plain: (proof) => `${common(proof)},"merkleTree":"${encode32(proof.tree.key)}"}`,
    inContext: (proof, proveByIndex) => {
      const { type, key, queue } = proof.tree;
      const context = JSON.stringify(treeContext(type, key, queue));
      return `${common(proof)},"proveByIndex":${proveByIndex},"treeContext":${context}}`;
    },
    absence: (proof) => {
      const { address, value, next_value, next_index, leaf_index: leafIndex, tree } = proof;
      const range = `"lowerRangeAddress":"${encode32(value)}","higherRangeAddress":"${encode32(next_value)}"`;
      const place = `"nextIndex":${next_index},"lowElementLeafIndex":${leafIndex},"merkleTree":"${encode32(tree.key)}"`;
      return `${start({ ...proof, leafIndex })},"address":"${encode32(address)}",${range},${place}}`;
    },
  };
}
