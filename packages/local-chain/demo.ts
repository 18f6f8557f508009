import { createHash } from 'node:crypto';
import {
  AddressLookupTableAccount,
  AddressLookupTableProgram,
  Keypair,
  LAMPORTS_PER_SOL,
  PublicKey,
  SystemProgram,
  TransactionInstruction,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js';
import { encode32 } from '../../src/lib/base58.ts';
import { CodedError } from '../../src/lib/coded-error.ts';
import {
  ASSOCIATED_TOKEN_PROGRAM,
  MEMO_V3_PROGRAM,
  METADATA_PROGRAM,
  NAME_PROGRAM,
  NAME_ROOT,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
} from '../../src/solana/programs.ts';
import type { Chain } from './chain.ts';
import { advanceSlots, type Bank, seal, setAccountInput } from './ledger/bank.ts';
import { decodeSentTransaction } from './vm/transaction.ts';

const NAMES = ['alice', 'bob', 'carol', 'dave'] as const;
const MINT_BYTES = 82;
const POINTER_MINT_BYTES = 234;
const METADATA_BYTES = 512;
const SKIPPED_SLOTS = 3;

export type DemoWallets = Record<(typeof NAMES)[number], Keypair>;

/** A fixed key pair per name, so that every demo has the same wallets. */
function demoKeypair(name: string): Keypair {
  return Keypair.fromSeed(createHash('sha256').update(`parhelion demo ${name}`).digest());
}

export function demoWallets(): DemoWallets {
  return Object.fromEntries(NAMES.map((name) => [name, demoKeypair(name)])) as DemoWallets;
}

/** A short history for the chain: funding, tokens, transfers, a burn, a memo, a failure, a lookup table, skipped slots. Runs once in a chain's life. */
export function runDemo(chain: Chain): DemoReport {
  const wallets = demoWallets();
  const report = {
    wallets: Object.fromEntries(NAMES.map((name) => [name, keyText(wallets[name].publicKey)])),
    mint: keyText(demoKeypair('token').publicKey),
    metadataMint: keyText(demoKeypair('metadata token').publicKey),
    nftMint: keyText(demoKeypair('nft').publicKey),
  };
  if (chain.bank.accounts.balance(report.nftMint) > 0n) return report;
  const send = createSender(chain);
  for (const [index, name] of NAMES.entries()) {
    chain.node.airdrop(keyText(wallets[name].publicKey), BigInt((100 - 20 * index) * LAMPORTS_PER_SOL));
  }
  seal(chain.bank);
  makeToken(chain, send, wallets);
  advanceSlots(chain.bank, SKIPPED_SLOTS);
  makeMetadataToken(chain, send, wallets);
  transfers(send, wallets);
  lookupTable(chain, send, wallets);
  const nftMint = makeNft(chain, send, wallets);
  setFixtures(chain.bank, { nftMint, owner: wallets.bob.publicKey, authority: wallets.alice.publicKey });
  return report;
}

function keyText(key: PublicKey): string {
  return encode32(key.toBytes());
}

function newMint(chain: Chain, payer: PublicKey, mint: PublicKey, programId: PublicKey, space: number, extra = 0) {
  const lamports = Number(chain.bank.vm.rentExemptLamports(space + extra));
  return SystemProgram.createAccount({ fromPubkey: payer, newAccountPubkey: mint, lamports, space, programId });
}

function makeToken(chain: Chain, send: DemoSender, { alice, bob }: DemoWallets): void {
  const programId = publicKeyOf(TOKEN_PROGRAM);
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
}

function makeMetadataToken(chain: Chain, send: DemoSender, { alice, carol }: DemoWallets): void {
  const programId = publicKeyOf(TOKEN_2022_PROGRAM);
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
}

function makeNft(chain: Chain, send: DemoSender, { alice, bob }: DemoWallets): PublicKey {
  const programId = publicKeyOf(TOKEN_PROGRAM);
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

function transfers(send: DemoSender, { alice, bob, carol, dave }: DemoWallets): void {
  const pay = (from: Keypair, to: Keypair, lamports: number) =>
    SystemProgram.transfer({ fromPubkey: from.publicKey, toPubkey: to.publicKey, lamports });
  const memo = (text: string) =>
    new TransactionInstruction({ programId: MEMO_PROGRAM, keys: [], data: Buffer.from(text) });
  send([pay(alice, bob, LAMPORTS_PER_SOL)], [alice]);
  send([pay(bob, carol, LAMPORTS_PER_SOL / 4), memo('rent for the second sun')], [bob]);
  send([pay(dave, alice, 1_000 * LAMPORTS_PER_SOL)], [dave], { mayFail: true });
  send([pay(carol, dave, LAMPORTS_PER_SOL / 10)], [carol]);
}

/** A v0 transaction whose receiver is only in a lookup table. */
function lookupTable(chain: Chain, send: DemoSender, { alice, bob, carol, dave }: DemoWallets): void {
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

const PAUSE_MS = 3_000;
const SMALL_LAMPORTS = 10_000;

/**
 * Activity of the demo while it is followed: a small payment every few seconds, in a circle, so that only fees drain the wallets. Returns
 * a function that stops it.
 */
export function goLive(chain: Chain): () => void {
  const { alice, bob, carol, dave } = demoWallets();
  const ring = [alice, bob, carol, dave];
  const send = createSender(chain);
  let turn = 0;
  const timer = setInterval(() => {
    const from = ring[turn % ring.length]!;
    const to = ring[(turn + 1) % ring.length]!;
    // Equal payments with one blockhash are the same transaction: the amount makes them distinct.
    const lamports = SMALL_LAMPORTS + turn;
    turn += 1;
    const payment = SystemProgram.transfer({ fromPubkey: from.publicKey, toPubkey: to.publicKey, lamports });
    send([payment], [from], { mayFail: true });
  }, PAUSE_MS);
  return () => clearInterval(timer);
}

const METADATA_ACCOUNT_BYTES = 607;

interface FixtureInput {
  readonly nftMint: PublicKey;
  readonly owner: PublicKey;
  readonly authority: PublicKey;
}

/** Accounts of programs that are in no package: set directly, and counted as fixtures. */
function setFixtures(bank: Bank, { nftMint, owner, authority }: FixtureInput): void {
  setSnsName(bank, owner);
  const program = publicKeyOf(METADATA_PROGRAM);
  const [address] = PublicKey.findProgramAddressSync(
    [Buffer.from('metadata'), program.toBytes(), nftMint.toBytes()],
    program,
  );
  const data = nftMetadata(nftMint, authority);
  setAccountInput(bank, encode32(address.toBytes()), {
    lamports: bank.vm.rentExemptLamports(data.length),
    data,
    owner: METADATA_PROGRAM,
  });
}

/** `demo.sol`: registry header of parent, owner and class, at the address derived from the hash of its name. */
function setSnsName(bank: Bank, owner: PublicKey): void {
  const parent = publicKeyOf(NAME_ROOT);
  const hashed = createHash('sha256')
    .update('SPL Name Service' + 'demo')
    .digest();
  const noClass = PublicKey.default;
  const [address] = PublicKey.findProgramAddressSync(
    [hashed, noClass.toBytes(), parent.toBytes()],
    publicKeyOf(NAME_PROGRAM),
  );
  const data = Buffer.concat([parent.toBuffer(), owner.toBuffer(), noClass.toBuffer()]);
  setAccountInput(bank, encode32(address.toBytes()), {
    lamports: bank.vm.rentExemptLamports(data.length),
    data,
    owner: NAME_PROGRAM,
  });
}

/** Metadata V1: texts are padded with zeros to their maximum length, as the program does. */
function nftMetadata(mint: PublicKey, authority: PublicKey): Uint8Array {
  const padded = (text: string, room: number) => borshText(text.padEnd(room, '\0'));
  const royaltyBasisPoints = Buffer.from([0xf4, 0x01]);
  const creators = Buffer.concat([Buffer.from([1, 1, 0, 0, 0]), authority.toBuffer(), Buffer.from([1, 100])]);
  const flags = Buffer.from([0, 1, 0, 1, 0, 0, 0, 0, 0]);
  const data = Buffer.alloc(METADATA_ACCOUNT_BYTES);
  Buffer.concat([
    Buffer.from([4]),
    authority.toBuffer(),
    mint.toBuffer(),
    padded('Parhelion #1', 32),
    padded('HELION', 10),
    padded('https://example.invalid/1.json', 200),
    royaltyBasisPoints,
    creators,
    flags,
  ]).copy(data);
  return data;
}

const ATA_PROGRAM = new PublicKey(ASSOCIATED_TOKEN_PROGRAM);
const MEMO_PROGRAM = new PublicKey(MEMO_V3_PROGRAM);

const role = (pubkey: PublicKey, flags = '') => ({
  pubkey,
  isSigner: flags.includes('s'),
  isWritable: flags.includes('w'),
});

/** The few token instructions of the demo, in wire form: the client library is a test dependency only. */
function tokenInstructions(programId: PublicKey) {
  const make = (keys: ReturnType<typeof role>[], data: readonly number[] | Buffer) =>
    new TransactionInstruction({ programId, keys, data: Buffer.from(data) });
  const amountData = (tag: number, amount: bigint) => {
    const data = Buffer.alloc(9);
    data[0] = tag;
    data.writeBigUInt64LE(amount, 1);
    return data;
  };
  const addressOf = (mint: PublicKey, owner: PublicKey): PublicKey =>
    PublicKey.findProgramAddressSync([owner.toBytes(), programId.toBytes(), mint.toBytes()], ATA_PROGRAM)[0];
  return {
    addressOf,
    initializeMint: (mint: PublicKey, decimals: number, authority: PublicKey) =>
      make([role(mint, 'w')], Buffer.concat([Buffer.from([20, decimals]), authority.toBuffer(), Buffer.from([0])])),
    createAccount: (payer: PublicKey, mint: PublicKey, owner: PublicKey) =>
      new TransactionInstruction({
        programId: ATA_PROGRAM,
        keys: [
          role(payer, 'sw'),
          role(addressOf(mint, owner), 'w'),
          role(owner),
          role(mint),
          role(SystemProgram.programId),
          role(programId),
        ],
        data: Buffer.from([1]),
      }),
    mintTo: (mint: PublicKey, owner: PublicKey, authority: PublicKey, amount: bigint) =>
      make([role(mint, 'w'), role(addressOf(mint, owner), 'w'), role(authority, 's')], amountData(7, amount)),
    transfer: (mint: PublicKey, from: PublicKey, to: PublicKey, amount: bigint) =>
      make([role(addressOf(mint, from), 'w'), role(addressOf(mint, to), 'w'), role(from, 's')], amountData(3, amount)),
    burn: (mint: PublicKey, owner: PublicKey, amount: bigint) =>
      make([role(addressOf(mint, owner), 'w'), role(mint, 'w'), role(owner, 's')], amountData(8, amount)),
    /** Token-2022: the mint itself contains its metadata. */
    initializeMetadataPointer: (mint: PublicKey, authority: PublicKey) =>
      make([role(mint, 'w')], Buffer.concat([Buffer.from([39, 0]), authority.toBuffer(), mint.toBuffer()])),
    initializeMetadata: (mint: PublicKey, authority: PublicKey, texts: readonly [string, string, string]) =>
      make(
        [role(mint, 'w'), role(authority), role(mint), role(authority, 's')],
        Buffer.concat([INITIALIZE_METADATA, ...texts.map(borshText)]),
      ),
  };
}

/** First bytes of SHA-256("spl_token_metadata_interface:initialize_account"). */
const INITIALIZE_METADATA = Buffer.from([210, 225, 30, 162, 88, 184, 77, 141]);

/** Length as u32, then UTF-8. */
function borshText(text: string): Buffer {
  const bytes = Buffer.from(text, 'utf8');
  const length = Buffer.alloc(4);
  length.writeUInt32LE(bytes.length);
  return Buffer.concat([length, bytes]);
}

/** A well-known key from its text. */
function publicKeyOf(text: string): PublicKey {
  return new PublicKey(text);
}

export type DemoSender = ReturnType<typeof createSender>;

/** Signs and submits through the chain's own interface; the first signer pays. */
function createSender({ bank, node }: Chain) {
  return function send(
    instructions: TransactionInstruction[],
    signers: readonly Keypair[],
    { tables = [], mayFail = false }: { tables?: AddressLookupTableAccount[]; mayFail?: boolean } = {},
  ): string {
    const message = new TransactionMessage({
      payerKey: signers[0]!.publicKey,
      recentBlockhash: bank.state.tip().blockhash,
      instructions,
    });
    const compiled = tables.length > 0 ? message.compileToV0Message(tables) : message.compileToLegacyMessage();
    const transaction = new VersionedTransaction(compiled);
    transaction.sign([...signers]);
    const result = node.submit(decodeSentTransaction(transaction.serialize()));
    const err = result.landed ? result.record.meta.err : result.err;
    if (!result.landed || (err !== null && !mayFail)) {
      throw new CodedError('LOCAL_BAD_TRANSACTION', `a demo transaction failed: ${JSON.stringify(err)}`);
    }
    // One block per transaction: with a slot timer several would share one.
    if (bank.pending.records.length > 0) seal(bank);
    return result.record.signature;
  };
}

/** Content of the demo, printed in the banner. */
export interface DemoReport {
  /** Name -> address. */
  readonly wallets: Readonly<Record<string, string>>;
  /** Mint of the SPL token. */
  readonly mint: string;
  /** Token-2022 mint with its metadata on chain. */
  readonly metadataMint: string;
  /** Mint of the NFT whose metadata account is a fixture. */
  readonly nftMint: string;
}
