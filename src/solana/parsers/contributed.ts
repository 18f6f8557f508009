import type { NormalTransaction } from '../../ports/block.ts';
import type { TransactionParser } from './parser.ts';
import type { ParserBlock } from './view.ts';

/** A parser as plugins contribute it: it knows transactions and blocks only. */
export interface SimpleParser {
  readonly name: string;
  readonly programs: readonly string[];
  readonly isInnerEnough?: boolean;
  parse(
    transaction: NormalTransaction,
    block: ParserBlock,
  ): {
    readonly type: string;
    readonly source: string;
    readonly description?: string;
    readonly events?: Readonly<Record<string, unknown>>;
  } | null;
}

/** A parser of a plugin as one of ours. */
export function contributedParser(parser: SimpleParser): TransactionParser {
  return {
    name: parser.name,
    programs: parser.programs,
    isInnerEnough: parser.isInnerEnough ?? false,
    parse({ tx, block }) {
      const parsed = parser.parse(tx, block);
      if (parsed === null) return null;
      const { type, source, description = '', events = {} } = parsed;
      return { type, source, describe: () => description, events: () => events };
    },
  };
}
