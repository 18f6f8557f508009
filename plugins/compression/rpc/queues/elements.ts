import { Type } from '@sinclair/typebox';
import { JsonText, type RpcMethod } from '../../../../src/kernel/plugin.ts';
import { encode32 } from '../../../../src/lib/base58.ts';
import { TREE_TYPE } from '../../../../src/solana/compression/events.ts';
import { requireProvable } from '../../proofs/refusal.ts';
import type { Db, TreeRow } from '../../store/tables.ts';
import { invalid, notFound } from '../errors.ts';
import { key32 } from '../fields.ts';
import { plainMethod } from '../method.ts';
import { type ProofParts, provenAtOneSlot } from '../proofs/text-method.ts';
import { addressQueueText, emptyAddressQueue, readAddressQueue } from './address-queue.ts';
import { type QueueWish, queueWish } from './fields.ts';
import { addressQueueSchema, stateQueueSchema } from './schemas.ts';
import { readStateQueues, stateQueueText } from './state-queues.ts';

const STATE_BATCH = 500;
const ADDRESS_BATCH = 250;

interface Wishes {
  readonly outputQueue: QueueWish | null;
  readonly inputQueue: QueueWish | null;
  readonly addressQueue: QueueWish | null;
}

/** getQueueElements: what foresters make their batches of. */
export const getQueueElements = (parts: ProofParts): RpcMethod =>
  plainMethod(parts.slots, {
    name: 'getQueueElements',
    summary: 'Elements that wait in the queues of a tree, with the nodes that are needed to append or to nullify them',
    fields: {
      tree: key32('Merkle tree'),
      outputQueue: queueWish('accounts to be appended', STATE_BATCH),
      inputQueue: queueWish('accounts to be nullified', STATE_BATCH),
      addressQueue: queueWish('addresses to be appended', ADDRESS_BATCH),
    },
    result: Type.Object({
      context: Type.Object({ slot: Type.Integer() }),
      stateQueue: Type.Optional(stateQueueSchema()),
      addressQueue: Type.Optional(addressQueueSchema()),
    }),
    async run({ tree: key, minContextSlot, ...wishes }) {
      if (wishes.outputQueue === null && wishes.inputQueue === null && wishes.addressQueue === null)
        throw invalid('At least one queue must be requested');
      const { slot, value } = await provenAtOneSlot(parts, minContextSlot, (db) => read(parts, db, key, wishes));
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

async function read({ proofs }: ProofParts, db: Db, key: Uint8Array, wishes: Wishes) {
  const stored = await db.selectFrom('compression_trees').selectAll().where('key', '=', key).executeTakeFirst();
  const unseen = stored === undefined ? proofs.unseen.find(key) : null;
  const tree = stored ?? unseen?.tree;
  if (tree === undefined) throw notFound('Tree not found');
  const { outputQueue: output, inputQueue: input, addressQueue } = wishes;
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
