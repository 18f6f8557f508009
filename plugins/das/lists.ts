import { setImmediate as nextTurn } from 'node:timers/promises';
import { keccak_256 } from '@noble/hashes/sha3.js';
import { decode32, encode32 } from '../../src/lib/base58.ts';
import { equalBytes } from '../../src/lib/bytes.ts';
import { byteList, isPlainObject } from '../../src/lib/json.ts';
import { lazy } from '../../src/lib/lazy.ts';
import { codeOf, RpcError } from '../../src/plugin/plugin.ts';
import type { AssetsBy, CompressedAsset } from '../../src/ports/compressed-assets.ts';
import {
  CORE_AUTHORITY,
  CORE_AUTHORITY_AT,
  CORE_KEY,
  CORE_OWNER_AT,
  decodeCoreCollection,
} from '../../src/solana/accounts/core.ts';
import { decodeEdition, decodeMetadata, METADATA_KEY } from '../../src/solana/accounts/metaplex.ts';
import { decodeTokenAccount } from '../../src/solana/accounts/token.ts';
import { editionAddress, isOnCurve } from '../../src/solana/addresses.ts';
import type { Asset, MintAccounts } from '../../src/solana/assets/asset.ts';
import { type LeafMetadata, storedMetadata } from '../../src/solana/concurrent/leaf-metadata.ts';
import {
  BUBBLEGUM_PROGRAM,
  CORE_PROGRAM,
  METADATA_PROGRAM,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  WRAPPED_SOL_MINT,
} from '../../src/solana/programs.ts';
import type { DasConfig } from './config.ts';
import type { AssetIndex } from './indexing/asset-index.ts';
import type { KeptAsset, KeptView } from './indexing/kept.ts';
import { BURNT, FLAG, LIST, LISTS_OF, type ListedKind } from './indexing/tables.ts';
import { FACTS } from './indexing/write.ts';
import {
  cutPage,
  type DasRequest,
  INTERFACES,
  MAX_ITEMS,
  OWNER_TYPES,
  type Paging,
  REFUSED_MEMBERS,
  ROYALTY_TYPES,
  readKey,
  readPaging,
  readQuestion,
  TOKEN_TYPES,
} from './params.ts';
import {
  type AssetReadOptions,
  type AssetText,
  assetIdOf,
  assetOf,
  coreOf,
  type FoundAsset,
  findAssetAccounts,
  howOf,
  isFungible,
  keptTexts,
  keptViewOf,
  leafAsset,
  type ReadParts,
  showAssets,
} from './read-assets.ts';
import { holdsMore, type KeyedAccount } from './source.ts';

export interface ListParts extends ReadParts {
  /** Null: nothing is followed. */
  readonly index: AssetIndex | null;
  readonly config: Pick<DasConfig, 'dialect' | 'maxTokenAccounts' | 'listCore'>;
  readonly options: AssetReadOptions;
}

/** Thrown for a list that cannot be complete: an upstream with a DAS API may have it. */
export class IncompleteList extends Error {}

/** The assets of an owner. */
export function assetsByOwner(question: DasRequest, parts: ListParts): Promise<object> {
  return answerList(question, parts, [
    allOf({ owner: readKey(question.member('ownerAddress'), question, 'ownerAddress') }, question),
  ]);
}

/** The Core assets of a collection. */
export function assetsByGroup(question: DasRequest, parts: ListParts): Promise<object> {
  const [key, value] = [question.member('groupKey'), question.member('groupValue')];
  return answerList(question, parts, [allOf({ group: readGroup([key, value], question, 'groupValue') }, question)]);
}

/** The assets of a creator, which only an index has. */
export function assetsByCreator(question: DasRequest, parts: ListParts): Promise<object> {
  const creator = readKey(question.member('creatorAddress'), question, 'creatorAddress');
  const verified = question.member('onlyVerified') ?? false;
  if (typeof verified !== 'boolean') throw question.invalid('onlyVerified must be true or false');
  return answerList(question, parts, [allOf({ creator, isVerified: verified }, question)]);
}

export function assetsByAuthority(question: DasRequest, parts: ListParts): Promise<object> {
  const authority = readKey(question.member('authorityAddress'), question, 'authorityAddress');
  return answerList(question, parts, [allOf({ authority }, question)]);
}

/**
 * The assets of an owner, a mint, a tree, an authority, a collection or a creator, or all compressed ones, that also match every other
 * member. With `conditionType: any`, the assets that match at least one of the members, each once.
 */
export async function searchAssets(question: DasRequest, parts: ListParts): Promise<object> {
  const { member, invalid } = question;
  for (const name of Object.keys(question.members))
    if (!SEARCH_MEMBERS.has(name)) throw invalid(`searchAssets: ${name} is not supported`);
  for (const name of REFUSED_MEMBERS)
    if (member(name) !== undefined) throw invalid(`searchAssets: ${name} is not supported`);
  const negate = member('negate') ?? false;
  if (negate !== false) throw invalid('searchAssets: negate is not supported');
  const condition = member('conditionType') ?? 'all';
  if (condition !== 'all' && condition !== 'any') throw invalid('searchAssets: conditionType must be all or any');
  // An invalid member is reported before a list that cannot be complete.
  const owner = member('ownerAddress');
  if (owner !== undefined) readKey(owner, question, 'ownerAddress');
  readKind(question);
  readFilter(question, []);
  readOrder(question, parts.options.dialect);
  const conditions = condition === 'all' ? [question] : conditionsOf(question, parts.options);
  return await answerList(question, parts, conditions.flatMap(readSearches));
}

/** One search per member. Errors: IncompleteList if the list for one of the members cannot be complete. */
function conditionsOf({ members, invalid }: DasRequest, { dialect }: Pick<AssetReadOptions, 'dialect'>): DasRequest[] {
  const given = Object.entries(members).filter(([, value]) => value !== null && value !== undefined);
  const scope = given.filter(([name]) => SCOPE_MEMBERS.has(name));
  const conditions = given.flatMap(([name, value]) => {
    if (SCOPE_MEMBERS.has(name)) return [];
    if (!BASE_MEMBERS.has(name) || value === false)
      throw new IncompleteList(`searchAssets with conditionType any: no list of all assets by ${name} is complete`);
    if (name !== 'collections') return [[name, value] as const];
    return [...new Set(value as readonly string[])].map((key) => ['grouping', ['collection', key]] as const);
  });
  if (conditions.length > MAX_SEARCHES)
    throw invalid(`searchAssets: conditionType any takes up to ${MAX_SEARCHES} conditions`);
  if (conditions.length === 0) throw nothingListed();
  return conditions.map((one) => readQuestion(Object.fromEntries([...scope, one]), dialect));
}

/** Reads bases, kind and filter of a search, which is of one list or of several. Errors: IncompleteList. */
function readSearches(question: DasRequest): readonly Search[] {
  const { member, invalid } = question;
  const [owner, authority, grouping, creator] = ['ownerAddress', 'authorityAddress', 'grouping', 'creatorAddress'].map(
    (name) => member(name),
  );
  if (owner === undefined && member('name') !== undefined)
    throw invalid('Validation Error: Owner address must be provided in order to search assets by name');
  const tree = member('tree');
  const [kind, isDecided] = ofCompression(readKind(question), member('compressed'));
  const mint = member('supplyMint');
  const isOfTree = owner === undefined && mint === undefined && tree !== undefined;
  // Conditions that the base or the kind of the list already implies need no filter.
  const known = [...(isDecided ? ['compressed'] : []), ...(isOfTree ? ['tree'] : [])];
  const filter = readFilter(question, known);
  const of = (base: Base): readonly Search[] => [{ base, kind, filter }];
  if (owner !== undefined) return of({ owner: readKey(owner, question, 'ownerAddress') });
  if (mint !== undefined) return of({ mint: readKey(mint, question, 'supplyMint') });
  if (tree !== undefined) return of({ tree: readKey(tree, question, 'tree') });
  if (authority !== undefined) return of({ authority: readKey(authority, question, 'authorityAddress') });
  if (grouping !== undefined) return of({ group: readGroup(grouping, question) });
  if (creator !== undefined) return of({ creator: readKey(creator, question, 'creatorAddress'), isVerified: false });
  if (member('compressed') === true) return of({ compressed: true });
  const groups = new Set((member('collections') ?? []) as readonly string[]);
  if (groups.size === 0) throw nothingListed();
  if (groups.size > MAX_SEARCHES) throw invalid(`searchAssets: at most ${MAX_SEARCHES} collections without an owner`);
  return [...groups].flatMap((group) => of({ group }));
}

