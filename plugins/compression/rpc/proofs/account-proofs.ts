import { Type } from '@sinclair/typebox';
import type { RpcMethod } from '../../../../src/kernel/plugin.ts';
import { pathsOfAccounts } from '../../proofs/account-paths.ts';
import { key32, listOf } from '../fields.ts';
import type { RecordVersion } from '../records/account.ts';
import { accountProofSchema } from './schemas.ts';
import { type ProofParts, textMethod } from './text-method.ts';

/** getMultipleCompressedAccountProofs and its V2. */
export const getMultipleCompressedAccountProofs = (parts: ProofParts, version: RecordVersion): RpcMethod =>
  textMethod(parts, {
    name: version === 1 ? 'getMultipleCompressedAccountProofs' : 'getMultipleCompressedAccountProofsV2',
    summary: 'Merkle proofs of up to 1000 compressed accounts, in the order asked for',
    fields: { hashes: listOf(key32('hash'), { items: 'hashes', empty: 'No hashes provided' }) },
    bare: 'hashes',
    result: Type.Array(accountProofSchema(version)),
    run: async ({ hashes }, db) => {
      const { reader, texts } = parts.proofs;
      const paths = await pathsOfAccounts(db, reader, hashes, version === 1 ? 'leaf' : 'account');
      return hashes.map((hash) => {
        // Each has one, or all had been refused.
        const { account, pages } = paths.get(hash)!;
        const proof = { hash, leafIndex: account.leaf_index, tree: account, pages };
        return version === 1 ? texts.plain(proof) : texts.inContext(proof, account.queued === 1);
      });
    },
  });
