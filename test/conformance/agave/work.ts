/** What clients do on the node through the daemon: every transaction is sent, and its confirmation awaited, by the client itself. */
import assert from 'node:assert/strict';
import { CompressedTokenProgram } from '@lightprotocol/compressed-token';
import { bn, createRpc, LightSystemProgram, type Rpc, type TreeInfo } from '@lightprotocol/stateless.js';
import {
  type Address,
  appendTransactionMessageInstruction,
  assertIsTransactionWithBlockhashLifetime,
  createKeyPairSignerFromBytes,
  createSolanaRpc,
  createSolanaRpcSubscriptions,
  createTransactionMessage,
  getSignatureFromTransaction,
  pipe,
  sendAndConfirmTransactionFactory,
  setTransactionMessageComputeUnitLimit,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  setTransactionMessageLoadedAccountsDataSizeLimit,
  signTransactionMessageWithSigners,
} from '@solana/kit';
import {
  burn,
  closeAccount,
  createAssociatedTokenAccount,
  createInitializeMint2Instruction,
  createInitializeTransferFeeConfigInstruction,
  createMint,
  createTransferCheckedWithFeeInstruction,
  ExtensionType,
  getMintLen,
  mintTo,
  TOKEN_2022_PROGRAM_ID,
  transfer,
} from '@solana/spl-token';
import {
  AddressLookupTableProgram,
  ComputeBudgetProgram,
  type Connection,
  PublicKey as Key,
  Keypair,
  type PublicKey,
  type Signer,
  SystemProgram,
  sendAndConfirmTransaction,
  Transaction,
  TransactionInstruction,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js';
import { isPlainObject } from '../../../src/lib/json.ts';
import { landingRpc, send } from '../../helpers/light/sender.ts';
import { createTokenMint, mintTo as mintCompressed } from '../../helpers/light/token-mint.ts';
import { createStateTrees } from '../../helpers/light/trees.ts';
import { until } from '../../helpers/until.ts';
import { type AgaveBed, caughtUp } from './harness.ts';

const MEMO = new Key('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr');
const SYSTEM = '11111111111111111111111111111111' as Address;
const confirmed = { commitment: 'confirmed' } as const;
const DATA_SIZE_LIMIT = 1_000_000;
const PAID = 3_000_000;

export interface Done {
  readonly name: string;
  readonly signature: string;
  /** Landed with an error. */
  readonly failed?: boolean;
  readonly version?: 'legacy' | 0 | 1;
}

export interface Wallets {
  readonly web3: Keypair;
  readonly kit: Keypair;
  readonly token: Keypair;
  readonly light: readonly [Keypair, Keypair];
  /** Gets a payment from each. */
  readonly friend: Keypair;
}

const pay = (from: Keypair, to: PublicKey, lamports: number) =>
  SystemProgram.transfer({ fromPubkey: from.publicKey, toPubkey: to, lamports });

/** Legacy and v0 by web3.js: memo, priority fee, failure, lookup table. */
export async function workOfWeb3(connection: Connection, { web3: payer, friend }: Wallets): Promise<Done[]> {
  const done: Done[] = [];
  const legacy = async (name: string, ...instructions: TransactionInstruction[]) => {
    const transaction = new Transaction().add(...instructions);
    done.push({ name, signature: await sendAndConfirmTransaction(connection, transaction, [payer], confirmed) });
  };
  const memo = new TransactionInstruction({ programId: MEMO, keys: [], data: Buffer.from('grüß dich') });
  await legacy('memo', pay(payer, friend.publicKey, PAID), memo);
  await legacy(
    'priority fee',
    ComputeBudgetProgram.setComputeUnitLimit({ units: 5_000 }),
    ComputeBudgetProgram.setComputeUnitPrice({ microLamports: 1_500 }),
    pay(payer, friend.publicKey, PAID),
  );
  const tooMuch = new Transaction().add(pay(payer, friend.publicKey, 900_000_000_000_000));
  const failed = await connection.sendTransaction(tooMuch, [payer], { skipPreflight: true });
  // web3.js returns the error of a transaction that its subscription tells of, and throws that of one whose status it read first.
  await connection.confirmTransaction(failed as never, 'confirmed').catch((error: unknown) => {
    assert.ok(isPlainObject(error) && 'InstructionError' in error, String(error));
  });
  done.push({ name: 'failure', signature: failed, failed: true });

  // The newest block of a bank is not among its recent slots, and with Alpenglow it is the final one.
  const below = Math.max(0, (await connection.getSlot('finalized')) - 1);
  const recentSlot = (await connection.getBlocks(Math.max(0, below - 20), below, 'finalized')).at(-1) ?? 0;
  const authority = payer.publicKey;
  const [create, table] = AddressLookupTableProgram.createLookupTable({ authority, payer: authority, recentSlot });
  const addresses = [friend.publicKey, SystemProgram.programId];
  await legacy(
    'lookup table',
    create,
    AddressLookupTableProgram.extendLookupTable({ lookupTable: table, authority, payer: authority, addresses }),
  );
  // Addresses can be used in the slots after the one that wrote them.
  const extendedAt = await connection.getSlot('confirmed');
  await until(async () => (await connection.getSlot('confirmed')) > extendedAt + 1);
  const { value } = await connection.getAddressLookupTable(table);
  const { blockhash, lastValidBlockHeight } = await connection.getLatestBlockhash();
  const instructions = [pay(payer, friend.publicKey, PAID)];
  const message = new TransactionMessage({ payerKey: authority, recentBlockhash: blockhash, instructions });
  const transaction = new VersionedTransaction(message.compileToV0Message([value!]));
  transaction.sign([payer]);
  const signature = await connection.sendTransaction(transaction);
  await connection.confirmTransaction({ signature, blockhash, lastValidBlockHeight }, 'confirmed');
  done.push({ name: 'by lookup table', signature, version: 0 });
  return done;
}

/** A payment in each version by kit; v1 names its limits in the header, or a node refuses it. */
export async function workOfKit({ url, socketUrl }: Pick<AgaveBed, 'url' | 'socketUrl'>, wallets: Wallets) {
  const rpc = createSolanaRpc(url);
  const rpcSubscriptions = createSolanaRpcSubscriptions(socketUrl);
  const payer = await createKeyPairSignerFromBytes(wallets.kit.secretKey);
  const accounts = [
    { address: payer.address, role: 3 },
    { address: wallets.friend.publicKey.toBase58() as Address, role: 1 },
  ];
  const data = SystemProgram.transfer({
    fromPubkey: wallets.kit.publicKey,
    toPubkey: wallets.friend.publicKey,
    lamports: PAID,
  }).data;
  const done: Done[] = [];
  for (const version of ['legacy', 0, 1] as const) {
    const { value: lifetime } = await rpc.getLatestBlockhash(confirmed).send();
    const message = pipe(
      // Its types do not name the version 1 that it writes.
      createTransactionMessage({ version: version as 0 }),
      (m) => setTransactionMessageFeePayerSigner(payer, m),
      (m) => setTransactionMessageLifetimeUsingBlockhash(lifetime, m),
      (m) => appendTransactionMessageInstruction({ programAddress: SYSTEM, accounts, data }, m),
      (m) => setTransactionMessageComputeUnitLimit(10_000, m),
      (m) => setTransactionMessageLoadedAccountsDataSizeLimit(DATA_SIZE_LIMIT, m),
    );
    const transaction = await signTransactionMessageWithSigners(message);
    assertIsTransactionWithBlockhashLifetime(transaction);
    await sendAndConfirmTransactionFactory({ rpc, rpcSubscriptions })(transaction, confirmed);
    done.push({ name: `kit ${version}`, signature: getSignatureFromTransaction(transaction), version });
  }
  return done;
}

/** A life of a token by spl-token; with `fee` it is one of Token-2022 that takes a fee of each transfer. */
export async function workOfTokens(connection: Connection, { token: payer, friend }: Wallets, fee: boolean) {
  const done: Done[] = [];
  const kind = fee ? 'Token-2022' : 'token';
  const program = fee ? TOKEN_2022_PROGRAM_ID : undefined;
  const note = async (name: string, sending: Promise<string>) =>
    void done.push({ name: `${kind} ${name}`, signature: await sending });
  const mint = fee
    ? await createFeeMint(connection, payer, note)
    : await createMint(connection, payer, payer.publicKey, null, 6, undefined, confirmed);
  const ours = await createAssociatedTokenAccount(connection, payer, mint, payer.publicKey, confirmed, program);
  const theirs = await createAssociatedTokenAccount(connection, payer, mint, friend.publicKey, confirmed, program);
  await note('mint', mintTo(connection, payer, mint, ours, payer, 1_000_000n, [], confirmed, program));
  if (fee) {
    const instruction = createTransferCheckedWithFeeInstruction(
      ...([ours, mint, theirs, payer.publicKey, 400_000n, 6, 4_000n, [], program] as Parameters<
        typeof createTransferCheckedWithFeeInstruction
      >),
    );
    const sending = sendAndConfirmTransaction(connection, new Transaction().add(instruction), [payer], confirmed);
    await note('transfer with fee', sending);
  } else await note('transfer', transfer(connection, payer, ours, theirs, payer, 400_000n, [], confirmed));
  await note('burn', burn(connection, payer, ours, mint, payer, 600_000n, [], confirmed, program));
  await note('close', closeAccount(connection, payer, ours, payer.publicKey, payer, [], confirmed, program));
  return { done, accounts: [ours, theirs], mint };
}

async function createFeeMint(
  connection: Connection,
  payer: Keypair,
  note: (name: string, sending: Promise<string>) => Promise<void>,
): Promise<PublicKey> {
  const mint = Keypair.generate();
  const space = getMintLen([ExtensionType.TransferFeeConfig]);
  const lamports = await connection.getMinimumBalanceForRentExemption(space);
  const transaction = new Transaction().add(
    SystemProgram.createAccount({
      fromPubkey: payer.publicKey,
      newAccountPubkey: mint.publicKey,
      lamports,
      space,
      programId: TOKEN_2022_PROGRAM_ID,
    }),
    createInitializeTransferFeeConfigInstruction(mint.publicKey, null, null, 100, 10_000n, TOKEN_2022_PROGRAM_ID),
    createInitializeMint2Instruction(mint.publicKey, 6, payer.publicKey, null, TOKEN_2022_PROGRAM_ID),
  );
  await note('mint account', sendAndConfirmTransaction(connection, transaction, [payer, mint], confirmed));
  return mint.publicKey;
}

export interface LightWork {
  readonly done: readonly Done[];
  readonly rpc: Rpc;
  readonly mint: PublicKey;
  /** Ordinary token accounts of the wallets. */
  readonly accounts: readonly PublicKey[];
  /** Compressed lamports and tokens by wallet: what came in less what went out. */
  readonly lamports: ReadonlyMap<string, bigint>;
  readonly tokens: ReadonlyMap<string, bigint>;
}

/** Compressed lamports and tokens by the client library: transactions to the node, everything else from the daemon. */
export async function workOfLight(bed: AgaveBed, { light: [one, other] }: Wallets): Promise<LightWork> {
  const { node, url } = bed;
  const rpc = createRpc(node.rpcUrl, url, url, { commitment: 'confirmed', wsEndpoint: node.wsUrl });
  const landing = landingRpc(rpc, node.call, async () => void (await caughtUp(bed)));
  const done: Done[] = [];
  const lamports = new Map<string, bigint>();
  const tokens = new Map<string, bigint>();
  const add = (book: Map<string, bigint>, { publicKey }: Keypair, amount: number) =>
    book.set(String(publicKey), (book.get(String(publicKey)) ?? 0n) + BigInt(amount));
  const run = async (name: string, instruction: TransactionInstruction, payer: Signer) => {
    done.push({ name, signature: (await send(landing, { kind: name, instructions: [instruction], payer })).signature });
  };
  const trees = createStateTrees();
  const [v1, v2] = [trees.v1[0] as TreeInfo, trees.v2[0] as TreeInfo];
  for (const [name, tree, amount] of [
    ['V1', v1, 5_000_000],
    ['V2', v2, 7_000_000],
  ] as const) {
    const parts = { payer: one.publicKey, toAddress: one.publicKey, lamports: amount, outputStateTreeInfo: tree };
    await run(`compress ${name}`, await LightSystemProgram.compress(parts), one);
    add(lamports, one, amount);
  }
  for (const kind of ['transfer', 'decompress'] as const) {
    const { items } = await rpc.getCompressedAccountsByOwner(one.publicKey);
    const inputs = items.filter(({ treeInfo }) => treeInfo.tree.equals(v2.tree));
    const proof = await rpc.getValidityProof(inputs.map(({ hash }) => bn(hash)));
    const parts = {
      payer: one.publicKey,
      inputCompressedAccounts: inputs,
      toAddress: other.publicKey,
      lamports: bn(2_000_000),
      recentInputStateRootIndices: proof.rootIndices,
      recentValidityProof: proof.compressedProof,
    };
    await run(`compressed ${kind}`, await LightSystemProgram[kind](parts), one);
    add(lamports, one, -2_000_000);
    if (kind === 'transfer') add(lamports, other, 2_000_000);
  }

  const mintKey = Keypair.generate();
  const token = await createTokenMint(landing, mintKey, [one, other]);
  for (const tree of [v1, v2]) {
    const { signature } = await mintCompressed(landing, token, one.publicKey, 1_000_000, tree);
    done.push({ name: 'compressed mint', signature });
    add(tokens, one, 1_000_000);
  }
  for (const kind of ['transfer', 'decompress'] as const) {
    const { items } = await rpc.getCompressedTokenAccountsByOwner(one.publicKey, { mint: token.mint });
    const inputs = items.filter(({ compressedAccount }) => compressedAccount.treeInfo.tree.equals(v2.tree));
    const proof = await rpc.getValidityProof(inputs.map(({ compressedAccount }) => bn(compressedAccount.hash)));
    const common = {
      payer: one.publicKey,
      inputCompressedTokenAccounts: inputs,
      amount: bn(300_000),
      recentInputStateRootIndices: proof.rootIndices,
      recentValidityProof: proof.compressedProof,
    };
    const toAddress = kind === 'transfer' ? other.publicKey : token.accountOf(one.publicKey);
    const instruction =
      kind === 'transfer'
        ? await CompressedTokenProgram.transfer({ ...common, toAddress })
        : await CompressedTokenProgram.decompress({ ...common, toAddress, tokenPoolInfos: [await token.pool()] });
    await run(`compressed token ${kind}`, instruction, one);
    add(tokens, one, -300_000);
    if (kind === 'transfer') add(tokens, other, 300_000);
  }
  const compress = await CompressedTokenProgram.compress({
    payer: one.publicKey,
    owner: one.publicKey,
    source: token.accountOf(one.publicKey),
    mint: token.mint,
    toAddress: other.publicKey,
    amount: 100_000,
    outputStateTreeInfo: v2,
    tokenPoolInfo: await token.pool(),
  });
  await run('compressed token compress', compress, one);
  add(tokens, other, 100_000);
  const accounts = [token.accountOf(one.publicKey), token.accountOf(other.publicKey)];
  return { done, rpc, mint: token.mint, accounts, lamports, tokens };
}
