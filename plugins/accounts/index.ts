import { defineHostPlugin, type HostContext } from '../../src/plugin/host.ts';
import { API_VERSION, JsonText, type RateGroup, RpcError, type RpcMethod, Type } from '../../src/plugin/plugin.ts';
import { type AccountsConfig, accountsConfig } from './config.ts';
import { createLists, type Lists } from './lists.ts';
import { readPage } from './page.ts';
import { type Question, readOwnerQuestion, readProgramQuestion } from './question.ts';
import { createNodes, type Nodes } from './upstream.ts';

/** Lists of accounts, page by page, over nodes that only give all at once. */
export default defineHostPlugin({
  id: 'accounts',
  apiVersion: API_VERSION,
  summary: 'getProgramAccountsV2 and getTokenAccountsByOwnerV2: accounts in pages, over any upstream',
  roles: ['api'],
  config: accountsConfig,
  provision(ctx) {
    const pool = ctx.upstreams('main');
    if (ctx.config.passOn || pool === null) return {};
    const nodes = createNodes(pool, ctx.clock, ctx.core.rpc.maxUpstreamBytes);
    const lists = createLists(nodes, ctx.clock, ctx.random, ctx.config);
    ctx.metrics.observe('lists', 'lists of keys that are paged through', () => lists.size);
    ctx.metrics.observe('lists_bytes', 'size of these lists', () => lists.bytes);
    const parts = { ctx, nodes, lists };
    return {
      rpc: [
        method(parts, 'getProgramAccountsV2', readProgramQuestion, 'getProgramAccounts'),
        method(parts, 'getTokenAccountsByOwnerV2', readOwnerQuestion),
      ],
    };
  },
});

interface Parts {
  readonly ctx: HostContext<AccountsConfig>;
  readonly nodes: Nodes;
  readonly lists: Lists;
}

const page = {
  accounts: Type.Array(
    Type.Object({ pubkey: Type.String(), account: Type.Object({}, { additionalProperties: true }) }),
  ),
  paginationKey: Type.Union([Type.String(), Type.Null()]),
  count: Type.Optional(Type.Integer()),
  totalResults: Type.Optional(Type.Integer()),
};
const result = Type.Union([
  Type.Object(page),
  Type.Object({
    context: Type.Object({ slot: Type.Integer() }, { additionalProperties: true }),
    value: Type.Object(page),
  }),
]);

function method(
  { ctx, nodes, lists }: Parts,
  name: string,
  read: (params: unknown) => Question,
  ...groups: RateGroup[]
): RpcMethod {
  const { config } = ctx;
  return {
    name,
    summary: `${name.replace('V2', '')} in pages of up to 10,000 accounts`,
    tag: 'accounts',
    auth: 'key',
    price: { product: 'rpc', credits: config.credits, groups: ['rpc', ...groups] },
    timeoutMs: config.listTimeoutMs + config.pageTimeoutMs,
    params: Type.Array(Type.Unknown()),
    checksParams: true,
    result,
    async handler({ params, caller, signal, tenant }) {
      const question = read(params);
      try {
        const list = await lists.find(caller?.projectId ?? '', question, { signal, tenant });
        return new JsonText(await readPage(nodes, list, question, config, { signal, tenant }));
      } catch (error) {
        throw signal.aborted ? new RpcError('unavailable') : error;
      }
    },
  };
}
