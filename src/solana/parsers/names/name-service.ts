import { NAME_PROGRAM } from '../../names/keys.ts';
import { taggedParser } from '../named/tagged-parser.ts';

/** The registry of names. No published source is its own; a name that is deleted is an account that is closed. */
export const nameService = taggedParser({
  name: 'name-service',
  program: NAME_PROGRAM,
  source: 'UNKNOWN',
  types: { 0: 'CREATE', 1: 'UPDATE', 2: 'TRANSFER_OWNERSHIP', 3: 'CLOSE_ACCOUNT', 4: 'UPDATE' },
});
