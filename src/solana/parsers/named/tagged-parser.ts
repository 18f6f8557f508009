import type { TransactionParser } from '../parser.ts';

export interface TaggedProgram {
  readonly name: string;
  /** base58 */
  readonly program: string;
  /** Its address on devnet, where that is another one. */
  readonly devnet?: string;
  readonly source: string;
  /** Transaction types by the byte that tells the instruction. */
  readonly types: Readonly<Record<number, string>>;
  /** Where that byte stands; default 0. */
  readonly tagAt?: number;
}

/** Recognises the instructions of a program by a byte of their data; the first that has a type decides. */
export function taggedParser(parts: TaggedProgram): TransactionParser {
  const { name, program, devnet = program, source, types, tagAt = 0 } = parts;
  const programs = [...new Set([program, devnet])];
  return {
    ...{ name, programs },
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
