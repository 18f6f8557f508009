import { stringify } from '../../../src/lib/json.ts';
import { lazy } from '../../../src/lib/lru.ts';
import type { PluginContext } from '../../../src/plugin/plugin.ts';
import type { ChainBlock, NormalTransaction } from '../../../src/ports/block.ts';
import type { ChainId, ChainStatus } from '../../../src/ports/chain.ts';
import { kernelParsers } from '../../../src/ports/parsers.ts';
import { tokenNames } from '../../../src/ports/token-names.ts';
import {
  contributedParser,
  type EnhanceParts,
  type ReadTransaction,
  readTransaction,
} from '../../../src/solana/parsers/enhance.ts';
import { PARSERS } from '../../../src/solana/parsers/registry.ts';
import { rawTransaction } from '../../../src/solana/raw-transaction.ts';
import type { WebhooksConfig } from '../config.ts';
import { discordEmbed } from './discord.ts';
import { BODY_FORMS, type BodyForm } from './form.ts';

/** The transactions of one block as elements of request bodies. Each is made once and only when somebody wants it. */
export interface BlockBodies {
  /** What `transactionTypes` of enhanced and discord webhooks are compared with. */
  typeOf(transaction: NormalTransaction): string;
  /** The JSON text of an element: of a raw or enhanced transaction, or one embed of a Discord message. */
  element(transaction: NormalTransaction, form: BodyForm): string;
}

/** Makes the elements of request bodies: pure, no look-ups that wait. */
export interface BodyBuilder {
  /** The forms that can be built; webhooks of the others are refused. */
  readonly forms: ReadonlySet<BodyForm>;
  ofBlock(block: ChainBlock, chain: ChainId): BlockBodies;
}

interface BodyBuilderOptions {
  /** Keys of the node beyond the published ones, in raw elements. */
  readonly extraKeys: boolean;
  /** Of the page of a transaction in Discord messages, with `{signature}` and `{cluster}`. */
  readonly explorerUrlTemplate: string;
  /** What that page calls a chain. */
  explorerCluster(chain: ChainId): string;
  /** How enhanced elements are made; names are those of the main chain. */
  readonly enhance: () => EnhanceParts;
  /** Told about each transaction that was read for somebody. */
  classified?(type: string): void;
}

export function createBodyBuilder(options: BodyBuilderOptions): BodyBuilder {
  return {
    forms: new Set(BODY_FORMS),
    ofBlock: (block, chain) => bodiesOf(block, chain, options),
  };
}

function bodiesOf(block: ChainBlock, chain: ChainId, options: BodyBuilderOptions): BlockBodies {
  const read = new Map<number, ReadTransaction>();
  const parts = lazy(
    (): EnhanceParts => (chain === 'main' ? options.enhance() : { ...options.enhance(), names: null }),
  );
  const cluster = lazy(() => options.explorerCluster(chain));

  function readOf(transaction: NormalTransaction): ReadTransaction {
    const known = read.get(transaction.index);
    if (known !== undefined) return known;
    const made = readTransaction(transaction, block, parts());
    read.set(transaction.index, made);
    options.classified?.(made.type);
    return made;
  }

  return {
    typeOf: (transaction) => readOf(transaction).type,
    element(transaction, form) {
      if (form === 'raw') return stringify(rawTransaction(transaction, block, { extraKeys: options.extraKeys }));
      const element = readOf(transaction).element();
      if (form === 'enhanced') return stringify(element);
      return stringify(discordEmbed(element, { explorerUrlTemplate: options.explorerUrlTemplate, cluster: cluster() }));
    },
  };
}

/** Makes the builder of bodies with what other plugins offer: names of tokens and parsers of their own. */
export function createBodies(ctx: PluginContext<WebhooksConfig>): BodyBuilder {
  const { config, log } = ctx;
  const book = ctx.use(kernelParsers);
  const names = ctx.use(tokenNames) ?? null;
  const faults = ctx.metrics.counter('parser_errors_total', 'Transactions at which a parser failed', ['parser']);
  const classified = ctx.metrics.counter('classified_total', 'Transactions that were read for webhooks, by type', [
    'type',
  ]);
  const options = lazy(
    (): EnhanceParts => ({
      names,
      options: config.enhanced,
      // All plugins are provisioned by the time the first block comes.
      parsers: [...(book?.all() ?? []).map(contributedParser), ...PARSERS],
      onFault(parser, signature, error) {
        faults.with(parser).add();
        log.warn({ parser, signature, err: error }, 'a parser failed');
      },
    }),
  );
  return createBodyBuilder({
    extraKeys: config.raw.extraKeys,
    explorerUrlTemplate: config.explorerUrlTemplate,
    explorerCluster: (chain) => explorerCluster(chain, ctx.chain(chain)?.status() ?? null),
    enhance: options,
    classified: (type) => classified.with(type).add(),
  });
}

/** An explorer in a browser shows a local chain too, when the link says where it is. */
function explorerCluster(chain: ChainId, status: Pick<ChainStatus, 'kind' | 'rpcUrl'> | null): string {
  if (status?.kind !== 'local') return chain === 'main' ? 'mainnet-beta' : 'devnet';
  return status.rpcUrl === undefined ? 'custom' : `custom&customUrl=${encodeURIComponent(status.rpcUrl)}`;
}