const nothingListed = () =>
  new IncompleteList(
    'searchAssets needs ownerAddress, supplyMint, authorityAddress, grouping, collections, creatorAddress, tree or compressed: no other list is complete',
  );

const PAGE_MEMBERS = ['page', 'limit', 'before', 'after', 'cursor', 'sortBy', 'options', 'displayOptions'] as const;
/** Members that are not conditions, and members for which a list can be complete. */
const SCOPE_MEMBERS = new Set<string>([...PAGE_MEMBERS, 'tokenType', 'negate', 'conditionType']);
const BASE_MEMBERS = new Set([
  'ownerAddress',
  'supplyMint',
  'tree',
  'authorityAddress',
  'grouping',
  'collections',
  'creatorAddress',
  'compressed',
]);

type Base =
  | { readonly owner: string }
  | { readonly authority: string }
  | { readonly group: string }
  | { readonly creator: string; readonly isVerified: boolean }
  | { readonly tree: string }
  | { readonly mint: string }
  | { readonly compressed: true };

/** One list, by base, kind and filter. */
interface Search {
  readonly base: Base;
  readonly kind: AssetKind;
  /** Null: all of the base. */
  readonly filter: Filter | null;
}

const allOf = (base: Base, question: DasRequest): Search => ({ base, kind: readKind(question), filter: null });

/** Which assets of the base are in the list. */
interface Filter {
  readonly holds: (asset: Asset) => boolean;
  /** Byte strings that the metadata of each compressed asset of the list contains: metadata without them need not be read. */
  readonly bytes: readonly Uint8Array[];
}

/** Which of all compressed assets are in the list, by their leaf. `metadata` is decoded only when it is called. */
interface LeafFilter {
  readonly holds: (asset: CompressedAsset, metadata: () => LeafMetadata) => boolean;
  readonly bytes: Uint8Array;
}

/** A list before it is read. */
interface ListQuery extends Search {
  readonly isBurnt: boolean;
  /** Unverified members of a collection are shown, and are in its list. */
  readonly isClaimShown: boolean;
  /** `requireFullIndex`: the list is complete or refused. */
  readonly isFull: boolean;
  /** The part of the ids, in their order, that the page needs: later ones are not read. */
  readonly part: ListedPart;
  readonly view: KeptView | null;
  /** Receives the ids that were checked and are not in the list. */
  readonly others: Set<string>;
}

/** One list, or several as one. */
async function answerList(question: DasRequest, parts: ListParts, searches: readonly Search[]): Promise<object> {
  const { options: flags } = question;
  const { source, options } = parts;
  const { paging, sort } = readOrder(question, options.dialect);
  const isCounted = flags['showGrandTotal'] === true;
  const part = isCounted || sort.field !== 'id' ? WHOLE : partOfPage(paging, sort.isDescending);
  const view = searches.every(({ filter }) => filter === null) ? await keptViewOf(parts, options) : null;
  const wanted = searches.map(
    (search): ListQuery => ({
      ...search,
      isBurnt: question.member('burnt') === true,
      part,
      view,
      others: new Set(),
      isClaimShown: flags['showUnverifiedCollections'] === true,
      isFull: flags['requireFullIndex'] === true,
    }),
  );
  const [only] = wanted.length === 1 ? wanted : [];
  const keeping =
    only === undefined || sort.field !== 'id' ? null : await keepingOf(only, { paging, sort }, question, parts);
  const found = await keeping?.find();
  const unknown = found == null ? await unknownBurnt(wanted, parts) : [];
  const { assets, count, slot } = found ?? (await readPage(wanted, { paging, sort }, question, parts));
  if (found == null) await keeping?.keep({ assets, count, slot });
  const owner = searches.map(({ base }) => base).find((base) => 'owner' in base)?.owner;
  const usesCursor = paging.page === null && paging.before === null && paging.after === null;
  const last = sort.field === 'id' ? assets.at(-1)?.id : undefined;
  return {
    ...(options.dialect === 'hosted' ? { last_indexed_slot: oldestSlot(source.slot, slot) } : {}),
    ...(isCounted ? { grand_total: count } : {}),
    total: assets.length,
    limit: paging.limit,
    ...(paging.page === null ? {} : { page: paging.page }),
    ...(paging.before === null ? {} : { before: paging.before }),
    ...(paging.after === null ? {} : { after: paging.after }),
    ...(usesCursor && last !== undefined ? { cursor: last } : {}),
    items: assets,
    ...(unknown.length === 0 ? {} : { errors: unknown }),
    ...(flags['showNativeBalance'] === true && owner !== undefined ? await nativeBalance(owner, parts) : {}),
  };
}

/**
 * What lists of burnt assets lack: no upstream can be asked for those that had accounts, so only the index knows them, of what is followed.
 * Refuses lists that have nothing else; with compressed assets they come, and say so.
 */
async function unknownBurnt(
  wanted: readonly ListQuery[],
  { index, compressed }: ListParts,
): Promise<readonly { readonly id: string; readonly error: string }[]> {
  const unknown: { readonly id: string; readonly error: string }[] = [];
  for (const { base, kind, isBurnt, isFull } of wanted) {
    const [of, key] = Object.entries(base)[0] as [string, string];
    const follow = KEPT_LISTS[of];
    if (!isBurnt || kind === 'compressed' || follow === undefined) continue;
    const state = await index?.stateOf(follow, key);
    if (state === 'ready') continue;
    if (state === 'filling') throw beingRead(follow, key);
    const error = `burnt assets of the ${follow} ${key} that had accounts are not known: it is not followed (das.follow.${FOLLOWED_AS[follow]})`;
    const mayHaveOthers = compressed !== undefined && mayHaveLeaves(kind) && of !== 'authority';
    if (isFull || !mayHaveOthers) throw new IncompleteList(error);
    unknown.push({ id: key, error });
  }
  return unknown;
}

interface ShownPage {
  readonly assets: readonly AssetText[];
  /** Assets of the list, as far as it was read. */
  readonly count: number;
  /** Slot of the list, see `FoundList`. */
  readonly slot: number;
}

async function readPage(
  wanted: readonly ListQuery[],
  { paging, sort }: ReturnType<typeof readOrder>,
  question: DasRequest,
  parts: ListParts,
): Promise<ShownPage> {
  const { found: listed, slot } = await findAll(wanted, question, parts);
  const order = sort.field === 'id' || listed.length < 2 ? null : await slotsOf(listed, sort.field, parts);
  const keyed = listed.map((item) => {
    const id = assetIdOf(item);
    return { key: decode32(id) as Uint8Array, item, order: order?.get(id) ?? 0 };
  });
  const page = cutPage(keyed, paging, sort.isDescending);
  const toShow = page.items.map((item) => ({ id: assetIdOf(item), listing: listingOf(item, parts), item }));
  const read = async (rest: readonly (typeof toShow)[number][]) => {
    const rows = await readRows(
      rest.map(({ item }) => item),
      parts,
    );
    return rows.map((one) => (one.kind === 'unread' ? readLeaf(one) : one));
  };
  const shown = await showAssets(toShow, read, wanted[0]?.view ?? null, parts, parts.options);
  const assets = toShow.flatMap(({ id }) => shown.get(id) ?? []);
  for (const { id } of toShow) if (!shown.has(id)) wanted[0]?.others.add(id);
  return { assets, count: listed.length, slot };
}

/** Reads one page from the cache, and writes it there. */
interface PageKeeping {
  find(): Promise<ShownPage | null>;
  /** Keeps it if all of it is of the index. */
  keep(page: ShownPage): Promise<void>;
}

