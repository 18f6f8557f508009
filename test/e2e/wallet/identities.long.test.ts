/** An address that is more than a wallet: a token account that owns itself, a mint, a program, a nonce account. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  AuthorityType,
  createApproveInstruction,
  createInitializeAccount3Instruction,
  createInitializeMint2Instruction,
  createMintToInstruction,
  createSetAuthorityInstruction,
  createTransferInstruction,
  TOKEN_PROGRAM_ID,
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
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { postgresDatabase } from '../../helpers/store.ts';
import { type BalanceAtBody, type HistoryItem, type TransferItem, walletClient } from '../../helpers/wallet-client.ts';

const SOL = 'So11111111111111111111111111111111111111111';
const RENT = 5_000_000;

/** Makes the addresses, and remembers what `self` held after each step. */
async function makeActors(chain: TestChain) {
  const { connection } = chain;
  const [payer, mint, self, other, nonce, turned] = Array.from({ length: 6 }, () => Keypair.generate()) as [
    Keypair,
    Keypair,
    Keypair,
    Keypair,
    Keypair,
    Keypair,
  ];
  await chain.fund(payer.publicKey.toBase58(), 10 * LAMPORTS_PER_SOL);
  const held = new Map<number, number>();
  let amount = 0;
  async function send(change: number, signers: readonly Keypair[], ...instructions: TransactionInstruction[]) {
    const signature = await sendAndConfirmTransaction(connection, new Transaction().add(...instructions), [
      payer,
      ...signers,
    ]);
    const status = await connection.getSignatureStatus(signature);
    amount += change;
    held.set(status.value?.slot as number, amount);
    return status.value?.slot as number;
  }
  /** What `turned` held of its own after each transaction that names it: it belongs to the payer first and last. */
  const own = new Map<number, number>();
  const sendTurned = async (ownAmount: number, ...instructions: TransactionInstruction[]) => {
    const signers = instructions.some(({ keys }) =>
      keys.some((one) => one.isSigner && one.pubkey.equals(turned.publicKey)),
    );
    own.set(await send(0, signers ? [turned] : [], ...instructions), ownAmount);
  };
  const giveTurned = (owner: PublicKey, to: PublicKey) =>
    createSetAuthorityInstruction(turned.publicKey, owner, AuthorityType.AccountOwner, to);
  const create = (account: Keypair, space: number) =>
    SystemProgram.createAccount({
      fromPubkey: payer.publicKey,
      newAccountPubkey: account.publicKey,
      lamports: RENT,
      space,
      programId: TOKEN_PROGRAM_ID,
    });
  const [from, to] = [self.publicKey, other.publicKey];
  const begin = async () => {
    await send(0, [mint], create(mint, 82), createInitializeMint2Instruction(mint.publicKey, 2, payer.publicKey, null));
    await send(0, [self], create(self, 165), createInitializeAccount3Instruction(from, mint.publicKey, from));
    await send(
      0,
      [other],
      create(other, 165),
      createInitializeAccount3Instruction(to, mint.publicKey, payer.publicKey),
    );
    await send(500, [], createMintToInstruction(mint.publicKey, from, payer.publicKey, 500));
    await send(-100, [self], createTransferInstruction(from, to, from, 100));
    await send(
      0,
      [nonce],
      ...SystemProgram.createNonceAccount({
        fromPubkey: payer.publicKey,
        noncePubkey: nonce.publicKey,
        authorizedPubkey: nonce.publicKey,
        lamports: RENT,
      }).instructions,
    );
    const initialize = createInitializeAccount3Instruction(turned.publicKey, mint.publicKey, payer.publicKey);
    await sendTurned(0, create(turned, 165), initialize);
    await sendTurned(0, createMintToInstruction(mint.publicKey, turned.publicKey, payer.publicKey, 40));
    await sendTurned(40, giveTurned(payer.publicKey, turned.publicKey));
  };
  const goOn = async () => {
    // Its own delegate, and its own close authority.
    await send(0, [self], createApproveInstruction(from, from, from, 50));
    await send(0, [self], createSetAuthorityInstruction(from, from, AuthorityType.CloseAccount, from));
    await send(-30, [self], createTransferInstruction(from, to, from, 30));
    await send(7, [], createMintToInstruction(mint.publicKey, from, payer.publicKey, 7));
    await sendTurned(35, createTransferInstruction(turned.publicKey, to, turned.publicKey, 5));
    await sendTurned(0, giveTurned(turned.publicKey, payer.publicKey));
    await sendTurned(0, createMintToInstruction(mint.publicKey, turned.publicKey, payer.publicKey, 3));
  };
  return {
    payer,
    mint: mint.publicKey,
    self: from,
    other: to,
    nonce: nonce.publicKey,
    held,
    turned: turned.publicKey,
    own,
    begin,
    goOn,
  };
}

type Actors = Awaited<ReturnType<typeof makeActors>>;

