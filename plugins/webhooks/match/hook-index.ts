import type { ChainId } from '../../../src/ports/chain.ts';
import type { Random } from '../../../src/ports/clock.ts';
import { type AddressIndex, createAddressIndex } from '../../../src/solana/address-set.ts';
import { chainOf, type Webhook } from '../model/webhook.ts';

/** The webhooks as the block loop knows them, with one address index per chain. */
export interface HookIndex {
  /** Of a webhook by its number; undefined when it was deleted. */
  hook(number: number): Webhook | undefined;
  addresses(chain: ChainId): AddressIndex;
  /** Puts the new state of a webhook in (null: deleted) and moves its addresses. */
  apply(number: number, hook: Webhook | null, removed: readonly Uint8Array[], added: readonly Uint8Array[]): void;
  /** Number of webhooks. */
  size(): number;
}

const SEED_BYTES = 32;

export function createHookIndex(random: Random): HookIndex {
  const hooks = new Map<number, Webhook>();
  const newIndex = () => {
    const bytes = Uint8Array.from(random.bytes(SEED_BYTES));
    return createAddressIndex({ seed: new Uint32Array(bytes.buffer) });
  };
  const indexes: Readonly<Record<ChainId, AddressIndex>> = { main: newIndex(), devnet: newIndex() };

  return {
    hook: (number) => hooks.get(number),
    addresses: (chain) => indexes[chain],
    size: () => hooks.size,
    apply(number, hook, removed, added) {
      const before = hooks.get(number);
      if (before !== undefined) for (const key of removed) indexes[chainOf(before.type)].remove(key, number);
      if (hook === null) {
        hooks.delete(number);
        return;
      }
      hooks.set(number, hook);
      for (const key of added) indexes[chainOf(hook.type)].add(key, number);
    },
  };
}
