import type { Bank, OldBranch } from './bank.ts';
import { createChainState } from './chain-state.ts';
import { newPending } from './pending.ts';

/** The chain as it is now, kept apart from what happens to it. Only blocks and their transactions are: accounts are not. */
export function keepBranch(bank: Bank, times: number): OldBranch {
  const [first, ...rest] = bank.state.blocks();
  if (first === undefined) throw new TypeError('a chain has a first block');
  const state = createChainState(first, bank.options);
  for (const record of first.records) state.addRecord(record);
  for (const block of rest) {
    state.append(block);
    for (const record of block.records) state.addRecord(record);
  }
  const pending = newPending(bank.pending.slot, bank.pending.time);
  return { bank: { ...bank, state, pending, listeners: new Set() }, times, served: new Map() };
}

/** The bank that answers this call: the old one until it has answered the method often enough. */
export function bankFor(bank: Bank, method: string): Bank {
  const { old } = bank;
  if (old === null) return bank;
  const count = (old.served.get(method) ?? 0) + 1;
  old.served.set(method, count);
  return count <= old.times ? old.bank : bank;
}
