import { type TSchema, Type } from '@sinclair/typebox';
import { decode32, encode32 } from '../../../src/lib/base58.ts';
import { JsonText, type Log, type RpcMethod, type Store } from '../../../src/plugin/plugin.ts';
import { eachSibling, GROUP_LEVELS } from '../../../src/solana/merkle/path.ts';
import { LIGHT_ADDRESS_TREE } from '../../../src/solana/programs.ts';
import { type CompressedAccountRow, type CompressionDb, readAtOneSlot, type TreeRow } from '../store/tables.ts';
import type { Hashing } from '../trees/hashing.ts';
import { isLeaf, leadsToRoot, type PathPages } from '../trees/page-book.ts';
import type { NewTree } from '../trees/tree-book.ts';
import {
  type AddressPath,
  type AskedAddress,
  createUnseenTrees,
  pathsOfAddresses,
  type UnseenTrees,
} from './address-paths.ts';
import { type Fields, key32, listField, objectOf, recordNotFound } from './fields.ts';
import {
  type MethodTexts,
  type ParamsForm,
  type ParsedParams,
  requireIndexed,
  requireSlot,
  type SlotWatch,
  seenMethod,
} from './method.ts';
import {
  createDamageGuard,
  createLeafFinder,
  createPageCache,
  createPathReader,
  type DamageGuard,
  type FoundLeaf,
  type LeafFinder,
  type PathReader,
  requireProvable,
} from './path-reader.ts';
import {
  type ByBytes,
  distinctBytes,
  index,
  indexByBytes,
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
  work: (db: CompressionDb) => Promise<T>,
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
  run(params: ParsedParams<F>, db: CompressionDb): Promise<readonly string[]>;
}

/** A method that returns a list of proofs as text. */
function textMethod<F extends Fields>(parts: ProofParts, method: TextMethod<F>): RpcMethod {
  return seenMethod(parts.slots, {
    ...method,
    run: async (params) => {
      const { slot, value } = await provenAtOneSlot(parts, params.minContextSlot, (db) => method.run(params, db));
      return { slot, value: new JsonText(`[${value.join(',')}]`) };
    },
  });
}

/** getCompressedAccountProof and its V2: the siblings of one leaf. Mostly one statement, without hashing. */
export const getCompressedAccountProof = (slots: SlotWatch, proofs: Proofs, version: RecordVersion): RpcMethod =>
  seenMethod(slots, {
    name: version === 1 ? 'getCompressedAccountProof' : 'getCompressedAccountProofV2',
    errors: ['notFound'],
    summary: 'Merkle proof of a compressed account: all siblings from its leaf to the newest root of its tree',
    fields: { hash: key32('hash of the account') },
    tolerant: true,
    result: accountProofSchema(version),
    run: ({ hash }) =>
      proofs.guarded(async () => {
        const { slot, leaf } = await proofs.finder.find(hash);
        requireIndexed(slot);
        if (leaf === null) throw version === 1 ? noLeaves(0, 1) : recordNotFound('Account not found');
        if (!isProven(leaf, PROVABLE[version])) throw noLeaves(0, 1);
        return { slot, value: new JsonText(proofText(proofs, leaf, version)) };
      }),
  });

/** getMultipleCompressedAccountProofs and its V2. */
export const getMultipleCompressedAccountProofs = ({ slots, proofs }: ProofParts, version: RecordVersion): RpcMethod =>
  seenMethod(slots, {
    name: version === 1 ? 'getMultipleCompressedAccountProofs' : 'getMultipleCompressedAccountProofsV2',
    errors: ['notFound'],
    summary: 'Merkle proofs of up to 1000 compressed accounts, in the requested order',
    fields: { hashes: listField(key32('hash'), { items: 'hashes', empty: 'No hashes provided' }) },
    bare: 'hashes',
    result: Type.Array(accountProofSchema(version)),
    run: ({ hashes }) =>
      proofs.guarded(async () => {
        const distinct = distinctBytes(hashes);
        const { slot, leaves } = await proofs.finder.findAll(distinct);
        requireIndexed(slot);
        const found = distinct.flatMap((hash) => leaves.get(hash) ?? []);
        if (version === 2 && found.length < distinct.length) throw recordNotFound('Account not found');
        for (const { tree } of found) requireProvable(tree);
        const proven = found.filter((leaf) => isProven(leaf, PROVABLE[version])).length;
        if (proven < distinct.length) throw noLeaves(proven, distinct.length);
        // Each has one, otherwise the request was refused.
        const items = hashes.map((hash) => proofText(proofs, leaves.get(hash)!, version));
        return { slot, value: new JsonText(`[${items.join(',')}]`) };
      }),
  });

/** An account in the output queue is proven by its index, with the current path, from the second version on. */
const PROVABLE = { 1: 'leaf', 2: 'account' } as const;

const isProven = ({ pages, leafIndex, hash, queued }: FoundLeaf, provable: Provable): boolean =>
  (provable === 'account' && queued) || isLeaf(pages, leafIndex, hash);

