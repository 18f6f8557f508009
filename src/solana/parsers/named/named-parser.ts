import { createHash } from 'node:crypto';
import { lazy } from '../../../lib/lazy.ts';
import { discriminatorOf } from '../discriminator.ts';
import type { TransactionParser } from '../parser.ts';

export interface NamedProgram {
  readonly name: string;
  /** base58 */
  readonly program: string;
  /** Its address on devnet, where that is another one. */
  readonly devnet?: string;
  readonly source: string;
  /** Transaction types by the name of the instruction, as the program's source has it. */
  readonly types: Readonly<Record<string, string>>;
}

/** The first eight bytes of instruction data of an Anchor program, in hex. */
export function anchorDiscriminator(name: string): string {
  return createHash('sha256').update(`global:${name}`).digest('hex').slice(0, 16);
}

/** Recognises the instructions of an Anchor program by their names; the first that has a type decides. */
export function namedParser({ name, program, devnet = program, source, types }: NamedProgram): TransactionParser {
  const programs = [...new Set([program, devnet])];
  const byDiscriminator = lazy(
    () => new Map(Object.entries(types).map(([instruction, type]) => [anchorDiscriminator(instruction), type])),
  );
  return {
    ...{ name, programs },
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
