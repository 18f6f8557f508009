import { createHash } from 'node:crypto';
import {
  AddressLookupTableAccount,
  AddressLookupTableProgram,
  Keypair,
  LAMPORTS_PER_SOL,
  type PublicKey,
  SystemProgram,
  TransactionInstruction,
} from '@solana/web3.js';
import { encode32 } from '../../lib/base58.ts';
import type { Chain } from '../chain.ts';
import { seal, skip } from '../ledger/bank.ts';
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../ledger/token-state.ts';
import { keyOf, MEMO_PROGRAM, setFixtures, tokenInstructions } from './fixtures.ts';
import type { DemoReport } from './report.ts';
import { createSender, type Send } from './sender.ts';

const NAMES = ['alice', 'bob', 'carol', 'dave'] as const;
const MINT_BYTES = 82;
const POINTER_MINT_BYTES = 234;
const METADATA_BYTES = 512;
const SKIPPED_SLOTS = 3;

export type DemoWallets = Record<(typeof NAMES)[number], Keypair>;

/** The same key pairs in every run: whoever tries the daemon twice finds the wallets again. */
function demoKeypair(name: string): Keypair {
  return Keypair.fromSeed(createHash('sha256').update(`parhelion demo ${name}`).digest());
}

export function demoWallets(): DemoWallets {
  return Object.fromEntries(NAMES.map((name) => [name, demoKeypair(name)])) as DemoWallets;
}

/** A short life for the chain: funding, tokens, transfers, a burn, a memo, a failure, a lookup table, skipped slots. */
export function runDemo(chain: Chain): DemoReport {
  const wallets = demoWallets();
  const send = createSender(chain);
  for (const [index, name] of NAMES.entries()) {
    chain.node.airdrop(keyText(wallets[name].publicKey), BigInt((100 - 20 * index) * LAMPORTS_PER_SOL));
  }
  seal(chain.bank);
  const mint = makeToken(chain, send, wallets);
  skip(chain.bank, SKIPPED_SLOTS);
  const metadataMint = makeMetadataToken(chain, send, wallets);
  transfers(send, wallets);
  lookupTable(chain, send, wallets);
  const nftMint = makeNft(chain, send, wallets);
  setFixtures(chain.bank, { nftMint, owner: wallets.bob.publicKey, authority: wallets.alice.publicKey });
  return {
    wallets: Object.fromEntries(NAMES.map((name) => [name, keyText(wallets[name].publicKey)])),
    mint: keyText(mint),
    metadataMint: keyText(metadataMint),
    nftMint: keyText(nftMint),
  };
}

function keyText(key: PublicKey): string {
  return encode32(key.toBytes());
}

function newMint(chain: Chain, payer: PublicKey, mint: PublicKey, programId: PublicKey, space: number, extra = 0) {
  const lamports = Number(chain.bank.vm.rentExemptLamports(space + extra));
  return SystemProgram.createAccount({ fromPubkey: payer, newAccountPubkey: mint, lamports, space, programId });
}

function makeToken(chain: Chain, send: Send, { alice, bob }: DemoWallets): PublicKey {
  const programId = keyOf(TOKEN_PROGRAM);
  const token = tokenInstructions(programId);
  const mint = demoKeypair('token');
  const key = mint.publicKey;
  send(
    [newMint(chain, alice.publicKey, key, programId, MINT_BYTES), token.initializeMint(key, 6, alice.publicKey)],
    [alice, mint],
  );
  send(
    [
      token.createAccount(alice.publicKey, key, alice.publicKey),
      token.createAccount(alice.publicKey, key, bob.publicKey),
      token.mintTo(key, alice.publicKey, alice.publicKey, 1_000_000_000n),
    ],
    [alice],
  );
  send([token.transfer(key, alice.publicKey, bob.publicKey, 250_000_000n)], [alice]);
  send([token.burn(key, bob.publicKey, 1_000_000n)], [bob]);
  return key;
}

function makeMetadataToken(chain: Chain, send: Send, { alice, carol }: DemoWallets): PublicKey {
  const programId = keyOf(TOKEN_2022_PROGRAM);
  const token = tokenInstructions(programId);
  const mint = demoKeypair('metadata token');
  const key = mint.publicKey;
  send(
    [
      newMint(chain, alice.publicKey, key, programId, POINTER_MINT_BYTES, METADATA_BYTES),
      token.initializeMetadataPointer(key, alice.publicKey),
      token.initializeMint(key, 9, alice.publicKey),
      token.initializeMetadata(key, alice.publicKey, ['Demo Sun', 'SUN', 'https://example.invalid/sun.json']),
    ],
    [alice, mint],
  );
  send(
    [
      token.createAccount(alice.publicKey, key, carol.publicKey),
      token.mintTo(key, carol.publicKey, alice.publicKey, 42_000_000_000n),
    ],
    [alice],
  );
  return key;
}

function makeNft(chain: Chain, send: Send, { alice, bob }: DemoWallets): PublicKey {
  const programId = keyOf(TOKEN_PROGRAM);
  const token = tokenInstructions(programId);
  const mint = demoKeypair('nft');
  const key = mint.publicKey;
  send(
    [
      newMint(chain, alice.publicKey, key, programId, MINT_BYTES),
      token.initializeMint(key, 0, alice.publicKey),
      token.createAccount(alice.publicKey, key, bob.publicKey),
      token.mintTo(key, bob.publicKey, alice.publicKey, 1n),
    ],
    [alice, mint],
  );
  return key;
}

function transfers(send: Send, { alice, bob, carol, dave }: DemoWallets): void {
  const pay = (from: Keypair, to: Keypair, lamports: number) =>
    SystemProgram.transfer({ fromPubkey: from.publicKey, toPubkey: to.publicKey, lamports });
  const memo = (text: string) =>
    new TransactionInstruction({ programId: MEMO_PROGRAM, keys: [], data: Buffer.from(text) });
  send([pay(alice, bob, LAMPORTS_PER_SOL)], [alice]);
  send([pay(bob, carol, LAMPORTS_PER_SOL / 4), memo('rent for the second sun')], [bob]);
  send([pay(dave, alice, 1_000 * LAMPORTS_PER_SOL)], [dave], { mayFail: true });
  send([pay(carol, dave, LAMPORTS_PER_SOL / 10)], [carol]);
}

/** A v0 transaction whose receiver is named only by a lookup table. */
function lookupTable(chain: Chain, send: Send, { alice, bob, carol, dave }: DemoWallets): void {
  const { publicKey: authority } = alice;
  seal(chain.bank);
  const recentSlot = chain.bank.state.tip().slot;
  const [create, table] = AddressLookupTableProgram.createLookupTable({ authority, payer: authority, recentSlot });
  const addresses = [bob, carol, dave].map((wallet) => wallet.publicKey);
  send(
    [
      create,
      AddressLookupTableProgram.extendLookupTable({ lookupTable: table, authority, payer: authority, addresses }),
    ],
    [alice],
  );
  const account = chain.bank.accounts.get(keyText(table))!;
  const loaded = new AddressLookupTableAccount({
    key: table,
    state: AddressLookupTableAccount.deserialize(account.data),
  });
  const pay = SystemProgram.transfer({ fromPubkey: authority, toPubkey: dave.publicKey, lamports: 5_000_000 });
  send([pay], [alice], { tables: [loaded] });
}
