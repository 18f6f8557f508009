/** A small economy on the local chain: seeded, random, with everything that makes balances hard to follow. */
import {
  AuthorityType,
  createApproveInstruction,
  createAssociatedTokenAccountIdempotentInstruction,
  createBurnInstruction,
  createCloseAccountInstruction,
  createInitializeAccount3Instruction,
  createInitializeMint2Instruction,
  createInitializeTransferFeeConfigInstruction,
  createMintToInstruction,
  createSetAuthorityInstruction,
  createSyncNativeInstruction,
  createTransferCheckedInstruction,
  ExtensionType,
  getAssociatedTokenAddressSync,
  getMintLen,
  NATIVE_MINT,
  TOKEN_2022_PROGRAM_ID,
  TOKEN_PROGRAM_ID,
  unpackAccount,
} from '@solana/spl-token';
import {
  Keypair,
  LAMPORTS_PER_SOL,
  type PublicKey,
  SystemProgram,
  Transaction,
  type TransactionInstruction,
} from '@solana/web3.js';
import type { TestChain } from './chain.ts';
import { createSfc32 } from './sfc32.ts';

interface Mint {
  readonly key: PublicKey;
  readonly program: PublicKey;
  readonly decimals: number;
}

interface Account {
  readonly key: PublicKey;
  readonly mint: Mint;
  readonly isAssociated: boolean;
}

/** What every wallet held after a block: `SOL` or a mint -> raw units; what is zero is left out. */
export type Holdings = ReadonlyMap<string, bigint>;

export interface Economy {
  readonly wallets: readonly string[];
  readonly mints: readonly { readonly mint: string; readonly decimals: number }[];
  /** By slot of a block, then by wallet. */
  readonly truth: Map<number, ReadonlyMap<string, Holdings>>;
  /** Runs `blocks` blocks of one to three transactions each and notes what everybody holds. */
  run(blocks: number): Promise<void>;
  /** What everybody holds now, under the newest slot. */
  note(): Promise<number>;
}

/** What an economy needs of its chain. */
export interface EconomyChain extends Pick<TestChain, 'connection' | 'fund'> {
  submitAll(transactions: readonly Uint8Array[], options?: { readonly perBlock: number }): Promise<unknown>;
}

