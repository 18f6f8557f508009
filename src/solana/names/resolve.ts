import { isOnCurve } from '../address/on-curve.ts';
import {
  activeNameMint,
  decodeRecordV2,
  decodeRegistry,
  type NameAccount,
  sameBytes,
  signedRecordV1,
} from './accounts.ts';
import { domainKey, nameMint, nftRecordKey, solRecordKeys } from './keys.ts';

/** The four accounts that decide what a name stands for, in the order in which `resolveName` takes them. Keys are 32 bytes. */
export interface NameQuestion {
  readonly domain: Uint8Array;
  readonly keys: readonly [registry: Uint8Array, nftRecord: Uint8Array, recordV2: Uint8Array, recordV1: Uint8Array];
}

/** Which accounts to read. `labels` are the one or two parts of the name before its suffix. */
export function askName(labels: readonly string[]): NameQuestion {
  const domain = domainKey(labels);
  const records = solRecordKeys(domain);
  return { domain, keys: [domain, nftRecordKey(domain), records.v2, records.v1] };
}

export type NameAnswer =
  | { readonly kind: 'address'; readonly address: Uint8Array }
  /** The name is a token: whoever holds the only one of this mint. */
  | { readonly kind: 'holder'; readonly mint: Uint8Array }
  | { readonly kind: 'unresolved' };

const UNRESOLVED: NameAnswer = { kind: 'unresolved' };

/**
 * What a name stands for. The holder of its token comes first, then what its owner recorded, then the owner. A record that a former
 * owner made counts for nothing; one that cannot be trusted stops the search, since whoever made it meant another address.
 */
export function resolveName(
  { domain, keys }: NameQuestion,
  accounts: readonly (NameAccount | null)[],
  options: { readonly allowPda: boolean },
): NameAnswer {
  const [registryAccount = null, nftRecord = null, v2 = null, v1 = null] = accounts;
  const registry = decodeRegistry(registryAccount);
  if (registry === null) return UNRESOLVED;
  const mint = activeNameMint(nftRecord, domain);
  if (mint !== null) return sameBytes(mint, nameMint(domain)) ? { kind: 'holder', mint } : UNRESOLVED;
  const record = decodeRecordV2(v2);
  if (record?.kind === 'untrusted') return UNRESOLVED;
  if (record?.kind === 'address' && sameBytes(record.signer, registry.owner))
    return record.associated ? { kind: 'address', address: record.address } : UNRESOLVED;
  const signed = signedRecordV1(v1, keys[3], registry.owner);
  if (signed !== null) return { kind: 'address', address: signed };
  if (registry.owner.every((byte) => byte === 0)) return UNRESOLVED;
  if (!options.allowPda && !isOnCurve(registry.owner)) return UNRESOLVED;
  return { kind: 'address', address: registry.owner };
}
