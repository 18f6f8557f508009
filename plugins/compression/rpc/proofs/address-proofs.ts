import { Type } from '@sinclair/typebox';
import type { RpcMethod } from '../../../../src/kernel/plugin.ts';
import { decode32 } from '../../../../src/lib/base58.ts';
import { type AskedAddress, pathsOfAddresses } from '../../proofs/address-paths.ts';
import type { Db } from '../../store/tables.ts';
import { key32, listOf, objectOf } from '../fields.ts';
import { addressProofSchema } from './schemas.ts';
import { type ProofParts, textMethod } from './text-method.ts';

/** The tree of methods that name none. */
const FIRST_ADDRESS_TREE = 'amt1Ayt45jfbdw5YSo7iz6WZxUmnZsQTYXy82hVwyC2';

const LIST = { items: 'addresses', empty: 'No addresses provided' };

/** An address with its tree, as params name it. */
export const addressWithTree = () =>
  objectOf({ address: key32('address that is to be new'), tree: key32('address tree') });

/** Addresses of methods that name no tree. */
export function inFirstTree(addresses: readonly Uint8Array[]): readonly AskedAddress[] {
  const tree = decode32(FIRST_ADDRESS_TREE)!;
  return addresses.map((address) => ({ address, tree }));
}

async function proofTexts({ proofs }: ProofParts, db: Db, asked: readonly AskedAddress[]): Promise<readonly string[]> {
  const paths = await pathsOfAddresses(db, proofs, asked);
  return paths.map((path) => proofs.texts.absence(path));
}

export const getMultipleNewAddressProofs = (parts: ProofParts): RpcMethod =>
  textMethod(parts, {
    name: 'getMultipleNewAddressProofs',
    summary: 'Proofs that addresses are not in the first address tree, in the order asked for',
    fields: { addresses: listOf(key32('address'), LIST) },
    bare: 'addresses',
    result: Type.Array(addressProofSchema()),
    run: ({ addresses }, db) => proofTexts(parts, db, inFirstTree(addresses)),
  });

export const getMultipleNewAddressProofsV2 = (parts: ProofParts): RpcMethod =>
  textMethod(parts, {
    name: 'getMultipleNewAddressProofsV2',
    summary: 'Proofs that addresses are not in the address trees named with them, in the order asked for',
    fields: { addresses: listOf(addressWithTree(), LIST) },
    bare: 'addresses',
    result: Type.Array(addressProofSchema()),
    run: ({ addresses }, db) => proofTexts(parts, db, addresses),
  });
