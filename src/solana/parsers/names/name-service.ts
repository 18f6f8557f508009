import { NAME_PROGRAM } from '../../names/keys.ts';
import { taggedParser } from '../named/tagged-parser.ts';

/** The registry of names. No published source is its own, and no type says that a name ends. */
export const nameService = taggedParser({
  name: 'name-service',
  program: NAME_PROGRAM,
  source: 'UNKNOWN',
  types: { 0: 'CREATE', 1: 'UPDATE', 2: 'TRANSFER_OWNERSHIP' },
});
