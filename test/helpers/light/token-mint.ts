import { CompressedTokenProgram, getSplInterfaceInfos, type SplInterfaceInfo } from '@lightprotocol/compressed-token';
import type { Rpc, TreeInfo } from '@lightprotocol/stateless.js';
import {
  createAssociatedTokenAccountIdempotentInstruction,
  getAssociatedTokenAddressSync,
  MINT_SIZE,
  TOKEN_PROGRAM_ID,
} from '@solana/spl-token';
import type { Keypair, PublicKey } from '@solana/web3.js';
import { type LightRpc, send } from './sender.ts';

const RENT = 1_461_600;

/** A mint whose tokens can be compressed, and the ordinary token account of each wallet. */
export interface TokenMint {
  readonly mint: PublicKey;
  readonly authority: Keypair;
  /** The pool as it is now: it says how much can be decompressed. */
  pool(): Promise<SplInterfaceInfo>;
  accountOf(wallet: PublicKey): PublicKey;
}

/** Makes it with the instructions of the client library, in two transactions or more. */
export async function createTokenMint(rpc: LightRpc, mint: Keypair, wallets: readonly Keypair[]): Promise<TokenMint> {
  const [authority] = wallets as [Keypair];
  const instructions = await CompressedTokenProgram.createMint({
    feePayer: authority.publicKey,
    authority: authority.publicKey,
    mint: mint.publicKey,
    decimals: 6,
    freezeAuthority: null,
    rentExemptBalance: RENT,
    tokenProgramId: TOKEN_PROGRAM_ID,
    mintSize: MINT_SIZE,
  });
  await send(rpc, { kind: 'createMint', instructions, payer: authority, signers: [mint] });
  const accountOf = (wallet: PublicKey) => getAssociatedTokenAddressSync(mint.publicKey, wallet);
  for (const { publicKey } of wallets) {
    const create = createAssociatedTokenAccountIdempotentInstruction(
      ...([authority.publicKey, accountOf(publicKey), publicKey, mint.publicKey] as const),
    );
    await send(rpc, { kind: 'createAccount', instructions: [create], payer: authority });
  }
  return {
    mint: mint.publicKey,
    authority,
    accountOf,
    async pool() {
      const [first] = await getSplInterfaceInfos(rpc as Rpc, mint.publicKey);
      if (first === undefined) throw new Error('the mint has no pool');
      return first;
    },
  };
}

/** New tokens for a wallet, in a tree. */
export async function mintTo(rpc: LightRpc, token: TokenMint, to: PublicKey, amount: number, tree: TreeInfo) {
  const { mint, authority } = token;
  const instruction = await CompressedTokenProgram.mintTo({
    feePayer: authority.publicKey,
    authority: authority.publicKey,
    mint,
    toPubkey: to,
    amount,
    outputStateTreeInfo: tree,
    tokenPoolInfo: await token.pool(),
  });
  return send(rpc, { kind: 'mintTo', instructions: [instruction], payer: authority });
}