/** Null where a list depends on more than what the index stores of it. */
async function keepingOf(
  wanted: ListQuery,
  order: ReturnType<typeof readOrder>,
  { options: flags }: DasRequest,
  parts: ListParts,
): Promise<PageKeeping | null> {
  const { index, source, compressed, options, config } = parts;
  const { base, kind, view } = wanted;
  const [of, key] = Object.entries(base)[0] as [string, string];
  const list = KEPT_LISTS[of];
  if (index === null || view === null || list === undefined || wanted.isFull || kind === 'compressed') return null;
  const mayLeave = compressed !== undefined && mayHaveLeaves(kind) && of !== 'authority';
  // Whether an owner has compressed assets is read at once.
  if ((mayLeave && of !== 'owner') || (await index.stateOf(list, key)) !== 'ready') return null;
  const name = JSON.stringify([
    base,
    kind,
    wanted.isBurnt,
    order,
    Object.entries(flags).sort(),
    howOf(options, undefined),
    config.listCore,
    config.maxTokenAccounts,
  ]);
  return {
    async find() {
      const page = view.findPage(name);
      const assets = page === undefined ? null : keptTexts(page.assets, view, parts, options);
      if (page === undefined || assets === null) return null;
      const leaves = mayLeave ? await leavesOfOwner(key, wanted, parts) : NOTHING;
      return leaves.found.length > 0 ? null : { assets, count: page.listed, slot: oldestSlot(view.slot, leaves.slot) };
    },
    async keep({ assets, count }) {
      const kept = assets.flatMap((one) => one.kept ?? []);
      if (kept.length < assets.length || !source.isOfIndex || keptTexts(kept, view, parts, options) === null) return;
      const page = { assets: kept, others: [...wanted.others], listed: count };
      view.keepPage(name, page, await index.listsOf(LISTS_OF[list], key), key);
    },
  };
}

/** Bases whose lists are of the index, and what has to be followed for each. */
const KEPT_LISTS: Readonly<Record<string, ListedKind>> = {
  owner: 'owner',
  group: 'collection',
  creator: 'creator',
  authority: 'authority',
};

/** Names of `das.follow`. */
const FOLLOWED_AS: Readonly<Record<ListedKind, string>> = {
  owner: 'owners',
  collection: 'collections',
  creator: 'creators',
  authority: 'authorities',
};

const leavesOfOwner = (owner: string, wanted: ListQuery, parts: ListParts): Promise<FoundList> =>
  leavesOf({ owner: decode32(owner) as Uint8Array }, wanted.isFull ? 'complete' : 'some', parts, wanted);

/** An asset whose accounts were not read yet. */
interface UnreadRow {
  readonly kind: 'row';
  readonly id: string;
  /** The token account of the owner whose assets are listed. */
  readonly holder?: NonNullable<MintAccounts['holder']>;
}

type ListItem = FoundAsset | UnreadLeaf | UnreadRow;

const MIN_READ = 100;
/** Accounts and ids that are checked before other requests get a turn. */
const ITEMS_PER_TURN = 1_000;

/**
 * The assets with accounts that are in the list, read in its order up to the last one of the page. `isKnown`: without a filter, all of
 * them are in the list.
 */
async function listedOf(
  found: readonly ListItem[],
  { kind, filter, part, view, others }: ListQuery,
  parts: ListParts,
  isKnown = false,
): Promise<readonly ListItem[]> {
  const { most, isDescending, above, below } = part;
  const inside: KeyedItem[] = [];
  for (const [at, item] of found.entries()) {
    if (at % ITEMS_PER_TURN === ITEMS_PER_TURN - 1) await nextTurn();
    const key = decode32(assetIdOf(item)) as Uint8Array;
    const isInside =
      (above === null || Buffer.compare(key, above) > 0) && (below === null || Buffer.compare(key, below) < 0);
    if (isInside) inside.push({ item, key });
  }
  const rest = inOrder(inside, isDescending);
  if (isKnown && filter === null) return take(rest, most ?? inside.length);
  const listed: ListItem[] = [];
  for (let at = 0, size = 0; at < inside.length && (most === null || listed.length < most); at += size) {
    // Without a filter most of the assets read are in the list.
    size = most === null ? inside.length : Math.max(MIN_READ, most - listed.length, size * 2);
    const part = take(rest, size);
    if (filter === null) {
      const fitting = await ofKind(part, kind, view, parts);
      listed.push(...fitting);
      const ids = new Set(fitting.map(assetIdOf));
      for (const item of part) if (!ids.has(assetIdOf(item))) others.add(assetIdOf(item));
    } else
      for (const one of await readRows(part, parts)) {
        if (one.kind === 'unread' || !isOfKind(one, kind)) continue;
        const asset = assetOf(one, null, parts.source.slot, FACTS);
        if (asset !== null && filter.holds(asset)) listed.push(one);
      }
    if (at + size < inside.length) await nextTurn();
  }
  return listed;
}

interface KeyedItem {
  readonly item: ListItem;
  readonly key: Uint8Array;
}

/** Ordered by key. A lazy radix sort: only the items that are taken get sorted completely. */
function* inOrder(items: readonly KeyedItem[], isDescending: boolean, at = 0): Generator<ListItem> {
  if (items.length <= MIN_PARTED || at === KEY_BYTES) {
    const sign = isDescending ? -1 : 1;
    for (const { item } of items.toSorted((a, b) => sign * Buffer.compare(a.key, b.key))) yield item;
    return;
  }
  const parts: KeyedItem[][] = Array.from({ length: 256 }, () => []);
  for (const one of items) parts[one.key[at] as number]!.push(one);
  for (const part of isDescending ? parts.reverse() : parts) yield* inOrder(part, isDescending, at + 1);
}

const MIN_PARTED = 100;
const KEY_BYTES = 32;

/** Takes the next items of a generator, which can be continued afterwards. */
function take(rest: Generator<ListItem>, most: number): ListItem[] {
  const taken: ListItem[] = [];
  while (taken.length < most) {
    const { value, done } = rest.next();
    if (done === true) break;
    taken.push(value);
  }
  return taken;
}

/** The items of a kind; for cached items the kind is known without their accounts. */
async function ofKind(
  items: readonly ListItem[],
  kind: AssetKind,
  view: KeptView | null,
  parts: ListParts,
): Promise<ListItem[]> {
  const known = new Map<ListItem, KeptAsset>();
  for (const item of items) {
    const kept = item.kind === 'row' ? view?.find(item.id, howOf(parts.options, listingOf(item, parts))) : undefined;
    if (kept !== undefined) known.set(item, kept);
  }
  const others = await readRows(
    items.filter((item) => !known.has(item)),
    parts,
  );
  const found = new Map(others.map((one) => [assetIdOf(one), one]));
  return items.flatMap((item): ListItem[] => {
    const kept = known.get(item);
    const one = kept === undefined ? found.get(assetIdOf(item)) : item;
    if (one === undefined || one.kind === 'unread') return [];
    return isOfKind(one.kind === 'row' ? { kind: 'kept', ...kept! } : one, kind) ? [one] : [];
  });
}

/** A list of an owner shows the token accounts of the owner, and the reference those of others in all lists. */
function listingOf(item: ListItem, { options }: Pick<ListParts, 'options'>): string {
  if (item.kind === 'row' && item.holder !== undefined) return item.holder.owner;
  if (item.kind === 'mint' && item.listedFor !== undefined) return item.listedFor;
  return options.dialect === 'hosted' ? '' : 'list';
}

/** Replaces the rows whose accounts were not read by their accounts. */
async function readRows(
  items: readonly ListItem[],
  { source, options }: ListParts,
): Promise<(FoundAsset | UnreadLeaf)[]> {
  const rows = items.filter((one) => one.kind === 'row');
  if (rows.length === 0) return items as (FoundAsset | UnreadLeaf)[];
  const holders = new Map(rows.flatMap(({ id, holder }) => (holder === undefined ? [] : [[id, holder] as const])));
  const ids = rows.map(({ id }) => id);
  const found = new Map((await findAssetAccounts(ids, source, holders)).map((one) => [assetIdOf(one), one]));
  return items.flatMap((one) => {
    const read = one.kind === 'row' ? found.get(one.id) : one;
    if (read === undefined) return [];
    if (one.kind !== 'row' || read.kind !== 'mint') return read as FoundAsset | UnreadLeaf;
    return one.holder === undefined ? withHolder(read, options) : { ...read, listedFor: one.holder.owner };
  });
}

