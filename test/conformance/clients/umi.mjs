import assert from 'node:assert/strict';
import { fetchDigitalAsset, findMetadataPda, mplTokenMetadata } from '@metaplex-foundation/mpl-token-metadata';
import {
  createSignerFromKeypair,
  generateSigner,
  keypairIdentity,
  publicKey,
  sol,
  transactionBuilder,
} from '@metaplex-foundation/umi';
import { createUmi } from '@metaplex-foundation/umi-bundle-defaults';

const SYSTEM = publicKey('11111111111111111111111111111111');

/** Metaplex umi: a transfer from its own builder, reads, and the metadata of an NFT where the chain has one. */
export default async ({ url, socketUrl, funded, nft }) => {
  const umi = createUmi(url, { commitment: 'confirmed', wsEndpoint: socketUrl }).use(mplTokenMetadata());
  const payer = umi.eddsa.createKeypairFromSecretKey(await funded());
  umi.use(keypairIdentity(createSignerFromKeypair(umi, payer)));
  const transferData = (amount) => {
    const data = new DataView(new ArrayBuffer(12));
    data.setUint32(0, 2, true);
    data.setBigUint64(4, amount, true);
    return new Uint8Array(data.buffer);
  };
  return {
    'transfer, confirmed': async () => {
      const to = generateSigner(umi).publicKey;
      const keys = [
        { pubkey: umi.identity.publicKey, isSigner: true, isWritable: true },
        { pubkey: to, isSigner: false, isWritable: true },
      ];
      const instruction = { programId: SYSTEM, keys, data: transferData(4_000_000n) };
      const builder = transactionBuilder().add({ instruction, signers: [umi.identity], bytesCreatedOnChain: 0 });
      const { result } = await builder.sendAndConfirm(umi, { confirm: { commitment: 'confirmed' } });
      assert.equal(result.value.err, null);
      assert.deepEqual(await umi.rpc.getBalance(to, { commitment: 'confirmed' }), sol(0.004));
    },
    'accounts and transactions': async () => {
      assert.ok((await umi.rpc.getAccount(SYSTEM)).exists);
      assert.ok((await umi.rpc.getSlot()) > 0);
    },
    'metadata of an NFT': async () => {
      if (nft === null) return 'the chain has none';
      const [address] = findMetadataPda(umi, { mint: publicKey(nft) });
      assert.ok((await umi.rpc.getAccount(address)).exists);
      assert.ok((await fetchDigitalAsset(umi, publicKey(nft))).metadata.name.length > 0);
    },
  };
};
