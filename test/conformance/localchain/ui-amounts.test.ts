import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import {
  amountToUiAmountForInterestBearingMintWithoutSimulation,
  amountToUiAmountForScaledUiAmountMintWithoutSimulation,
  createAssociatedTokenAccount,
  createInitializeInterestBearingMintInstruction,
  createInitializeMintInstruction,
  createInitializeScaledUiAmountConfigInstruction,
  ExtensionType,
  getInterestBearingMintConfigState,
  getMint,
  getMintLen,
  mintTo,
  TOKEN_2022_PROGRAM_ID,
  transfer,
} from '@solana/spl-token';
import {
  Keypair,
  LAMPORTS_PER_SOL,
  type PublicKey,
  SystemProgram,
  sendAndConfirmTransaction,
  Transaction,
  type TransactionInstruction,
} from '@solana/web3.js';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';

const confirm = { commitment: 'confirmed' } as const;
const YEAR_S = 31_556_736;
const DECIMALS = 6;
const MULTIPLIER = 2.5;
const RATE_BASIS_POINTS = 1_000;

suite('amounts of mints that show other amounts than they hold', { skip: (await chainMissing()) ?? false }, () => {
  let chain: TestChain;
  const payer = Keypair.generate();
  const friend = Keypair.generate();
  before(async () => {
    chain = await startChain();
    await chain.fund(payer.publicKey.toString(), 10 * LAMPORTS_PER_SOL);
  });
  after(() => chain.stop());

  async function mintWith(
    extension: ExtensionType,
    init: (mint: PublicKey) => TransactionInstruction,
  ): Promise<PublicKey> {
    const mint = Keypair.generate();
    const space = getMintLen([extension]);
    const lamports = await chain.connection.getMinimumBalanceForRentExemption(space);
    const [from, programId] = [payer.publicKey, TOKEN_2022_PROGRAM_ID];
    const make = new Transaction().add(
      SystemProgram.createAccount({ fromPubkey: from, newAccountPubkey: mint.publicKey, space, lamports, programId }),
      init(mint.publicKey),
      createInitializeMintInstruction(mint.publicKey, DECIMALS, from, null, programId),
    );
    await sendAndConfirmTransaction(chain.connection, make, [payer, mint], confirm);
    return mint.publicKey;
  }

  /** The accounts in the block after a transfer: as shown by the node, and as decoded. */
  async function amountsOf(mint: PublicKey, laterS: number) {
    const { connection } = chain;
    const accountOf = (owner: PublicKey) =>
      createAssociatedTokenAccount(connection, payer, mint, owner, confirm, TOKEN_2022_PROGRAM_ID);
    const ours = await accountOf(payer.publicKey);
    const theirs = await accountOf(friend.publicKey);
    await mintTo(connection, payer, mint, ours, payer, 1_000_000n, [], confirm, TOKEN_2022_PROGRAM_ID);
    const now = (await connection.getBlockTime(await connection.getSlot('confirmed')))!;
    await chain.setTime(now + laterS);
    await transfer(connection, payer, ours, theirs, payer, 250_000n, [], confirm, TOKEN_2022_PROGRAM_ID);
    const slot = await connection.getSlot('confirmed');
    const params = [slot, { encoding: 'base64', maxSupportedTransactionVersion: 0, ...confirm }];
    const response = await fetch(chain.rpcUrl, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getBlock', params }),
    });
    const { result } = (await response.json()) as {
      result: { blockTime: number; transactions: [{ meta: { postTokenBalances: { uiTokenAmount: Shown }[] } }] };
    };
    const [transaction] = decodeBlock(slot, result).transactions;
    const decoded = transaction!.postTokenBalances.map(({ amount, decimals }) => ({ amount, decimals }));
    const shown = result.transactions[0].meta.postTokenBalances.map(({ uiTokenAmount }) => uiTokenAmount);
    return { blockTime: result.blockTime, decoded, shown };
  }
  interface Shown {
    readonly amount: string;
    readonly uiAmountString: string;
  }
  const raw = [
    { amount: '250000', decimals: DECIMALS },
    { amount: '750000', decimals: DECIMALS },
  ];
  const byAmount = <T extends { readonly amount: string }>(list: readonly T[]) =>
    list.toSorted((a, b) => Number(a.amount) - Number(b.amount));

  test('interest: shown with it, decoded without it', async () => {
    const init = (mint: PublicKey) =>
      createInitializeInterestBearingMintInstruction(mint, payer.publicKey, RATE_BASIS_POINTS, TOKEN_2022_PROGRAM_ID);
    const mint = await mintWith(ExtensionType.InterestBearingConfig, init);
    const { blockTime, decoded, shown } = await amountsOf(mint, YEAR_S);
    const account = await getMint(chain.connection, mint, 'confirmed', TOKEN_2022_PROGRAM_ID);
    const config = getInterestBearingMintConfigState(account)!;
    const expected = raw.map(({ amount }) =>
      amountToUiAmountForInterestBearingMintWithoutSimulation(
        ...([BigInt(amount), DECIMALS, blockTime, Number(config.lastUpdateTimestamp)] as const),
        ...([Number(config.initializationTimestamp), config.preUpdateAverageRate, config.currentRate] as const),
      ),
    );
    for (const [index, one] of byAmount(shown).entries()) {
      assert.ok(
        Math.abs(Number(one.uiAmountString) - Number(expected[index])) < 2e-6,
        `${one.uiAmountString} ${expected[index]}`,
      );
      assert.ok(Number(one.uiAmountString) > (Number(one.amount) / 10 ** DECIMALS) * 1.1);
    }
    assert.deepEqual(byAmount(decoded), raw);
  });

  test('a multiplier: shown with it, decoded without it', async () => {
    const init = (mint: PublicKey) =>
      createInitializeScaledUiAmountConfigInstruction(mint, payer.publicKey, MULTIPLIER, TOKEN_2022_PROGRAM_ID);
    const mint = await mintWith(ExtensionType.ScaledUiAmountConfig, init);
    const { decoded, shown } = await amountsOf(mint, 60);
    assert.deepEqual(
      byAmount(shown).map(({ uiAmountString }) => uiAmountString),
      raw.map(({ amount }) =>
        amountToUiAmountForScaledUiAmountMintWithoutSimulation(BigInt(amount), DECIMALS, MULTIPLIER),
      ),
    );
    assert.deepEqual(byAmount(decoded), raw);
  });
});
