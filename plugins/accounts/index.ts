import type { TSchema } from '@sinclair/typebox';
import { encode32 } from '../../src/lib/base58.ts';
import { arrayItems, objectMembers } from '../../src/lib/json.ts';
import { defineHostPlugin, type HostContext } from '../../src/plugin/host.ts';
import {
  API_VERSION,
  type CallContext,
  JsonText,
  type RateGroup,
  RpcError,
  type RpcMethod,
  reloadable,
  type Static,
  Type,
} from '../../src/plugin/plugin.ts';
import { address, count, orNull, slot, text } from '../../src/solana/schemas.ts';
import { countUpTo, createLists, type KeyList, type Lists } from './lists.ts';
import {
  CURSOR,
  checkedRange,
  ownerParams,
  passes,
  programParams,
  type Question,
  readOwnerQuestion,
  readProgramQuestion,
  TOKEN,
  writeCursor,
} from './question.ts';
import { type AskOptions, createNodes, type Nodes } from './upstream.ts';

const positive = (value: number, description: string) => Type.Integer({ minimum: 1, default: value, description });

const accountsConfig = Type.Object(
  {
    passOn: Type.Boolean({
      default: false,
      description:
        'forward the calls: the upstreams have getProgramAccountsV2 and getTokenAccountsByOwnerV2 themselves',
    }),
    credits: reloadable(Type.Number({ minimum: 0, default: 1, description: 'price of one page' })),
    keepMs: reloadable(
      positive(120_000, 'how long a list of keys is kept after its last page; later pages list again'),
    ),
    maxKeys: reloadable(positive(5_000_000, 'accounts of one list; longer lists are refused')),
    projectListBytes: reloadable(positive(268_435_456, 'size of the key lists of one project, 32 bytes per key')),
    totalListBytes: reloadable(positive(1_073_741_824, 'size of the key lists of all projects')),
    maxListAnswerBytes: reloadable(positive(2_147_483_648, 'largest response of an upstream when listing keys')),
    listTimeoutMs: reloadable(positive(120_000, 'longest wait for the list of an upstream')),
    pageTimeoutMs: reloadable(positive(25_000, 'longest wait for the accounts of a page')),
    keysPerCall: reloadable(positive(100, 'keys per getMultipleAccounts; nodes accept 100')),
    concurrency: reloadable(positive(8, 'concurrent calls for one page')),
  },
  { additionalProperties: false, default: {} },
);

type AccountsConfig = Static<typeof accountsConfig>;

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

const KEY_BYTES = 32;
/** How often a part of a page is read until its accounts and what they are checked by are of one slot. */
const SAME_SLOT_ATTEMPTS = 3;

/** Raw JSON, so that numbers of any size stay as the node sent them. */
interface Part {
  readonly slot: number;
  /** Raw JSON of the context. */
  readonly contextText: string;
  /** Of each key; null where there is no account. */
  readonly accounts: readonly (string | null)[];
}

/** Reads the page behind the cursor and answers the text of the result. */
async function readPage(
  nodes: Nodes,
  list: KeyList,
  question: Question,
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
  question: Question,
  keys: readonly string[],
  options: AskOptions,
): Promise<Part> {
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
    // Of another slot the one may be an account that the other is not any more.
    if (part.slot !== checked.slot && attempt < SAME_SLOT_ATTEMPTS) continue;
    return {
      ...part,
      accounts: part.accounts.map((text, at) =>
        isAnswer(question, checked.accounts[at] ?? null, range.offset) && ownerFits(question, text) ? text : null,
      ),
    };
  }
}

function partOf(result: Buffer): Part {
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

const ownerFits = ({ owners }: Question, text: string | null): boolean =>
  text !== null && owners.includes((JSON.parse(text) as ReadAccount).owner);

/** Whether an account in base64, from `offset` of its data on, is still an answer. */
function isAnswer(question: Question, text: string | null, offset: number): boolean {
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
