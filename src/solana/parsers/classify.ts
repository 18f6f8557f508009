import { type Parsed, type TransactionParser, UNKNOWN } from './parser.ts';
import type { TransactionView } from './view.ts';

/** Told when a parser throws: its transaction is what the next one says. */
export type ParserFault = (parser: string, signature: string, error: unknown) => void;

/** What a transaction is; `UNKNOWN` when no parser knows it. Never throws. */
export function classify(
  view: TransactionView,
  parsers: readonly TransactionParser[],
  onFault: ParserFault = () => {},
): Parsed {
  const asked = new Set(view.outer.map(({ programId }) => programId));
  const called = new Set(view.steps.map(({ programId }) => programId));
  for (const parser of parsers) {
    const runs = parser.isInnerEnough === true ? called : asked;
    if (parser.programs?.some((program) => runs.has(program)) === false) continue;
    try {
      const parsed = parser.parse(view);
      if (parsed !== null) return guarded(parsed, parser.name, view, onFault);
    } catch (error) {
      onFault(parser.name, view.tx.signature, error);
    }
  }
  return UNKNOWN;
}

/** The answer of a parser whose words and events cannot take the element down. */
function guarded(parsed: Parsed, parser: string, view: TransactionView, onFault: ParserFault): Parsed {
  const safe = <T>(make: () => T, otherwise: T): T => {
    try {
      return make();
    } catch (error) {
      onFault(parser, view.tx.signature, error);
      return otherwise;
    }
  };
  return {
    type: parsed.type,
    source: parsed.source,
    hidesNative: parsed.hidesNative ?? false,
    describe: (words) => safe(() => parsed.describe?.(words) ?? '', ''),
    events: (words) => safe(() => parsed.events?.(words) ?? {}, {}),
  };
}
