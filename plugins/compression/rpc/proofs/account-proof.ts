import { JsonText, type RpcMethod } from '../../../../src/kernel/plugin.ts';
import { noLeaves } from '../../proofs/account-paths.ts';
import type { Proofs } from '../../proofs/index.ts';
import { isLeaf } from '../../proofs/leaf.ts';
import { notFound } from '../errors.ts';
import { key32 } from '../fields.ts';
import { enveloped, plainMethod, requireIndexed, requireSlot } from '../method.ts';
import type { RecordVersion } from '../records/account.ts';
import type { SlotWatch } from '../slot-watch.ts';
import { accountProofSchema } from './schemas.ts';

/** getCompressedAccountProof and its V2: the siblings of one leaf. Mostly one statement, and no hash is made. */
export const getCompressedAccountProof = (slots: SlotWatch, proofs: Proofs, version: RecordVersion): RpcMethod =>
  plainMethod(slots, {
    name: version === 1 ? 'getCompressedAccountProof' : 'getCompressedAccountProofV2',
    summary: 'Merkle proof of a compressed account: all siblings from its leaf to the newest root of its tree',
    fields: { hash: key32('hash of the account') },
    tolerant: true,
    result: enveloped(accountProofSchema(version)),
    run: ({ hash, minContextSlot }) => proofs.guarded(() => proofOf(slots, proofs, version, hash, minContextSlot)),
  });

async function proofOf(
  slots: SlotWatch,
  { finder, texts }: Proofs,
  version: RecordVersion,
  hash: Uint8Array,
  minContextSlot: number | null,
) {
  const { slot, leaf } = await finder.find(hash);
  requireIndexed(slot);
  requireSlot(slot, minContextSlot);
  slots.saw(slot);
  if (leaf === null) throw version === 1 ? noLeaves(0, 1) : notFound('Account not found');
  // What waits in the output queue is proved by its index, with the path as it stands.
  const isWaiting = version === 2 && leaf.queued;
  if (!isWaiting && !isLeaf(leaf.pages, leaf.leafIndex, hash)) throw noLeaves(0, 1);
  const proof = { ...leaf, hash };
  const value = version === 1 ? texts.plain(proof) : texts.inContext(proof, isWaiting);
  return new JsonText(`{"context":{"slot":${slot}},"value":${value}}`);
}
