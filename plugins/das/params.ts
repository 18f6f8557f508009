import { type TSchema, Type } from '@sinclair/typebox';
import { decode32 } from '../../src/lib/base58.ts';
import { isPlainObject } from '../../src/lib/json.ts';
import { RpcError } from '../../src/plugin/plugin.ts';
import { type InvalidCode, MAX_IDS, refusedKey, shown } from '../../src/ports/compressed-assets.ts';
import type { AssetDialect } from '../../src/solana/assets/asset.ts';
import { address, EXAMPLES, flag, orNull } from '../../src/solana/schemas.ts';

/** Most ids of one batch, items of one page and keys of one filter. */
export const MAX_ITEMS = MAX_IDS;

/** Flags of `options`, under its two names. Clients send all that they know with each method, so each is accepted everywhere. */
const FLAGS = [
  'showUnverifiedCollections',
  'showCollectionMetadata',
  'showGrandTotal',
  'showInscription',
  'showRawData',
  'showFungible',
  'requireFullIndex',
  'showSystemMetadata',
  'showZeroBalance',
  'showClosedAccounts',
  'showNativeBalance',
] as const;

export type AssetFlags = Readonly<Partial<Record<string, boolean>>>;

export interface DasRequest {
  readonly members: Readonly<Record<string, unknown>>;
  /** The member without null, which counts as absent. */
  member(...names: readonly string[]): unknown;
  readonly options: AssetFlags;
  /** Where the contract's text does not say which member is wrong, `details` does. */
  invalid(text: string, details?: string): RpcError;
}

/** Error of params that are wrong: -32602 in the hosted API, -32000 in the one of Metaplex. */
export const invalidCode = (dialect: AssetDialect): InvalidCode =>
  dialect === 'hosted' ? 'invalidParams' : 'notFound';

/** `params` is an object, an array that holds one, or the values of `order`. Errors: of `dialect`. */
export function readQuestion(params: unknown, dialect: AssetDialect, order: readonly string[] = []): DasRequest {
  const invalid = (text: string, details = text) => new RpcError(invalidCode(dialect), { message: text, details });
  const members = membersOf(params, order);
  if (members === null) {
    const details = `params must be an object, or an array of at most ${order.length} values: ${order.join(', ')}`;
    throw invalid('params must be an object', details);
  }
  const member = (...names: readonly string[]): unknown => {
    const found = names.filter((name) => members[name] !== undefined && members[name] !== null);
    if (found.length > 1) throw invalid(`${found.join(' and ')} cannot be used together`);
    return found[0] === undefined ? undefined : members[found[0]];
  };
  return { members, member, options: readOptions(member, invalid), invalid };
}

function membersOf(params: unknown, order: readonly string[]): Readonly<Record<string, unknown>> | null {
  if (isPlainObject(params)) return params;
  if (!Array.isArray(params)) return null;
  const [first] = params as readonly unknown[];
  if (params.length === 1 && isPlainObject(first)) return first;
  if (params.length === 0 || params.length > order.length) return null;
  return Object.fromEntries((params as readonly unknown[]).map((value, at) => [order[at] as string, value]));
}

const PAGE_ORDER = ['sortBy', 'limit', 'page', 'before', 'after', 'options', 'cursor'] as const;

/**
 * Params by position, in the order of the reference; the first versions of umi's plugin send them so. No present client sends a
 * search by position, so its order stays that of these versions; the newest reference has `tokenType` fourth.
 */
export const ORDERS = {
  getAsset: ['id', 'options'],
  getAssetBatch: ['ids', 'options'],
  getAssetProof: ['id'],
  getAssetProofBatch: ['ids'],
  getAssetsByOwner: ['ownerAddress', ...PAGE_ORDER],
  getAssetsByGroup: ['groupKey', 'groupValue', ...PAGE_ORDER],
  getAssetsByAuthority: ['authorityAddress', ...PAGE_ORDER],
  getAssetsByCreator: ['creatorAddress', 'onlyVerified', ...PAGE_ORDER],
  searchAssets: [
    'negate',
    'conditionType',
    'interface',
    'ownerAddress',
    'ownerType',
    'creatorAddress',
    'creatorVerified',
    'authorityAddress',
    'grouping',
    'delegate',
    'frozen',
    'supply',
    'supplyMint',
    'compressed',
    'compressible',
    'royaltyTargetType',
    'royaltyTarget',
    'royaltyAmount',
    'burnt',
    'sortBy',
    'limit',
    'page',
    'before',
    'after',
    'jsonUri',
    'options',
    'cursor',
    'name',
  ],
  getNftEditions: ['mintAddress', 'page', 'limit'],
  getGrouping: ['groupKey', 'groupValue'],
  getTokenAccounts: ['ownerAddress', 'mintAddress', ...PAGE_ORDER.slice(1)],
  getSignaturesForAsset: ['id', 'limit', 'page', 'before', 'after', 'tree', 'leafIndex', 'cursor', 'sortDirection'],
} as const satisfies Readonly<Record<string, readonly string[]>>;

