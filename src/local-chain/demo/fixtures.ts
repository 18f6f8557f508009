import { createHash } from 'node:crypto';
import { PublicKey, SystemProgram, TransactionInstruction } from '@solana/web3.js';
import { encode32 } from '../../lib/base58.ts';
import { setAccountInput } from '../account-input.ts';
import type { Bank } from '../ledger/bank.ts';

const METADATA_PROGRAM = 'metaqbxxUerdq28cj1RbAWkYQm3ybzjb6a8bt518x1s';
const METADATA_BYTES = 607;
const SNS_PROGRAM = 'namesLPneVptA9Z5rqUDD9tMTWEJwofgaYwp8cawRkX';
const SNS_ROOT = '58PwtjSDuFHuUkYjH9BYnnQKHfwo9reZhC2zMJv9JPkx';

interface FixtureInput {
  readonly nftMint: PublicKey;
  readonly owner: PublicKey;
  readonly authority: PublicKey;
}

/** Accounts of programs that no package ships: set, not written by a program, and counted as fixtures. */
export function setFixtures(bank: Bank, { nftMint, owner, authority }: FixtureInput): void {
  setSnsName(bank, owner);
  const program = keyOf(METADATA_PROGRAM);
  const [address] = PublicKey.findProgramAddressSync(
    [Buffer.from('metadata'), program.toBytes(), nftMint.toBytes()],
    program,
  );
  const data = nftMetadata(nftMint, authority);
  setAccountInput(bank, encode32(address.toBytes()), {
    lamports: bank.vm.rentExemptLamports(data.length),
    data,
    owner: METADATA_PROGRAM,
  });
}

/** `demo.sol`: registry header of parent, owner and class, found under the hash of its name. */
function setSnsName(bank: Bank, owner: PublicKey): void {
  const parent = keyOf(SNS_ROOT);
  const hashed = createHash('sha256')
    .update('SPL Name Service' + 'demo')
    .digest();
  const noClass = PublicKey.default;
  const [address] = PublicKey.findProgramAddressSync([hashed, noClass.toBytes(), parent.toBytes()], keyOf(SNS_PROGRAM));
  const data = Buffer.concat([parent.toBuffer(), owner.toBuffer(), noClass.toBuffer()]);
  setAccountInput(bank, encode32(address.toBytes()), {
    lamports: bank.vm.rentExemptLamports(data.length),
    data,
    owner: SNS_PROGRAM,
  });
}

/** Metadata V1: texts are padded with zeros to their full room, as the program does. */
function nftMetadata(mint: PublicKey, authority: PublicKey): Uint8Array {
  const padded = (text: string, room: number) => borshText(text.padEnd(room, '\0'));
  const royaltyBasisPoints = Buffer.from([0xf4, 0x01]);
  const creators = Buffer.concat([Buffer.from([1, 1, 0, 0, 0]), authority.toBuffer(), Buffer.from([1, 100])]);
  const flags = Buffer.from([0, 1, 0, 1, 0, 0, 0, 0, 0]);
  const data = Buffer.alloc(METADATA_BYTES);
  Buffer.concat([
    Buffer.from([4]),
    authority.toBuffer(),
    mint.toBuffer(),
    padded('Parhelion #1', 32),
    padded('HELION', 10),
    padded('https://example.invalid/1.json', 200),
    royaltyBasisPoints,
    creators,
    flags,
  ]).copy(data);
  return data;
}

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
function borshText(text: string): Buffer {
  const bytes = Buffer.from(text, 'utf8');
  const length = Buffer.alloc(4);
  length.writeUInt32LE(bytes.length);
  return Buffer.concat([length, bytes]);
}

/** A well-known key from its text. */
export function keyOf(text: string): PublicKey {
  return new PublicKey(text);
}