/** The reference shows the token account of an NFT in every list, the hosted API in those of an owner. */
function withHolder(one: FoundAsset, { dialect }: Pick<AssetReadOptions, 'dialect'>): FoundAsset {
  const holder = one.kind === 'mint' ? one.accounts.holder : null;
  return dialect === 'hosted' || one.kind !== 'mint' || holder === null ? one : { ...one, listedFor: holder.owner };
}

/** The slots that a list is ordered by. `updated` and `recent_action` are the same; that of a leaf is the slot of its last change. */
async function slotsOf(items: readonly ListItem[], field: string, { index }: ListParts): Promise<Map<string, number>> {
  const ofLeaves = items.flatMap((one) =>
    field !== 'created' && (one.kind === 'leaf' || one.kind === 'unread')
      ? [[assetIdOf(one), one.asset.slot] as const]
      : [],
  );
  const slots = new Map(ofLeaves);
  const others = items.flatMap((one) => (slots.has(assetIdOf(one)) ? [] : [assetIdOf(one)]));
  const stored = await index?.slotsOf(others);
  for (const id of others) {
    const found = stored?.get(id);
    if (found === undefined)
      throw new IncompleteList(
        `sortBy ${field} is not supported for this list: ${id} is not indexed, so its slots are not known; use id or none`,
      );
    slots.set(id, field === 'created' ? found.created : found.updated);
  }
  return slots;
}

/** The oldest slot of accounts and of an index; 0 where it has no part. */
function oldestSlot(a: number, b: number): number {
  return a === 0 || b === 0 ? Math.max(a, b) : Math.min(a, b);
}

/** A compressed asset whose metadata was not compared with its leaf yet. */
interface UnreadLeaf {
  readonly kind: 'unread';
  readonly id: string;
  readonly asset: CompressedAsset;
  readonly slot: number;
}

const readLeaf = ({ asset, slot }: UnreadLeaf): FoundAsset => leafAsset(asset, slot) ?? unfit();

function unfit(): never {
  throw unavailable('the metadata of a compressed asset does not fit its leaf');
}

/** Which assets of a list, in the order of their ids; null: no bound. */
interface ListedPart {
  readonly most: number | null;
  readonly isDescending: boolean;
  readonly above: Uint8Array | null;
  readonly below: Uint8Array | null;
}

const WHOLE: ListedPart = { most: null, isDescending: false, above: null, below: null };

/** The items up to the end of this page, because `page` counts from the first item. */
function partOfPage({ limit, page, before, after, cursor }: Paging, isDescending: boolean): ListedPart {
  const [from, to] = isDescending ? [after, before ?? cursor] : [after ?? cursor, before];
  return {
    most: (page ?? 1) * limit,
    isDescending,
    above: from === null ? null : decode32(from),
    below: to === null ? null : decode32(to),
  };
}

interface FoundList {
  readonly found: readonly ListItem[];
  /** The oldest slot of the indexes that the list is of; 0 where none has a part in it. */
  readonly slot: number;
}

/** What is in any of the lists, each asset once. An asset on the first page of all together is on the first page of one of them. */
async function findAll(wanted: readonly ListQuery[], question: DasRequest, parts: ListParts): Promise<FoundList> {
  const lists: FoundList[] = [];
  for (const one of wanted) lists.push(await findBase(one, question, parts));
  if (lists.length === 1) return lists[0] as FoundList;
  const { maxTokenAccounts } = parts.config;
  const found = new Map<string, ListItem>();
  // An owner's list shows more of an asset than the others.
  const ofOwner = lists[wanted.findIndex(({ base }) => 'owner' in base)];
  for (const list of ofOwner === undefined ? lists : [ofOwner, ...lists])
    for (const item of list.found) if (!found.has(assetIdOf(item))) found.set(assetIdOf(item), item);
  if (found.size > maxTokenAccounts) throw tooMany(maxTokenAccounts);
  return { found: [...found.values()], slot: lists.map(({ slot }) => slot).reduce(oldestSlot) };
}

/** What is in the list, as far as the page needs it: assets with accounts, and compressed ones, each in no order. */
async function findBase(wanted: ListQuery, question: DasRequest, parts: ListParts): Promise<FoundList> {
  const { base, kind, isFull } = wanted;
  if (isFull && kind !== 'compressed') await requireAccounts(wanted, parts);
  // Compressed assets that are listed with others count as far as trees are followed.
  const needs = isFull ? 'complete' : kind === 'compressed' ? 'all' : 'some';
  if ('owner' in base) return await ofOwner(base.owner, wanted, question, parts);
  if ('mint' in base) return { found: await listedOf([{ kind: 'row', id: base.mint }], wanted, parts), slot: 0 };
  if ('authority' in base) return await ofAuthority(base.authority, wanted, parts);
  if ('group' in base) return await ofGroup(base.group, needs, wanted, parts);
  if ('creator' in base) return await ofCreator(base, needs, wanted, parts);
  if ('tree' in base) return await leavesOf({ tree: decode32(base.tree) as Uint8Array }, 'complete', parts, wanted);
  return await leavesOf('all', needs, parts, wanted);
}

/** Programs that a complete list needs in `das.follow.programs`: following a key does not find all of their accounts. */
const WHOLE_PROGRAMS: Readonly<Record<string, readonly string[]>> = {
  // The authority has no fixed place in a mint.
  authority: [TOKEN_2022_PROGRAM],
  // Nor has a creator in metadata without padding, or in a plugin of a Core asset.
  creator: [METADATA_PROGRAM, CORE_PROGRAM],
  group: [METADATA_PROGRAM],
};

/** For `requireFullIndex`: refuses a list whose assets with accounts cannot all be found. */
async function requireAccounts(wanted: ListQuery, { index, source, config }: ListParts): Promise<void> {
  const { base } = wanted;
  if ('owner' in base && wanted.kind !== 'fungible' && !config.listCore)
    throw new IncompleteList('requireFullIndex: lists of an owner need das.listCore');
  const [kind, programs] = Object.entries(WHOLE_PROGRAMS).find(([name]) => name in base) ?? ['', []];
  // Core assets have their collection at a fixed place; members of other kinds are unverified.
  const isCore = async (key: string) => (await source.accounts([key])).get(key)?.owner === CORE_PROGRAM;
  if ('group' in base && !wanted.isClaimShown && (await isCore(base.group))) return;
  for (const program of programs)
    if ((await index?.stateOf('program', program)) !== 'ready')
      throw new IncompleteList(`requireFullIndex: lists by ${kind} need ${program} in das.follow.programs`);
}

const joined = (one: FoundList, other: FoundList): FoundList => ({
  found: [...one.found, ...other.found],
  slot: oldestSlot(one.slot, other.slot),
});

/** Filtered leaves per read, and leaves that are checked before other requests get a turn. */
const LEAVES_PER_READ = 5_000;
const LEAVES_PER_TURN = 500;

type LeavesNeeded = 'some' | 'all' | 'complete';

/**
 * Compressed assets. `needs`: `some` those of followed trees, `all` those of all trees whose past is known, `complete` those of all trees.
 * The stored metadata decides which assets are in the list; it is compared with the leaf only when an asset is shown.
 */
async function leavesOf(
  by: AssetsBy,
  needs: LeavesNeeded,
  parts: ListParts,
  wanted: Pick<ListQuery, 'kind' | 'filter' | 'isBurnt' | 'part'>,
  of: LeafFilter | null = null,
): Promise<FoundList> {
  if (!mayHaveLeaves(wanted.kind)) return NOTHING;
  const longest = parts.config.maxTokenAccounts;
  // A page that begins beyond is empty, unless the list is longer.
  const part = { ...wanted.part, most: Math.min(wanted.part.most ?? longest + 1, longest + 1) };
  const found: UnreadLeaf[] = [];
  let oldest = 0;
  for await (const { leaves, slot } of readLeaves(by, needs, parts, { ...wanted, part }, of)) {
    oldest = oldestSlot(oldest, slot);
    for (const asset of leaves) found.push({ kind: 'unread', id: encode32(asset.id), asset, slot });
    if (found.length > longest) throw tooMany(longest);
  }
  return { found, slot: oldest };
}

