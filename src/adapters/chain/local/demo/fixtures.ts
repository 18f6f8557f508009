import { createHash } from 'node:crypto';
import { PublicKey } from '@solana/web3.js';
import { encode32 } from '../../../../lib/base58.ts';
import { setAccountInput } from '../account-input.ts';
import type { Bank } from '../ledger/bank.ts';
import { keyOf } from './keys.ts';
import { borshText } from './token-instructions.ts';

const METADATA_PROGRAM = 'metaqbxxUerdq28cj1RbAWkYQm3ybzjb6a8bt518x1s';
const METADATA_BYTES = 607;
const SNS_PROGRAM = 'namesLPneVptA9Z5rqUDD9tMTWEJwofgaYwp8cawRkX';
const SNS_ROOT = '58PwtjSDuFHuUkYjH9BYnnQKHfwo9reZhC2zMJv9JPkx';

export interface FixtureInput {
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
