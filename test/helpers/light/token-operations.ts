import { CompressedTokenProgram } from '@lightprotocol/compressed-token';
import { bn, type ParsedTokenAccount, TreeType, type ValidityProofWithContext } from '@lightprotocol/stateless.js';
import type { Keypair, TransactionInstruction } from '@solana/web3.js';
import type { Sfc32 } from '../sfc32.ts';
import { type Landed, type LightRpc, type Operation, send } from './sender.ts';
import type { TokenMint } from './token-mint.ts';
import type { StateTrees } from './trees.ts';

const MAX_INPUTS = 3;
const MAX_RECIPIENTS = 3;
/** The most outputs that a spend makes. */
const SPEND_OUTPUTS = 2;

export interface TokenOperationsParts {
  readonly rpc: LightRpc;
  readonly random: Sfc32;
  readonly wallets: readonly Keypair[];
  readonly trees: StateTrees;
  readonly token: TokenMint;
}

interface Inputs {
  /** Signer: the owner or the delegate. */
  readonly signer: Keypair;
  readonly accounts: ParsedTokenAccount[];
  readonly isDelegated: boolean;
}

/**
 * Random mints, transfers, delegations, merges and ways into and out of ordinary token accounts, each a transaction. Like those of lamports
 * they spend accounts of V2 trees only.
 */
export function createTokenOperations(parts: TokenOperationsParts): Operation {
  const { rpc, random, wallets, trees, token } = parts;
  const { mint } = token;
  const pick = <T>(list: readonly T[]): T => list[random.below(list.length)] as T;
  const amountOf = (accounts: readonly ParsedTokenAccount[]) =>
    accounts.reduce((sum, { parsed }) => sum + BigInt(parsed.amount.toString()), 0n);
  const part = (total: bigint) =>
    bn((random.below(4) === 0 ? total : 1n + (total * BigInt(random.below(100))) / 101n).toString());

  async function inputs(): Promise<Inputs | null> {
    const signer = pick(wallets);
    const isDelegated = random.below(4) === 0;
    const { items } = isDelegated
      ? await rpc.getCompressedTokenAccountsByDelegate(signer.publicKey, { mint })
      : await rpc.getCompressedTokenAccountsByOwner(signer.publicKey, { mint });
    const first = pick(items);
    if (first === undefined) return null;
    const alike = items.filter(
      ({ compressedAccount, parsed }) =>
        compressedAccount.treeInfo.treeType === TreeType.StateV2 &&
        parsed.owner.equals(first.parsed.owner) &&
        (parsed.delegate !== null) === isDelegated &&
        !parsed.amount.isZero(),
    );
    const accounts = alike.slice(0, random.between(1, MAX_INPUTS));
    const [one] = accounts;
    return one && trees.hasRoom(one.compressedAccount.treeInfo, SPEND_OUTPUTS)
      ? { signer, accounts, isDelegated }
      : null;
  }

  /** From the mint's authority, or out of an ordinary account. */
  async function create(): Promise<Landed> {
    const v2 = trees.withRoom(MAX_RECIPIENTS);
    const isV1 = v2.length === 0 || random.below(2) === 0;
    const outputStateTreeInfo = pick(isV1 ? trees.v1 : v2);
    const to = Array.from({ length: random.between(1, MAX_RECIPIENTS) }, () => pick(wallets).publicKey);
    const amount = to.map(() => random.between(1, 1_000_000));
    const [payer, tokenPoolInfo] = [pick(wallets), await token.pool()];
    const common = { mint, toPubkey: to, toAddress: to, amount, outputStateTreeInfo, tokenPoolInfo };
    const { value } = await rpc.getTokenAccountBalance(token.accountOf(payer.publicKey));
    // The program puts what comes from ordinary accounts into V2 trees only.
    const isMint = isV1 || BigInt(value.amount) < amount.reduce((sum, each) => sum + BigInt(each), 0n);
    const { publicKey } = payer;
    const instruction = isMint
      ? await CompressedTokenProgram.mintTo({ ...common, feePayer: publicKey, authority: token.authority.publicKey })
      : await CompressedTokenProgram.compress({
          ...common,
          payer: publicKey,
          owner: publicKey,
          source: token.accountOf(publicKey),
        });
    const kind = `${isMint ? 'mintTo' : 'compress'}${isV1 ? 'V1' : 'V2'}`;
    const landed = await send(rpc, {
      kind,
      instructions: [instruction],
      payer,
      signers: isMint ? [token.authority] : [],
    });
    trees.take(outputStateTreeInfo, to.length);
    return landed;
  }

  async function spending(
    chosen: Inputs,
    proof: ValidityProofWithContext,
  ): Promise<[string, TransactionInstruction[]]> {
    const { signer, accounts, isDelegated } = chosen;
    const common = {
      payer: signer.publicKey,
      inputCompressedTokenAccounts: accounts,
      amount: part(amountOf(accounts)),
      recentInputStateRootIndices: proof.rootIndices,
      recentValidityProof: proof.compressedProof,
      mint,
      owner: signer.publicKey,
      toAddress: pick(wallets).publicKey,
    };
    const kinds = isDelegated ? ['transfer', 'decompress'] : ['transfer', 'transfer', 'decompress', 'approve', 'merge'];
    const kind = pick(kinds);
    const suffix = isDelegated ? 'Delegated' : '';
    if (kind === 'transfer') return [`transfer${suffix}`, [await CompressedTokenProgram.transfer(common)]];
    if (kind === 'approve') return ['approve', [await CompressedTokenProgram.approve(common)]];
    if (kind === 'merge') return ['merge', await CompressedTokenProgram.mergeTokenAccounts(common)];
    const toAddress = token.accountOf(common.toAddress);
    const pools = [await token.pool()];
    return [
      `decompress${suffix}`,
      [await CompressedTokenProgram.decompress({ ...common, toAddress, tokenPoolInfos: pools })],
    ];
  }

  async function revoke(): Promise<Landed | null> {
    const owner = pick(wallets);
    const { items } = await rpc.getCompressedTokenAccountsByOwner(owner.publicKey, { mint });
    const one = items.find(({ parsed }) => parsed.delegate !== null);
    if (one === undefined || !trees.withRoom(1).some(({ tree }) => tree.equals(one.compressedAccount.treeInfo.tree)))
      return null;
    const proof = await rpc.getValidityProof([bn(one.compressedAccount.hash)]);
    const instruction = await CompressedTokenProgram.revoke({
      payer: owner.publicKey,
      inputCompressedTokenAccounts: [one],
      recentInputStateRootIndices: proof.rootIndices,
      recentValidityProof: proof.compressedProof,
    });
    trees.take(one.compressedAccount.treeInfo, 1);
    return send(rpc, { kind: 'revoke', instructions: [instruction], payer: owner });
  }

  return async () => {
    const draw = random.below(10);
    if (draw === 0) return [(await revoke()) ?? (await create())];
    const chosen = draw < 7 ? await inputs() : null;
    if (chosen === null) return [await create()];
    const proof = await rpc.getValidityProof(
      chosen.accounts.map(({ compressedAccount }) => bn(compressedAccount.hash)),
    );
    const [kind, instructions] = await spending(chosen, proof);
    const tree = chosen.accounts[0]?.compressedAccount.treeInfo;
    if (tree) trees.take(tree, SPEND_OUTPUTS);
    return [await send(rpc, { kind, instructions, payer: chosen.signer })];
  };
}
