import { decode } from '../../lib/base58.ts';
import type { Commitment } from '../ledger/types.ts';
import type { ContextConfig } from './configs.ts';
import type { Unsigned } from './deserialize.ts';
import { invalidParams } from './rpc-error.ts';

/** What a node checks after it has read the parameters. Each throws -32602 in the node's words. */

export function pubkey(value: string, prefix = 'Invalid param: '): string {
  return fixedBase58(value, 32, 44, prefix);
}

export function signature(value: string): string {
  return fixedBase58(value, 64, 88, 'Invalid param: ');
}

function fixedBase58(value: string, bytes: number, most: number, prefix: string): string {
  if (value.length > most) throw invalidParams(`${prefix}WrongSize`);
  const decoded = decode(value);
  if (decoded === null) throw invalidParams(`${prefix}Invalid`);
  if (decoded.length !== bytes) throw invalidParams(`${prefix}WrongSize`);
  return value;
}

/** For methods that only know sealed blocks. */
export function sealedOnly<C extends ContextConfig>(config: C | undefined): C | undefined {
  const commitment: Commitment | undefined = config?.commitment;
  if (commitment === 'processed') throw invalidParams('Method does not support commitment below `confirmed`');
  return config;
}

export function atMost<T>(values: readonly T[], most: number): readonly T[] {
  if (values.length > most) throw invalidParams(`Too many inputs provided; max ${most}`);
  return values;
}

/** A number that is known to be small by now. */
export function small(value: Unsigned): number {
  return Number(value);
}

/** Bytes of base58 text, or the node's description of its fault. */
export function base58Bytes(text: string): Uint8Array | string {
  const bytes = decode(text);
  if (bytes !== null) return bytes;
  const index = [...text].findIndex((character) => !/[1-9A-HJ-NP-Za-km-z]/.test(character));
  const character = [...text][index] ?? '';
  if ((character.codePointAt(0) ?? 0) > 127) return `NonAsciiCharacter { index: ${index} }`;
  return `InvalidCharacter { character: '${character}', index: ${index} }`;
}

/** Bytes of base64 text in its only form, or the node's description of its fault. */
export function base64Bytes(text: string): Uint8Array | string {
  const bytes = Buffer.from(text, 'base64');
  if (bytes.toString('base64') === text) return bytes;
  const encoded = Buffer.from(text, 'utf8');
  const symbols = encoded.findIndex((byte) => !/[A-Za-z0-9+/]/.test(String.fromCharCode(byte)));
  const count = symbols === -1 ? encoded.length : symbols;
  const isPadding = encoded.subarray(count).every((byte) => byte === 0x3d);
  if (!isPadding || (symbols !== -1 && count % 4 < 2)) return `InvalidByte(${count}, ${encoded[count]})`;
  if (count % 4 === 1) return `InvalidLength(${encoded.length})`;
  if ((count + (encoded.length - count)) % 4 !== 0) return 'InvalidPadding';
  return `InvalidLastSymbol(${count - 1}, ${encoded[count - 1]})`;
}