const proofText = ({ texts }: Proofs, leaf: FoundLeaf, version: RecordVersion): string =>
  version === 1 ? texts.plain(leaf) : texts.inContext(leaf, leaf.queued);

/** Default tree of methods without a tree parameter. */
const FIRST_ADDRESS_TREE = LIGHT_ADDRESS_TREE;

const LIST = { items: 'addresses', empty: 'No addresses provided' };

/** An address with its tree, as in params. */
export const addressWithTree = () =>
  objectOf({ address: key32('address that is to be new'), tree: key32('address tree') });

/** Addresses of methods without a tree parameter. */
export function inFirstTree(addresses: readonly Uint8Array[]): readonly AskedAddress[] {
  const tree = decode32(FIRST_ADDRESS_TREE)!;
  return addresses.map((address) => ({ address, tree }));
}

async function proofTexts(
  { proofs }: ProofParts,
  db: CompressionDb,
  asked: readonly AskedAddress[],
): Promise<readonly string[]> {
  const paths = await pathsOfAddresses(db, proofs, asked);
  return paths.map((path) => proofs.texts.absence(path));
}

export const getMultipleNewAddressProofs = (parts: ProofParts): RpcMethod =>
  textMethod(parts, {
    name: 'getMultipleNewAddressProofs',
    errors: ['notFound'],
    summary: 'Proofs that addresses are not in the first address tree, in the requested order',
    fields: { addresses: listField(key32('address'), LIST) },
    bare: 'addresses',
    result: Type.Array(addressProofSchema()),
    run: ({ addresses }, db) => proofTexts(parts, db, inFirstTree(addresses)),
  });

export const getMultipleNewAddressProofsV2 = (parts: ProofParts): RpcMethod =>
  textMethod(parts, {
    name: 'getMultipleNewAddressProofsV2',
    errors: ['notFound'],
    summary: 'Proofs that addresses are not in the address trees named with them, in the requested order',
    fields: { addresses: listField(addressWithTree(), LIST) },
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
export interface ProvableAccount
  extends Pick<CompressedAccountRow, 'hash' | 'leaf_index' | 'queued' | 'spent'>,
    TreeColumns {
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
type Provable = 'leaf' | 'account';

/** Existing accounts with their trees. The hashes must be distinct. */
export async function findProvable(
  db: CompressionDb,
  hashes: readonly Uint8Array[],
): Promise<readonly ProvableAccount[]> {
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
 * The paths of accounts that are leaves, all in one state of the store. Errors: -32000 when a hash has none, -32603 for a tree whose
 * proofs are withheld; DamagedPage; those of the store.
 */
export async function pathsOfAccounts(
  db: CompressionDb,
  reader: PathReader,
  hashes: readonly Uint8Array[],
): Promise<ByBytes<AccountPath>> {
  const accounts = await findProvable(db, hashes);
  const expected = distinctBytes(hashes).length;
  for (const account of accounts) requireProvable(account);
  const pages = await reader.paths(
    db,
    accounts.map((account) => ({ tree: account, leafIndex: account.leaf_index })),
  );
  const paths = accounts
    .map((account, i) => ({ account, pages: pages[i] ?? [] }))
    .filter(({ account, pages }) => isLeaf(pages, account.leaf_index, account.hash));
  if (paths.length < expected) throw noLeaves(paths.length, expected);
  return indexByBytes(paths, ({ account }) => account.hash);
}

/** Both counts are of distinct hashes. */
const noLeaves = (got: number, expected: number) =>
  recordNotFound(`Leaf nodes not found for hashes. Got ${got} hashes. Expected ${expected}.`);

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
    reader,
    hashing,
    finder: createLeafFinder(store, reader),
    texts: createProofTexts(() => hashing.zeros),
    unseen: createUnseenTrees(known, hashing),
    guarded: createDamageGuard(store, log),
  };
}

/** Contents of a proof without its siblings. */
interface ProofHead {
  readonly hash: Uint8Array;
  readonly leafIndex: number;
  readonly tree: Pick<TreeRow, 'key' | 'type' | 'queue' | 'height' | 'seq' | 'root'>;
  readonly pages: PathPages;
}

/**
 * JSON of proofs. These are the hot responses, and base58 is most of their cost. Proofs share the nodes above the pages of the leaves, and
 * the hashes of empty subtrees, so the texts of those are kept with their page.
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
  const kept = new WeakMap<Uint8Array, Map<number, string>>();

  const keptText = (bytes: Uint8Array, offset: number): string => {
    const texts = kept.get(bytes) ?? new Map<number, string>();
    if (texts.size === 0) kept.set(bytes, texts);
    const text = texts.get(offset) ?? encode32(bytes, offset);
    texts.set(offset, text);
    return text;
  };
  const siblings = (height: number, leafIndex: number, pages: PathPages): string => {
    const empty = zeros();
    const texts: string[] = [];
    eachSibling(height, leafIndex, pages, empty, (bytes, offset) => {
      const isShared = texts.length >= GROUP_LEVELS || bytes === empty;
      texts.push(isShared ? keptText(bytes, offset) : encode32(bytes, offset));
    });
    return texts.length === 0 ? '' : `"${texts.join('","')}"`;
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
