/** The door of this folder: an interface of any kind, as JSON text, becomes the decoder of its program. */
import { exceeds, isPlainObject } from '../../lib/json.ts';
import { readAnchor } from './anchor.ts';
import { readCodama } from './codama.ts';
import { createInterface, type InterfaceParts, type ProgramInterface } from './interface.ts';

export type { AccountUse, DecodedInstruction, NamedAccount, ProgramError, ProgramInterface } from './interface.ts';
export { snakeName } from './interface.ts';

/** Longer texts are refused. The longest public interfaces have about a tenth of it. */
export const MAX_IDL_BYTES = 4 * 1_024 * 1_024;

/** Public interfaces of Codama are the deepest. */
const MAX_JSON_DEPTH = 64;
/** Members and items. An interface of 100 KB has 6,000; to parse small ones without end blocks a thread. */
const MAX_JSON_VALUES = 98_304;

/** Null for what is no interface. Never throws. */
export function readIdl(text: string): ProgramInterface | null {
  if (text.length > MAX_IDL_BYTES || exceeds(Buffer.from(text), { depth: MAX_JSON_DEPTH, values: MAX_JSON_VALUES }))
    return null;
  try {
    const idl: unknown = JSON.parse(text);
    const parts = isPlainObject(idl) ? partsOf(idl) : null;
    return parts === null ? null : createInterface(parts);
  } catch {
    // No JSON, or JSON that no interface has.
    return null;
  }
}

function partsOf(idl: Record<string, unknown>): InterfaceParts | null {
  if (idl['kind'] === 'rootNode' || idl['kind'] === 'programNode') return readCodama(idl);
  return Array.isArray(idl['instructions']) ? readAnchor(idl) : null;
}