function readOptions(member: DasRequest['member'], invalid: DasRequest['invalid']): AssetFlags {
  const given = member('options', 'displayOptions');
  if (given === undefined) return {};
  if (!isPlainObject(given))
    throw invalid(`${member('options') === undefined ? 'displayOptions' : 'options'} must be an object`);
  const options: Record<string, boolean> = {};
  for (const [name, value] of Object.entries(given)) {
    if (!(FLAGS as readonly string[]).includes(name)) throw invalid(`unknown option ${name.slice(0, 64)}`);
    if (value !== null && typeof value !== 'boolean') throw invalid(`option ${name} must be true or false`);
    if (value !== null) options[name] = value;
  }
  return options;
}

/** 32 bytes in base58. `name`: of the member. */
export function readKey(value: unknown, { invalid }: DasRequest, name: string): string {
  const text = refusedKey(value);
  if (text !== null) throw invalid(text, `${name}: ${text}`);
  return value as string;
}

/** A page of a list that is ordered by the bytes of its keys. */
export interface Paging {
  readonly limit: number;
  readonly page: number | null;
  readonly before: string | null;
  readonly after: string | null;
  readonly cursor: string | null;
}

/** What pages are cut by: the texts of keys, which `before` and `after` take, and of cursors. Both throw for others. */
export interface PageKeys {
  key(value: unknown, name: string): string;
  cursor(value: unknown): string;
}

/** Lists are cut by the ids of their items. */
const idKeys = (question: DasRequest): PageKeys => ({
  key: (value, name) => readKey(value, question, name),
  cursor: (value) => (typeof value === 'string' && decode32(value) !== null ? value : badCursor(value, question)),
});

export function badCursor(value: unknown, { invalid }: DasRequest): never {
  throw invalid(`Cursor Validation Err: ${shown(value)} is invalid`);
}

export function readPaging(question: DasRequest, { key, cursor }: PageKeys = idKeys(question)): Paging {
  const { member, invalid } = question;
  const whole = (name: string, value: unknown): number => {
    if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number;
    throw invalid(`${name} must be a whole number`);
  };
  const limit = whole('limit', member('limit') ?? MAX_ITEMS);
  if (limit > MAX_ITEMS) throw invalid(`Pagination Error. Limit should not be greater than ${MAX_ITEMS}.`);
  if (limit === 0) throw invalid('Pagination Error. Limit should be greater than 0.');
  // Clients send empty texts for what is not set.
  const given = (name: string): unknown => (member(name) === '' ? undefined : member(name));
  const read = (name: string): string | null => (given(name) === undefined ? null : key(given(name), name));
  const keys = {
    before: read('before'),
    after: read('after'),
    cursor: given('cursor') === undefined ? null : cursor(given('cursor')),
  };
  const hasKeys = keys.before !== null || keys.after !== null || keys.cursor !== null;
  const page = member('page') === undefined ? null : whole('page', member('page'));
  if (page === 0 && !hasKeys) throw invalid('Pagination Error. No Pagination Method Selected');
  if ((page ?? 0) > 0 && hasKeys) throw invalid(ONE_METHOD);
  if (keys.cursor !== null && (keys.before !== null || keys.after !== null)) throw invalid(ONE_METHOD);
  return { limit, page: page === 0 ? null : page, ...keys };
}

const ONE_METHOD = 'Pagination Error. Only one pagination parameter supported per query.';

