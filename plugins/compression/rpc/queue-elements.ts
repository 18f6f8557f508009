import { type TSchema, Type } from '@sinclair/typebox';
import { sql } from 'kysely';
import { encode32 } from '../../../src/lib/base58.ts';
import { equalBytes } from '../../../src/lib/bytes.ts';
import { JsonText, type RpcMethod } from '../../../src/plugin/plugin.ts';
import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import { EXAMPLES } from '../../../src/solana/schemas.ts';
import { type CompressionDb, readAtOneSlot, type TreeRow } from '../store/tables.ts';
import { invalid, key32, listField, optional, recordNotFound } from './fields.ts';
import { type MethodParts, plainMethod, requireIndexed, requireSlot } from './method.ts';
import { requireProvable } from './path-reader.ts';
import { type ProofParts, provenAtOneSlot } from './proofs.ts';
import {
  addressQueueText,
  emptyAddressQueue,
  type QueueQuery,
  queueWish,
  readAddressQueue,
  readStateQueues,
  stateQueueText,
} from './queues.ts';
import { key, NO_KEY } from './records.ts';

const STATE_BATCH = 500;
const ADDRESS_BATCH = 250;

interface QueueQueries {
  readonly outputQueue: QueueQuery | null;
  readonly inputQueue: QueueQuery | null;
  readonly addressQueue: QueueQuery | null;
}

/** getQueueElements: the input of foresters for their batches. */
export const getQueueElements = (parts: ProofParts): RpcMethod =>
  plainMethod(parts.slots, {
    name: 'getQueueElements',
    errors: ['notFound'],
    summary: 'Elements that wait in the queues of a tree, with the nodes that are needed to append or to nullify them',
    fields: {
      tree: key32('Merkle tree'),
      outputQueue: queueWish('accounts to be appended', STATE_BATCH),
      inputQueue: queueWish('accounts to be nullified', STATE_BATCH),
      addressQueue: queueWish('addresses to be appended', ADDRESS_BATCH),
    },
    example: { tree: EXAMPLES.hash, outputQueue: { limit: 100 } },
    result: Type.Object({
      context: Type.Object(
        { slot: Type.Integer({ description: 'newest indexed slot', examples: [381_204_511] }) },
        { description: 'state of the index that was read' },
      ),
      stateQueue: Type.Optional(stateQueueSchema()),
      addressQueue: Type.Optional(addressQueueSchema()),
    }),
    async run({ tree: key, minContextSlot, ...queries }) {
      if (queries.outputQueue === null && queries.inputQueue === null && queries.addressQueue === null)
        throw invalid('At least one queue must be requested');
      const { slot, value } = await provenAtOneSlot(parts, minContextSlot, (db) => read(parts, db, key, queries));
      const { hashing } = parts.proofs;
      const state = value.state === null ? null : await stateQueueText(value.state, hashing);
      const address = value.address === null ? null : await addressQueueText(value.address, hashing);
      const members = [
        `"context":{"slot":${slot}}`,
        ...(state === null ? [] : [`"stateQueue":${state}`]),
        ...(address === null ? [] : [`"addressQueue":${address}`]),
      ];
      return new JsonText(`{${members.join(',')}}`);
    },
  });

async function read({ proofs }: ProofParts, db: CompressionDb, key: Uint8Array, queries: QueueQueries) {
  const stored = await db.selectFrom('compression_trees').selectAll().where('key', '=', key).executeTakeFirst();
  const unseen = stored === undefined ? proofs.unseen.find(key) : null;
  const tree = stored ?? unseen?.tree;
  if (tree === undefined) throw recordNotFound('Tree not found');
  const { outputQueue: output, inputQueue: input, addressQueue } = queries;
  if (output !== null || input !== null) requireKind(tree, TREE_TYPE.stateV2, 'a state tree with queues');
  if (addressQueue !== null) requireKind(tree, TREE_TYPE.addressV2, 'an address tree with a queue');
  requireProvable(tree);
  if (unseen !== null) {
    const address = addressQueue === null ? null : emptyAddressQueue(addressQueue, unseen);
    return { state: null, address };
  }
  return {
    state: output === null && input === null ? null : await readStateQueues(db, proofs.reader, tree, { output, input }),
    address: addressQueue === null ? null : await readAddressQueue(db, proofs.reader, tree, addressQueue),
  };
}

