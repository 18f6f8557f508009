import { readFileSync } from 'node:fs';
import {
  Connection,
  type FetchFn,
  Keypair,
  PublicKey,
  SystemProgram,
  Transaction,
  TransactionInstruction,
} from '@solana/web3.js';
import { encode64 } from '../../lib/base58.ts';
import { CodedError, EXIT, messageOf } from '../../lib/coded-error.ts';
import { byteList } from '../../lib/json.ts';
import { callPeer } from '../../runtime/call-peer.ts';
import { decodeMint } from '../../solana/accounts/token.ts';
import { ASSOCIATED_TOKEN_PROGRAM } from '../../solana/programs.ts';

export type { Connection, Keypair } from '@solana/web3.js';

/** The amount to pay; `token` is null for SOL. */
export interface Payment {
  readonly treasury: string;
  /** Lamports or raw units. */
  readonly amount: bigint;
  readonly token: PaymentToken | null;
}

/** On-chain facts about a mint. */
export interface PaymentToken {
  readonly mint: string;
  /** SPL Token or Token-2022. */
  readonly program: string;
  readonly decimals: number;
}

const ASSOCIATED = new PublicKey(ASSOCIATED_TOKEN_PROGRAM);
const CREATE_IDEMPOTENT = 1;
const TRANSFER_CHECKED = 12;

export interface SignedPayment {
  readonly signature: string;
  readonly lastValidBlockHeight: number;
  readonly bytes: Buffer;
}

/** Creates the client of a node; opens nothing. */
export const connectTo = (url: string): Connection =>
  new Connection(url, { commitment: 'confirmed', fetch: callPeer as FetchFn });

/**
 * Reads a mint from the chain: it, not the service, determines the token program and the decimals. Errors: SIGNUP_USAGE, exit 64, if it is
 * not a mint of SPL Token or Token-2022; SIGNUP_PAYMENT, exit 75.
 */
export async function readToken(connection: Connection, mint: string): Promise<PaymentToken> {
  let account: Awaited<ReturnType<Connection['getAccountInfo']>>;
  try {
    account = await connection.getAccountInfo(new PublicKey(mint), 'confirmed');
  } catch (error) {
    throw unpaid(error);
  }
  const program = account?.owner.toBase58() ?? '';
  const { value } = decodeMint({ owner: program, data: account?.data ?? new Uint8Array(0) });
  if (value === null)
    throw new CodedError('SIGNUP_USAGE', `${mint} is not a mint of SPL Token or Token-2022 on this chain`, {
      exitCode: EXIT.usage,
    });
  return { mint, program, decimals: value.decimals };
}

/** Signs a payment without sending it. Errors: SIGNUP_PAYMENT, exit 75. */
export async function signPayment(
  connection: Connection,
  wallet: Keypair,
  { treasury, amount, token }: Payment,
): Promise<SignedPayment> {
  try {
    const to = new PublicKey(treasury);
    const instructions =
      token === null
        ? [SystemProgram.transfer({ fromPubkey: wallet.publicKey, toPubkey: to, lamports: amount })]
        : tokenTransfer(wallet.publicKey, to, amount, token);
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

/** Sends a signed payment; a failed simulation is an error. Errors: SIGNUP_PAYMENT, exit 75. */
export async function sendPayment(connection: Connection, { bytes }: SignedPayment): Promise<void> {
  try {
    await connection.sendRawTransaction(bytes, { preflightCommitment: 'confirmed' });
  } catch (error) {
    throw unpaid(error);
  }
}

/** `landed`: in a block without an error; `lost`: failed or expired; `open`: not decided yet. */
export async function paymentFate(
  connection: Connection,
  { signature, lastValidBlockHeight }: Pick<SignedPayment, 'signature' | 'lastValidBlockHeight'>,
): Promise<'landed' | 'lost' | 'open'> {
  try {
    // Read the height first: if the last valid block is final, a payment not found afterwards will never land.
    const height = await connection.getBlockHeight('finalized');
    const { value } = await connection.getSignatureStatuses([signature], { searchTransactionHistory: true });
    const [status] = value;
    if (status != null) return status.err === null ? 'landed' : 'lost';
    return height > lastValidBlockHeight ? 'lost' : 'open';
  } catch (error) {
    throw unpaid(error);
  }
}

function tokenTransfer(
  owner: PublicKey,
  treasury: PublicKey,
  amount: bigint,
  token: PaymentToken,
): TransactionInstruction[] {
  const [mint, program] = [new PublicKey(token.mint), new PublicKey(token.program)];
  const accountOf = (who: PublicKey) =>
    PublicKey.findProgramAddressSync([who.toBytes(), program.toBytes(), mint.toBytes()], ASSOCIATED)[0];
  const [from, to] = [accountOf(owner), accountOf(treasury)];
  const data = Buffer.alloc(10);
  data.writeUInt8(TRANSFER_CHECKED, 0);
  data.writeBigUInt64LE(amount, 1);
  data.writeUInt8(token.decimals, 9);
  const meta = (pubkey: PublicKey, isWritable = false, isSigner = false) => ({ pubkey, isWritable, isSigner });
  return [
    new TransactionInstruction({
      programId: ASSOCIATED,
      keys: [
        meta(owner, true, true),
        meta(to, true),
        meta(treasury),
        meta(mint),
        meta(SystemProgram.programId),
        meta(program),
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
  new CodedError('SIGNUP_PAYMENT', `the payment failed: ${messageOf(error).slice(0, 300)}`, {
    exitCode: EXIT.temporary,
  });

/** `0.05` of something with 9 decimals as 50000000. Errors: SIGNUP_AMOUNT, exit 64. */
export function toRawUnits(text: string, decimals: number): bigint {
  const [, whole = '', fraction = ''] = /^(\d{1,20})(?:\.(\d{1,18}))?$/.exec(text) ?? [];
  if (whole === '' || fraction.length > decimals)
    throw new CodedError('SIGNUP_AMOUNT', `"${text}" is not an amount with at most ${decimals} decimals`, {
      exitCode: EXIT.usage,
    });
  return BigInt(whole + fraction.padEnd(decimals, '0'));
}

/** The inverse of `toRawUnits`. */
export function fromRawUnits(amount: bigint, decimals: number): string {
  const digits = amount.toString().padStart(decimals + 1, '0');
  const whole = digits.slice(0, digits.length - decimals);
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, '');
  return fraction === '' ? whole : `${whole}.${fraction}`;
}

/** Reads a file of solana-keygen. Errors: SIGNUP_KEYPAIR, exit 64; they never quote the file. */
export function readWalletFile(path: string): Keypair {
  const secret = secretOf(path);
  const wallet = secret === null ? null : walletOf(secret);
  if (wallet !== null) return wallet;
  throw new CodedError('SIGNUP_KEYPAIR', `${path} cannot be read, or is not a keypair of 64 numbers`, {
    exitCode: EXIT.usage,
  });
}

/** Null for a file that cannot be read or has no list of bytes. */
function secretOf(path: string): Uint8Array | null {
  try {
    return byteList(JSON.parse(readFileSync(path, 'utf8')));
  } catch {
    return null;
  }
}

/** Null for bytes that are no keypair. */
function walletOf(secret: Uint8Array): Keypair | null {
  try {
    return Keypair.fromSecretKey(secret);
  } catch (error) {
    // A fault of the program is no fault of the file.
    if (error instanceof TypeError) throw error;
    return null;
  }
}
