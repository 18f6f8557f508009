import { type TSchema, Type } from '@sinclair/typebox';
import { stringify } from '../../src/lib/json.ts';
import { lazy } from '../../src/lib/lazy.ts';
import type { HostContext } from '../../src/plugin/host.ts';
import {
  JsonBytes,
  type PluginContext,
  type RpcCall,
  type RpcCodeName,
  RpcError,
  type RpcMethod,
} from '../../src/plugin/plugin.ts';
import { compressedAssets, TOO_MANY_IDS } from '../../src/ports/compressed-assets.ts';
import { kernelOutbox } from '../../src/ports/outbox.ts';
import { offChainDocuments, tokenPrices } from '../../src/ports/tokens.ts';
import { readCommitment } from '../../src/runtime/commitment.ts';

import { ASSET_METHODS, type AssetMethod } from '../../src/solana/assets/methods.ts';
import { address, count, flag, orNull, slot, u64 } from '../../src/solana/schemas.ts';
import { assetSignatures, readLeaf, readPage } from './changes.ts';
import type { DasConfig } from './config.ts';
import { type AssetIndex, createAssetIndex } from './indexing/asset-index.ts';
import { createFillJobs } from './indexing/fill.ts';
import { createDasProcessor } from './indexing/processor.ts';
import {
  assetsByAuthority,
  assetsByCreator,
  assetsByGroup,
  assetsByOwner,
  grouping,
  IncompleteList,
  type ListParts,
  nftEditions,
  searchAssets,
} from './lists.ts';
import {
  AUTHORITY,
  CHANGES,
  CREATOR,
  type DasRequest,
  dasParamsSchema,
  EDITIONS,
  GROUP_MEMBERS,
  ID,
  IDS,
  invalidCode,
  MAX_ITEMS,
  OPTIONS,
  ORDERS,
  OWNER,
  PAGING,
  readKey,
  readQuestion,
  SEARCH,
  SORTING,
  TOKEN_ACCOUNTS,
} from './params.ts';
import { AssetText, keptText, readAssets, readOptionsOf } from './read-assets.ts';
import { createLackedMethods, createSource, type LackedMethods } from './source.ts';
import { readTokenAccounts } from './token-accounts.ts';

export function provision(host: HostContext<DasConfig>): void {
  const { config, clock, chain, use, rpc, store } = host;
  if (config.passOn || chain('main') === null) return;
  const lacked = createLackedMethods(clock);
  const isFollowing = Object.values(config.follow).some((keys) => keys.length > 0);
  provisionIndex(host, lacked);
  const index = isFollowing ? lazy(() => createAssetIndex(store, config.cacheBytes)) : () => null;
  const ctx: Context = { config, chain, use, lacked, index };
  rpc.method(getAsset(ctx));
  rpc.method(getAssetBatch(ctx));
  rpc.method(getTokenAccounts(ctx));
  for (const list of LISTS) rpc.method(listMethod(ctx, list));
  const compressed = use(compressedAssets);
  compressed?.reportInvalidAs(() => invalidCode(config.dialect));
  if (compressed?.index == null) {
    for (const one of UNFOLLOWED) rpc.method(elsewhere(ctx, one));
    return;
  }
  rpc.method(getSignaturesForAsset(ctx));
}

/** The index: processes blocks, and fills what is newly followed. If nothing is followed, block processing writes nothing. */
function provisionIndex(host: HostContext<DasConfig>, lacked: LackedMethods): void {
  const { config, core, store, clock, log, roles, blocks, jobs, use } = host;
  const chain = host.chain('main');
  const outbox = use(kernelOutbox);
  if (chain === null || outbox === undefined) return;
  const stopped = new AbortController();
  const commitment = readCommitment(core.follow.commitment);
  const source = (atLeast: number, signal: AbortSignal = stopped.signal) =>
    createSource(chain, config, signal, lacked, { commitment, atLeast });
  const fills = createFillJobs(
    { store, clock, log, source, isFinal: commitment === 'finalized' },
    outbox,
    (tx, added) => jobs.add(tx, added),
  );
  jobs.define(fills.kind);
  blocks.on(createDasProcessor({ store, source, fill: fills.start }));
  host.onStart(async () => {
    const { collections, creators, authorities, owners, mints, programs } = config.follow;
    const named = { collection: collections, creator: creators, authority: authorities, owner: owners, mint: mints };
    if (roles.has('indexer')) await fills.follow({ ...named, program: programs });
  });
  host.onStop(() => stopped.abort(new Error('the plugin is stopping')));
}

