import {
  bn,
  type CompressedAccountWithMerkleContext,
  encodeBN254toBase58,
  type MerkleContextWithMerkleProof,
  type ParsedTokenAccount,
  type TreeInfo,
  type ValidityProofWithContext,
} from '@lightprotocol/stateless.js';

/** What the client library reads, as plain values that can be compared; each kind has every field that both indexers know. */
type Number254 = Parameters<typeof encodeBN254toBase58>[0];

const tree = ({ tree, queue, treeType }: TreeInfo) => ({ tree: tree.toBase58(), queue: queue.toBase58(), treeType });
const hex = (bytes: ArrayLike<number>) => Buffer.from(Uint8Array.from(bytes)).toString('hex');
const base58 = (number: Number254) => encodeBN254toBase58(bn(number));

export function plainAccount(account: CompressedAccountWithMerkleContext) {
  const { data } = account;
  return {
    hash: base58(account.hash),
    owner: account.owner.toBase58(),
    lamports: account.lamports.toString(),
    leafIndex: account.leafIndex,
    proveByIndex: account.proveByIndex,
    ...tree(account.treeInfo),
    address: account.address === null ? null : hex(account.address),
    data: data && { kind: hex(data.discriminator), bytes: hex(data.data), hash: hex(data.dataHash) },
  };
}

/** The account as the library reads it from the chain: it reverses the bytes of data hashes. */
export function asFromChain<T extends CompressedAccountWithMerkleContext>(account: T): T {
  const { data } = account;
  return data === null ? account : { ...account, data: { ...data, dataHash: [...data.dataHash].reverse() } };
}

export type PlainAccount = ReturnType<typeof plainAccount>;

/** State and extensions are left out: the library's indexer reads them at the wrong place where there is no delegate. */
function plainToken({ compressedAccount, parsed }: ParsedTokenAccount) {
  return {
    account: plainAccount(compressedAccount),
    mint: parsed.mint.toBase58(),
    owner: parsed.owner.toBase58(),
    amount: parsed.amount.toString(),
    delegate: parsed.delegate?.toBase58() ?? null,
  };
}

export function plainProof(proof: MerkleContextWithMerkleProof) {
  return {
    hash: base58(proof.hash),
    leafIndex: proof.leafIndex,
    proveByIndex: proof.proveByIndex,
    root: base58(proof.root),
    rootIndex: proof.rootIndex,
    ...tree(proof.treeInfo),
    path: proof.merkleProof.map(base58),
  };
}

export function plainValidity(proof: ValidityProofWithContext) {
  return {
    compressedProof: proof.compressedProof,
    rootIndices: proof.rootIndices,
    leafIndices: proof.leafIndices,
    proveByIndices: proof.proveByIndices,
    trees: proof.treeInfos.map(tree),
    roots: proof.roots.map(base58),
    leaves: proof.leaves.map(base58),
  };
}

const place = ({ tree, leafIndex }: PlainAccount) => `${tree} ${String(leafIndex).padStart(12, '0')}`;

/** In one order whoever answered: by tree and leaf. */
export function sortedAccounts(accounts: readonly CompressedAccountWithMerkleContext[]): PlainAccount[] {
  return accounts.map(plainAccount).sort((one, other) => (place(one) < place(other) ? -1 : 1));
}

export function sortedTokens(accounts: readonly ParsedTokenAccount[]) {
  return accounts.map(plainToken).sort((one, other) => (place(one.account) < place(other.account) ? -1 : 1));
}