function requireKind({ key, type }: TreeRow, wanted: number, what: string): void {
  if (type !== wanted) throw invalid(`Tree ${encode32(key)} is not ${what}`);
}

const keys = (description: string) => Type.Array(key(description), { description });
const whole = (description: string) => Type.Integer({ minimum: 0, description, examples: [120] });
const integers = (description: string) => Type.Array(whole('number'), { description });
const nodes = () =>
  Type.Array(
    Type.Object({
      index: Type.Integer({ description: 'level << 56 | position, bare digits', examples: [120] }),
      hash: key('node'),
    }),
    { description: 'leaves, siblings and ancestors, by index' },
  );

const accounts = () => ({
  leafIndices: integers('leaves'),
  accountHashes: keys('account'),
  leaves: keys('what the leaf is now'),
  firstQueueIndex: whole('index of the first element in the queue'),
  leavesHashChains: keys('one of each batch'),
});

const stateQueueSchema = (): TSchema =>
  Type.Object(
    {
      nodes: Type.Optional(nodes()),
      initialRoot: key('root'),
      rootSeq: whole('sequence number of the root'),
      outputQueue: Type.Optional(
        Type.Object(
          { ...accounts(), nextIndex: whole('leaf of the next account') },
          { description: 'accounts to append' },
        ),
      ),
      inputQueue: Type.Optional(
        Type.Object(
          { ...accounts(), txHashes: keys('hash of the transaction'), nullifiers: keys('nullifier') },
          { description: 'accounts to nullify' },
        ),
      ),
    },
    { description: 'queues of a state tree' },
  );

const addressQueueSchema = (): TSchema =>
  Type.Object(
    {
      addresses: keys('address'),
      queueIndices: integers('places in the queue'),
      nodes: nodes(),
      lowElementIndices: integers('leaves of the elements below'),
      lowElementValues: keys('element below'),
      lowElementNextIndices: integers('leaves of the elements above'),
      lowElementNextValues: keys('element above'),
      leavesHashChains: keys('one of each batch'),
      initialRoot: key('root'),
      startIndex: whole('leaf of the next address'),
      subtrees: keys('last node at an even position of each level'),
      rootSeq: whole('sequence number of the root'),
    },
    { description: 'queue of an address tree' },
  );

/** Types of queues as the protocol numbers them. */
const QUEUE_TYPE = { input: 3, address: 4, output: 5 } as const;

/** getQueueInfo: how much waits in the queues of V2 trees. */
export const getQueueInfo = ({ store, slots }: Pick<MethodParts, 'store' | 'slots'>): RpcMethod =>
  plainMethod(slots, {
    name: 'getQueueInfo',
    summary: 'Sizes of the queues of V2 trees',
    fields: { trees: optional(listField(key32('Merkle tree'), { items: 'trees' })) },
    result: Type.Object({
      queues: Type.Array(
        Type.Object({
          tree: key('Merkle tree'),
          queue: key('its queue'),
          queueType: Type.Integer({ description: '3 nullifiers, 4 addresses, 5 outputs', examples: [5] }),
          queueSize: whole('elements that wait'),
        }),
        { description: 'the queues' },
      ),
      slot: Type.Integer({ description: 'newest indexed slot', examples: [381_204_511] }),
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

async function queueSizes(db: CompressionDb, keys: readonly Uint8Array[] | null) {
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
  db: CompressionDb,
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
    // Constants in the text, so that partial indexes are used.
    [QUEUE_TYPE.input, await sizeOf(accounts.where(sql<boolean>`nullifier_index is not null and nullified = 0`))],
    [QUEUE_TYPE.output, await sizeOf(accounts.where(sql<boolean>`queued = 1`))],
  ];
}

async function sizeOf(query: { executeTakeFirstOrThrow(): Promise<{ readonly size: number }> }): Promise<number> {
  return Number((await query.executeTakeFirstOrThrow()).size);
}