/** One page of items, in their order, else that of the bytes of their keys; and whether more follow. */
export function cutPage<T>(
  items: readonly { readonly key: Uint8Array; readonly item: T; readonly order?: number }[],
  { limit, page, before, after, cursor }: Paging,
  isDescending = false,
): { readonly items: readonly T[]; readonly hasMore: boolean } {
  const sign = isDescending ? -1 : 1;
  const sorted = [...items].sort((a, b) => sign * ((a.order ?? 0) - (b.order ?? 0) || Buffer.compare(a.key, b.key)));
  // `before` and `after` are bounds of keys, whatever the order; a cursor goes on in the order of the list.
  const [from, to, last] = [after, before, cursor].map((key) => (key === null ? null : decode32(key)));
  const inside = sorted.filter(
    ({ key }) =>
      (from == null || Buffer.compare(key, from) > 0) &&
      (to == null || Buffer.compare(key, to) < 0) &&
      (last == null || sign * Buffer.compare(key, last) > 0),
  );
  const start = page === null ? 0 : (page - 1) * limit;
  return {
    items: inside.slice(start, start + limit).map(({ item }) => item),
    hasMore: inside.length > start + limit,
  };
}

/** The schema of `params`: the object, an array that holds it, or the values of `order`. */
export function dasParamsSchema(
  members: Readonly<Record<string, TSchema>>,
  order: readonly string[],
  isClosed = false,
): TSchema {
  const closed = isClosed ? { additionalProperties: false } : {};
  const object = Type.Object(members, { ...closed, description: 'Members that are null count as absent' });
  const required = order.filter((name) => object.required?.includes(name)).length;
  const values = Type.Tuple(order.map((name) => members[name] as TSchema));
  return Type.Union([
    object,
    Type.Array(object, { minItems: 1, maxItems: 1 }),
    { ...values, minItems: Math.max(1, required), description: `By position: ${order.join(', ')}` },
  ]);
}

const options = Type.Optional(
  orNull(
    Type.Object(Object.fromEntries(FLAGS.map((name) => [name, Type.Optional(orNull(flag(name)))])), {
      title: 'AssetOptions',
      additionalProperties: false,
      description: 'What answers contain; flags that do not apply to a method are ignored',
    }),
  ),
);

/** Members of `params` that several methods have. */
export const OPTIONS = { options, displayOptions: options } as const;
export const ID = { id: address('Address of the mint, or of the Core asset or collection', EXAMPLES.mint) } as const;
export const IDS = {
  ids: Type.Array(ID.id, { maxItems: MAX_ITEMS, description: `Up to ${MAX_ITEMS} ids`, examples: [[EXAMPLES.mint]] }),
} as const;
const optional = <S extends TSchema>(schema: S) => Type.Optional(orNull(schema));
export const PAGING = {
  limit: optional(Type.Integer({ minimum: 1, maximum: MAX_ITEMS, description: 'Items of a page', examples: [100] })),
  page: optional(Type.Integer({ minimum: 0, description: 'Page, from 1', examples: [1] })),
  before: optional(Type.String({ description: 'Only keys below this one', examples: [''] })),
  after: optional(Type.String({ description: 'Only keys above this one', examples: [''] })),
  cursor: optional(Type.String({ description: '`cursor` of the page before', examples: [''] })),
} as const;
const key = (description: string, example?: string) => optional(address(description, example));
const GROUP = Type.Tuple([Type.Literal('collection'), address('Address of the collection')], {
  description: 'Key and value of a group',
  examples: [['collection', EXAMPLES.mint]],
});
const word = (words: readonly string[], description: string) =>
  optional(
    Type.Union(
      words.map((one) => Type.Literal(one)),
      { description, examples: words.slice(0, 1) },
    ),
  );
/** What a list is of, in the words of the hosted API and in those of Metaplex. */
export const TOKEN_TYPES = [
  'fungible',
  'nonFungible',
  'regularNft',
  'compressedNft',
  'all',
  'Fungible',
  'NonFungible',
  'Nft',
  'Compressed',
  'All',
] as const;
export const INTERFACES = [
  'V1_NFT',
  'V1_PRINT',
  'V2_NFT',
  'Legacy_NFT',
  'LEGACY_NFT',
  'FungibleAsset',
  'FungibleToken',
  'Identity',
  'Executable',
  'ProgrammableNFT',
  'MplCoreAsset',
  'MplCoreCollection',
  'Custom',
] as const;
export const OWNER_TYPES = ['single', 'token'] as const;
export const ROYALTY_TYPES = ['creators', 'fanout', 'single'] as const;
export const SORTING = {
  sortBy: optional(
    Type.Object(
      {
        sortBy: word(
          ['id', 'created', 'updated', 'recent_action', 'none'],
          'Field that orders the list; slots only in lists of the index',
        ),
        sortDirection: word(['asc', 'desc'], 'Ascending or descending'),
      },
      { description: 'Order of the list; ascending ids without it' },
    ),
  ),
} as const;
export const OWNER = { ownerAddress: address('Address of the owner') } as const;
export const AUTHORITY = { authorityAddress: address('Address of the authority') } as const;
export const GROUP_MEMBERS = {
  groupKey: Type.Literal('collection', { description: 'Key of the group' }),
  groupValue: address('Address of the collection', EXAMPLES.mint),
} as const;
export const CREATOR = { creatorAddress: address('Address of the creator') } as const;
const text = (description: string, example: string) => optional(Type.String({ description, examples: [example] }));
const truth = (description: string) => optional(flag(description));
const whole = (description: string, example: number) =>
  optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description, examples: [example] }));
