import {
  Keypair,
  PublicKey,
  SystemProgram,
  Transaction,
  type TransactionInstruction,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js';
import bs58 from 'bs58';
import { signVersion1, type Version1Config } from '../../helpers/version-1.ts';

export interface Signed {
  readonly wire: Buffer;
  readonly base64: string;
  readonly base58: string;
  readonly signature: string;
}

const BLOCKHASH = 'EkSnNWid2cvwEVnVx9aBqawnmiCNiDgp3gUdkDPTKN1N';

export const payer = Keypair.fromSeed(new Uint8Array(32).fill(7));

export function transfer(to: string | PublicKey, lamports: number): TransactionInstruction {
  return SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: new PublicKey(to), lamports });
}

export function legacy(instructions: readonly TransactionInstruction[], blockhash = BLOCKHASH): Signed {
  const transaction = new Transaction({ feePayer: payer.publicKey, blockhash, lastValidBlockHeight: 1_000 });
  transaction.add(...instructions).sign(payer);
  return signed(transaction.serialize());
}

export function versioned(instructions: TransactionInstruction[], blockhash = BLOCKHASH): Signed {
  const message = new TransactionMessage({ payerKey: payer.publicKey, recentBlockhash: blockhash, instructions });
  const transaction = new VersionedTransaction(message.compileToV0Message());
  transaction.sign([payer]);
  return signed(transaction.serialize());
}

export async function version1(
  instructions: readonly TransactionInstruction[],
  blockhash = BLOCKHASH,
  config?: Version1Config,
): Promise<Signed> {
  const { wire, signature } = await signVersion1(payer, blockhash, instructions, config);
  return { ...signed(wire), signature };
}

function signed(bytes: Uint8Array): Signed {
  const wire = Buffer.from(bytes);
  return {
    wire,
    base64: wire.toString('base64'),
    base58: bs58.encode(wire),
    signature: bs58.encode(wire.subarray(1, 65)),
  };
}
