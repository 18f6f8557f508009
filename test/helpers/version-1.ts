/** Version 1 transactions: web3.js knows no such version. A test of the long tier reads them by @solana/kit. */
import { createPrivateKey, sign } from 'node:crypto';
import type { Connection, Keypair, PublicKey, TransactionInstruction } from '@solana/web3.js';
import { decode32, encode64 } from '../../src/lib/base58.ts';

export interface Version1Config {
  readonly priorityFeeLamports?: bigint;
  readonly computeUnitLimit?: number;
  readonly loadedAccountsDataSizeLimit?: number;
  readonly heapSize?: number;
}

/** Enough for a few transfers, and a fee of 777 lamports beside that of the signature. */
export const USUAL_CONFIG: Version1Config = {
  priorityFeeLamports: 777n,
  computeUnitLimit: 200_000,
  loadedAccountsDataSizeLimit: 2 ** 20,
};

export interface Version1 {
  readonly wire: Buffer;
  readonly signature: string;
}

/** First byte of a message of this version. */
const VERSION_1 = 0x81;
/** What comes before the 32 bytes of a private key in its PKCS #8 form. */
const PKCS8_ED25519 = Buffer.from('302e020100300506032b657004220420', 'hex');

/** Signed by `payer` alone. `instructions` are those of web3.js. */
export async function signVersion1(
  payer: Keypair,
  blockhash: string,
  instructions: readonly TransactionInstruction[],
  config: Version1Config = USUAL_CONFIG,
): Promise<Version1> {
  const message = encodeMessage(payer.publicKey, blockhash, instructions, config);
  const der = Buffer.concat([PKCS8_ED25519, payer.secretKey.subarray(0, 32)]);
  const signature = sign(null, message, createPrivateKey({ key: der, format: 'der', type: 'pkcs8' }));
  return { wire: Buffer.concat([message, signature]), signature: encode64(signature) };
}

interface Role {
  readonly key: PublicKey;
  isSigner: boolean;
  isWritable: boolean;
}

function encodeMessage(
  payer: PublicKey,
  blockhash: string,
  instructions: readonly TransactionInstruction[],
  config: Version1Config,
): Buffer {
  const roles = sortedRoles(payer, instructions);
  const indexOf = (key: PublicKey) => roles.findIndex((role) => role.key.equals(key));
  const count = (keep: (role: Role) => boolean) => roles.filter(keep).length;
  const { priorityFeeLamports: fee, computeUnitLimit, loadedAccountsDataSizeLimit, heapSize } = config;
  // The fee has two bits, one for each half of its eight bytes.
  const values = [
    { bits: 3, bytes: fee === undefined ? null : u64(fee) },
    ...[computeUnitLimit, loadedAccountsDataSizeLimit, heapSize].map((value, at) => ({
      bits: 4 << at,
      bytes: value === undefined ? null : u32(value),
    })),
  ].flatMap(({ bits, bytes }) => (bytes === null ? [] : [{ bits, bytes }]));
  return Buffer.concat([
    Buffer.from([VERSION_1, count(({ isSigner }) => isSigner)]),
    Buffer.from([
      count(({ isSigner, isWritable }) => isSigner && !isWritable),
      count(({ isSigner, isWritable }) => !isSigner && !isWritable),
    ]),
    u32(values.reduce((mask, { bits }) => mask | bits, 0)),
    decode32(blockhash) as Uint8Array,
    Buffer.from([instructions.length, roles.length]),
    ...roles.map(({ key }) => key.toBytes()),
    ...values.map(({ bytes }) => bytes),
    ...instructions.map(({ programId, keys, data }) =>
      Buffer.from([indexOf(programId), keys.length, data.length & 0xff, data.length >> 8]),
    ),
    ...instructions.map(({ keys, data }) =>
      Buffer.concat([Buffer.from(keys.map(({ pubkey }) => indexOf(pubkey))), data]),
    ),
  ]);
}

/** Each key once: the payer, other signers, then the rest; in both, writable ones first. A program is read-only, whatever else it is. */
function sortedRoles(payer: PublicKey, instructions: readonly TransactionInstruction[]): readonly Role[] {
  const roles = new Map<string, Role>();
  const add = (key: PublicKey, isSigner: boolean, isWritable: boolean) => {
    const role = roles.get(key.toBase58()) ?? { key, isSigner: false, isWritable: false };
    role.isSigner ||= isSigner;
    role.isWritable ||= isWritable;
    roles.set(key.toBase58(), role);
  };
  add(payer, true, true);
  for (const { keys } of instructions) for (const one of keys) add(one.pubkey, one.isSigner, one.isWritable);
  for (const { programId } of instructions) {
    add(programId, false, false);
    roles.get(programId.toBase58())!.isWritable = false;
  }
  const rank = ({ isSigner, isWritable }: Role) => (isSigner ? 0 : 2) + (isWritable ? 0 : 1);
  return [...roles.values()].sort((one, other) => rank(one) - rank(other));
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function u64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes;
}

/** Signs with the newest blockhash, sends and answers the signature. */
export async function sendVersion1(
  connection: Connection,
  payer: Keypair,
  instructions: readonly TransactionInstruction[],
  config?: Version1Config,
): Promise<string> {
  const { blockhash } = await connection.getLatestBlockhash('confirmed');
  const { wire } = await signVersion1(payer, blockhash, instructions, config);
  return await connection.sendRawTransaction(wire, { preflightCommitment: 'confirmed' });
}
