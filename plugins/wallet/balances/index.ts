import type { PluginContext } from '../../../src/plugin/plugin.ts';
import { tokenPrices } from '../../../src/ports/prices.ts';
import { type TokenFacts, tokenFacts } from '../../../src/ports/token-facts.ts';
import type { WalletConfig } from '../config.ts';
import { createChainCall } from '../input.ts';
import type { WalletPart } from '../part.ts';
import { compressedAssets, coreAssets } from './assets.ts';
import { createFactsLookUp } from './facts.ts';
import { createNftReader } from './nfts.ts';
import { balancesRoute } from './route.ts';
import { createTables } from './tables.ts';

const ASSET_CONNECTIONS = 4;

/** What a wallet holds now. */
export function balancesRoutes(ctx: PluginContext<WalletConfig>, { balances, commitment }: WalletConfig): WalletPart {
  const { clock, log, metrics } = ctx;
  const chain = createChainCall(ctx.chain('main'));
  const facts = ctx.use(tokenFacts) ?? null;
  const lookUp = createFactsLookUp(facts);
  const prices = ctx.use(tokenPrices) ?? null;
  const tables = createTables({ chain, lookUp, prices, clock, log, metrics, commitment, ...balances });
  const assets = balances.dasUrl === null ? null : openAssets(ctx, balances.dasUrl);
  const sources = [
    ...(balances.core ? [coreAssets(chain, commitment)] : []),
    ...(assets === null ? [] : [assets.source]),
  ];
  const images: TokenFacts['images'] = async (uris) => (await facts?.images(uris)) ?? new Map();
  const nfts = createNftReader({ chain, lookUp, images, sources, commitment, log, metrics });
  return {
    routes: [balancesRoute({ tables, lookUp, nfts, factsRevision: () => facts?.revision() ?? 0 })],
    stop: () => assets?.close(),
  };
}

/** The operator named the address: it may be anywhere. */
function openAssets({ outbound, id }: PluginContext<WalletConfig>, url: string) {
  const client = outbound.open({
    ...{ allowCidrs: ['0.0.0.0/0', '::/0'], allowHttp: true, allowPorts: null, caFile: null },
    ...{ maxConnections: ASSET_CONNECTIONS, section: `${id}.balances` },
  });
  return { source: compressedAssets(client, url), close: () => client.close() };
}
