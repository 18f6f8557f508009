/** A wallet with assets of all kinds that have accounts, on the local chain. */

import { createTransferInstruction, TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID } from '@solana/spl-token';
import { Keypair, LAMPORTS_PER_SOL, PublicKey, sendAndConfirmTransaction, Transaction } from '@solana/web3.js';
import { metadataAddress } from '../../src/solana/addresses.ts';
import { CORE_PROGRAM, METADATA_PROGRAM } from '../../src/solana/programs.ts';
import type { TestChain } from './chain.ts';
import { writeMetadata } from './write-metadata.ts';
import { writeMint } from './write-mint.ts';

const newKey = (): string => Keypair.generate().publicKey.toBase58();
export const bytesOf = (key: string): Buffer => new PublicKey(key).toBuffer();

/** NFTs, tokens of both programs and Core assets of one owner, in one collection of each kind, by one creator and authority. */
export async function createWorld(chain: Pick<TestChain, 'connection' | 'fund' | 'setAccount'>) {
  const owner = Keypair.generate();
  const [family, creator, authority, group] = [newKey(), newKey(), newKey(), newKey()];
  await chain.fund(owner.publicKey.toBase58(), LAMPORTS_PER_SOL);
  const set = (address: string, program: string, data: Buffer) =>
    chain.setAccount(address, { lamports: 10_000_000, owner: program, data });
  const ownerKey = owner.publicKey.toBase58();
  const hold = async (mint: string, amount: number, program = TOKEN_PROGRAM_ID): Promise<string> => {
    const [address, data] = [newKey(), Buffer.alloc(165)];
    Buffer.concat([bytesOf(mint), bytesOf(ownerKey), Buffer.from(BigUint64Array.of(BigInt(amount)).buffer)]).copy(data);
    data[108] = 1;
    await set(address, program.toBase58(), data);
    return address;
  };
  const nfts: { readonly id: string; readonly account: string }[] = [];
  for (let at = 0; at < 11; at += 1) {
    const id = newKey();
    await set(id, TOKEN_PROGRAM_ID.toBase58(), writeMint());
    const fields = {
      mint: id,
      updateAuthority: authority,
      name: `Picture #${at}`,
      symbol: 'PIC',
      uri: '',
      sellerFeeBasisPoints: 500,
      primarySaleHappened: false,
      isMutable: true,
      editionNonce: null,
      uses: null,
      creators: [{ address: creator, verified: at % 2 === 0, share: 100 }],
      tokenStandard: 'NonFungible' as const,
      collection: { key: family, verified: true },
      collectionDetails: null,
      programmableConfig: null,
    } as const;
    await set(metadataAddress(id), METADATA_PROGRAM, writeMetadata(fields, true).data);
    nfts.push({ id, account: await hold(id, 1) });
  }
  const spare = await hold((nfts[0] as (typeof nfts)[number]).id, 0);
  const tokens = [newKey(), newKey()];
  const [one, other] = tokens as [string, string];
  await set(one, TOKEN_PROGRAM_ID.toBase58(), writeMint({ supply: 100n, decimals: 2 }));
  await set(other, TOKEN_2022_PROGRAM_ID.toBase58(), writeMint({ supply: 7n, decimals: 1 }));
  for (const amount of [1, 2, 3, 4, 5]) await hold(one, amount);
  await hold(other, 7, TOKEN_2022_PROGRAM_ID);
  const text = (value: string) => Buffer.concat([Buffer.of(value.length, 0, 0, 0), Buffer.from(value)]);
  for (let at = 0; at < 5; at += 1)
    await set(
      newKey(),
      CORE_PROGRAM,
      Buffer.concat([
        Buffer.of(1),
        bytesOf(ownerKey),
        Buffer.of(2),
        bytesOf(group),
        text(`Core ${at}`),
        text(''),
        Buffer.of(0),
      ]),
    );
  const counts = Buffer.of(5, 0, 0, 0, 5, 0, 0, 0);
  await set(group, CORE_PROGRAM, Buffer.concat([Buffer.of(5), bytesOf(authority), text('Group'), text(''), counts]));
  /** Moves the token of one NFT to another account of its owner, and back the next time: it is the one that changed last. */
  let isAway = false;
  const move = async (): Promise<void> => {
    const home = (nfts[0] as (typeof nfts)[number]).account;
    const [from, to] = isAway ? [spare, home] : [home, spare];
    isAway = !isAway;
    const transfer = createTransferInstruction(new PublicKey(from), new PublicKey(to), owner.publicKey, 1);
    await sendAndConfirmTransaction(chain.connection, new Transaction().add(transfer), [owner]);
  };
  return { owner: ownerKey, family, creator, authority, group, tokens, ids: nfts.map(({ id }) => id), move };
}

export type World = Awaited<ReturnType<typeof createWorld>>;