const mayHaveLeaves = (kind: AssetKind): boolean => kind !== 'fungible' && kind !== 'regular';

/** The same, one part after the other. */
async function* readLeaves(
  by: AssetsBy,
  needs: LeavesNeeded,
  { compressed, config }: ListParts,
  { filter, isBurnt, part }: Pick<ListQuery, 'filter' | 'isBurnt' | 'part'>,
  of: LeafFilter | null,
): AsyncGenerator<{ readonly leaves: readonly CompressedAsset[]; readonly slot: number }> {
  const isAll = filter === null && of === null;
  const bytes = [...(filter?.bytes ?? []), ...(of === null ? [] : [of.bytes])];
  let { above, below } = part;
  let lacking = part.most ?? config.maxTokenAccounts + 1;
  for (let size = 0; lacking > 0; ) {
    size = isAll ? lacking : Math.min(LEAVES_PER_READ, Math.max(MIN_READ, lacking, size * 2));
    const bounds = { above, below, most: size, isDescending: part.isDescending };
    const answer = (await compressed?.list(by, { ...bounds, isBurnt, bytes })) ?? null;
    if (answer !== null && 'withheld' in answer) throw unavailable(answer.withheld);
    if ((needs === 'all' && answer?.followsAll !== true) || (needs === 'complete' && answer?.isComplete !== true))
      throw new IncompleteList('not all trees of compressed assets that the list could be of are followed');
    if (answer === null) return;
    const { assets, slot } = answer;
    const leaves: CompressedAsset[] = [];
    for (const [at, asset] of assets.entries()) {
      if (at % LEAVES_PER_TURN === LEAVES_PER_TURN - 1) await nextTurn();
      if ('withheld' in asset) throw unavailable(asset.withheld);
      if (isAll || isInList(asset, slot, filter, of)) leaves.push(asset);
      if (leaves.length === lacking) break;
    }
    yield { leaves, slot };
    lacking -= leaves.length;
    const last = assets.at(-1);
    if (assets.length < size || last === undefined || 'withheld' in last) return;
    if (part.isDescending) below = last.id;
    else above = last.id;
  }
}

function isInList(asset: CompressedAsset, slot: number, filter: Filter | null, of: LeafFilter | null): boolean {
  const metadata = lazy(() => storedMetadata(asset.metadata, asset.version) ?? unfit());
  if (of?.holds(asset, metadata) === false) return false;
  if (filter === null) return true;
  const shown = assetOf({ kind: 'leaf', id: '', asset, metadata: metadata(), slot }, null, slot, FACTS);
  return shown !== null && filter.holds(shown);
}

/** The list of a key that is followed. Null where none is, or it is still being read and the chain can be asked instead. */
async function ofIndex(
  follow: ListedKind,
  key: string,
  wanted: ListQuery,
  without: number,
  parts: ListParts,
): Promise<FoundList | null> {
  const { kind, filter, part } = wanted;
  const { index, config } = parts;
  const state = (await index?.stateOf(follow, key)) ?? null;
  if (index === null || state === null) return null;
  if (state === 'filling') {
    if (follow !== 'creator') return null;
    throw beingRead(follow, key);
  }
  const longest = config.maxTokenAccounts;
  // Which of them a filter leaves is not known yet.
  const most = Math.min((filter === null ? part.most : null) ?? longest + 1, longest + 1);
  // Read before the list, which may be newer.
  const slot = await index.slot();
  const ids = await index.list(LISTS_OF[follow] + (wanted.isBurnt ? BURNT : 0), key, {
    ...part,
    most,
    without: without | (kind === 'fungible' || kind === 'all' ? 0 : FLAG.fungible),
    having: kind === 'fungible' ? FLAG.fungible : 0,
  });
  if (ids.length > longest) throw tooMany(longest);
  const rows = ids.map((id) => ({ kind: 'row', id }) as const);
  return { found: await listedOf(rows, wanted, parts, true), slot };
}

const beingRead = (follow: string, key: string) =>
  unavailable(`the ${follow} ${key} is followed, and its assets are still being read`);

const NOTHING: FoundList = { found: [], slot: 0 };

const unavailable = (why: string) => new RpcError('unavailable', { message: why, details: why });

const tooMany = (most: number) =>
  new IncompleteList(`the list is longer than ${most} assets, which is das.maxTokenAccounts`);

async function nativeBalance(owner: string, { source, prices }: ListParts): Promise<object> {
  const [lamports, dollars] = await Promise.all([source.lamports(owner), prices?.prices([WRAPPED_SOL_MINT])]);
  const price = dollars?.get(WRAPPED_SOL_MINT) ?? 0;
  return { nativeBalance: { lamports, price_per_sol: price, total_price: (lamports / 1e9) * price } };
}

/** Tokens, NFTs and Core assets by their accounts, and the compressed assets of followed trees. */
async function ofOwner(
  owner: string,
  wanted: ListQuery,
  { options }: DasRequest,
  parts: ListParts,
): Promise<FoundList> {
  const { kind, isBurnt } = wanted;
  const { source, config } = parts;
  const key = decode32(owner) as Uint8Array;
  const wantsTokens = kind === 'fungible' || kind === 'all';
  // What was burnt has no account any more.
  const wantsAccounts = kind !== 'compressed' && !isBurnt;
  const wantsCore = wantsAccounts && kind !== 'fungible' && config.listCore;
  const isFollowed = (await parts.index?.stateOf('owner', owner)) === 'ready';
  const indexSlot = isFollowed ? ((await parts.index?.slot()) ?? 0) : 0;
  const most = config.maxTokenAccounts + 1;
  const [accounts, core, rows, leaves] = await Promise.all([
    wantsAccounts ? source.ofOwner(owner) : [],
    wantsCore && !isFollowed
      ? source.ofProgram(CORE_PROGRAM, [
          { offset: 0, bytes: Uint8Array.of(CORE_KEY.asset) },
          { offset: CORE_OWNER_AT, bytes: key },
        ])
      : [],
    isBurnt && isFollowed && kind !== 'compressed'
      ? parts.index?.list(LIST.owner + BURNT, owner, { most })
      : wantsCore && isFollowed
        ? parts.index?.list(LIST.owner, owner, { most, having: FLAG.core })
        : [],
    leavesOfOwner(owner, wanted, parts),
  ]);
  if (accounts.length + (rows?.length ?? 0) > config.maxTokenAccounts) throw tooMany(config.maxTokenAccounts);
  const held = await holdersOf(owner, accounts, {
    least: wantsTokens && options['showZeroBalance'] === true ? 0n : 1n,
    // An NFT is one token.
    most: wantsTokens ? null : 1n,
  });
  const found: ListItem[] = [
    ...held,
    ...(await coreOf(core, source)),
    ...(rows ?? []).map((id) => ({ kind: 'row', id }) as const),
  ];
  const listed = await listedOf(found, wanted, parts);
  return { found: [...listed, ...leaves.found], slot: oldestSlot(indexSlot, leaves.slot) };
}

/** What an owner has of each mint: the sum of the accounts, and the one that holds most. */
async function holdersOf(
  owner: string,
  accounts: readonly KeyedAccount[],
  { least, most }: { readonly least: bigint; readonly most: bigint | null },
): Promise<readonly UnreadRow[]> {
  const shown = new Map<string, NonNullable<MintAccounts['holder']>>();
  const sums = new Map<string, bigint>();
  for (const [at, { address, account }] of accounts.entries()) {
    if (at % ITEMS_PER_TURN === ITEMS_PER_TURN - 1) await nextTurn();
    const one = decodeTokenAccount(account).value;
    if (one === null || one.amount < least || (most !== null && one.amount > most)) continue;
    const { mint, amount, delegate, isFrozen } = one;
    const holder = { address, owner, delegate, isFrozen, amount };
    if (holdsMore(holder, shown.get(mint) ?? null)) shown.set(mint, holder);
    sums.set(mint, amount + (sums.get(mint) ?? 0n));
  }
  return Array.from(shown, ([id, holder]) => ({ kind: 'row', id, holder: { ...holder, amount: sums.get(id)! } }));
}

