import type { ContributedParser } from '../../ports/parsers.ts';
import type { TransactionParser } from './parser.ts';

/** A parser of a plugin as one of ours. */
export function contributedParser(parser: ContributedParser): TransactionParser {
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
