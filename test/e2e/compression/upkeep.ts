/** What foresters do for V1 trees, and what has to be so before and after it. */
import assert from 'node:assert/strict';
import {
  addressQueue,
  addressTree,
  bn,
  deriveAddressLegacy,
  deriveAddressSeedLegacy,
  encodeBN254toBase58,
  LightSystemProgram,
  type TreeInfo,
  TreeType,
} from '@lightprotocol/stateless.js';
import { type Keypair, LAMPORTS_PER_SOL, PublicKey } from '@solana/web3.js';
import { type Landed, send } from '../../helpers/light/sender.ts';
import { createStateTrees } from '../../helpers/light/trees.ts';
import { createV1Forester, type NewAddressProof } from '../../helpers/light/v1-forester.ts';
import { checkNewestRoot } from '../../helpers/light/v1-roots.ts';
import { type LightBed, proveLeaf } from './harness.ts';

const MAX_NULLIFIED = 4;
const ADDRESSES = 4;
const TREE = new PublicKey(addressTree);
const QUEUE = new PublicKey(addressQueue);

async function hire({ chain, rpc, newKey }: LightBed) {
  const authority = newKey();
  await chain.fund(authority.publicKey.toBase58(), LAMPORTS_PER_SOL);
  return createV1Forester(chain, rpc, authority, newKey().publicKey);
}

/** Leaves of spent accounts have proofs until the upkeep of the tree takes them out, and again when the chain takes that back. */
export async function nullifies(bed: LightBed, landed: readonly Landed[]): Promise<number> {
  const { call, chain, rpc } = bed;
  const forester = await hire(bed);
  const queues = new Map(createStateTrees().v1.map(({ tree, queue }) => [tree.toBase58(), queue]));
  let count = 0;
  const spends = landed.filter(({ kind }) => kind === 'transferV1' || kind === 'decompressV1').slice(0, MAX_NULLIFIED);
  for (const { signature } of spends) {
    type Closed = { readonly account: { readonly account: { readonly hash: string } } };
    type Told = { readonly compressionInfo: { readonly closedAccounts: readonly Closed[] } };
    const told = await call<Told>('getTransactionWithCompressionInfoV2', { signature });
    for (const { account } of told.compressionInfo.closedAccounts) {
      const { hash } = account.account;
      const before = await proveLeaf(bed, hash);
      await forester.nullify(before, queues.get(before.merkleTree) as PublicKey);
      await bed.caughtUp();
      await assert.rejects(
        call('getCompressedAccountProof', { hash }),
        /Leaf nodes not found for hashes\. Got 0 hashes/,
      );
      if (count === 0) {
        await chain.fork({ depth: 1, replay: 'none', extraBlocks: 2 });
        await bed.caughtUp();
        assert.deepEqual(await proveLeaf(bed, hash), before);
        await forester.nullify(before, queues.get(before.merkleTree) as PublicKey);
        await bed.caughtUp();
      }
      count += 1;
    }
  }
  for (const owner of bed.owners) {
    for (const { hash, treeInfo } of (await rpc.getCompressedAccountsByOwner(owner)).items)
      if (treeInfo.treeType === TreeType.StateV1) await proveLeaf(bed, encodeBN254toBase58(bn(hash)));
  }
  assert.ok(count > 0);
  return count;
}

/**
 * Accounts with new addresses, each believed by the program for the daemon's proof that the address is not there, and each then put into the tree:
 * the next proof is one of the tree after that.
 */
export async function createsAddresses(bed: LightBed): Promise<void> {
  const { call, chain, rpc, wallets } = bed;
  const [payer] = wallets as [Keypair];
  const forester = await hire(bed);
  const absence = async (address: PublicKey) => {
    const { value } = await call<{ value: NewAddressProof[] }>('getMultipleNewAddressProofs', [address.toBase58()]);
    const [proof] = value as [NewAddressProof];
    await checkNewestRoot(chain.connection, proof);
    return proof;
  };
  for (let made = 0; made < ADDRESSES; made += 1) {
    const seed = deriveAddressSeedLegacy([Buffer.from(`account ${made}`)], LightSystemProgram.programId);
    const address = deriveAddressLegacy(seed, TREE);
    const landed = await createAccount(bed, payer, seed, address);
    await bed.caughtUp();
    const account = await rpc.getCompressedAccount(bn(address.toBytes()));
    assert.deepEqual(account?.address, [...address.toBytes()]);
    await proveLeaf(bed, encodeBN254toBase58(bn(account?.hash ?? [])));
    const { items } = await rpc.getCompressionSignaturesForAddress(address);
    assert.deepEqual(
      items.map(({ signature }) => signature),
      [landed.signature],
    );
    await forester.insert(await absence(address), QUEUE);
    await bed.caughtUp();
    await assert.rejects(absence(address), new RegExp(`Address ${address.toBase58()} already exists`));
  }
}

async function createAccount({ rpc }: LightBed, payer: Keypair, seed: Uint8Array, address: PublicKey): Promise<Landed> {
  const proof = await rpc.getValidityProofV0([], [{ address: bn(address.toBytes()), tree: TREE, queue: QUEUE }]);
  const [outputStateTreeInfo] = createStateTrees().v1 as [TreeInfo];
  const instruction = await LightSystemProgram.createAccount({
    payer: payer.publicKey,
    newAddressParams: {
      seed,
      addressMerkleTreeRootIndex: proof.rootIndices[0] as number,
      addressMerkleTreePubkey: TREE,
      addressQueuePubkey: QUEUE,
    },
    newAddress: [...address.toBytes()],
    recentValidityProof: proof.compressedProof,
    outputStateTreeInfo,
  });
  return send(rpc, { kind: 'createAccount', instructions: [instruction], payer });
}