interface Context extends Pick<PluginContext<DasConfig>, 'config' | 'chain' | 'use'> {
  /** Null: nothing is followed. */
  readonly index: () => AssetIndex | null;
  /** Methods that the upstreams lately did not have. */
  readonly lacked: LackedMethods;
}

const TAG = { name: 'Digital assets', description: 'Tokens, NFTs and Core assets; proofs of compressed NFTs' };

interface Texts {
  readonly method: AssetMethod;
  readonly summary: string;
  readonly members: Readonly<Record<string, TSchema>>;
  /** Members that are not in `members` are refused. */
  readonly isClosed?: boolean;
  /** Names of the params in the order in which they may be given by position. */
  readonly order: readonly string[];
  readonly result: TSchema;
  /** Default: that something is not there. */
  readonly errors?: readonly RpcCodeName[];
}

function method(
  ctx: Context,
  { method: name, summary, members, isClosed, order, result, errors = ['notFound'] }: Texts,
  run: (question: DasRequest, call: RpcCall) => unknown,
): RpcMethod {
  return {
    name,
    aliases: ASSET_METHODS[name],
    summary,
    errors,
    result,
    params: dasParamsSchema({ ...members, ...OPTIONS }, order, isClosed),
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
    handler: (call: RpcCall) => run(readQuestion(call.params, ctx.config.dialect, order), call),
  };
}

function getAsset(ctx: Context): RpcMethod {
  const texts: Texts = {
    method: 'getAsset',
    summary: 'An asset by its id: a token, an NFT, compressed or not, or a Core asset or collection',
    members: ID,
    order: ORDERS.getAsset,
    result: asset,
  };
  return method(ctx, texts, (question, call) => {
    const id = readKey(question.member('id'), question, 'id');
    const kept = keptText(id, servicesOf(ctx), readOptionsOf(question, ctx.config.dialect));
    return kept === null ? readAsset(ctx, id, question, call) : new JsonBytes(kept.pieces);
  });
}

async function readAsset(ctx: Context, id: string, question: DasRequest, call: RpcCall): Promise<unknown> {
  const [found] = await findAssets(ctx, [id], question, call);
  if (found == null) throw new RpcError('notFound', { message: 'Asset Not Found', details: NOT_FOUND });
  return found instanceof AssetText ? new JsonBytes(found.pieces) : found;
}

const NOT_FOUND = 'no account of an asset has this address, and no upstream knows a compressed asset by it';

function getAssetBatch(ctx: Context): RpcMethod {
  const texts: Texts = {
    method: 'getAssetBatch',
    summary: `Up to ${MAX_ITEMS} assets by their ids, null in the place of unknown ones`,
    members: IDS,
    order: ORDERS.getAssetBatch,
    errors: [],
    result: Type.Array(orNull(asset), { description: 'In the order of `ids`' }),
  };
  return method(ctx, texts, async (question, call) => {
    const keys = readIds(question);
    return new JsonBytes(AssetText.listOf(await findAssets(ctx, keys, question, call)));
  });
}

function readIds(question: DasRequest): readonly string[] {
  const ids = question.member('ids');
  if (!Array.isArray(ids)) throw question.invalid('ids must be a list');
  if (ids.length > MAX_ITEMS) throw question.invalid(TOO_MANY_IDS);
  return (ids as readonly unknown[]).map((id) => readKey(id, question, 'ids'));
}

const servicesOf = ({ index, use }: Context) => ({
  index: index(),
  documents: use(offChainDocuments),
  prices: use(tokenPrices),
});

function partsOf(ctx: Context, question: DasRequest, { signal, tenant }: RpcCall): ListParts {
  const { config } = ctx;
  const chain = createSource(ctx.chain('main')!, config, signal, ctx.lacked);
  const services = servicesOf(ctx);
  return {
    ...services,
    config,
    source: services.index === null ? chain : services.index.source(chain),
    compressed: ctx.use(compressedAssets)?.index ?? undefined,
    documentWaitMs: config.documentWaitMs,
    group: tenant.id,
    options: readOptionsOf(question, config.dialect),
  };
}

