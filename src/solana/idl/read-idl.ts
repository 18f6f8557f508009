/** The door of this folder: an interface of any kind, as JSON text, becomes the decoder of its program. */
import { isPlainObject } from '../../lib/json.ts';
import { deeperThan } from '../../lib/json-members.ts';
import { readAnchor } from './anchor.ts';
import { readCodama } from './codama.ts';
import { createInterface, MAX_INSTRUCTIONS, type ProgramInterface } from './interface.ts';

export type { AccountUse, DecodedInstruction, NamedAccount, ProgramError, ProgramInterface } from './interface.ts';
export { nameOf } from './interface.ts';

/** Longer texts are refused. The longest public interfaces have about a tenth of it. */
export const MAX_IDL_BYTES = 4 * 1_024 * 1_024;

/** Public interfaces of Codama are the deepest. */
const MAX_JSON_DEPTH = 64;

/** Null for what is no interface. Never throws. */
export function readIdl(text: string): ProgramInterface | null {
  if (text.length > MAX_IDL_BYTES || deeperThan(Buffer.from(text), MAX_JSON_DEPTH)) return null;
  let idl: unknown;
  try {
    idl = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isPlainObject(idl)) return null;
  const isCodama = idl['kind'] === 'rootNode' || idl['kind'] === 'programNode';
  if (!isCodama && !Array.isArray(idl['instructions'])) return null;
  const parts = isCodama ? readCodama(idl) : readAnchor(idl);
  if (parts === null || parts.calls.length > MAX_INSTRUCTIONS) return null;
  return createInterface(parts);
}
