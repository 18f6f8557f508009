import { Type } from '../../../src/plugin/plugin.ts';
import { NATIVE_SOL_MINT } from '../../../src/solana/programs.ts';
import { answered, type Calls, choice, count, defineTool, given, INPUT, listOf, secondsOf } from '../tool.ts';
import { itemsOf, memberOf, moreSentence, nextOf } from './answers.ts';

const VIEWS = ['transfers', 'transactions', 'explained'] as const;

export const historyTool = defineTool({
  name: 'history',
  title: 'History of an address',
  description:
    'Search the past of any address with filters. Views: transfers (every movement of SOL and tokens of an owner, with direction, counterparty and mint), transactions (signatures with slot, time, error and memo), explained (transactions decoded). Use it to find a deposit or a payment. The first call about an address may answer "not ready" with a number of seconds: call again after them.',
  input: Type.Object(
    {
      address: INPUT.address('address; of transfers: the owner, not a token account'),
      view: Type.Optional(choice(VIEWS, 'default: transfers')),
      direction: Type.Optional(choice(['in', 'out', 'any'], 'of transfers; default any')),
      counterparty: Type.Optional(INPUT.address('of transfers: only with this address')),
      mint: Type.Optional(INPUT.address(`of transfers: only this mint; SOL is ${NATIVE_SOL_MINT}`)),
      status: Type.Optional(choice(['any', 'succeeded', 'failed'], 'of transactions and explained; default any')),
      order: Type.Optional(choice(['newest', 'oldest'], 'default newest')),
      since: INPUT.since,
      until: INPUT.until,
      commitment: Type.Optional(choice(['confirmed', 'finalized'], 'default confirmed')),
      limit: INPUT.limit(100, 10),
      cursor: INPUT.cursor,
    },
    { additionalProperties: false },
  ),
  data: answered({
    items: listOf('Rows in the asked order'),
    next: Type.Union([Type.String(), Type.Null()], { description: 'Cursor of the next page; null: none' }),
  }),
  async run(input, calls) {
    const { view = 'transfers', order = 'newest' } = input;
    const found = await FINDERS[view](input, calls);
    const items = itemsOf(memberOf(found, 'data'));
    const next = nextOf(found);
    const what = count(items.length, view === 'transfers' ? 'transfer' : 'transaction');
    return { summary: `${what}, ${order} first. ${moreSentence(next)}`, data: { items, next } };
  },
});

interface HistoryInput {
  readonly address: string;
  readonly direction?: string;
  readonly counterparty?: string;
  readonly mint?: string;
  readonly status?: string;
  readonly order?: string;
  readonly since?: string;
  readonly until?: string;
  readonly commitment?: string;
  readonly limit?: number;
  readonly cursor?: string;
}

const FINDERS: Readonly<Record<(typeof VIEWS)[number], (input: HistoryInput, calls: Calls) => Promise<unknown>>> = {
  transfers: (input, calls) => {
    const filters = given({ blockTime: timesOf(input) });
    return calls.rpc('getTransfersByAddress', [
      input.address,
      given({
        ...pageOf(input),
        direction: input.direction,
        with: input.counterparty,
        mint: input.mint,
        filters: Object.keys(filters).length === 0 ? undefined : filters,
      }),
    ]);
  },
  transactions: (input, calls) =>
    calls.rpc('getTransactionsForAddress', [
      input.address,
      given({
        ...pageOf(input),
        filters: given({ tokenAccounts: 'balanceChanged', status: input.status, blockTime: timesOf(input) }),
      }),
    ]),
  explained: (input, calls) =>
    calls.send(
      'POST',
      '/v1/parsed-events/transaction-history',
      given({
        ...pageOf(input),
        address: input.address,
        status: input.status ?? 'any',
        tokenAccounts: 'balanceChanged',
        time: timesOf(input),
      }),
    ),
};

function pageOf({ order, commitment = 'confirmed', limit = 10, cursor }: HistoryInput): Record<string, unknown> {
  return { sortOrder: order === 'oldest' ? 'asc' : 'desc', commitment, limit, paginationToken: cursor };
}

/** Bounds of block times; undefined without any. Errors: ToolError. */
export function timesOf({ since, until }: { readonly since?: string; readonly until?: string }) {
  const bounds = given({ gte: secondsOf(since, 'since'), lte: secondsOf(until, 'until') });
  return Object.keys(bounds).length === 0 ? undefined : bounds;
}