/** A few wallets with SOL, a plain mint, one of Token-2022, and one of it with a transfer fee. */
export async function createEconomy(chain: EconomyChain, seed: number, walletCount = 4): Promise<Economy> {
  const { connection } = chain;
  const { float } = createSfc32(seed);
  const below = (count: number) => Math.floor(float() * count);
  const pick = <T>(list: readonly T[]): T => list[below(list.length)] as T;
  const authority = keypair(float);
  const wallets = Array.from({ length: walletCount }, () => keypair(float));
  for (const { publicKey } of [authority, ...wallets]) await chain.fund(publicKey.toBase58(), 50 * LAMPORTS_PER_SOL);
  const mints = await createMints();
  const wrapped: Mint = { key: NATIVE_MINT, program: TOKEN_PROGRAM_ID, decimals: 9 };
  const accounts = new Map<string, Account>();
  const truth = new Map<number, ReadonlyMap<string, Holdings>>();

  async function send(
    instructions: readonly TransactionInstruction[],
    signers: readonly Keypair[],
  ): Promise<Uint8Array> {
    const payer = signers[0] as Keypair;
    const { blockhash } = await connection.getLatestBlockhash();
    const transaction = new Transaction({ feePayer: payer.publicKey, recentBlockhash: blockhash });
    transaction.add(...instructions);
    const distinct = [...new Map(signers.map((signer) => [signer.publicKey.toBase58(), signer])).values()];
    transaction.sign(...distinct);
    return transaction.serialize();
  }

  async function createMints(): Promise<readonly Mint[]> {
    const made: Mint[] = [];
    for (const [program, decimals, hasFee] of [
      [TOKEN_PROGRAM_ID, 6, false],
      [TOKEN_2022_PROGRAM_ID, 2, false],
      [TOKEN_2022_PROGRAM_ID, 4, true],
    ] as const) {
      const mint = keypair(float);
      const space = getMintLen(hasFee ? [ExtensionType.TransferFeeConfig] : []);
      const transaction = await send(
        [
          SystemProgram.createAccount({
            fromPubkey: authority.publicKey,
            newAccountPubkey: mint.publicKey,
            lamports: 5_000_000,
            space,
            programId: program,
          }),
          ...(hasFee
            ? [createInitializeTransferFeeConfigInstruction(mint.publicKey, null, null, 250, 5_000n, program)]
            : []),
          createInitializeMint2Instruction(mint.publicKey, decimals, authority.publicKey, null, program),
        ],
        [authority, mint],
      );
      await chain.submitAll([transaction]);
      made.push({ key: mint.publicKey, program, decimals });
    }
    return made;
  }

  function associated(owner: PublicKey, mint: Mint): Account {
    const key = getAssociatedTokenAddressSync(mint.key, owner, true, mint.program);
    const account = { key, mint, isAssociated: true };
    accounts.set(key.toBase58(), account);
    return account;
  }

  const opened = (payer: Keypair, owner: PublicKey, mint: Mint): TransactionInstruction => {
    const { key } = associated(owner, mint);
    return createAssociatedTokenAccountIdempotentInstruction(payer.publicKey, key, owner, mint.key, mint.program);
  };

  /** A token account of the wallet: its associated one, or another that was made for some wallet. */
  function someAccount(wallet: Keypair, mint: Mint): PublicKey {
    const others = [...accounts.values()].filter((account) => account.mint === mint && !account.isAssociated);
    return others.length > 0 && float() < 0.3 ? pick(others).key : associated(wallet.publicKey, mint).key;
  }

  const actions: readonly (() => Promise<Uint8Array>)[] = [
    // Also to oneself, of nothing, and of more than there is.
    async () => {
      const [from, to] = [pick(wallets), pick(wallets)];
      const lamports = float() < 0.1 ? 0 : below(float() < 0.1 ? 900 * LAMPORTS_PER_SOL : 100_000_000);
      const move = SystemProgram.transfer({ fromPubkey: from.publicKey, toPubkey: to.publicKey, lamports });
      return send([move], [from]);
    },
    async () => {
      const [wallet, mint] = [pick(wallets), pick(mints)];
      const payer = float() < 0.5 ? authority : wallet;
      const to = associated(wallet.publicKey, mint).key;
      const amount = 1 + below(1_000_000);
      return send(
        [
          opened(payer, wallet.publicKey, mint),
          createMintToInstruction(mint.key, to, authority.publicKey, amount, [], mint.program),
        ],
        [payer, authority],
      );
    },
    // A further account, made by anybody for the wallet: its owner is only in the data.
    async () => {
      const [wallet, mint, account] = [pick(wallets), mints[0] as Mint, keypair(float)];
      const payer = float() < 0.5 ? authority : wallet;
      accounts.set(account.publicKey.toBase58(), { key: account.publicKey, mint, isAssociated: false });
      return send(
        [
          SystemProgram.createAccount({
            fromPubkey: payer.publicKey,
            newAccountPubkey: account.publicKey,
            lamports: 2_039_280,
            space: 165,
            programId: mint.program,
          }),
          createInitializeAccount3Instruction(account.publicKey, mint.key, wallet.publicKey, mint.program),
          createMintToInstruction(mint.key, account.publicKey, authority.publicKey, 1 + below(5_000), [], mint.program),
        ],
        [payer, account, authority],
      );
    },
    ...[0, 1, 2].map(() => async () => {
      const [from, to, mint] = [pick(wallets), pick(wallets), pick(mints)];
      const source = someAccount(from, mint);
      const target = someAccount(to, mint);
      const move = createTransferCheckedInstruction(
        ...([source, mint.key, target, from.publicKey, below(50_000), mint.decimals] as const),
        [],
        mint.program,
      );
      return send([opened(from, to.publicKey, mint), move], [from]);
    }),
    // The delegate moves what is not his.
    async () => {
      const [owner, delegate, to, mint] = [pick(wallets), pick(wallets), pick(wallets), pick(mints)];
      const source = associated(owner.publicKey, mint).key;
      const target = associated(to.publicKey, mint).key;
      return send(
        [
          opened(delegate, owner.publicKey, mint),
          opened(delegate, to.publicKey, mint),
          createApproveInstruction(source, delegate.publicKey, owner.publicKey, 1_000, [], mint.program),
          createTransferCheckedInstruction(
            ...([source, mint.key, target, delegate.publicKey, below(1_000), mint.decimals] as const),
            [],
            mint.program,
          ),
        ],
        [delegate, owner],
      );
    },
    async () => {
      const [wallet, mint] = [pick(wallets), pick(mints)];
      const source = someAccount(wallet, mint);
      return send(
        [createBurnInstruction(source, mint.key, wallet.publicKey, below(20_000), [], mint.program)],
        [wallet],
      );
    },
    // Everything burnt and closed; a later action opens it again.
    async () => {
      const [wallet, mint, heir] = [pick(wallets), pick(mints), pick(wallets)];
      const source = associated(wallet.publicKey, mint).key;
      const data = await connection.getAccountInfo(source);
      const amount = data === null ? 0n : unpackAccount(source, data, mint.program).amount;
      return send(
        [
          createBurnInstruction(source, mint.key, wallet.publicKey, amount, [], mint.program),
          createCloseAccountInstruction(source, heir.publicKey, wallet.publicKey, [], mint.program),
        ],
        [wallet],
      );
    },
    async () => {
      const [wallet, to] = [pick(wallets), pick(wallets)];
      const target = associated(to.publicKey, wrapped).key;
      return send(
        [
          opened(wallet, to.publicKey, wrapped),
          SystemProgram.transfer({ fromPubkey: wallet.publicKey, toPubkey: target, lamports: below(50_000_000) }),
          createSyncNativeInstruction(target),
        ],
        [wallet],
      );
    },
    async () => {
      const [wallet, heir] = [pick(wallets), pick(wallets)];
      const source = associated(wallet.publicKey, wrapped).key;
      return send([createCloseAccountInstruction(source, heir.publicKey, wallet.publicKey)], [wallet]);
    },
    // An account changes hands with what is in it.
    async () => {
      const others = [...accounts.values()].filter(({ isAssociated }) => !isAssociated);
      const [wallet, to] = [pick(wallets), pick(wallets)];
      const key = others.length > 0 ? pick(others).key : associated(wallet.publicKey, mints[0] as Mint).key;
      const type = AuthorityType.AccountOwner;
      return send([createSetAuthorityInstruction(key, wallet.publicKey, type, to.publicKey)], [wallet]);
    },
  ];

  async function note(): Promise<number> {
    const keys = [...wallets.map(({ publicKey }) => publicKey), ...[...accounts.values()].map(({ key }) => key)];
    const slot = await connection.getSlot('confirmed');
    const found = new Map(wallets.map(({ publicKey }) => [publicKey.toBase58(), new Map<string, bigint>()]));
    const add = (wallet: string, mint: string, raw: bigint) => {
      const holdings = found.get(wallet);
      if (raw !== 0n) holdings?.set(mint, (holdings.get(mint) ?? 0n) + raw);
    };
    for (let at = 0; at < keys.length; at += 100) {
      const part = keys.slice(at, at + 100);
      (await connection.getMultipleAccountsInfo(part, 'confirmed')).forEach((info, place) => {
        const key = part[place] as PublicKey;
        if (info === null) return;
        if (info.owner.equals(SystemProgram.programId)) add(key.toBase58(), 'SOL', BigInt(info.lamports));
        else if (info.owner.equals(TOKEN_PROGRAM_ID) || info.owner.equals(TOKEN_2022_PROGRAM_ID)) {
          const { owner, mint, amount } = unpackAccount(key, info, info.owner);
          add(owner.toBase58(), mint.toBase58(), amount);
        }
      });
    }
    truth.set(slot, found);
    return slot;
  }

  return {
    wallets: wallets.map(({ publicKey }) => publicKey.toBase58()),
    mints: [...mints, wrapped].map(({ key, decimals }) => ({ mint: key.toBase58(), decimals })),
    truth,
    note,
    async run(blocks) {
      for (let block = 0; block < blocks; block += 1) {
        const transactions: Uint8Array[] = [];
        const count = 1 + below(3);
        while (transactions.length < count) transactions.push(await pick(actions)());
        const distinct = [
          ...new Map(transactions.map((bytes) => [Buffer.from(bytes).toString('latin1'), bytes])).values(),
        ];
        await chain.submitAll(distinct, { perBlock: distinct.length });
        await note();
      }
    },
  };
}

function keypair(float: () => number): Keypair {
  return Keypair.fromSeed(Uint8Array.from({ length: 32 }, () => Math.floor(float() * 256)));
}
