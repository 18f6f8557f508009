import type { TSchema } from '@sinclair/typebox';
import { defineHostPlugin, type HostContext } from '../../src/plugin/host.ts';
import { API_VERSION, JsonText, type RateGroup, RpcError, type RpcMethod, Type } from '../../src/plugin/plugin.ts';
import { address, count, orNull, slot, text } from '../../src/solana/schemas.ts';
import { type AccountsConfig, accountsConfig } from './config.ts';
import { createLists, type Lists } from './lists.ts';
import { readPage } from './page.ts';
import {
  CURSOR,
  ownerParams,
  programParams,
  type Question,
  readOwnerQuestion,
  readProgramQuestion,
  TOKEN,
} from './question.ts';
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
    if (ctx.config.passOn || pool === null) return;
    const nodes = createNodes(pool, ctx.clock, ctx.core.rpc);
    const lists = createLists(nodes, ctx.clock, ctx.random, ctx.config);
    ctx.metrics.observe('lists', 'lists of keys that are paged through', () => lists.size);
    ctx.metrics.observe('lists_bytes', 'size of these lists', () => lists.bytes);
    const parts = { ctx, nodes, lists };
    ctx.rpc.method(method(parts, 'getProgramAccountsV2', programParams, readProgramQuestion, 'getProgramAccounts'));
    ctx.rpc.method(method(parts, 'getTokenAccountsByOwnerV2', ownerParams, readOwnerQuestion));
  },
});

interface Parts {
  readonly ctx: HostContext<AccountsConfig>;
  readonly nodes: Nodes;
  readonly lists: Lists;
}

const page = Type.Object(
  {
    accounts: Type.Array(
      Type.Object({
        pubkey: address('Address of the account'),
        account: Type.Object(
          {},
          {
            additionalProperties: true,
            description: 'The account as the node returns it',
            examples: [
              { lamports: 2_039_280, owner: TOKEN, data: ['', 'base64'], executable: false, rentEpoch: 0, space: 165 },
            ],
          },
        ),
      }),
      { description: 'Accounts of the page, by address' },
    ),
    paginationKey: orNull(text('`paginationKey` of the next page; null at the end', CURSOR)),
    count: Type.Optional(count('Accounts of the page')),
    totalResults: Type.Optional(count('Accounts in all')),
  },
  { title: 'AccountPage', description: 'A page of accounts' },
);
const result = Type.Union([
  page,
  Type.Object({
    context: Type.Object({ slot: slot() }, { additionalProperties: true, description: 'State that was read' }),
    value: page,
  }),
]);

function method(
  { ctx, nodes, lists }: Parts,
  name: string,
  params: TSchema,
  read: (params: unknown) => Question,
  ...groups: RateGroup[]
): RpcMethod {
  const { config } = ctx;
  return {
    name,
    summary: `${name.replace('V2', '')} in pages of up to 10,000 accounts`,
    tag: { name: 'Accounts', description: 'Long lists of accounts in pages' },
    auth: 'key',
    price: {
      product: 'rpc',
      get credits() {
        return config.credits;
      },
      groups: ['rpc', ...groups],
    },
    get timeoutMs() {
      return config.listTimeoutMs + config.pageTimeoutMs;
    },
    params,
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