/** An entry for each id, null where nothing is known by it. */
async function findAssets(ctx: Context, ids: readonly string[], question: DasRequest, call: RpcCall) {
  const parts = partsOf(ctx, question, call);
  const { assets, lacking } = await readAssets(ids, parts, parts.options);
  // Compressed assets have no account. An upstream with a DAS API may know those that are not followed.
  const missing = [...new Set(ids.filter((id) => !assets.has(id)))];
  const others = await parts.source.assetsElsewhere(missing, question.options);
  // One that is asked for alone may be of a tree that is being read.
  const isUnknown = ids.length === 1 && missing.length === 1 && others.size === 0;
  if (isUnknown && lacking !== null) throw new RpcError('unavailable', { message: lacking, details: lacking });
  return ids.map((id) => assets.get(id) ?? others.get(id) ?? null);
}

interface ListMethod extends Texts {
  readonly run: (question: DasRequest, parts: ListParts) => Promise<object>;
}

/** A list that cannot be complete here may be so at an upstream with a DAS API; otherwise it is refused with the reason. */
function listMethod(ctx: Context, { run, ...texts }: ListMethod): RpcMethod {
  return method(ctx, texts, async (question, call) => {
    const parts = partsOf(ctx, question, call);
    try {
      return listBytes(await run(question, parts));
    } catch (error) {
      if (!(error instanceof IncompleteList)) throw error;
      const passed = await parts.source.passOn(texts.method, question.members);
      if (passed !== null) return passed;
      throw new RpcError('notFound', { message: error.message, details: error.message });
    }
  });
}

/** A page is written as its assets are kept. */
function listBytes(answer: object): object {
  const { items } = answer as { readonly items?: readonly AssetText[] };
  if (items === undefined) return answer;
  const pieces: Uint8Array[] = [];
  for (const [name, value] of Object.entries(answer)) {
    const head = `${pieces.length === 0 ? '{' : ','}"${name}":`;
    if (name === 'items') pieces.push(Buffer.from(head), ...AssetText.listOf(items));
    else pieces.push(Buffer.from(head + stringify(value)));
  }
  return new JsonBytes([...pieces, Buffer.from('}')]);
}

function getSignaturesForAsset(ctx: Context): RpcMethod {
  const texts: Texts = {
    method: 'getSignaturesForAsset',
    summary: 'Transactions that changed a compressed asset, with the names of their instructions',
    members: { ...CHANGES, ...PAGING },
    order: ORDERS.getSignaturesForAsset,
    result: signatures,
  };
  return method(ctx, texts, async (question, call) => {
    const found = await assetSignatures(question, ctx.use(compressedAssets)!.index!, ctx.config);
    if (found !== null) return found;
    const passed = await partsOf(ctx, question, call).source.passOn('getSignaturesForAsset', question.members);
    if (passed !== null) return passed;
    throw new RpcError('notFound', { message: 'Asset Not Found', details: 'no followed tree has this asset' });
  });
}

/** What an upstream with a DAS API may answer about compressed assets, while no tree of theirs is followed here. */
interface UnfollowedMethod extends Texts {
  /** Refuses params that no upstream would take. */
  readonly check: (question: DasRequest) => void;
  /** What is missing if no upstream has it. */
  readonly missing: string;
}

function elsewhere(ctx: Context, { check, missing, ...texts }: UnfollowedMethod): RpcMethod {
  return method(ctx, texts, async (question, call) => {
    check(question);
    const passed = await partsOf(ctx, question, call).source.passOn(texts.method, question.members);
    if (passed !== null) return passed;
    const reason = 'no upstream has it, and trees of compressed assets are not followed (compression.cnft.trees)';
    throw new RpcError('notFound', { message: `${missing}: ${reason}`, details: reason });
  });
}

function getTokenAccounts(ctx: Context): RpcMethod {
  const texts: Texts = {
    method: 'getTokenAccounts',
    summary: 'Token accounts of an owner, of a mint, or of both, in pages by address',
    members: { ...TOKEN_ACCOUNTS, ...PAGING },
    order: ORDERS.getTokenAccounts,
    errors: [],
    result: tokenAccounts,
  };
  return method(ctx, texts, (question, call) =>
    readTokenAccounts(question, partsOf(ctx, question, call).source, ctx.config),
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
          amount: u64('Raw units'),
          delegated_amount: u64('Raw units that a delegate may move', 0),
          frozen: flag('Whether it is frozen'),
        },
        open,
      ),
      { description: 'Accounts of the page, by address' },
    ),
  },
  { ...open, title: 'TokenAccounts', description: 'A page of token accounts' },
);

