import { type TSchema, Type } from '@sinclair/typebox';
import { key } from '../records/schemas.ts';

const keys = (description: string) => Type.Array(key(description));
const integers = (description: string) => Type.Array(Type.Integer({ minimum: 0 }), { description });
const nodes = () =>
  Type.Array(
    Type.Object({ index: Type.Integer({ description: 'level << 56 | position, bare digits' }), hash: key('node') }),
    { description: 'leaves, siblings and ancestors, by index' },
  );

const accounts = () => ({
  leafIndices: integers('leaves'),
  accountHashes: keys('account'),
  leaves: keys('what the leaf is now'),
  firstQueueIndex: Type.Integer(),
  leavesHashChains: keys('one of each batch'),
});

export const stateQueueSchema = (): TSchema =>
  Type.Object({
    nodes: Type.Optional(nodes()),
    initialRoot: key('root'),
    rootSeq: Type.Integer(),
    outputQueue: Type.Optional(Type.Object({ ...accounts(), nextIndex: Type.Integer() })),
    inputQueue: Type.Optional(
      Type.Object({ ...accounts(), txHashes: keys('hash of the transaction'), nullifiers: keys('nullifier') }),
    ),
  });

export const addressQueueSchema = (): TSchema =>
  Type.Object({
    addresses: keys('address'),
    queueIndices: integers('places in the queue'),
    nodes: nodes(),
    lowElementIndices: integers('leaves of the elements below'),
    lowElementValues: keys('element below'),
    lowElementNextIndices: integers('leaves of the elements above'),
    lowElementNextValues: keys('element above'),
    leavesHashChains: keys('one of each batch'),
    initialRoot: key('root'),
    startIndex: Type.Integer({ description: 'leaf of the next address' }),
    subtrees: keys('last node at an even position of each level'),
    rootSeq: Type.Integer(),
  });
