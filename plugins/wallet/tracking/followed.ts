import type { Random, StoreTx } from '../../../src/kernel/plugin.ts';
import { type AddressIndex, createAddressIndex } from '../../../src/solana/address-set.ts';
import type { Db } from '../store/tables.ts';
import { changedWallets } from '../store/wallets.ts';

export interface FollowedWallet {
  /** The number of its address. */
  readonly id: number;
  /** 32 bytes. */
  readonly key: Uint8Array;
}

/** The followed wallets as the blocks are matched against them. */
export interface Followed {
  readonly index: AddressIndex;
  /** By owner number of the index. */
  readonly wallets: readonly FollowedWallet[];
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
  const wallets: FollowedWallet[] = [];
  /** Owner numbers are small: each wallet that was ever seen has one. */
  const owners = new Map<number, number>();
  let known = -1;

  return {
    async at(tx, version) {
      if (version !== known) {
        const changed = await changedWallets(tx.db as Db, known);
        // From here on nothing waits or fails. What is read again stays as it is.
        for (const { id, key, is_followed } of changed) {
          const owner = owners.get(id) ?? wallets.push({ id, key }) - 1;
          owners.set(id, owner);
          if (is_followed === 1) index.add(key, owner);
          else index.remove(key, owner);
        }
        known = version;
      }
      return { index, wallets };
    },
  };
}