function coreAssets(by: number, key: Uint8Array, { source }: ListParts) {
  return source.ofProgram(CORE_PROGRAM, [
    { offset: 0, bytes: Uint8Array.of(CORE_KEY.asset) },
    { offset: CORE_AUTHORITY_AT, bytes: Uint8Array.of(by, ...key) },
  ]);
}

const MAX_SEARCHES = 100;

/** From the index, else all that the chain is asked for by an authority: mints with metadata in them are not. */
async function ofAuthority(authority: string, wanted: ListQuery, parts: ListParts): Promise<FoundList> {
  const { kind, isFull } = wanted;
  const rows = kind === 'compressed' ? NOTHING : await ofIndex('authority', authority, wanted, 0, parts);
  if (mayHaveLeaves(kind) && (isFull || (rows?.found ?? []).length === 0)) await refuseTree(authority, parts);
  if (rows !== null) return rows;
  if (isFull) throw notIndexed('authority', authority);
  return { found: await listedOf(await chainAuthority(authority, parts), wanted, parts), slot: 0 };
}

const notIndexed = (follow: string, key: string) =>
  new IncompleteList(`requireFullIndex: the list needs the ${follow} ${key} in the index`);

/** Refuses the signing authority of a tree: it is the authority of the compressed assets in that tree. */
async function refuseTree(authority: string, { source }: ListParts): Promise<void> {
  // The authority of a tree is a program address, so a key on the curve needs no read from the chain.
  if (isOnCurve(decode32(authority) as Uint8Array)) return;
  if ((await source.accounts([authority])).get(authority)?.owner === BUBBLEGUM_PROGRAM)
    throw new IncompleteList(
      'the authority is that of a tree of compressed assets, which are listed by owner and by tree',
    );
}

/** Core assets and collections, the assets in these collections, and all that has Metaplex metadata. */
async function chainAuthority(authority: string, parts: ListParts): Promise<ListItem[]> {
  const { source, config } = parts;
  const key = decode32(authority) as Uint8Array;
  if (authority === SYSTEM_PROGRAM) throw new IncompleteList('the System program is no authority');
  if (!config.listCore) throw new IncompleteList('assets of an authority need das.listCore');
  const [own, collections, metadata] = await Promise.all([
    coreAssets(CORE_AUTHORITY.address, key, parts),
    source.ofProgram(CORE_PROGRAM, [
      { offset: 0, bytes: Uint8Array.of(CORE_KEY.collection) },
      { offset: CORE_OWNER_AT, bytes: key },
    ]),
    source.ofProgram(METADATA_PROGRAM, [
      { offset: 0, bytes: Uint8Array.of(METADATA_KEY) },
      { offset: 1, bytes: key },
    ]),
  ]);
  // Each collection needs a separate search at the upstream.
  if (collections.length > MAX_SEARCHES) throw tooMany(MAX_SEARCHES);
  const inside = await Promise.all(
    collections.map(({ address }) => coreAssets(CORE_AUTHORITY.collection, decode32(address) as Uint8Array, parts)),
  );
  const core = [...own, ...collections, ...inside.flat()];
  if (core.length + metadata.length > config.maxTokenAccounts) throw tooMany(config.maxTokenAccounts);
  const mints = metadata.flatMap(({ account: bytes }) => decodeMetadata(bytes).value?.mint ?? []);
  return [...(await coreOf(core, source)), ...[...new Set(mints)].map((id) => ({ kind: 'row', id }) as const)];
}

/** From the index, else of a Core collection, whose account counts its assets, compressed or not: a missing one is noticed. */
async function ofGroup(
  collection: string,
  needs: LeavesNeeded,
  wanted: ListQuery,
  parts: ListParts,
): Promise<FoundList> {
  const { kind, isClaimShown, isFull, isBurnt } = wanted;
  const key = decode32(collection) as Uint8Array;
  const hash = keccak_256(key);
  const inGroup = (isClaimed: boolean): LeafFilter => ({
    // A leaf of the second version contains the hash of its collection, and is always verified.
    holds({ more }, metadata) {
      if (more !== null) return equalBytes(more.collectionHash, hash);
      const { collection: group } = metadata();
      return group !== null && equalBytes(group.key, key) && (group.verified || isClaimed);
    },
    bytes: key,
  });
  const leaves = (enough: LeavesNeeded) => leavesOf('all', enough, parts, wanted, inGroup(isClaimShown));
  if (kind === 'compressed') return await leaves(needs);
  const rows = await ofIndex('collection', collection, wanted, isClaimShown ? 0 : FLAG.unverified, parts);
  if (rows === null && isFull && isClaimShown) throw notIndexed('collection', collection);
  // The account of the collection does not count burnt assets.
  if (isBurnt && rows !== null) return mayHaveLeaves(kind) ? joined(rows, await leaves(needs)) : rows;
  const core = await coreGroup(collection, rows !== null, parts);
  const found = rows ?? { found: await listedOf(core?.assets ?? [], wanted, parts), slot: 0 };
  if (!mayHaveLeaves(kind)) return found;
  if (core === null) return joined(found, await leaves(needs));
  // Nor unverified members.
  const isCounted = !isClaimShown && !isBurnt;
  if (core.lacking > 0) await requireLeaves(collection, core, inGroup(false), parts);
  else if (isCounted) return found;
  return joined(found, await leaves(isCounted ? 'some' : needs));
}

interface CoreGroup {
  /** The assets with an account, unless the index has them. */
  readonly assets: readonly FoundAsset[];
  readonly size: number;
  /** Number of assets without an account. */
  readonly lacking: number;
}

/** Refuses the list of a Core collection unless the followed trees have all its assets without an account. */
async function requireLeaves(
  collection: string,
  { size, lacking }: CoreGroup,
  inGroup: LeafFilter,
  parts: ListParts,
): Promise<void> {
  let [count, why] = [0, 'the trees of the others are not all followed'];
  const most = { filter: null, isBurnt: false, part: { ...WHOLE, most: lacking } };
  try {
    for await (const { leaves } of readLeaves('all', 'some', parts, most, inGroup)) count += leaves.length;
  } catch (error) {
    if (!(error instanceof RpcError && error.status === 503)) throw error;
    why = error.message;
  }
  if (count < lacking)
    throw new IncompleteList(
      `the collection ${collection} has ${size} assets, of which ${size - lacking} have an account: ${why}`,
    );
}

/** The assets of a Core collection; null for a collection of another program, which has to be in the index. */
async function coreGroup(collection: string, isIndexed: boolean, parts: ListParts): Promise<CoreGroup | null> {
  const { source, config, index } = parts;
  if (isIndexed && index !== null) {
    const others = { most: 1, without: FLAG.core | FLAG.unverified };
    // A collection with a verified member outside Core is not a Core collection: no read, no count.
    if ((await index.list(LIST.group, collection, others)).length > 0) return null;
  }
  const account = (await source.accounts([collection])).get(collection) ?? null;
  const group = account === null ? null : decodeCoreCollection(account).value;
  if (isIndexed) {
    if (group === null) return null;
    const count = (await index?.count(LIST.group, collection, FLAG.core)) ?? 0;
    return { assets: [], size: group.currentSize, lacking: group.currentSize - count };
  }
  if (group === null) {
    if ((await index?.stateOf('collection', collection)) === 'filling') throw beingRead('collection', collection);
    throw new IncompleteList(
      `${collection} is no Core collection, and not followed (das.follow.collections): without an index no other group is complete`,
    );
  }
  if (!config.listCore) throw new IncompleteList('assets of a collection need das.listCore');
  const accounts = await coreAssets(CORE_AUTHORITY.collection, decode32(collection) as Uint8Array, parts);
  const assets = await coreOf(accounts, source);
  return { assets, size: group.currentSize, lacking: group.currentSize - assets.length };
}

