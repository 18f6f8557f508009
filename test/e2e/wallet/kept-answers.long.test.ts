/** Pages are cached as finished text: none is returned when the chain or the mint has changed. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import {
  createAssociatedTokenAccount,
  createInitializeMetadataPointerInstruction,
  createInitializeMintInstruction,
  createInitializeScaledUiAmountConfigInstruction,
  createUpdateMultiplierDataInstruction,
  ExtensionType,
  getMintLen,
  mintTo,
  TOKEN_2022_PROGRAM_ID,
  tokenMetadataInitializeWithRentTransfer,
  tokenMetadataUpdateField,
} from '@solana/spl-token';
import {
  Keypair,
  LAMPORTS_PER_SOL,
  type PublicKey,
  SystemProgram,
  sendAndConfirmTransaction,
  Transaction,
} from '@solana/web3.js';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import {
  type HistoryItem,
  type Page,
  type TransferItem,
  type WalletClient,
  walletClient,
} from '../../helpers/wallet-client.ts';

const PATIENCE_MS = 60_000;
const FINALITY = 8;
/** What a wallet holds is remembered for the whole test: what its tokens are called is not. */
const HELD_MS = 3_600_000;
const confirm = { commitment: 'confirmed' } as const;
const programId = TOKEN_2022_PROGRAM_ID;

