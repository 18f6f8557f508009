import { createHash } from 'node:crypto';
import { lazy } from '../../lib/lazy.ts';
import { NAME_PROGRAM } from '../programs.ts';
import { discriminatorOf, type TransactionParser } from './parser.ts';

interface NamedProgram {
  readonly name: string;
  /** base58 */
  readonly program: string;
  /** Its address on devnet, if different. */
  readonly devnet?: string;
  readonly source: string;
  /** Transaction types by instruction name, as in the source of the program. */
  readonly types: Readonly<Record<string, string>>;
}

/** The first eight bytes of instruction data of an Anchor program, in hex. */
export function anchorDiscriminator(name: string): string {
  return createHash('sha256').update(`global:${name}`).digest('hex').slice(0, 16);
}

/** Recognizes the instructions of an Anchor program by their names; the first with a type decides. */
export function namedParser({ name, program, devnet = program, source, types }: NamedProgram): TransactionParser {
  const programs = [...new Set([program, devnet])];
  const byDiscriminator = lazy(
    () => new Map(Object.entries(types).map(([instruction, type]) => [anchorDiscriminator(instruction), type])),
  );
  return {
    name,
    programs,
    outcomes: Object.values(types).map((type) => ({ type, source })),
    parse({ outer }) {
      for (const { programId, data } of outer) {
        const type = programs.includes(programId) ? byDiscriminator().get(discriminatorOf(data)) : undefined;
        if (type !== undefined) return { type, source };
      }
      return null;
    },
  };
}

interface TaggedProgram {
  readonly name: string;
  /** base58 */
  readonly program: string;
  /** Its address on devnet, if different. */
  readonly devnet?: string;
  readonly source: string;
  /** Transaction types by the byte that identifies the instruction. */
  readonly types: Readonly<Record<number, string>>;
  /** Offset of that byte; default 0. */
  readonly tagAt?: number;
}

/** Recognizes the instructions of a program by a byte of their data; the first with a type decides. */
export function taggedParser(parts: TaggedProgram): TransactionParser {
  const { name, program, devnet = program, source, types, tagAt = 0 } = parts;
  const programs = [...new Set([program, devnet])];
  return {
    name,
    programs,
    outcomes: Object.values(types).map((type) => ({ type, source })),
    parse({ outer }) {
      for (const { programId, data } of outer) {
        const type = programs.includes(programId) ? types[data[tagAt] ?? -1] : undefined;
        if (type !== undefined) return { type, source };
      }
      return null;
    },
  };
}

/** The name registry. It has no published source; deleting a name closes an account. */
export const nameService = taggedParser({
  name: 'name-service',
  program: NAME_PROGRAM,
  source: 'UNKNOWN',
  types: { 0: 'CREATE', 1: 'UPDATE', 2: 'TRANSFER_OWNERSHIP', 3: 'CLOSE_ACCOUNT', 4: 'UPDATE' },
});
