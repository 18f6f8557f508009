import type { Bank, Submission } from '../ledger/bank.ts';
import type { Commitment } from '../ledger/types.ts';
import { type AccountView, slotOf, viewAt } from '../ledger/views.ts';
import type { DecodedTransaction } from '../vm/transaction.ts';
import { type Config, checkMinContextSlot, commitmentOf } from './params.ts';

/** The one place where the simulator says what it is: no client can take this for a validator. */
export const API_VERSION = '0.0.0-parhelion-local';

/** What the methods work on. */
export interface LocalNode {
  readonly bank: Bank;
  readonly genesisHash: string;
  /** Runs a transaction and, without a slot timer, seals its block. */
  submit(transaction: DecodedTransaction): Submission;
  /** A real transfer from the faucet; answers its signature. */
  airdrop(address: string, lamports: bigint): string;
}

/** A method gets what its caller sent and answers plain data (bigints allowed). */
export type Method = (node: LocalNode, params: readonly unknown[]) => unknown;
export type Methods = Readonly<Record<string, Method>>;

export interface Answer<T> {
  readonly context: { readonly slot: number; readonly apiVersion: string };
  readonly value: T;
}

export function inContext<T>(slot: number, value: T): Answer<T> {
  return { context: { slot, apiVersion: API_VERSION }, value };
}

/** Newest slot of the asked commitment, checked against `minContextSlot`. */
export function contextSlot(node: LocalNode, config: Config): number {
  const slot = slotOf(node.bank, commitmentOf(config));
  checkMinContextSlot(config, slot);
  return slot;
}

export function accountsFor(node: LocalNode, config: Config): AccountView {
  const commitment: Commitment = commitmentOf(config);
  return viewAt(node.bank, contextSlot(node, config), commitment !== 'processed');
}