/** From the index: no upstream can list all assets of a creator. */
async function ofCreator(
  { creator, isVerified }: Extract<Base, { readonly creator: string }>,
  needs: LeavesNeeded,
  wanted: ListQuery,
  parts: ListParts,
): Promise<FoundList> {
  const key = decode32(creator) as Uint8Array;
  const made: LeafFilter = {
    holds: (_, metadata) =>
      metadata().creators.some((one) => equalBytes(one.address, key) && (!isVerified || one.verified)),
    bytes: key,
  };
  const without = isVerified ? FLAG.unverified : 0;
  const rows = wanted.kind === 'compressed' ? NOTHING : await ofIndex('creator', creator, wanted, without, parts);
  if (rows === null)
    throw new IncompleteList(
      `the creator ${creator} is not followed (das.follow.creators): without an index no list of a creator is complete`,
    );
  return joined(rows, await leavesOf('all', needs, parts, wanted, made));
}

/** Name and size of a collection. */
export async function grouping(question: DasRequest, parts: ListParts): Promise<object> {
  const { source, index, options } = parts;
  const collection = readGroup([question.member('groupKey'), question.member('groupValue')], question, 'groupValue');
  // The reference repeats the value of the group as its name.
  const named = (name: string): string => (options.dialect === 'metaplex' ? collection : name);
  const [found] = await findAssetAccounts([collection], source);
  if (found?.kind === 'core' && found.asset === null && found.collection !== null)
    return {
      group_key: 'collection',
      group_name: named(found.collection.name),
      group_size: found.collection.currentSize,
    };
  if ((await index?.stateOf('collection', collection)) !== 'ready')
    throw new IncompleteList(
      `${collection} is no Core collection, and not followed (das.follow.collections): without an index no other group is counted`,
    );
  const wanted: ListQuery = {
    base: { group: collection },
    kind: 'nonFungible',
    filter: null,
    isBurnt: false,
    part: WHOLE,
    view: null,
    others: new Set(),
    isClaimShown: false,
    isFull: question.options['requireFullIndex'] === true,
  };
  const members = await findBase(wanted, question, parts);
  const asset = found === undefined ? null : assetOf(found, null, source.slot, FACTS);
  const name = asset?.content.metadata['name'];
  return {
    group_key: 'collection',
    group_name: named(typeof name === 'string' ? name : ''),
    group_size: members.found.length,
  };
}

function readGroup(given: unknown, question: DasRequest, name = 'grouping'): string {
  if (!Array.isArray(given) || given.length !== 2) throw question.invalid('grouping must be a pair of key and value');
  const [key, value] = given as readonly unknown[];
  if (key !== 'collection') throw question.invalid('the only key of a group is collection');
  return readKey(value, question, name);
}

function readOrder(question: DasRequest, dialect: AssetReadOptions['dialect']) {
  const paging = readPaging(question);
  return { paging, sort: readSort(question, dialect, paging.before ?? paging.after ?? paging.cursor) };
}

const SORT_FIELDS = ['id', 'created', 'updated', 'recent_action', 'none'] as const;

/** Without `sortBy` the hosted API lists ascending ids, the reference descending ones. */
function readSort(
  { member, invalid }: DasRequest,
  dialect: AssetReadOptions['dialect'],
  key: string | null,
): { field: string; isDescending: boolean } {
  const given = member('sortBy');
  if (given === undefined) return { field: 'id', isDescending: dialect === 'metaplex' };
  if (typeof given !== 'object' || Array.isArray(given)) throw invalid('sortBy must be an object');
  const { sortBy, sortDirection } = given as { readonly sortBy?: unknown; readonly sortDirection?: unknown };
  const field = sortBy ?? 'id';
  if (!(SORT_FIELDS as readonly unknown[]).includes(field))
    throw invalid(`sortBy must be one of ${SORT_FIELDS.join(', ')}`);
  const direction = sortDirection ?? (field === 'none' ? 'asc' : 'desc');
  if (direction !== 'asc' && direction !== 'desc') throw invalid('sortDirection must be asc or desc');
  if (key !== null && field !== 'id')
    throw invalid('Pagination Sorting Error. Only sorting based on id is supported for this pagination option.');
  return { field: field === 'none' ? 'id' : (field as string), isDescending: direction === 'desc' };
}

/** Kinds of assets in the list; without `tokenType`, NFTs, compressed or not. */
type AssetKind = 'fungible' | 'nonFungible' | 'regular' | 'compressed' | 'all';

const KINDS: Readonly<Record<string, AssetKind>> = {
  fungible: 'fungible',
  nonFungible: 'nonFungible',
  regularNft: 'regular',
  compressedNft: 'compressed',
  all: 'all',
  // The names of Metaplex.
  Fungible: 'fungible',
  NonFungible: 'nonFungible',
  Nft: 'regular',
  Compressed: 'compressed',
  All: 'all',
};

function readKind({ member, options, invalid }: DasRequest): AssetKind {
  const given = member('tokenType');
  if (given === undefined) return options['showFungible'] === true ? 'all' : 'nonFungible';
  const kind = (TOKEN_TYPES as readonly unknown[]).includes(given) ? KINDS[given as string] : undefined;
  if (kind === undefined) throw invalid(`tokenType must be one of ${TOKEN_TYPES.join(', ')}`);
  return kind;
}

/** The kind narrowed by `compressed`, and whether the kind then implies the whole condition. */
function ofCompression(kind: AssetKind, compressed: unknown): readonly [AssetKind, boolean] {
  if (compressed === true && (kind === 'nonFungible' || kind === 'all')) return ['compressed', true];
  if (compressed === false && kind === 'nonFungible') return ['regular', true];
  return [kind, false];
}

function isOfKind(one: FoundAsset | ({ readonly kind: 'kept' } & KeptAsset), kind: AssetKind): boolean {
  if (kind === 'all') return true;
  const isToken = one.kind === 'kept' ? one.isFungible : isFungible(one);
  if (kind === 'fungible' || isToken) return kind === 'fungible' && isToken;
  return kind === 'nonFungible' || (one.kind === 'leaf') === (kind === 'compressed');
}

/** A count is a whole number that JSON carries exactly. */
type ValueType = 'key' | 'boolean' | 'count' | 'string';

/** Members by which assets are filtered: their type, and the value that an asset has. */
const VALUES: Readonly<Record<string, readonly [ValueType, (asset: Asset) => unknown]>> = {
  delegate: ['key', ({ ownership }) => ownership.delegate],
  frozen: ['boolean', ({ ownership }) => ownership.frozen],
  ownerType: ['string', ({ ownership }) => ownership.ownership_model],
  // An asset without a mint is the only one of its kind.
  supply: ['count', ({ token_info }) => (token_info === undefined ? 1 : Number(token_info.supply))],
  // A Core asset is its own mint; a compressed one has none before it is decompressed.
  supplyMint: ['key', ({ id, compression }) => (compression.compressed ? undefined : id)],
  compressed: ['boolean', ({ compression }) => compression.compressed],
  compressible: ['boolean', ({ compression }) => compression.eligible],
  tree: ['key', ({ compression }) => compression.tree],
  royaltyTargetType: ['string', ({ royalty }) => royalty.royalty_model],
  royaltyTarget: ['key', ({ royalty }) => royalty.target],
  royaltyAmount: ['count', ({ royalty }) => royalty.basis_points],
  interface: ['string', (asset) => asset.interface],
  burnt: ['boolean', ({ burnt }) => burnt],
  jsonUri: ['string', ({ content }) => content.json_uri],
  name: ['string', ({ content }) => content.metadata['name']],
};

/** Members that have closed lists of words. */
const WORDS: Readonly<Record<string, readonly string[]>> = {
  interface: INTERFACES,
  ownerType: OWNER_TYPES,
  royaltyTargetType: ROYALTY_TYPES,
};

