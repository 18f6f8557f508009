import { RequestError } from '../../../src/kernel/request.ts';
import { decode32 } from '../../../src/lib/base58.ts';
import { type NameText, parseName } from '../../../src/solana/names/name-text.ts';
import { notAnAddress } from '../input/address.ts';
import type { AddressLabel } from './labels/label.ts';

/** What a caller asks for: an address, or a name that has to be resolved. */
export type Subject =
  | { readonly kind: 'address'; readonly address: string }
  | { readonly kind: 'name'; readonly name: NameText; readonly given: string };

const ADDRESS_LENGTHS = { min: 32, max: 44 } as const;

/** Reads what a caller gave. Throws the 400 for what is neither; `where` says which of several it is. */
export function readSubject(given: unknown, where?: string): Subject {
  if (typeof given !== 'string') throw notAnAddress(JSON.stringify(given) ?? 'undefined', where);
  const name = parseName(given);
  if (name !== null) return { kind: 'name', name, given };
  const fits = given.length >= ADDRESS_LENGTHS.min && given.length <= ADDRESS_LENGTHS.max;
  if (!fits || decode32(given) === null) throw notAnAddress(given, where);
  return { kind: 'address', address: given };
}

/** Names are resolved for a mainnet only. */
export function onlyOnMainnet(): RequestError {
  return new RequestError(400, 'Domain lookup is only available on mainnet');
}

/** A label as it is answered. */
export function identityOf({ address, type, name, category, tags, website }: AddressLabel) {
  return { address, type, name, category, tags, ...(website === undefined ? {} : { website }) };
}