const NONE_OF = optional(
  Type.Array(
    Type.Union([
      address('Address'),
      Type.Array(Type.Integer({ minimum: 0, maximum: 255 }), { minItems: 32, maxItems: 32, description: 'Its bytes' }),
    ]),
    { maxItems: MAX_ITEMS, description: 'Keys', examples: [[EXAMPLES.mint]] },
  ),
);
/** Members of a search that are refused. Clients send them as null where their users set nothing. */
export const REFUSED_MEMBERS = ['createdAt', 'collectionNft', 'isAgent', 'agentToken', 'assetSigner'] as const;
export const SEARCH = {
  ownerAddress: key('Address of the owner'),
  authorityAddress: key('Address of the authority'),
  creatorAddress: key('Address of a creator'),
  creatorVerified: truth('Whether the creator is verified'),
  grouping: optional(GROUP),
  collections: optional(Type.Array(address('Address of a collection'), { description: 'Collections, any of them' })),
  tokenType: word(TOKEN_TYPES, 'Kind of the assets; NFTs, compressed or not, without it'),
  interface: word(INTERFACES, 'Kind of the assets'),
  name: text('Name on the chain', 'Picture #1'),
  jsonUri: text('Address of the document', 'https://example.com/1.json'),
  ownerType: word(OWNER_TYPES, 'Whether they have one owner'),
  delegate: key('Address of the delegate'),
  delegateAddress: key('`delegate`, as umi calls it'),
  frozen: truth('Whether they are frozen'),
  burnt: truth('Whether they were burnt'),
  compressed: truth('Whether they are compressed'),
  compressible: truth('Whether they can be compressed'),
  tree: key('Tree of compressed assets'),
  supply: whole('Supply in raw units; 1 for an asset without a mint', 1),
  supplyMint: key('Mint of the asset'),
  royaltyTargetType: word(ROYALTY_TYPES, 'Model of the royalty'),
  royaltyTarget: key('Target of the royalty'),
  royaltyAmount: whole('Royalty in basis points', 500),
  not: optional(
    Type.Object(
      Object.fromEntries(['collections', 'owners', 'creators', 'authorities'].map((name) => [name, NONE_OF])),
      {
        additionalProperties: false,
        description: 'What they must not have, any of it',
      },
    ),
  ),
  negate: optional(Type.Literal(false, { description: 'Only false is supported' })),
  conditionType: word(['all', 'any'], 'Whether they fit all other members or any of them; `all` without it'),
  ...Object.fromEntries(
    REFUSED_MEMBERS.map((name) => [name, Type.Optional(Type.Null({ description: 'Not supported' }))]),
  ),
} as const;
export const EDITIONS = {
  mint: key('Mint of the master edition', EXAMPLES.mint),
  mintAddress: key('`mint`, as Metaplex calls it', EXAMPLES.mint),
} as const;
export const CHANGES = {
  id: key('Id of the asset', EXAMPLES.mint),
  tree: key('Tree, with `leafIndex` instead of `id`'),
  leafIndex: optional(Type.Integer({ minimum: 0, description: 'Index of the leaf', examples: [0] })),
  sortDirection: word(['desc', 'asc'], 'Newest first without it'),
} as const;
export const TOKEN_ACCOUNTS = {
  mint: optional(address('Address of the mint', EXAMPLES.mint)),
  owner: optional(address('Address of the owner')),
  mintAddress: optional(address('`mint`, as Metaplex calls it', EXAMPLES.mint)),
  ownerAddress: optional(address('`owner`, as Metaplex calls it')),
} as const;
