import {
  Connection,
  type Keypair,
  PublicKey,
  SystemProgram,
  Transaction,
  TransactionInstruction,
} from '@solana/web3.js';
import { EXIT } from '../../kernel/errors.ts';
import { encode64 } from '../../lib/base58.ts';
import { CodedError, messageOf } from '../../lib/coded-error.ts';
import type { SignupPrice } from './service.ts';

export type { Connection, Keypair } from '@solana/web3.js';

const ASSOCIATED = new PublicKey('ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL');
const CREATE_IDEMPOTENT = 1;
const TRANSFER_CHECKED = 12;

export interface SignedPayment {
  readonly signature: string;
  readonly lastValidBlockHeight: number;
  readonly bytes: Buffer;
}

/** A client of a node; opens nothing. */
export const connectTo = (url: string): Connection => new Connection(url, 'confirmed');

/** Signs and sends nothing. Errors: SIGNUP_PAYMENT, exit 75. */
export async function signPayment(
  connection: Connection,
  wallet: Keypair,
  treasury: string,
  price: SignupPrice,
): Promise<SignedPayment> {
  try {
    const to = new PublicKey(treasury);
    const instructions =
      price.mint === null
        ? [SystemProgram.transfer({ fromPubkey: wallet.publicKey, toPubkey: to, lamports: BigInt(price.amount) })]
        : await tokenTransfer(connection, wallet.publicKey, to, price, new PublicKey(price.mint));
    const { blockhash, lastValidBlockHeight } = await connection.getLatestBlockhash('confirmed');
    const transaction = new Transaction({ feePayer: wallet.publicKey, blockhash, lastValidBlockHeight });
    transaction.add(...instructions).sign(wallet);
    if (transaction.signature === null) throw new Error('it is not signed');
    const bytes = transaction.serialize();
    return { signature: encode64(transaction.signature), lastValidBlockHeight, bytes };
  } catch (error) {
    throw unpaid(error);
  }
}

/** Sends what was signed; a node that refuses it in its simulation is an error. Errors: SIGNUP_PAYMENT, exit 75. */
export async function sendPayment(connection: Connection, { bytes }: SignedPayment): Promise<void> {
  try {
    await connection.sendRawTransaction(bytes, { preflightCommitment: 'confirmed' });
  } catch (error) {
    throw unpaid(error);
  }
}

/** `landed`: in a block without an error; `lost`: it never will be; `open`: nobody can tell yet. */
export async function paymentFate(
  connection: Connection,
  { signature, lastValidBlockHeight }: Pick<SignedPayment, 'signature' | 'lastValidBlockHeight'>,
): Promise<'landed' | 'lost' | 'open'> {
  try {
    // The height first: what is not found afterwards, though its last block is final, is nowhere.
    const height = await connection.getBlockHeight('finalized');
    const { value } = await connection.getSignatureStatuses([signature], { searchTransactionHistory: true });
    const [status] = value;
    if (status != null) return status.err === null ? 'landed' : 'lost';
    return height > lastValidBlockHeight ? 'lost' : 'open';
  } catch (error) {
    throw unpaid(error);
  }
}

async function tokenTransfer(
  connection: Connection,
  owner: PublicKey,
  treasury: PublicKey,
  { amount, decimals }: SignupPrice,
  mint: PublicKey,
): Promise<TransactionInstruction[]> {
  const program = (await connection.getAccountInfo(mint, 'confirmed'))?.owner;
  if (program === undefined) throw new Error(`there is no mint ${mint.toString()} on this chain`);
  const accountOf = (who: PublicKey) =>
    PublicKey.findProgramAddressSync([who.toBytes(), program.toBytes(), mint.toBytes()], ASSOCIATED)[0];
  const [from, to] = [accountOf(owner), accountOf(treasury)];
  const data = Buffer.alloc(10);
  data.writeUInt8(TRANSFER_CHECKED, 0);
  data.writeBigUInt64LE(BigInt(amount), 1);
  data.writeUInt8(decimals, 9);
  const meta = (pubkey: PublicKey, isWritable = false, isSigner = false) => ({ pubkey, isWritable, isSigner });
  return [
    new TransactionInstruction({
      programId: ASSOCIATED,
      keys: [
        ...[meta(owner, true, true), meta(to, true), meta(treasury), meta(mint)],
        ...[meta(SystemProgram.programId), meta(program)],
      ],
      data: Buffer.from([CREATE_IDEMPOTENT]),
    }),
    new TransactionInstruction({
      programId: program,
      keys: [meta(from, true), meta(mint), meta(to, true), meta(owner, false, true)],
      data,
    }),
  ];
}

const unpaid = (error: unknown) =>
  new CodedError('SIGNUP_PAYMENT', `the payment could not be made: ${messageOf(error).slice(0, 300)}`, {
    exitCode: EXIT.temporary,
  });