suite('answers that are kept', { skip: (await chainMissing()) ?? false }, () => {
  const payer = Keypair.generate();
  let chain: TestChain;
  let daemon: DaemonInProcess;
  let client: WalletClient;
  before(async () => {
    chain = await startChain({ finalityDepth: FINALITY });
    await chain.fund(payer.publicKey.toBase58(), 100 * LAMPORTS_PER_SOL);
    daemon = await startDaemon({
      chain,
      config: { plugins: ['access', 'token-metadata', 'wallet'], wallet: { balances: { cacheMs: HELD_MS } } },
    });
    client = walletClient(daemon);
  });
  after(async () => {
    await daemon.stop();
    await chain.stop();
  });

  /** The same for what a wallet holds. */
  async function untilBalances(address: string, symbols: readonly string[]): Promise<void> {
    const startedMs = performance.now();
    for (let right = 0; right < 2; ) {
      const { balances } = await client.get<{ balances: readonly { symbol: string | null }[] }>(`${address}/balances`);
      const told = balances.map(({ symbol }) => symbol);
      right = isDeepStrictEqual(told, symbols) ? right + 1 : 0;
      if (right > 0) continue;
      if (performance.now() - startedMs > PATIENCE_MS) assert.deepEqual(told, symbols, address);
      await sleep(100);
    }
  }

  /** The newest page, polled until it is as expected twice in a row: the second answer may come from memory. */
  async function untilPage<T>(path: string, shown: (items: readonly T[]) => unknown, expected: unknown): Promise<void> {
    const startedMs = performance.now();
    for (let right = 0; right < 2; ) {
      const told = shown((await client.get<Page<T>>(path)).data);
      right = isDeepStrictEqual(told, expected) ? right + 1 : 0;
      if (right > 0) continue;
      if (performance.now() - startedMs > PATIENCE_MS) assert.deepEqual(told, expected, path);
      await sleep(100);
    }
  }

  async function pay(to: PublicKey, count: number): Promise<void> {
    for (let at = 0; at < count; at += 1) {
      const move = SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: to, lamports: 1_000_000 + at });
      const { blockhash } = await chain.connection.getLatestBlockhash();
      const transaction = new Transaction({ feePayer: payer.publicKey, recentBlockhash: blockhash }).add(move);
      transaction.sign(payer);
      await chain.submitAll([transaction.serialize()]);
    }
  }

  /** Transactions of a wallet according to the node, newest first. */
  async function toldByNode(wallet: PublicKey): Promise<readonly unknown[]> {
    const list = await chain.connection.getSignaturesForAddress(wallet, {}, 'confirmed');
    return list.map(({ signature, slot, blockTime }) => [signature, slot, blockTime]);
  }

  test('after a fork the same transactions have other positions, and are returned there', async () => {
    const wallet = Keypair.generate().publicKey;
    const address = wallet.toBase58();
    const placesOf = (items: readonly (HistoryItem | TransferItem)[]) =>
      items.map((item) => [item.signature, 'slot' in item ? item.slot : null, item.timestamp]);
    const check = async () => {
      const told = await toldByNode(wallet);
      await untilPage(`${address}/history`, placesOf, told);
      await untilPage(
        `${address}/transfers`,
        placesOf,
        (told as [string, number, number][]).map(([signature, , time]) => [signature, null, time]),
      );
      return told;
    };
    await pay(wallet, FINALITY + 4);
    await check();
    for (const depth of [3, 5]) {
      await pay(wallet, 2);
      const old = await check();
      // The newest ones in the opposite order, in other slots.
      await chain.fork({ depth, replay: 'reverse', extraBlocks: 1 });
      assert.notDeepEqual(await check(), old);
    }
    await chain.seal(FINALITY * 2);
    await check();
  });

  /** A mint with a unique name whose amounts are shown as multiples. */
  async function createMint(multiplier: number): Promise<PublicKey> {
    const mint = Keypair.generate();
    const { connection } = chain;
    const own = payer.publicKey;
    const space = getMintLen([ExtensionType.ScaledUiAmountConfig, ExtensionType.MetadataPointer]);
    const lamports = await connection.getMinimumBalanceForRentExemption(space);
    const make = new Transaction().add(
      SystemProgram.createAccount({ fromPubkey: own, newAccountPubkey: mint.publicKey, space, lamports, programId }),
      createInitializeScaledUiAmountConfigInstruction(mint.publicKey, own, multiplier, programId),
      createInitializeMetadataPointerInstruction(mint.publicKey, own, mint.publicKey, programId),
      createInitializeMintInstruction(mint.publicKey, 6, own, null, programId),
    );
    await sendAndConfirmTransaction(connection, make, [payer, mint], confirm);
    await tokenMetadataInitializeWithRentTransfer(
      connection,
      payer,
      mint.publicKey,
      own,
      payer,
      'A name',
      'OLD',
      '',
      [],
      confirm,
      programId,
    );
    return mint.publicKey;
  }

  test('another multiplier and another symbol of a mint change responses about old transactions', async () => {
    const wallet = Keypair.generate().publicKey;
    const address = wallet.toBase58();
    const { connection } = chain;
    const mint = await createMint(2);
    const account = await createAssociatedTokenAccount(connection, payer, mint, wallet, confirm, programId);
    await mintTo(connection, payer, mint, account, payer, 1_500_000n, [], confirm, programId);
    await pay(wallet, 1);
    await chain.seal(FINALITY * 2);
    const changes = (items: readonly HistoryItem[]) =>
      items.flatMap(({ balanceChanges }) => balanceChanges.map((one) => [one.mint, one.amount]));
    const words = (items: readonly TransferItem[]) => items.map(({ symbol, amount }) => [symbol, amount]);
    const check = async (symbol: string, amount: number) => {
      const [sol, token] = [0.001, mint.toBase58()];
      await untilPage(`${address}/history`, changes, [
        ['SOL', sol],
        [token, amount],
      ]);
      await untilPage(`${address}/transfers`, words, [
        ['SOL', sol],
        [symbol, amount],
      ]);
      await untilBalances(address, ['SOL', symbol]);
    };
    await check('OLD', 3);
    const update = createUpdateMultiplierDataInstruction(mint, payer.publicKey, 5, 0n, [], programId);
    await sendAndConfirmTransaction(connection, new Transaction().add(update), [payer], confirm);
    await tokenMetadataUpdateField(connection, payer, mint, payer, 'symbol', 'NEW', [], confirm, programId);
    await check('NEW', 7.5);
  });
});
