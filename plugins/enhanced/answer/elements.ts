import type { Clock, Log, Metrics } from '../../../src/kernel/plugin.ts';
import { lazy } from '../../../src/lib/lazy.ts';
import type { ParserBook } from '../../../src/ports/parsers.ts';
import type { TokenFacts } from '../../../src/ports/token-facts.ts';
import type { TokenNames } from '../../../src/ports/token-names.ts';
import { contributedParser } from '../../../src/solana/parsers/contributed.ts';
import { type EnhanceParts, type ReadTransaction, readTransaction } from '../../../src/solana/parsers/enhance.ts';
import { PARSERS } from '../../../src/solana/parsers/registry.ts';
import type { EnhancedConfig } from '../config.ts';
import type { FetchedTransaction } from '../fetch/transactions.ts';
import { inHostedOrder } from './hosted-order.ts';

export interface Elements {
  /** Classifies a transaction. */
  read(fetched: FetchedTransaction): ReadTransaction;
  /** The elements, in order, with the names that are known within `namesTimeoutMs`. */
  write(read: readonly ReadTransaction[]): Promise<readonly unknown[]>;
}

export interface ElementsParts {
  readonly config: EnhancedConfig;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly book: ParserBook | null;
  readonly facts: TokenFacts | null;
  readonly names: TokenNames | null;
}

/** The service takes no more at once. */
const MINTS_PER_LOOK_UP = 100;

export function createElements({ config, log, metrics, book, facts, names }: ElementsParts): Elements {
  const faults = metrics.counter('parser_errors_total', 'Transactions at which a parser failed', ['parser']);
  const parts = lazy(
    (): EnhanceParts => ({
      names,
      options: config,
      parsers: [...(book?.all() ?? []).map(contributedParser), ...PARSERS],
      onFault(parser, signature, error) {
        faults.with(parser).add();
        log.warn({ parser, signature, err: error }, 'a parser failed');
      },
    }),
  );

  async function learnNames(mints: readonly string[]): Promise<void> {
    if (facts === null) return;
    const unknown = mints.filter((mint) => facts.peek(mint) === undefined).slice(0, MINTS_PER_LOOK_UP);
    if (unknown.length === 0) return;
    // A name that does not come in time only leaves the address in its place.
    await facts.lookUp(unknown, { timeoutMs: config.namesTimeoutMs }).catch(() => undefined);
  }

  return {
    read: ({ transaction, block }) => readTransaction(transaction, block, parts()),
    async write(read) {
      await learnNames([...new Set(read.flatMap(({ mints }) => mints))]);
      return read.map((one) => inHostedOrder(one.element()));
    },
  };
}
