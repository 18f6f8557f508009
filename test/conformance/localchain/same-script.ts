import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  createAssociatedTokenAccountInstruction,
  createBurnInstruction,
  createCloseAccountInstruction,
  createInitializeMint2Instruction,
  createMintToInstruction,
  createTransferCheckedInstruction,
  createTransferInstruction,
  getAssociatedTokenAddressSync,
  MINT_SIZE,
  TOKEN_2022_PROGRAM_ID,
  TOKEN_PROGRAM_ID,
} from '@solana/spl-token';
import {
  AddressLookupTableProgram,
  ComputeBudgetProgram,
  type Connection,
  Keypair,
  PublicKey,
  SystemProgram,
  type TransactionInstruction,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js';
import { until } from '../../helpers/until.ts';

const MEMO = new PublicKey('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr');
const MINT_RENT = 1_461_600;

/** The same wallet on every chain. */
export const wallet = (name: string): Keypair => Keypair.fromSeed(createHash('sha256').update(name).digest());

export interface Sent {
  readonly name: string;
  readonly signature: string;
  /** Its data holds a slot number. */
  readonly isSlotBound?: boolean;
}

/** What a chain gives for the script: the transactions in order, and names of the addresses that differ between chains. */
export interface ScriptRun {
  readonly sent: readonly Sent[];
  /** Every account whose end state is to be the same. */
  readonly accounts: readonly PublicKey[];
  /** Address -> name, for those that depend on the slot. */
  readonly names: ReadonlyMap<string, string>;
}

/** Sends instructions without preflight, so that failures land too, and waits until they are confirmed. */
async function send(
  connection: Connection,
  signers: readonly Keypair[],
  instructions: TransactionInstruction[],
  tables: Parameters<TransactionMessage['compileToV0Message']>[0] = undefined,
): Promise<string> {
  const { blockhash: recentBlockhash } = await connection.getLatestBlockhash();
  const message = new TransactionMessage({ payerKey: signers[0]!.publicKey, recentBlockhash, instructions });
  const transaction = new VersionedTransaction(
    tables === undefined ? message.compileToLegacyMessage() : message.compileToV0Message(tables),
  );
  transaction.sign([...signers]);
  const signature = await connection.sendTransaction(transaction, { skipPreflight: true });
  await landed(connection, signature);
  return signature;
}

async function landed(connection: Connection, signature: string): Promise<void> {
  for (let round = 0; round < 1_000; round += 1) {
    if ((await connection.getTransaction(signature, { maxSupportedTransactionVersion: 0 })) !== null) return;
    await sleep(20);
  }
  throw new Error(`did not land: ${signature}`);
}

/** The one script; the payer has funds already. */
export async function runScript(connection: Connection): Promise<ScriptRun> {
  const [payer, friend, stranger] = [wallet('payer'), wallet('friend'), wallet('stranger')];
  const sent: Sent[] = [];
  const step = async (name: string, instructions: TransactionInstruction[], ...others: Keypair[]) => {
    sent.push({ name, signature: await send(connection, [payer, ...others], instructions) });
  };
  const pay = (to: PublicKey, lamports: number) =>
    SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: to, lamports });
  const memo = (text: string) => ({
    programId: MEMO,
    keys: [{ pubkey: payer.publicKey, isSigner: true, isWritable: true }],
    data: Buffer.from(text),
  });

  await step('transfer', [pay(friend.publicKey, 5_000_000)]);
  await step('transfer with memo', [pay(friend.publicKey, 1_000_000), memo('grüß dich') as TransactionInstruction]);
  await step('priority fee', [
    ComputeBudgetProgram.setComputeUnitLimit({ units: 2_001 }),
    ComputeBudgetProgram.setComputeUnitPrice({ microLamports: 1_500 }),
    pay(friend.publicKey, 2_000_000),
  ]);
  await step('transfer of too much', [pay(friend.publicKey, 1_000_000), pay(friend.publicKey, 900_000_000_000)]);
  const accounts = [payer.publicKey, friend.publicKey, stranger.publicKey];
  for (const programId of [TOKEN_PROGRAM_ID, TOKEN_2022_PROGRAM_ID]) {
    accounts.push(...(await tokens(programId, { payer, friend, step })));
  }
  const { table, signatures } = await tableTransfer(connection, payer, stranger.publicKey);
  sent.push(...signatures);
  return { sent, accounts, names: new Map([[table, 'table']]) };
}

