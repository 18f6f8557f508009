/** Assets of every kind that has accounts, on the local chain, and how each is burnt. */
import { TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID } from '@solana/spl-token';
import { Keypair, PublicKey } from '@solana/web3.js';
import { editionAddress, metadataAddress } from '../../src/solana/addresses.ts';
import { CORE_PROGRAM, METADATA_PROGRAM } from '../../src/solana/programs.ts';
import type { TestChain } from './chain.ts';
import { writeMetadata } from './write-metadata.ts';
import { pointerValue, tokenMetadataValue, writeMint } from './write-mint.ts';

export const newKey = () => Keypair.generate().publicKey.toBase58();
const bytesOf = (key: string) => new PublicKey(key).toBuffer();
const text = (value: string) => Buffer.concat([Buffer.of(value.length, 0, 0, 0), Buffer.from(value)]);
const EMPTY = Buffer.of(0);

export interface Burn {
  readonly id: string;
  readonly name: string;
  readonly interface: string;
  /** What is known without an index; null: nothing. */
  readonly alone: string | null;
  readonly owner: string;
  /** The accounts that change, as they are after the burn; null: closed. */
  readonly after: readonly (readonly [address: string, program: string, data: Buffer | null])[];
}

/** Collection, creator, authority and owner that the assets share. */
export interface Family {
  readonly owner: string;
  readonly creator: string;
  readonly authority: string;
  /** Collection of Token Metadata. */
  readonly family: string;
  /** Collection of Core. */
  readonly group: string;
}

/** Makes assets of one owner. Each function sets the accounts of one, and returns what its burn does to them. */
export function createAssets(chain: TestChain, { owner, creator, authority, family, group }: Family) {
  const set = (address: string, program: string, data: Buffer | null) =>
    chain.setAccount(address, data === null ? null : { lamports: 10_000_000, owner: program, data });
  const TOKEN = TOKEN_PROGRAM_ID.toBase58();
  const TOKEN_2022 = TOKEN_2022_PROGRAM_ID.toBase58();
  const tokenAccount = (mint: string, amount: number): Buffer => {
    const data = Buffer.alloc(165);
    Buffer.concat([bytesOf(mint), bytesOf(owner), Buffer.from(BigUint64Array.of(BigInt(amount)).buffer)]).copy(data);
    data[108] = 1;
    return data;
  };
  const u64 = (value: number) => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);

  /** An NFT of Token Metadata, or a print of one: its mint belongs to its edition. */
  const nft = async (name: string, standard: keyof typeof INTERFACES, closes: boolean): Promise<Burn> => {
    const [id, held] = [newKey(), newKey()];
    const [metadata, edition] = [metadataAddress(id), editionAddress(id)];
    await set(id, TOKEN, writeMint({ mintAuthority: edition, freezeAuthority: edition }));
    const fields = {
      mint: id,
      updateAuthority: authority,
      name,
      symbol: 'PIC',
      uri: '',
      sellerFeeBasisPoints: 500,
      primarySaleHappened: false,
      isMutable: true,
      editionNonce: 254,
      uses: null,
      tokenStandard: standard,
      creators: [{ address: creator, verified: true, share: 100 }],
      collection: { key: family, verified: true },
      collectionDetails: null,
      programmableConfig: null,
    } as const;
    await set(metadata, METADATA_PROGRAM, writeMetadata(fields, true).data);
    const master = Buffer.concat([Buffer.of(6), u64(0), Buffer.of(1), u64(0)]);
    const print = Buffer.concat([Buffer.of(1), bytesOf(editionAddress(newKey())), u64(3)]);
    await set(edition, METADATA_PROGRAM, standard === 'NonFungibleEdition' ? print : master);
    await set(held, TOKEN, tokenAccount(id, 1));
    return {
      id,
      name,
      interface: INTERFACES[standard],
      alone: 'V1_NFT',
      owner,
      after: [
        [id, TOKEN, writeMint({ mintAuthority: edition, freezeAuthority: edition, supply: 0n })],
        [metadata, METADATA_PROGRAM, closes ? null : EMPTY],
        [edition, METADATA_PROGRAM, closes ? null : EMPTY],
        [held, TOKEN, null],
      ],
    };
  };
  /** An NFT whose metadata is in its mint, which is closed in the end. */
  const closedMint = async (name: string): Promise<Burn> => {
    const [id, held] = [newKey(), newKey()];
    const extensions = [
      { type: 18, value: pointerValue(authority, id) },
      { type: 3, value: Buffer.alloc(32, bytesOf(authority)) },
      { type: 19, value: tokenMetadataValue({ updateAuthority: authority, mint: id, name, symbol: 'T22', uri: '' }) },
    ];
    await set(id, TOKEN_2022, writeMint({ extensions }));
    await set(held, TOKEN_2022, tokenAccount(id, 1));
    return {
      id,
      name,
      interface: 'V1_NFT',
      alone: null,
      owner,
      after: [
        [held, TOKEN_2022, null],
        [id, TOKEN_2022, null],
      ],
    };
  };
  const coreAsset = async (name: string): Promise<Burn> => {
    const id = newKey();
    const data = [Buffer.of(1), bytesOf(owner), Buffer.of(2), bytesOf(group), text(name), text(''), Buffer.of(0)];
    await set(id, CORE_PROGRAM, Buffer.concat(data));
    return { id, name, interface: 'MplCoreAsset', alone: 'MplCoreAsset', owner, after: [[id, CORE_PROGRAM, EMPTY]] };
  };
  const collectionData = (name: string, count: number): Buffer => {
    const counts = Buffer.from(Uint32Array.of(count, count).buffer);
    return Buffer.concat([Buffer.of(5), bytesOf(authority), text(name), text(''), counts]);
  };
  /** Writes the account of the Core collection, with this number of assets in it. */
  const coreCollection = (count: number): Promise<void> => set(group, CORE_PROGRAM, collectionData('Group', count));
  /** A Core collection without assets, which belongs to its authority. Its empty account does not say what it was. */
  const emptyCollection = async (name: string): Promise<Burn> => {
    const id = newKey();
    await set(id, CORE_PROGRAM, collectionData(name, 0));
    const after = [[id, CORE_PROGRAM, EMPTY]] as const;
    return { id, name, interface: 'MplCoreCollection', alone: 'MplCoreAsset', owner: authority, after };
  };
  return { set, nft, closedMint, coreAsset, coreCollection, emptyCollection };
}

const INTERFACES = {
  NonFungible: 'V1_NFT',
  NonFungibleEdition: 'V1_PRINT',
  ProgrammableNonFungible: 'ProgrammableNFT',
} as const;
