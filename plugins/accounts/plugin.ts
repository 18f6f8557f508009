import type { TSchema } from '@sinclair/typebox';
import { encode32 } from '../../src/lib/base58.ts';
import { arrayItems, objectMembers } from '../../src/lib/json.ts';
import type { HostContext } from '../../src/plugin/host.ts';
import { type CallContext, JsonText, type RateGroup, RpcError, type RpcMethod, Type } from '../../src/plugin/plugin.ts';
import { address, count, orNull, slot, text } from '../../src/solana/schemas.ts';
import type { AccountsConfig } from './config.ts';
import { type AccountLists, countUpTo, createAccountLists, type KeyList } from './lists.ts';
import {
  type AccountPageQuestion,
  CURSOR,
  checkedRange,
  ownerParams,
  passes,
  programParams,
  readOwnerQuestion,
  readProgramQuestion,
  TOKEN,
  writeCursor,
} from './question.ts';
import { createNodes, type Nodes, type UpstreamCallOptions } from './upstream.ts';

export function provision(ctx: HostContext<AccountsConfig>): void {
  const pool = ctx.upstreams('main');
  if (ctx.config.passOn || pool === null) return;
  const nodes = createNodes(pool, ctx.clock, ctx.core.rpc);
  const lists = createAccountLists(nodes, ctx.clock, ctx.random, ctx.config);
  ctx.metrics.observe('lists', 'lists of keys that are paged through', () => lists.size);
  ctx.metrics.observe('lists_bytes', 'size of these lists', () => lists.bytes);
  const parts = { ctx, nodes, lists };
  const { config } = ctx;
  ctx.rpc.method(
    method(parts, {
      name: 'getProgramAccountsV2',
      params: programParams,
      read: readProgramQuestion,
      groups: ['getProgramAccounts'],
      listCredits: () => Math.max(config.credits, config.listCredits),
    }),
  );
  ctx.rpc.method(
    method(parts, {
      name: 'getTokenAccountsByOwnerV2',
      params: ownerParams,
      read: readOwnerQuestion,
      groups: [],
      listCredits: () => config.credits,
    }),
  );
}

