import type { PluginContext } from '../../../src/kernel/plugin.ts';
import { lazy } from '../../../src/lib/lazy.ts';
import { kernelParsers } from '../../../src/ports/parsers.ts';
import { tokenNames } from '../../../src/ports/token-names.ts';
import { contributedParser } from '../../../src/solana/parsers/contributed.ts';
import type { EnhanceParts } from '../../../src/solana/parsers/enhance.ts';
import { PARSERS } from '../../../src/solana/parsers/registry.ts';
import type { WebhooksConfig } from '../config.ts';
import { type BodyBuilder, createBodyBuilder } from './builder.ts';

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
    enhance: options,
    classified: (type) => classified.with(type).add(),
  });
}
