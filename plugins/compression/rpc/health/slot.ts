import { Type } from '@sinclair/typebox';
import { type MethodFactory, plainMethod, requireIndexed } from '../method.ts';

/** getIndexerSlot: from memory, because clients ask ten times a second. */
export const getIndexerSlot = (): MethodFactory => (parts) =>
  plainMethod(parts.slots, {
    name: 'getIndexerSlot',
    summary: 'The newest slot that is indexed',
    fields: {},
    result: Type.Integer({ description: 'slot' }),
    run: async () => {
      const slot = await parts.slots.newest();
      requireIndexed(slot);
      return slot;
    },
  });