interface Parts {
  readonly ctx: HostContext<AccountsConfig>;
  readonly nodes: Nodes;
  readonly lists: AccountLists;
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

interface PagedMethod {
  readonly name: string;
  readonly params: TSchema;
  readonly read: (params: unknown) => AccountPageQuestion;
  /** Rate groups beside `rpc`. */
  readonly groups: readonly RateGroup[];
  /** Price of a page for which an upstream lists the keys. */
  readonly listCredits: () => number;
}

function method({ ctx, nodes, lists }: Parts, { name, params, read, groups, listCredits }: PagedMethod): RpcMethod {
  const { config } = ctx;
  return {
    name,
    summary: `${name.replace('V2', '')} in pages of up to 10,000 accounts`,
    tag: { name: 'Accounts', description: 'Long lists of accounts in pages' },
    auth: 'key',
    price: {
      product: 'rpc',
      get credits() {
        return listCredits();
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
        const text = await readPage(nodes, list, question, config, { signal, tenant });
        return list.isKept ? new JsonText(text, config.credits) : new JsonText(text);
      } catch (error) {
        throw signal.aborted ? new RpcError('unavailable') : error;
      }
    },
  };
}

const KEY_BYTES = 32;
/** How often a part of a page is read until its accounts and what they are checked by are of one slot. */
const SAME_SLOT_ATTEMPTS = 3;

/** Raw JSON, so that numbers of any size stay as the node sent them. */
interface AccountsAtSlot {
  readonly slot: number;
  /** Raw JSON of the context. */
  readonly contextText: string;
  /** One entry per key; null where the account does not exist. */
  readonly accounts: readonly (string | null)[];
}

/** Reads the page behind the cursor and answers the text of the result. */
async function readPage(
  nodes: Nodes,
  list: KeyList,
  question: AccountPageQuestion,
  config: AccountsConfig,
  asker: Pick<CallContext, 'signal' | 'tenant'>,
): Promise<string> {
  const total = list.keys.length / KEY_BYTES;
  const from = question.cursor === null ? 0 : countUpTo(list.keys, question.cursor.after);
  const to = Math.min(from + question.limit, total);
  const keys = Array.from({ length: to - from }, (_, at) => encode32(list.keys, (from + at) * KEY_BYTES));
  const calls: string[][] = [];
  for (let at = 0; at < keys.length; at += config.keysPerCall) calls.push(keys.slice(at, at + config.keysPerCall));
  const options = { timeoutMs: config.pageTimeoutMs, signal: asker.signal, tenant: asker.tenant };
  // An empty list has no accounts to read, and a context all the same.
  const parts = await inTurns(calls.length === 0 ? [[]] : calls, config.concurrency, (some) =>
    readPart(nodes, list, question, some, options),
  );
  const shown = parts.flatMap(({ accounts }, call) =>
    accounts.flatMap((account, at) =>
      account === null ? [] : [`{"pubkey":"${calls[call]![at]}","account":${account}}`],
    ),
  );
  const after = list.keys.subarray((to - 1) * KEY_BYTES, to * KEY_BYTES);
  const cursor = to >= total ? 'null' : `"${writeCursor(question.digest, { list: list.id, after })}"`;
  const counted = question.method === 'getTokenAccountsByOwner' ? `,"count":${shown.length}` : '';
  const value = `{"accounts":[${shown.join(',')}],"paginationKey":${cursor}${counted},"totalResults":${total}}`;
  if (!question.withContext) return value;
  const oldest = parts.reduce((one, other) => (other.slot < one.slot ? other : one));
  return `{"context":${oldest.contextText},"value":${value}}`;
}

/** The accounts of some keys as they are shown; null for those that are gone, or are no answer to the question any more. */
async function readPart(
  nodes: Nodes,
  list: KeyList,
  question: AccountPageQuestion,
  keys: readonly string[],
  options: UpstreamCallOptions,
): Promise<AccountsAtSlot> {
  const { encoding, dataSlice } = question;
  const least = Math.max(list.slot ?? 0, Number(question.context['minContextSlot'] ?? 0));
  const context = { ...question.context, ...(least === 0 ? {} : { minContextSlot: least }) };
  const shownAs = { ...context, encoding, ...(dataSlice === null ? {} : { dataSlice }) };
  const read = async (how: object) => partOf(await nodes.result('getMultipleAccounts', [keys, how], options));
  if (encoding === 'base64' && dataSlice === null) {
    const part = await read(shownAs);
    return { ...part, accounts: part.accounts.map((text) => (isAnswer(question, text, 0) ? text : null)) };
  }
  const range = checkedRange(question.filters);
  for (let attempt = 1; ; attempt++) {
    const [part, checked] = await Promise.all([
      read(shownAs),
      read({ ...context, encoding: 'base64', dataSlice: range }),
    ]);
    // Both reads must be of one slot: the account may have changed in between.
    if (part.slot !== checked.slot && attempt < SAME_SLOT_ATTEMPTS) continue;
    return {
      ...part,
      accounts: part.accounts.map((text, at) =>
        isAnswer(question, checked.accounts[at] ?? null, range.offset) && ownerFits(question, text) ? text : null,
      ),
    };
  }
}

function partOf(result: Buffer): AccountsAtSlot {
  const members = objectMembers(result);
  const context = members?.find(({ name }) => name === 'context');
  const value = members?.find(({ name }) => name === 'value');
  const items = value === undefined ? null : arrayItems(result, value.start, value.end);
  if (context === undefined || items === null)
    throw new RpcError('unavailable', { details: 'the node answers in an unknown form' });
  const contextText = result.toString('utf8', context.start, context.end);
  const accounts = items.map(({ start, end }) => {
    const text = result.toString('utf8', start, end);
    return text === 'null' ? null : text;
  });
  return { slot: Number((JSON.parse(contextText) as { slot?: unknown }).slot), contextText, accounts };
}

interface ReadAccount {
  readonly owner: string;
  readonly data: readonly [string, string];
  readonly space?: number;
}

const ownerFits = ({ owners }: AccountPageQuestion, text: string | null): boolean =>
  text !== null && owners.includes((JSON.parse(text) as ReadAccount).owner);

/** Whether an account in base64, from `offset` of its data on, is still an answer. */
function isAnswer(question: AccountPageQuestion, text: string | null, offset: number): boolean {
  if (text === null) return false;
  const { owner, data, space } = JSON.parse(text) as ReadAccount;
  if (!question.owners.includes(owner)) return false;
  const bytes = Buffer.from(data[0], 'base64');
  return passes(question.filters, bytes, offset, space ?? offset + bytes.length);
}

/** Runs the work for each item, at most so many at once, and keeps the order. */
async function inTurns<T, R>(items: readonly T[], most: number, work: (item: T) => Promise<R>): Promise<R[]> {
  const results = new Array<R>(items.length);
  let next = 0;
  const worker = async () => {
    for (let at = next++; at < items.length; at = next++) results[at] = await work(items[at]!);
  };
  await Promise.all(Array.from({ length: Math.min(most, items.length) }, worker));
  return results;
}
