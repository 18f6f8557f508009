import { type TSchema, Type } from '@sinclair/typebox';
import type { RecordVersion } from '../records/account.ts';
import { key, treeContextSchema } from '../records/schemas.ts';

const path = () => ({
  proof: Type.Array(key('sibling'), { description: 'siblings bottom-up, as many as the tree has levels' }),
  root: key('root'),
  rootSeq: Type.Integer({ description: 'sequence number of the root; its place on chain is this modulo the capacity' }),
});

export const accountProofSchema = (version: RecordVersion): TSchema =>
  Type.Object({
    ...path(),
    leafIndex: Type.Integer({ minimum: 0 }),
    hash: key('hash of the account'),
    ...(version === 1
      ? { merkleTree: key('Merkle tree') }
      : {
          proveByIndex: Type.Boolean({ description: 'still waits in the output queue' }),
          treeContext: Type.Object(treeContextSchema()),
        }),
  });

export const addressProofSchema = (): TSchema =>
  Type.Object({
    ...path(),
    address: key('address'),
    lowerRangeAddress: key('largest address of the tree below it'),
    higherRangeAddress: key('smallest one above it'),
    nextIndex: Type.Integer({ description: 'leaf of the one above' }),
    lowElementLeafIndex: Type.Integer({ description: 'leaf of the one below' }),
    merkleTree: key('address tree'),
  });
