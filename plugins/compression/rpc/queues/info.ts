import { Type } from '@sinclair/typebox';
import { sql } from 'kysely';
import type { RpcMethod } from '../../../../src/kernel/plugin.ts';
import { encode32 } from '../../../../src/lib/base58.ts';
import { equalBytes } from '../../../../src/lib/equal-bytes.ts';
import { TREE_TYPE } from '../../../../src/solana/compression/events.ts';
import { readAtOneSlot } from '../../store/snapshot-read.ts';
import type { Db, TreeRow } from '../../store/tables.ts';
import { key32, listOf, optional } from '../fields.ts';
import { type MethodParts, plainMethod, requireIndexed, requireSlot } from '../method.ts';
import { NO_KEY } from '../records/account.ts';
import { key } from '../records/schemas.ts';

/** Types of queues as the protocol numbers them. */
const QUEUE_TYPE = { input: 3, address: 4, output: 5 } as const;

/** getQueueInfo: how much waits in the queues of V2 trees. */
export const getQueueInfo = ({ store, slots }: Pick<MethodParts, 'store' | 'slots'>): RpcMethod =>
  plainMethod(slots, {
    name: 'getQueueInfo',
    summary: 'Sizes of the queues of V2 trees',
    fields: { trees: optional(listOf(key32('Merkle tree'), { items: 'trees' })) },
    result: Type.Object({
      queues: Type.Array(
        Type.Object({
          tree: key('Merkle tree'),
          queue: key('its queue'),
          queueType: Type.Integer({ description: '3 nullifiers, 4 addresses, 5 outputs' }),
          queueSize: Type.Integer({ minimum: 0 }),
        }),
      ),
      slot: Type.Integer({ description: 'newest indexed slot' }),
    }),
    async run({ trees, minContextSlot }) {
      const { slot, value } = await readAtOneSlot(store, async (db, slot) => {
        requireIndexed(slot);
        requireSlot(slot, minContextSlot);
        return await queueSizes(db, trees);
      });
      slots.saw(slot);
      return { queues: value, slot };
    },
  });

async function queueSizes(db: Db, keys: readonly Uint8Array[] | null) {
  const trees = await db
    .selectFrom('compression_trees')
    .select(['id', 'key', 'queue', 'type'])
    .where('type', 'in', [TREE_TYPE.stateV2, TREE_TYPE.addressV2])
    .execute();
  const wanted = trees
    .filter(({ key }) => keys === null || keys.some((one) => equalBytes(one, key)))
    .sort((a, b) => Buffer.compare(a.key, b.key));
  const sizes = [];
  for (const tree of wanted) {
    for (const [queueType, queueSize] of await sizesOf(db, tree)) {
      const queue = tree.queue === null ? NO_KEY : encode32(tree.queue);
      sizes.push({ tree: encode32(tree.key), queue, queueType, queueSize });
    }
  }
  return sizes;
}

async function sizesOf(
  db: Db,
  { id, type }: Pick<TreeRow, 'id' | 'type'>,
): Promise<readonly (readonly [number, number])[]> {
  if (type === TREE_TYPE.addressV2) {
    const entries = db.selectFrom('compression_address_queue').where('tree', '=', id);
    return [[QUEUE_TYPE.address, await sizeOf(entries.select(sql<number>`count(*)`.as('size')))]];
  }
  const accounts = db
    .selectFrom('compression_accounts')
    .select(sql<number>`count(*)`.as('size'))
    .where('tree', '=', id);
  return [
    // Constants of the text, so that the partial indexes are found.
    [QUEUE_TYPE.input, await sizeOf(accounts.where(sql<boolean>`nullifier_index is not null and nullified = 0`))],
    [QUEUE_TYPE.output, await sizeOf(accounts.where(sql<boolean>`queued = 1`))],
  ];
}

async function sizeOf(query: { executeTakeFirstOrThrow(): Promise<{ readonly size: number }> }): Promise<number> {
  return Number((await query.executeTakeFirstOrThrow()).size);
}
