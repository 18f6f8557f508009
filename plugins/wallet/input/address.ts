import { Type } from '@sinclair/typebox';
import { RequestError } from '../../../src/kernel/request.ts';
import { decode32 } from '../../../src/lib/base58.ts';

export const walletParams = Type.Object({ wallet: Type.String({ description: 'address, base58' }) });

const SHOWN = 64;

/** A 400 that names a text which is no address; `where` says which of several it is. */
export function notAnAddress(text: string, where?: string): RequestError {
  const prefix = where === undefined ? '' : `${where}: `;
  return new RequestError(400, 'Invalid wallet address', {
    details: `${prefix}'${text.slice(0, SHOWN)}' is not a valid Solana address`,
  });
}

/** The 32 bytes of the `wallet` in a path. Throws the 400 of all wallet routes for anything else. */
export function walletKey(text: string): Uint8Array {
  const key = text.length < 32 || text.length > 44 ? null : decode32(text);
  if (key === null) throw notAnAddress(text);
  return key;
}
