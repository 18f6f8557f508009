import { lazy } from '../../src/lib/lru.ts';
import type { Clock, Log, Metrics } from '../../src/plugin/plugin.ts';
import type { ParserBook } from '../../src/ports/parsers.ts';
import type { TokenFacts } from '../../src/ports/token-facts.ts';
import type { TokenNames } from '../../src/ports/token-names.ts';
import {
  contributedParser,
  type EnhanceParts,
  type ReadTransaction,
  readTransaction,
} from '../../src/solana/parsers/enhance.ts';
import { PARSERS } from '../../src/solana/parsers/registry.ts';
import type { EnhancedConfig } from './config.ts';
import type { FetchedTransaction } from './fetch.ts';

export interface Elements {
  /** Classifies a transaction. */
  read(fetched: FetchedTransaction): ReadTransaction;
  /** The elements, in order, with the names that are known within `namesTimeoutMs`. */
  write(read: readonly ReadTransaction[]): Promise<readonly unknown[]>;
}

interface ElementsParts {
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

/** Members of all objects of an element, in the order in which the hosted answers have them. One list does for all of them. */
const ORDER = `description type source account amount fee feePayer signature slot timestamp
fromTokenAccount toTokenAccount fromUserAccount toUserAccount tokenAmount mint tokenStandard
tokenTransfers nativeTransfers nativeBalanceChange tokenBalanceChanges accountData transactionError
accounts data programId innerInstructions instructions events`;

const NESTED: Readonly<Record<string, string>> = {
  nativeTransfers: 'fromUserAccount toUserAccount amount',
  nativeFees: 'account fromUserAccount toUserAccount amount',
  tokenBalanceChanges: 'userAccount tokenAccount rawTokenAmount mint',
  tokenInputs:
    'userAccount tokenAccount rawTokenAmount fromTokenAccount toTokenAccount fromUserAccount toUserAccount tokenAmount mint tokenStandard',
  tokenOutputs:
    'userAccount tokenAccount rawTokenAmount fromTokenAccount toTokenAccount fromUserAccount toUserAccount tokenAmount mint tokenStandard',
  tokenFees:
    'userAccount tokenAccount rawTokenAmount fromTokenAccount toTokenAccount fromUserAccount toUserAccount tokenAmount mint tokenStandard',
  rawTokenAmount: 'tokenAmount decimals',
  nft: 'description type source amount fee feePayer signature slot timestamp saleType buyer seller staker nfts',
  swap: 'nativeInput nativeOutput tokenInputs tokenOutputs nativeFees tokenFees innerSwaps',
  innerSwaps: 'tokenInputs tokenOutputs tokenFees nativeFees programInfo',
  programInfo: 'source account programName instructionName',
  compressed:
    'type treeId leafIndex seq assetId instructionIndex innerInstructionIndex newLeafOwner oldLeafOwner newLeafDelegate oldLeafDelegate treeDelegate metadata updateArgs',
  metadata:
    'name symbol uri sellerFeeBasisPoints primarySaleHappened isMutable editionNonce tokenStandard collection uses tokenProgramVersion creators',
  creators: 'address verified share',
};

/** The same element with its members in the order of hosted answers; members that those do not have come last. */
function inHostedOrder(value: unknown): unknown {
  return ordered(value, ORDER);
}

function ordered(value: unknown, order: string): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => ordered(item, order));
  const names = order.split(/\s+/);
  const rank = (name: string): number => {
    const at = names.indexOf(name);
    return at < 0 ? names.length : at;
  };
  const members = Object.entries(value).sort(([left], [right]) => rank(left) - rank(right));
  return Object.fromEntries(members.map(([name, member]) => [name, ordered(member, NESTED[name] ?? ORDER)]));
}
