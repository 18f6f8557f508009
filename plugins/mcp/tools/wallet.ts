import { isPlainObject } from '../../../src/lib/json.ts';
import { Type } from '../../../src/plugin/plugin.ts';
import { NATIVE_SOL_MINT, WRAPPED_SOL_MINT } from '../../../src/solana/programs.ts';
import {
  answered,
  anything,
  type Calls,
  choice,
  count,
  defineTool,
  given,
  INPUT,
  listOf,
  orMissing,
  required,
  secondsOf,
  type ToolAnswer,
} from '../tool.ts';
import { itemsOf, nextOf } from './answers.ts';

const VIEWS = ['summary', 'balances', 'history', 'transfers', 'identity', 'funded_by', 'balance_at'] as const;

/** Balances with an index of a wallet come in pages of at most this. */
const SUMMARY_BALANCES = 20;

export const walletTool = defineTool({
  name: 'wallet',
  title: 'Wallet',
  description:
    'What a wallet holds and did. Views: summary (identity and largest balances), balances (by page), history (transactions with balance changes, newest first), transfers (money in and out, newest first), identity, funded_by (first incoming SOL), balance_at (balance at a past moment or slot). The first call about a wallet may answer "not ready" with a number of seconds: call again after them.',
  input: Type.Object(
    {
      wallet: Type.String({ minLength: 1, maxLength: 128, description: 'address, or a name such as example.sol' }),
      view: Type.Optional(choice(VIEWS, 'default: summary')),
      limit: INPUT.limit(100, 10),
      cursor: INPUT.cursor,
      page: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000, description: 'of balances; default 1' })),
      mint: Type.Optional(INPUT.address('of balance_at: mint of the token; default SOL')),
      at: Type.Optional(Type.String({ maxLength: 40, description: 'of balance_at: ISO 8601 time or Unix seconds' })),
      slot: Type.Optional(Type.Integer({ minimum: 0, description: 'of balance_at, instead of `at`' })),
    },
    { additionalProperties: false },
  ),
  data: answered({
    identity: anything('Who it is, if that is known'),
    balances: listOf(`Tokens; SOL has the mint ${WRAPPED_SOL_MINT}`),
    totalUsdValue: Type.Number({ description: 'Of the page; tokens without a price count 0' }),
    items: listOf('Transactions or transfers, newest first'),
    next: Type.Union([Type.String(), Type.Null()], { description: 'Cursor of the next page; null: none' }),
  }),
  async run(input, calls) {
    const { wallet, view = 'summary' } = input;
    const path = `/v1/wallet/${encodeURIComponent(wallet)}`;
    switch (view) {
      case 'summary':
        return await summaryOf(calls, path);
      case 'balances':
        return await balancesOf(calls, path, input.page ?? 1, input.limit ?? 10);
      case 'history':
      case 'transfers':
        return await pageOf(calls, path, view, given({ limit: input.limit ?? 10, [CURSORS[view]]: input.cursor }));
      case 'identity': {
        const identity = await identityOf(calls, path);
        return { summary: identitySentence(identity), data: { identity } };
      }
      case 'funded_by': {
        const funding = await calls.get(`${path}/funded-by`);
        return { summary: 'The first incoming transfer of SOL is in `funding`.', data: { funding } };
      }
      case 'balance_at': {
        const time = secondsOf(input.at, 'at');
        if (time === undefined) required(input.slot, 'at or slot', 'balance_at');
        const query = given({ mint: input.mint ?? NATIVE_SOL_MINT, time, slot: input.slot });
        const balance = await calls.get(`${path}/balance-at`, query);
        return { summary: 'The balance then is in `balance`; `asOf` is the last change before.', data: { balance } };
      }
    }
  },
});

const CURSORS = { history: 'before', transfers: 'cursor' } as const;

async function summaryOf(calls: Calls, path: string): Promise<ToolAnswer> {
  const [identity, balances] = await Promise.all([
    identityOf(calls, path),
    balancesOf(calls, path, 1, SUMMARY_BALANCES),
  ]);
  return {
    summary: `${balances.summary} ${identitySentence(identity)}`,
    data: { identity, ...balances.data },
  };
}

/** Null: nobody is known behind the address. */
const identityOf = (calls: Calls, path: string): Promise<unknown> => orMissing(calls.get(`${path}/identity`));

async function balancesOf(calls: Calls, path: string, page: number, limit: number): Promise<ToolAnswer> {
  const found = await calls.get(`${path}/balances`, { page, limit });
  const members = isPlainObject(found) ? found : {};
  const balances = itemsOf(members['balances']);
  const pagination = isPlainObject(members['pagination']) ? members['pagination'] : {};
  const more = pagination['hasMore'] === true ? ` There are more: ask for page ${page + 1}.` : '';
  const { totalUsdValue } = members;
  const worth = typeof totalUsdValue === 'number' ? ` They are worth ${totalUsdValue.toFixed(2)} US dollars.` : '';
  return { summary: `${count(balances.length, 'balance')} on this page.${worth}${more}`, data: members };
}

async function pageOf(
  calls: Calls,
  path: string,
  view: 'history' | 'transfers',
  query: Readonly<Record<string, unknown>>,
): Promise<ToolAnswer> {
  const found = await calls.get(`${path}/${view}`, query);
  const items = itemsOf(isPlainObject(found) ? found['data'] : null);
  const next = nextOf(found);
  const what = view === 'history' ? count(items.length, 'transaction') : count(items.length, 'transfer');
  return {
    summary: `${what}, newest first. ${next === null ? 'That is all.' : 'There are more: pass `next` as cursor.'}`,
    data: { items, next },
  };
}

/** An unknown address has no name; a name that others chose is in the data only. */
const identitySentence = (identity: unknown): string =>
  isPlainObject(identity) && identity['type'] !== 'unknown' ? 'Its identity is known.' : 'Its owner is not known.';
