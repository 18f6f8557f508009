import { Type } from '@sinclair/typebox';
import { JsonText } from '../../../../src/kernel/plugin.ts';
import { pathsOfAccounts } from '../../proofs/account-paths.ts';
import type { Proofs } from '../../proofs/index.ts';
import { key32, listOf } from '../fields.ts';
import { compressionMethod, type MethodFactory } from '../method.ts';
import type { RecordVersion } from '../records/account.ts';
import { accountProofSchema } from './schemas.ts';

/** getMultipleCompressedAccountProofs and its V2. */
export const getMultipleCompressedAccountProofs = (proofs: Proofs, version: RecordVersion): MethodFactory =>
  compressionMethod({
    name: version === 1 ? 'getMultipleCompressedAccountProofs' : 'getMultipleCompressedAccountProofsV2',
    summary: 'Merkle proofs of up to 1000 compressed accounts, in the order asked for',
    fields: { hashes: listOf(key32('hash'), { items: 'hashes', empty: 'No hashes provided' }) },
    bare: 'hashes',
    result: Type.Array(accountProofSchema(version)),
    run: async ({ hashes }, { db }) => {
      const paths = await pathsOfAccounts(db, proofs.reader, hashes, version === 1 ? 'leaf' : 'account');
    },
  });
