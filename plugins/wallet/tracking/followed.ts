import type { Random, StoreTx } from '../../../src/kernel/plugin.ts';
import { type AddressIndex, createAddressIndex } from '../../../src/solana/address-set.ts';
import type { Db } from '../store/tables.ts';
import { changedWallets } from '../store/wallets.ts';

/** The followed wallets as the blocks are matched against them. */
export interface Followed {
  readonly index: AddressIndex;
  /** 32 bytes of a wallet by its number. */
  readonly keys: ReadonlyMap<number, Uint8Array>;
}

/** Keeps them equal to the store, whichever process changes it. */
export interface FollowedSync {
  /** `version` is that of the store. Errors: of the store. */
  at(tx: StoreTx, version: number): Promise<Followed>;
}

const SEED_BYTES = 16;

export function createFollowedSync(random: Random): FollowedSync {
  const seed = new Uint32Array(random.bytes(SEED_BYTES).slice().buffer);
  const index = createAddressIndex({ seed });
  const keys = new Map<number, Uint8Array>();
  let known = -1;

  return {
    async at(tx, version) {
      if (version !== known) {
        const changed = await changedWallets(tx.db as Db, known);
        // From here on nothing waits or fails. What is read again stays as it is.
        for (const { id, key, is_followed } of changed) {
          if (is_followed === 1) {
            index.add(key, id);
            keys.set(id, key);
          } else {
            index.remove(key, id);
            keys.delete(id);
          }
        }
        known = version;
      }
      return { index, keys };
    },
  };
}