const SEARCH_MEMBERS = new Set<string>([
  ...PAGE_MEMBERS,
  'ownerAddress',
  'authorityAddress',
  'grouping',
  'tokenType',
  'creatorAddress',
  'creatorVerified',
  'collections',
  'not',
  'negate',
  'conditionType',
  'delegateAddress',
  ...Object.keys(VALUES),
  ...REFUSED_MEMBERS,
]);

/** Null without filters; those of `known` members are left out. */
function readFilter(question: DasRequest, known: readonly string[]): Filter | null {
  const { member, invalid } = question;
  const bytes: Uint8Array[] = [];
  const filters: Filter['holds'][] = Object.entries(VALUES).flatMap(([name, [type, read]]) => {
    const wanted = name === 'delegate' ? member(name, 'delegateAddress') : member(name);
    if (wanted === undefined) return [];
    const words = WORDS[name];
    if (words !== undefined && !words.includes(wanted as string))
      throw invalid(`searchAssets: ${name} must be one of ${words.join(', ')}`);
    if (type === 'key') readKey(wanted, question, name);
    else if (type === 'count') {
      if (!Number.isSafeInteger(wanted) || (wanted as number) < 0)
        throw invalid(`searchAssets: ${name} must be a whole number below 2^53`);
    } else if (typeof wanted !== type) throw invalid(`searchAssets: ${name} must be a ${type}`);
    return known.includes(name) ? [] : [(asset: Asset) => read(asset) === wanted];
  });
  const [creator, verified] = [member('creatorAddress'), member('creatorVerified')];
  if (verified !== undefined && typeof verified !== 'boolean')
    throw invalid('searchAssets: creatorVerified must be true or false');
  if (creator !== undefined || verified !== undefined) {
    const address = creator === undefined ? null : readKey(creator, question, 'creatorAddress');
    if (address !== null) bytes.push(decode32(address) as Uint8Array);
    filters.push(({ creators }) =>
      creators.some(
        (one) => (address === null || one.address === address) && (verified === undefined || one.verified === verified),
      ),
    );
  }
  const authority = member('authorityAddress');
  if (authority !== undefined) {
    const address = readKey(authority, question, 'authorityAddress');
    filters.push(({ authorities }) => authorities.some((one) => one.address === address));
  }
  filters.push(...readNot(question));
  const group = member('grouping');
  const collections = member('collections');
  if (collections !== undefined && !Array.isArray(collections)) throw invalid('collections must be a list');
  if ((collections?.length ?? 0) > MAX_ITEMS) throw invalid(`collections must be at most ${MAX_ITEMS}`);
  const lists = [
    ...(group === undefined ? [] : [[readGroup(group, question)]]),
    ...(collections === undefined
      ? []
      : [(collections as readonly unknown[]).map((key) => readKey(key, question, 'collections'))]),
  ];
  for (const list of lists) {
    const wanted = new Set(list);
    if (list.length === 1) bytes.push(decode32(list[0] as string) as Uint8Array);
    filters.push((asset) =>
      asset.grouping.some(({ group_value, verified: holds }) => holds !== false && wanted.has(group_value)),
    );
  }
  return filters.length === 0 ? null : { holds: (asset) => filters.every((holds) => holds(asset)), bytes };
}

/** What assets of the list must not have; the keys of each member exclude together. */
const EXCLUDED: Readonly<Record<string, (asset: Asset, keys: ReadonlySet<string>) => boolean>> = {
  collections: ({ grouping }, keys) =>
    grouping.some(({ group_value, verified }) => verified !== false && keys.has(group_value)),
  owners: ({ ownership }, keys) => keys.has(ownership.owner),
  creators: ({ creators }, keys) => creators.some(({ address }) => keys.has(address)),
  authorities: ({ authorities }, keys) => authorities.some(({ address }) => keys.has(address)),
};

function readNot(question: DasRequest): Filter['holds'][] {
  const given = question.member('not');
  if (given === undefined) return [];
  if (!isPlainObject(given)) throw question.invalid('searchAssets: not must be an object');
  return Object.entries(given).flatMap(([name, list]) => {
    const isExcluded = Object.hasOwn(EXCLUDED, name) ? EXCLUDED[name] : undefined;
    if (isExcluded === undefined) throw question.invalid(`searchAssets: not.${name.slice(0, 64)} is not supported`);
    if (list === null) return [];
    if (!Array.isArray(list) || list.length > MAX_ITEMS)
      throw question.invalid(`searchAssets: not.${name} must be a list of up to ${MAX_ITEMS} keys`);
    const keys = new Set((list as readonly unknown[]).map((key) => readKey(textOfKey(key), question, `not.${name}`)));
    return [(asset: Asset) => !isExcluded(asset, keys)];
  });
}

/** A key is a text; the Rust SDK sends its bytes as numbers. */
function textOfKey(key: unknown): unknown {
  const bytes = byteList(key);
  return bytes?.length === 32 ? encode32(bytes) : key;
}

const PRINT_KEY = 1;
const PARENT_AT = 1;

/** The prints of a master edition, by number. */
export async function nftEditions(question: DasRequest, parts: ListParts): Promise<object> {
  const { source, config } = parts;
  const mint = readKey(question.member('mint', 'mintAddress'), question, 'mint');
  const paging = readPaging(question);
  if (paging.before !== null || paging.after !== null || paging.cursor !== null)
    throw question.invalid('getNftEditions has pages only: use page and limit');
  const edition = editionAddress(mint);
  const account = (await source.accounts([edition])).get(edition) ?? null;
  const master = account === null ? null : decodeEdition(account).value;
  if (master?.kind !== 'master')
    throw new RpcError('notFound', { message: 'Asset Not Found', details: `${mint} has no master edition` });
  const accounts = await source.ofProgram(METADATA_PROGRAM, [
    { offset: 0, bytes: Uint8Array.of(PRINT_KEY) },
    { offset: PARENT_AT, bytes: decode32(edition) as Uint8Array },
  ]);
  const prints = accounts
    .flatMap(({ address, account: bytes }) => {
      const print = decodeEdition(bytes).value;
      return print?.kind === 'print' ? [{ address, number: print.edition }] : [];
    })
    .sort((a, b) => (a.number < b.number ? -1 : a.number > b.number ? 1 : 0));
  const start = ((paging.page ?? 1) - 1) * paging.limit;
  const page = prints.slice(start, start + paging.limit);
  const mints = await Promise.all(page.map(({ address }) => mintOfPrint(address, parts)));
  const isHosted = config.dialect === 'hosted';
  const named = page.flatMap(({ address, number }, at) => {
    const mint = mints[at] ?? null;
    return mint === null ? [] : [{ mint, address, number }];
  });
  const unnamed = page.filter((_, at) => mints[at] === null);
  // The reference has it only when it was asked for, as in lists.
  const shownPage = isHosted || question.member('page') !== undefined ? { page: paging.page ?? 1 } : {};
  return {
    ...(isHosted ? { last_indexed_slot: source.slot } : {}),
    total: named.length,
    limit: paging.limit,
    ...shownPage,
    master_edition_address: edition,
    supply: master.supply,
    max_supply: master.maxSupply,
    editions: named.map(({ mint, address, number }) =>
      isHosted
        ? { mint, edition_address: address, edition: number }
        : { mint_address: mint, edition_address: address, edition_number: number },
    ),
    ...(unnamed.length === 0
      ? {}
      : { errors: unnamed.map(({ address, number }) => ({ id: address, error: mintUnknown(number) })) }),
  };
}

const mintUnknown = (number: bigint | number): string =>
  `the mint of print ${number} is unknown: the upstream no longer has the transaction that made it`;

/** The account of a print does not name its mint; the transaction that made it does. Null where the upstream does not have that any more. */
async function mintOfPrint(address: string, { source }: ListParts): Promise<string | null> {
  try {
    const keys = await source.firstTransaction(address);
    return keys.find((key) => editionAddress(key) === address) ?? null;
  } catch (error) {
    // A node without history refuses the question.
    if (error instanceof RpcError && codeOf(error.cause) === 'CHAIN_RPC_ERROR') return null;
    throw error;
  }
}
