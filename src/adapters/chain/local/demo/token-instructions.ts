import { PublicKey, SystemProgram, TransactionInstruction } from '@solana/web3.js';

const ATA_PROGRAM = new PublicKey('ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL');
export const MEMO_PROGRAM = new PublicKey('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr');

const role = (pubkey: PublicKey, flags = '') => ({
  pubkey,
  isSigner: flags.includes('s'),
  isWritable: flags.includes('w'),
});

/** The few token instructions that the demo sends, in wire form: the published client library is a test dependency only. */
export function tokenInstructions(programId: PublicKey) {
  const make = (keys: ReturnType<typeof role>[], data: readonly number[] | Buffer) =>
    new TransactionInstruction({ programId, keys, data: Buffer.from(data) });
  const amountData = (tag: number, amount: bigint) => {
    const data = Buffer.alloc(9);
    data[0] = tag;
    data.writeBigUInt64LE(amount, 1);
    return data;
  };
  const addressOf = (mint: PublicKey, owner: PublicKey): PublicKey =>
    PublicKey.findProgramAddressSync([owner.toBytes(), programId.toBytes(), mint.toBytes()], ATA_PROGRAM)[0];
  return {
    addressOf,
    initializeMint: (mint: PublicKey, decimals: number, authority: PublicKey) =>
      make([role(mint, 'w')], Buffer.concat([Buffer.from([20, decimals]), authority.toBuffer(), Buffer.from([0])])),
    createAccount: (payer: PublicKey, mint: PublicKey, owner: PublicKey) =>
      new TransactionInstruction({
        programId: ATA_PROGRAM,
        keys: [
          role(payer, 'sw'),
          role(addressOf(mint, owner), 'w'),
          role(owner),
          role(mint),
          role(SystemProgram.programId),
          role(programId),
        ],
        data: Buffer.from([1]),
      }),
    mintTo: (mint: PublicKey, owner: PublicKey, authority: PublicKey, amount: bigint) =>
      make([role(mint, 'w'), role(addressOf(mint, owner), 'w'), role(authority, 's')], amountData(7, amount)),
    transfer: (mint: PublicKey, from: PublicKey, to: PublicKey, amount: bigint) =>
      make([role(addressOf(mint, from), 'w'), role(addressOf(mint, to), 'w'), role(from, 's')], amountData(3, amount)),
    burn: (mint: PublicKey, owner: PublicKey, amount: bigint) =>
      make([role(addressOf(mint, owner), 'w'), role(mint, 'w'), role(owner, 's')], amountData(8, amount)),
    /** Token-2022: the mint itself holds its metadata. */
    initializeMetadataPointer: (mint: PublicKey, authority: PublicKey) =>
      make([role(mint, 'w')], Buffer.concat([Buffer.from([39, 0]), authority.toBuffer(), mint.toBuffer()])),
    initializeMetadata: (mint: PublicKey, authority: PublicKey, texts: readonly [string, string, string]) =>
      make(
        [role(mint, 'w'), role(authority), role(mint), role(authority, 's')],
        Buffer.concat([INITIALIZE_METADATA, ...texts.map(borshText)]),
      ),
  };
}

/** First bytes of SHA-256("spl_token_metadata_interface:initialize_account"). */
const INITIALIZE_METADATA = Buffer.from([210, 225, 30, 162, 88, 184, 77, 141]);

/** Length as u32, then UTF-8. */
export function borshText(text: string): Buffer {
  const bytes = Buffer.from(text, 'utf8');
  const length = Buffer.alloc(4);
  length.writeUInt32LE(bytes.length);
  return Buffer.concat([length, bytes]);
}
