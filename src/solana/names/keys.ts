import { createHash } from 'node:crypto';
import { encode32 } from '../../lib/base58.ts';
import { knownKey, programAddress } from '../address/program-address.ts';

/** The program of the name registry, its root of domains and the class of its reverse entries. */
export const NAME_PROGRAM = 'namesLPneVptA9Z5rqUDD9tMTWEJwofgaYwp8cawRkX';
export const NAME_ROOT = '58PwtjSDuFHuUkYjH9BYnnQKHfwo9reZhC2zMJv9JPkx';
const REVERSE_CLASS = '33m47vH6Eav6jr5Ry86XjhRft2jRBLDnDgPSHoquXi2Z';
/** Makes tokens of names. */
export const TOKENIZER_PROGRAM = 'nftD3vbNkNqfj2Sd3HZwbpw4BxxKWr4AjGb9X38JeZk';
/** Keeps which name a wallet likes best. */
export const FAVOURITE_PROGRAM = '85iDfUvr3HJyLM2zcq5BXSiDvUWfw6cSE1FfNBo8Ap29';
/** Class of the second generation of records. */
const RECORDS_CLASS = '2pMnqHvei2N5oDcVGCRdZx48gqti199wr5CsyTTafsbo';

const HASH_PREFIX = 'SPL Name Service';
const NONE = new Uint8Array(32);

/** The account of a name below a parent, in a class; both may be absent. Keys are 32 bytes. */
function nameKey(name: string, parent: Uint8Array | null, nameClass: Uint8Array | null = null): Uint8Array {
  const hashed = createHash('sha256')
    .update(HASH_PREFIX + name, 'utf8')
    .digest();
  return programAddress([hashed, nameClass ?? NONE, parent ?? NONE], knownKey(NAME_PROGRAM));
}

/** The account of `labels`, the parts of a name before its suffix: one for a domain, two for a name below a domain. */
export function domainKey(labels: readonly string[]): Uint8Array {
  const domain = nameKey(labels[labels.length - 1] as string, knownKey(NAME_ROOT));
  return labels.length === 1 ? domain : nameKey(`\0${labels[0]}`, domain);
}

/** The two accounts in which the owner of a name may have said which address it stands for. */
export function solRecordKeys(domain: Uint8Array): { readonly v1: Uint8Array; readonly v2: Uint8Array } {
  return { v1: nameKey('\x01SOL', domain), v2: nameKey('\x02SOL', domain, knownKey(RECORDS_CLASS)) };
}

/** What tells whether a name was made a token. */
export const nftRecordKey = (domain: Uint8Array): Uint8Array =>
  programAddress([Buffer.from('nft_record'), domain], knownKey(TOKENIZER_PROGRAM));

/** The mint of a name's token. */
export const nameMint = (domain: Uint8Array): Uint8Array =>
  programAddress([Buffer.from('tokenized_name'), domain], knownKey(TOKENIZER_PROGRAM));

/** The account that holds the text of a name; `parent` is the domain of a name below one, else null. */
export const reverseKey = (domain: Uint8Array, parent: Uint8Array | null = null): Uint8Array =>
  nameKey(encode32(domain), parent, knownKey(REVERSE_CLASS));

export const favouriteKey = (wallet: Uint8Array): Uint8Array =>
  programAddress([Buffer.from('favourite_domain'), wallet], knownKey(FAVOURITE_PROGRAM));