interface TokenScript {
  readonly payer: Keypair;
  readonly friend: Keypair;
  step(name: string, instructions: TransactionInstruction[], ...others: Keypair[]): Promise<void>;
}

async function tokens(programId: PublicKey, { payer, friend, step }: TokenScript): Promise<PublicKey[]> {
  const kind = programId.equals(TOKEN_PROGRAM_ID) ? 'token' : 'token-2022';
  const mint = wallet(`mint ${kind}`);
  const ataOf = (owner: PublicKey) => getAssociatedTokenAddressSync(mint.publicKey, owner, false, programId);
  const [ours, theirs] = [ataOf(payer.publicKey), ataOf(friend.publicKey)];
  const ata = (address: PublicKey, owner: PublicKey) =>
    createAssociatedTokenAccountInstruction(payer.publicKey, address, owner, mint.publicKey, programId);
  const create = SystemProgram.createAccount({
    fromPubkey: payer.publicKey,
    newAccountPubkey: mint.publicKey,
    lamports: MINT_RENT,
    space: MINT_SIZE,
    programId,
  });
  const owner = payer.publicKey;
  await step(
    `${kind}: mint made`,
    [create, createInitializeMint2Instruction(mint.publicKey, 6, owner, null, programId)],
    mint,
  );
  await step(`${kind}: accounts made, tokens minted`, [
    ata(ours, owner),
    ata(theirs, friend.publicKey),
    createMintToInstruction(mint.publicKey, ours, owner, 1_000_000n, [], programId),
  ]);
  await step(`${kind}: transfer`, [createTransferInstruction(ours, theirs, owner, 250_000n, [], programId)]);
  await step(`${kind}: checked transfer`, [
    createTransferCheckedInstruction(ours, mint.publicKey, theirs, owner, 125_000n, 6, [], programId),
  ]);
  await step(`${kind}: transfer of too much`, [
    createTransferInstruction(ours, theirs, owner, 9_000_000n, [], programId),
  ]);
  await step(`${kind}: burnt and closed`, [
    createBurnInstruction(ours, mint.publicKey, owner, 625_000n, [], programId),
    createCloseAccountInstruction(ours, owner, owner, [], programId),
  ]);
  return [mint.publicKey, ours, theirs];
}

/** A payment to an account that only a lookup table contains. */
async function tableTransfer(connection: Connection, payer: Keypair, to: PublicKey) {
  const authority = payer.publicKey;
  const recentSlot = await connection.getSlot('finalized');
  const [create, table] = AddressLookupTableProgram.createLookupTable({ authority, payer: authority, recentSlot });
  const extend = { lookupTable: table, authority, payer: authority, addresses: [to] };
  const made = await send(connection, [payer], [create, AddressLookupTableProgram.extendLookupTable(extend)]);
  const slot = await connection.getSlot('confirmed');
  // A table's new address counts from the next slot on.
  await until(async () => (await connection.getSlot('confirmed')) >= slot + 2);
  const found = (await connection.getAddressLookupTable(table)).value!;
  const pay = SystemProgram.transfer({ fromPubkey: authority, toPubkey: to, lamports: 3_000_000 });
  const paid = await send(connection, [payer], [pay], [found]);
  return {
    table: table.toBase58(),
    signatures: [
      { name: 'table made', signature: made, isSlotBound: true },
      { name: 'v0 transfer by table', signature: paid },
    ],
  };
}