const assets = Type.Object(
  {
    total: count('Assets of this page'),
    limit: count('Most assets of a page', 1_000),
    items: Type.Array(asset, { description: 'Assets of the page' }),
  },
  { ...open, title: 'AssetList', description: 'A page of assets' },
);
const signatures = Type.Object(
  {
    total: count('Entries of this page'),
    limit: count('Most entries of a page', 1_000),
    items: Type.Array(
      Type.Array(Type.String(), { description: 'Signature and name of the instruction', examples: [['', 'Transfer']] }),
      { description: 'Changes of the asset' },
    ),
  },
  { ...open, title: 'AssetSignatures', description: 'A page of changes' },
);
const editions = Type.Object(
  {
    total: count('Prints of this page'),
    limit: count('Most prints of a page', 1_000),
    page: count('Page, from 1', 1),
    master_edition_address: address('Account of the master edition'),
    supply: count('Prints that were made'),
    editions: Type.Array(Type.Object({}, open), { description: 'Prints by number' }),
  },
  { ...open, title: 'NftEditions', description: 'A page of prints' },
);
const group = Type.Object(
  {
    group_key: Type.String({ description: 'Key of the group', examples: ['collection'] }),
    group_name: Type.String({ description: 'Name of the collection', examples: ['Pictures'] }),
    group_size: count('Assets in the collection', 100),
  },
  { title: 'Grouping', description: 'Name and size of a group' },
);

const LISTS: readonly ListMethod[] = [
  {
    method: 'getAssetsByOwner',
    summary: 'Assets of an owner: tokens, NFTs, Core assets, and compressed assets of followed trees',
    members: { ...OWNER, tokenType: SEARCH.tokenType, ...PAGING, ...SORTING },
    order: ORDERS.getAssetsByOwner,
    result: assets,
    run: assetsByOwner,
  },
  {
    method: 'getAssetsByGroup',
    summary: 'Assets of a Core collection, or of one that is followed',
    members: { ...GROUP_MEMBERS, ...PAGING, ...SORTING },
    order: ORDERS.getAssetsByGroup,
    result: assets,
    run: assetsByGroup,
  },
  {
    method: 'getAssetsByAuthority',
    summary: 'Core assets and assets with Metaplex metadata that an authority may change',
    members: { ...AUTHORITY, ...PAGING, ...SORTING },
    order: ORDERS.getAssetsByAuthority,
    result: assets,
    run: assetsByAuthority,
  },
  {
    method: 'getAssetsByCreator',
    summary: 'Assets of a creator that is followed',
    members: { ...CREATOR, onlyVerified: SEARCH.creatorVerified, ...PAGING, ...SORTING },
    order: ORDERS.getAssetsByCreator,
    result: assets,
    run: assetsByCreator,
  },
  {
    method: 'searchAssets',
    summary: 'Assets of a key, a tree or a collection that fit all other members, or any of them',
    members: { ...SEARCH, ...PAGING, ...SORTING },
    order: ORDERS.searchAssets,
    isClosed: true,
    result: assets,
    run: searchAssets,
  },
  {
    method: 'getNftEditions',
    summary: 'Prints of a master edition',
    members: { ...EDITIONS, limit: PAGING.limit, page: PAGING.page },
    order: ORDERS.getNftEditions,
    result: editions,
    run: nftEditions,
  },
  {
    method: 'getGrouping',
    summary: 'Name and size of a Core collection, or of one that is followed',
    members: GROUP_MEMBERS,
    order: ORDERS.getGrouping,
    result: group,
    run: grouping,
  },
];

const proof = Type.Object({}, { ...open, description: 'Root, siblings, leaf and tree', examples: [{ proof: [] }] });

const UNFOLLOWED: readonly UnfollowedMethod[] = [
  {
    method: 'getAssetProof',
    summary: 'Merkle proof of a compressed NFT, from an upstream with a DAS API',
    members: ID,
    order: ORDERS.getAssetProof,
    result: proof,
    missing: 'Asset Proof Not Found',
    check: (question) => readKey(question.member('id'), question, 'id'),
  },
  {
    method: 'getAssetProofBatch',
    summary: `Merkle proofs of up to ${MAX_ITEMS} compressed NFTs, from an upstream with a DAS API`,
    members: IDS,
    order: ORDERS.getAssetProofBatch,
    missing: 'Asset Proof Not Found',
    result: Type.Record(Type.String(), orNull(proof)),
    check: readIds,
  },
  {
    method: 'getSignaturesForAsset',
    summary: 'Transactions that changed a compressed asset, from an upstream with a DAS API',
    members: { ...CHANGES, ...PAGING },
    order: ORDERS.getSignaturesForAsset,
    result: signatures,
    missing: 'Asset Not Found',
    check(question) {
      readLeaf(question);
      readPage(question);
    },
  },
];
