import { buildAndSignTx, type Rpc } from '@lightprotocol/stateless.js';
import { ComputeBudgetProgram, type Signer, type TransactionInstruction } from '@solana/web3.js';
import { type AgaveNode, untilConfirmed } from '../agave.ts';

const COMPUTE_UNITS = 1_000_000;

/** A transaction that is on the chain. */
export interface Landed {
  /** What it was meant to do. */
  readonly kind: string;
  readonly signature: string;
  /** Landed with an error: it changed nothing but the fee. */
  readonly failed: boolean;
}

/** Does one random thing, in a transaction or two. */
export type Operation = () => Promise<readonly Landed[]>;

export interface Sending {
  readonly kind: string;
  readonly instructions: readonly TransactionInstruction[];
  readonly payer: Signer;
  readonly signers?: readonly Signer[];
  /** It has to land with an error. */
  readonly fails?: boolean;
}

/** What a client library needs to read: the library's own, or its test double, which answers the same questions. */
export type LightRpc = Pick<
  Rpc,
  | 'getLatestBlockhash'
  | 'sendTransaction'
  | 'getSignatureStatuses'
  | 'getCompressedAccountsByOwner'
  | 'getCompressedTokenAccountsByOwner'
  | 'getCompressedTokenAccountsByDelegate'
  | 'getValidityProof'
  | 'getTokenAccountBalance'
>;

/** The library reads at once what it has just sent: with this, what it sends is confirmed and indexed when it returns. */
export function landingRpc(rpc: Rpc, call: AgaveNode['call'], caughtUp: () => Promise<void>): LightRpc {
  return new Proxy(rpc, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (name !== 'sendTransaction') return typeof member === 'function' ? member.bind(target) : member;
      return async (...sent: [never]) => {
        const signature = await rpc.sendTransaction(...sent);
        await untilConfirmed(call, signature, () => rpc.sendTransaction(sent[0], { skipPreflight: true } as never));
        await caughtUp();
        return signature;
      };
    },
  });
}

/**
 * Signs and sends as the client library does, without its fixed waits: a chain that makes a block of each transaction has it at once.
 * Throws when the transaction did not end as it was meant to.
 */
export async function send(
  rpc: LightRpc,
  { kind, instructions, payer, signers = [], fails = false }: Sending,
): Promise<Landed> {
  const { blockhash } = await rpc.getLatestBlockhash();
  const limit = ComputeBudgetProgram.setComputeUnitLimit({ units: COMPUTE_UNITS });
  const others = signers.filter(({ publicKey }) => !publicKey.equals(payer.publicKey));
  const transaction = buildAndSignTx([limit, ...instructions], payer, blockhash, others);
  const signature = await rpc.sendTransaction(transaction, { skipPreflight: fails, preflightCommitment: 'processed' });
  const status = (await rpc.getSignatureStatuses([signature])).value[0];
  if (!status) throw new Error(`${kind}: ${signature} is not on the chain`);
  if ((status.err !== null) !== fails)
    throw new Error(`${kind}: ${signature} ended with ${JSON.stringify(status.err)}`);
  return { kind, signature, failed: fails };
}
