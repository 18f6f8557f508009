import { knownKey, programAddress } from '../address/program-address.ts';

const BUBBLEGUM = 'BGUMAp9Gq7iTEuizy4pqaxsTyUCBK68MDfK752saRPUY';

/** The id of the asset with this number in a tree: an address that Bubblegum derives and that nobody has a key for. */
export function assetId(tree: Uint8Array, nonce: bigint): Uint8Array {
  const number = Buffer.alloc(8);
  number.writeBigUInt64LE(nonce);
  return programAddress([Buffer.from('asset'), tree, number], knownKey(BUBBLEGUM));
}
