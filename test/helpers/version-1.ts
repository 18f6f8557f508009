/** Version 1 transactions, made by @solana/kit: web3.js knows no such version. */
import {
  appendTransactionMessageInstructions,
  type Blockhash,
  createKeyPairSignerFromBytes,
  createTransactionMessage,
  getBase64EncodedWireTransaction,
  getSignatureFromTransaction,
  type Instruction,
  pipe,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  signTransactionMessageWithSigners,
} from '@solana/kit';
import type { Connection, Keypair, TransactionInstruction } from '@solana/web3.js';

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

/** A version 1 message without fee payer and blockhash. Its type says that kit does not make such ones; it does. */
export const emptyVersion1 = () => createTransactionMessage({ version: 1 as unknown as 0 });

/** Signed by `payer` alone. `instructions` are those of web3.js. */
export async function signVersion1(
  payer: Keypair,
  blockhash: string,
  instructions: readonly TransactionInstruction[],
  config: Version1Config = USUAL_CONFIG,
): Promise<Version1> {
  const signer = await createKeyPairSignerFromBytes(payer.secretKey);
  // web3.js writes a program that is also a writable account as read-only; kit refuses it.
  const programs = new Set(instructions.map(({ programId }) => programId.toBase58()));
  const message = pipe(
    emptyVersion1(),
    (m) => setTransactionMessageFeePayerSigner(signer, m),
    (m) =>
      setTransactionMessageLifetimeUsingBlockhash(
        { blockhash: blockhash as Blockhash, lastValidBlockHeight: 1_000_000n },
        m,
      ),
    (m) =>
      appendTransactionMessageInstructions(
        instructions.map((one) => kitInstruction(one, programs)),
        m,
      ),
    (m) => ({ ...m, config }),
  );
  const transaction = await signTransactionMessageWithSigners(message as never);
  return {
    wire: Buffer.from(getBase64EncodedWireTransaction(transaction), 'base64'),
    signature: getSignatureFromTransaction(transaction),
  };
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

function kitInstruction({ programId, keys, data }: TransactionInstruction, programs: ReadonlySet<string>): Instruction {
  return {
    programAddress: programId.toBase58() as Instruction['programAddress'],
    accounts: keys.map(({ pubkey, isSigner, isWritable }) => ({
      address: pubkey.toBase58() as Instruction['programAddress'],
      role: (isSigner ? 2 : 0) | (isWritable && !programs.has(pubkey.toBase58()) ? 1 : 0),
    })),
    data: Uint8Array.from(data),
  };
}
