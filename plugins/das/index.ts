import { type TSchema, Type } from '@sinclair/typebox';
import {
  API_VERSION,
  definePlugin,
  type PluginContext,
  type RpcCall,
  RpcError,
  type RpcMethod,
} from '../../src/plugin/plugin.ts';
import { compressedAssets } from '../../src/ports/compressed-assets.ts';
import { offChainDocuments } from '../../src/ports/documents.ts';
import { tokenPrices } from '../../src/ports/prices.ts';
import { address, count, flag, orNull, slot } from '../../src/solana/schemas.ts';
import { type DasConfig, dasConfig } from './config.ts';
import {
  ID,
  IDS,
  MOST_ITEMS,
  OPTIONS,
  PAGING,
  paramsSchema,
  type Question,
  readKey,
  readQuestion,
  TOKEN_ACCOUNTS,
} from './params.ts';
import { readAssets } from './read-assets.ts';
import { createSource } from './source.ts';
import { readTokenAccounts } from './token-accounts.ts';

/** The asset API for single assets and token accounts, read from the chain when they are asked for. */
export default definePlugin({
  id: 'das',
  apiVersion: API_VERSION,
  summary: 'getAsset, getAssetBatch and getTokenAccounts, read from the accounts of any upstream',
  roles: ['api'],
  config: dasConfig,
  uses: [offChainDocuments, tokenPrices, compressedAssets],
  provision(ctx) {
    if (ctx.config.passOn || ctx.chain('main') === null) return;
    for (const name of ['getAsset', 'get_asset']) ctx.rpc.method(getAsset(ctx, name));
    for (const name of ['getAssetBatch', 'getAssets', 'get_asset_batch', 'get_assets'])
      ctx.rpc.method(getAssetBatch(ctx, name));
    for (const name of ['getTokenAccounts', 'get_token_accounts']) ctx.rpc.method(getTokenAccounts(ctx, name));
  },
});

type Context = PluginContext<DasConfig>;

const TAG = { name: 'Digital assets', description: 'Tokens, NFTs and Core assets; proofs of compressed NFTs' };

interface Texts {
  readonly name: string;
  readonly summary: string;
  readonly params: TSchema;
  readonly result: TSchema;
}

function method(ctx: Context, texts: Texts, run: (question: Question, call: RpcCall) => Promise<unknown>): RpcMethod {
  return {
    ...texts,
    tag: TAG,
    auth: 'key',
    price: {
      product: 'das',
      get credits() {
        return ctx.config.credits;
      },
      groups: ['das'],
    },
    checksParams: true,
    handler: (call: RpcCall) => run(readQuestion(call.params, ctx.config.dialect), call),
  };
}

function getAsset(ctx: Context, name: string): RpcMethod {
  const texts = {
    name,
    summary: 'An asset by its id: a token, an NFT, or a Core asset or collection',
    params: paramsSchema({ ...ID, ...OPTIONS }),
    result: asset,
  };
  return method(ctx, texts, async (question, call) => {
    const id = readKey(question.member('id'), question);
    const [found] = await findAssets(ctx, [id], question, call);
    if (found == null) throw new RpcError('notFound', { message: 'Asset Not Found', details: NOT_FOUND });
    return found;
  });
}

const NOT_FOUND = 'no account of an asset has this address, and no upstream knows a compressed asset by it';

function getAssetBatch(ctx: Context, name: string): RpcMethod {
  const texts = {
    name,
    summary: `Up to ${MOST_ITEMS} assets by their ids, null in the place of unknown ones`,
    params: paramsSchema({ ...IDS, ...OPTIONS }),
    result: Type.Array(orNull(asset), { description: 'In the order of `ids`' }),
  };
  return method(ctx, texts, async (question, call) => {
    const ids = question.member('ids');
    if (!Array.isArray(ids)) throw question.invalid('ids must be a list');
    if (ids.length > MOST_ITEMS)
      throw question.invalid(`Batch Size Error. Batch size should not be greater than ${MOST_ITEMS}.`);
    return findAssets(
      ctx,
      (ids as readonly unknown[]).map((id) => readKey(id, question)),
      question,
      call,
    );
  });
}

/** An entry for each id, null where nothing is known by it. */
async function findAssets(ctx: Context, ids: readonly string[], question: Question, { signal }: RpcCall) {
  const { config } = ctx;
  const { options } = question;
  const source = createSource(ctx.chain('main')!, config, signal);
  const parts = {
    source,
    compressed: ctx.use(compressedAssets),
    documents: ctx.use(offChainDocuments),
    prices: ctx.use(tokenPrices),
    documentWaitMs: config.documentWaitMs,
  };
  const found = await readAssets(ids, parts, {
    dialect: config.dialect,
    showFungible: options['showFungible'] === true,
    showUnverifiedCollections: options['showUnverifiedCollections'] === true,
    showCollectionMetadata: options['showCollectionMetadata'] === true,
  });
  // Compressed assets have no account. An upstream with a DAS API may know them.
  const missing = [...new Set(ids.filter((id) => !found.has(id)))];
  const passed = await Promise.all(missing.map((id) => source.passOn('getAsset', { id, displayOptions: options })));
  const others = new Map(missing.map((id, at) => [id, passed[at]]));
  return ids.map((id) => found.get(id) ?? others.get(id) ?? null);
}

function getTokenAccounts(ctx: Context, name: string): RpcMethod {
  const texts = {
    name,
    summary: 'Token accounts of an owner, of a mint, or of both, in pages by address',
    params: paramsSchema({ ...TOKEN_ACCOUNTS, ...PAGING, ...OPTIONS }),
    result: tokenAccounts,
  };
  return method(ctx, texts, (question, call) =>
    readTokenAccounts(question, createSource(ctx.chain('main')!, ctx.config, call.signal), ctx.config),
  );
}

const open = { additionalProperties: true } as const;
const asset = Type.Object(
  {
    interface: Type.String({ description: 'Kind of the asset', examples: ['ProgrammableNFT'] }),
    id: address('Address of the asset'),
    content: Type.Object(
      {},
      { ...open, description: 'Name, links and files', examples: [{ json_uri: '', files: [] }] },
    ),
    ownership: Type.Object(
      {},
      { ...open, description: 'Owner, delegate and whether it is frozen', examples: [{ owner: '' }] },
    ),
    mutable: flag('Whether its metadata can change', true),
    burnt: flag('Whether it was burnt'),
    last_indexed_slot: Type.Optional(slot('Slot at which it was read')),
  },
  { ...open, title: 'Asset', description: 'An asset, as the DAS API defines it' },
);
const tokenAccounts = Type.Object(
  {
    total: count('Accounts of this page'),
    limit: count('Most accounts of a page', 1_000),
    token_accounts: Type.Array(
      Type.Object(
        {
          address: address('Address of the account'),
          mint: address('Mint of its tokens'),
          owner: address('Owner'),
          amount: count('Raw units', 1_000_000),
          delegated_amount: count('Raw units that a delegate may move', 0),
          frozen: flag('Whether it is frozen'),
        },
        open,
      ),
      { description: 'Accounts of the page, by address' },
    ),
  },
  { ...open, title: 'TokenAccounts', description: 'A page of token accounts' },
);
