import type { ContextConfig } from '../encode/params.ts';
import { RPC, rpcError } from '../encode/rpc-error.ts';
import type { Bank, Submission } from '../ledger/bank.ts';
import type { Commitment, LedgerBlock } from '../ledger/types.ts';
import { type AccountView, slotOf, viewAt } from '../ledger/views.ts';
import type { DecodedTransaction } from '../vm/transaction.ts';

/** The only place where the simulator identifies itself: no client can mistake it for a validator. */
export const API_VERSION = '0.0.0-parhelion-local';

/** Dependencies of the methods. */
export interface LocalNode {
  readonly bank: Bank;
  readonly genesisHash: string;
  /** No slot timer: each transaction makes its block, and time does not pass in between. */
  readonly sealsEach: boolean;
  /** Runs a transaction and, without a slot timer, seals its block. */
  submit(transaction: DecodedTransaction): Submission;
  /** A real transfer from the faucet; returns its signature. */
  airdrop(address: string, lamports: bigint): string;
}

/** A method gets the caller's params, `undefined` when not sent, and returns plain data (bigints allowed). */
export type Method = (node: LocalNode, params: unknown) => unknown;
export type Methods = Readonly<Record<string, Method>>;

export interface Answer<T> {
  readonly context: { readonly slot: number; readonly apiVersion: string };
  readonly value: T;
}

export function inContext<T>(slot: number, value: T): Answer<T> {
  return { context: { slot, apiVersion: API_VERSION }, value };
}

/** The state of the chain for a call: a node's bank at the requested commitment. */
export interface BankView {
  readonly commitment: Commitment;
  readonly slot: number;
  /** The newest block at or below `slot`: its hash is the newest that transactions may use there. */
  readonly block: LedgerBlock;
  /** Blocks up to the slot, including the one under construction. */
  readonly height: number;
  readonly accounts: AccountView;
}

/** Newest bank of the requested commitment (default `finalized`), checked against `minContextSlot`. Throws -32016. */
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
 * The bank for blockhashes and simulations. Without a slot timer waiting never makes a block final, so the newest
 * block is used, at the slot of the requested commitment.
 */
export function sendingBank(node: LocalNode, config: ContextConfig | undefined): BankView {
  const asked = bankOf(node, config);
  if (!node.sealsEach || asked.commitment !== 'finalized') return asked;
  return { ...bankOf(node, { commitment: 'confirmed' }), slot: asked.slot };
}

/** Newest slot of the requested commitment, checked against `minContextSlot`. Throws -32016. */
export function contextSlot(node: LocalNode, config: ContextConfig | undefined): number {
  const slot = slotOf(node.bank, config?.commitment ?? 'finalized');
  const wanted = config?.minContextSlot;
  if (wanted !== undefined && wanted > slot) {
    throw rpcError(RPC.minContextSlot, 'Minimum context slot has not been reached', { contextSlot: slot });
  }
  return slot;
}