async function checkAll(chain: TestChain, actors: Actors, client: ReturnType<typeof walletClient>) {
  const { self, mint, nonce, payer, held, turned, own } = actors;
  const newest = await chain.connection.getSlot('confirmed');
  // Every balance of the account that owns itself.
  for (const [slot, amount] of [...held, [newest, [...held.values()].at(-1) as number] as const]) {
    const found = await client.get<BalanceAtBody>(`${self}/balance-at?mint=${mint}&slot=${slot}`);
    assert.equal(found.balanceRaw, String(amount), `at ${slot}`);
  }
  for (const [slot, amount] of own) {
    const found = await client.get<BalanceAtBody>(`${turned}/balance-at?mint=${mint}&slot=${slot}`);
    assert.deepEqual([found.balanceRaw, found.asOf?.slot], [String(amount), slot]);
  }
  const holdings = await client.get<{ balances: { mint: string; balance: number }[] }>(`${self}/balances`);
  assert.equal(holdings.balances.find((row) => row.mint === mint.toBase58())?.balance, 3.77);
  const rows = await client.all<TransferItem>(`${self}/transfers`, 'cursor', [3]);
  const moved = rows.filter((row) => row.mint === mint.toBase58());
  assert.deepEqual(
    moved.map(({ direction, amountRaw, counterparty }) => [direction, amountRaw, counterparty]),
    [
      ['in', '7', ''],
      ['out', '30', payer.publicKey.toBase58()],
      ['out', '100', payer.publicKey.toBase58()],
      ['in', '500', ''],
    ],
  );
  for (const address of [self, mint, nonce, payer.publicKey]) {
    await checkHistory(chain, address, client, newest);
    await checkOthers(chain, address, client, newest);
  }
  // What a program is named in is no history of a wallet.
  for (const program of [TOKEN_PROGRAM_ID, SystemProgram.programId]) {
    for (const path of ['history', 'transfers', 'funded-by', `balance-at?mint=${SOL}&slot=${newest}`]) {
      const { status, body } = await client.ask(`${program}/${path}`);
      assert.equal(status, 400, `${program} ${path}`);
      assert.match(JSON.stringify(body), /WALLET_NOT_A_WALLET/);
    }
    assert.equal((await client.ask(`${program}/identity`)).status, 200);
  }
}

/** The union of what the node lists for the address and for the token accounts that it owns. */
async function checkHistory(
  { connection }: TestChain,
  address: PublicKey,
  client: ReturnType<typeof walletClient>,
  newest: number,
) {
  const owned = await connection.getTokenAccountsByOwner(address, { programId: TOKEN_PROGRAM_ID });
  const listed = new Set<string>();
  for (const key of [address, ...owned.value.map(({ pubkey }) => pubkey)])
    for (const { signature, slot } of await connection.getSignaturesForAddress(key, {}, 'confirmed'))
      if (slot <= newest) listed.add(signature);
  const history = await client.all<HistoryItem>(`${address}/history?tokenAccounts=all`, 'before', [4, 9]);
  assert.deepEqual(history.map(({ signature }) => signature).toSorted(), [...listed].toSorted(), address.toBase58());
}

async function checkOthers(
  { connection }: TestChain,
  address: PublicKey,
  client: ReturnType<typeof walletClient>,
  newest: number,
) {
  const named = `${address}/balance-at?mint=${SOL}&slot=${newest}`;
  const { balanceRaw, asOf } = await client.get<BalanceAtBody>(named);
  if (asOf !== null) assert.equal(balanceRaw, String(await connection.getBalance(address)), address.toBase58());
  for (const [path, statuses] of [
    ['balances', [200]],
    ['transfers', [200]],
    ['identity', [200, 404]],
    ['funded-by', [200, 404]],
  ] as const) {
    const { status, body } = await client.ask(`${address}/${path}`);
    assert.ok(
      (statuses as readonly number[]).includes(status),
      `${address} ${path}: ${status} ${JSON.stringify(body)}`,
    );
  }
}

const skip = (await chainMissing()) ?? false;

for (const engine of ['SQLite', 'PostgreSQL'] as const)
  test(`addresses that are more than a wallet, on ${engine}`, { skip }, async (t) => {
    const chain = await startChain({ finalityDepth: 4 });
    const store = engine === 'PostgreSQL' ? { store: (await postgresDatabase(t)).url } : {};
    const daemon = await startDaemon({ chain, ...store, config: { plugins: ['access', 'token-metadata', 'wallet'] } });
    t.after(async () => {
      await daemon.stop();
      await chain.stop();
    });
    const client = walletClient(daemon);
    const actors = await makeActors(chain);
    await actors.begin();
    // A part of it is read from the lists of the node, the rest comes with the blocks.
    const { balanceRaw } = await client.get<BalanceAtBody>(
      `${actors.self}/balance-at?mint=${actors.mint}&time=${Math.floor(Date.now() / 1_000)}`,
    );
    assert.equal(balanceRaw, '400');
    await actors.goOn();
    await checkAll(chain, actors, client);
    const addresses = [actors.self, actors.mint, actors.nonce, TOKEN_PROGRAM_ID].map((key) => key.toBase58());
    const response = await fetch(`${daemon.apiUrl}/v1/wallet/batch-identity`, {
      method: 'POST',
      headers: { 'X-Api-Key': daemon.key },
      body: JSON.stringify({ addresses }),
    });
    const entries = (await response.json()) as { address: string }[];
    assert.deepEqual(
      entries.map(({ address }) => address),
      addresses,
    );
  });
