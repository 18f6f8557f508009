import type { ContextConfig } from '../encode/params.ts';
import { RPC, rpcError } from '../encode/rpc-error.ts';
import type { Bank, Submission } from '../ledger/bank.ts';
import type { Commitment, LedgerBlock } from '../ledger/types.ts';
import { type AccountView, slotOf, viewAt } from '../ledger/views.ts';
import type { DecodedTransaction } from '../vm/transaction.ts';

/** The one place where the simulator says what it is: no client can take this for a validator. */
export const API_VERSION = '0.0.0-parhelion-local';

/** What the methods work on. */
export interface LocalNode {
  readonly bank: Bank;
  readonly genesisHash: string;
  /** No slot timer: each transaction makes its block, and time does not pass for those who wait. */
  readonly sealsEach: boolean;
  /** Runs a transaction and, without a slot timer, seals its block. */
  submit(transaction: DecodedTransaction): Submission;
  /** A real transfer from the faucet; answers its signature. */
  airdrop(address: string, lamports: bigint): string;
}

/** A method gets what its caller sent, `undefined` where it sent no parameters, and answers plain data (bigints allowed). */
export type Method = (node: LocalNode, params: unknown) => unknown;
export type Methods = Readonly<Record<string, Method>>;

export interface Answer<T> {
  readonly context: { readonly slot: number; readonly apiVersion: string };
  readonly value: T;
}

export function inContext<T>(slot: number, value: T): Answer<T> {
  return { context: { slot, apiVersion: API_VERSION }, value };
}

/** The state of the chain that a call is answered from: a node's bank at the asked commitment. */
export interface BankView {
  readonly commitment: Commitment;
  readonly slot: number;
  /** The newest block at or below `slot`: its hash is the newest that transactions may name there. */
  readonly block: LedgerBlock;
  /** Blocks up to the slot, the one under construction counted. */
  readonly height: number;
  readonly accounts: AccountView;
}

/** Newest bank of the asked commitment (default `finalized`), checked against `minContextSlot`. Throws -32016. */
export function bankOf(node: LocalNode, config: ContextConfig | undefined): BankView {
  const commitment = config?.commitment ?? 'finalized';
  const slot = contextSlot(node, config);
  const { state } = node.bank;
  const sealed = state.block(slot);
  const block = sealed ?? state.tip();
  return {
    commitment,
    slot,
    block,
    height: sealed === undefined ? block.height + 1 : block.height,
    accounts: viewAt(node.bank, slot, commitment !== 'processed'),
  };
}

/**
 * The bank for blockhashes and trial runs. Without a slot timer no wait would ever make a block final, so there the newest
 * block counts, at the slot of the asked commitment.
 */
export function sendingBank(node: LocalNode, config: ContextConfig | undefined): BankView {
  const asked = bankOf(node, config);
  if (!node.sealsEach || asked.commitment !== 'finalized') return asked;
  return { ...bankOf(node, { commitment: 'confirmed' }), slot: asked.slot };
}

/** Newest slot of the asked commitment, checked against `minContextSlot`. Throws -32016. */
export function contextSlot(node: LocalNode, config: ContextConfig | undefined): number {
  const slot = slotOf(node.bank, config?.commitment ?? 'finalized');
  const wanted = config?.minContextSlot;
  if (wanted !== undefined && wanted > slot) {
    throw rpcError(RPC.minContextSlot, 'Minimum context slot has not been reached', { contextSlot: slot });
  }
  return slot;
}
