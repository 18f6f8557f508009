import { Type } from '@sinclair/typebox';
import type { ChainReader } from '../../../../src/kernel/plugin.ts';
import { encode32 } from '../../../../src/lib/base58.ts';
import type { Db } from '../../store/tables.ts';
import type { NewTree } from '../../trees/tree-source.ts';
import { unavailable } from '../errors.ts';
import { type MethodFactory, plainMethod, requireIndexed } from '../method.ts';

/** Slots that the index may be behind the chain. */
const MOST_LAG_SLOTS = 20;

export interface HealthParts {
  readonly chain: ChainReader | null;
  /** Trees that must be provable. */
  readonly trees: readonly NewTree[];
}

/** getIndexerHealth */
export const getIndexerHealth =
  ({ chain, trees }: HealthParts): MethodFactory =>
  ({ store, slots }) =>
    plainMethod(slots, {
      name: 'getIndexerHealth',
      summary:
        '"ok", or an error that tells what is wrong: the index is behind the chain, or a well-known tree cannot be proved',
      fields: {},
      result: Type.Literal('ok'),
      run: async () => {
        const slot = await slots.newest();
        requireIndexed(slot);
        const tip = chain?.status().tipSlot ?? null;
        if (chain !== null && tip === null) throw unavailable('the slot of the chain is not known');
        const lagSlots = (tip ?? slot) - slot;
        if (lagSlots > MOST_LAG_SLOTS) throw unavailable(`Node is behind ${lagSlots} slots`);
        const refused = await (store.read as Db)
          .selectFrom('compression_trees')
          .select(['key', 'status'])
          .where('status', 'in', ['gap', 'diverged'])
          .where('key', 'in', [...trees.map(({ key }) => key)])
          .orderBy('id')
          .executeTakeFirst();
        if (refused !== undefined)
          throw unavailable(`Merkle tree ${encode32(refused.key)} is in the state ${refused.status}`);
        return 'ok';
      },
    });
