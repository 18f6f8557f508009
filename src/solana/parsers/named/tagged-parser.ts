import type { TransactionParser } from '../parser.ts';

export interface TaggedProgram {
  readonly name: string;
  /** base58 */
  readonly program: string;
  readonly source: string;
  /** Transaction types by the byte that tells the instruction. */
  readonly types: Readonly<Record<number, string>>;
  /** Where that byte stands; default 0. */
  readonly tagAt?: number;
}

/** Recognises the instructions of a program by a byte of their data; the first that has a type decides. */
export function taggedParser({ name, program, source, types, tagAt = 0 }: TaggedProgram): TransactionParser {
  return {
    ...{ name, programs: [program] },
    outcomes: Object.values(types).map((type) => ({ type, source })),
    parse({ outer }) {
      for (const { programId, data } of outer) {
        const type = programId === program ? types[data[tagAt] ?? -1] : undefined;
        if (type !== undefined) return { type, source };
      }
      return null;
    },
  };
}
