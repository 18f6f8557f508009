/**
 * A node gives the accounts of `getProgramAccounts` and `getTokenAccountsByOwner` in another order each time. Whatever we answer with pages made of
 * them has the same rows in the same order each time, and its pages together are the whole.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { TOKEN_PROGRAM_ID } from '@solana/spl-token';
import { arrayItems } from '../../../src/lib/json.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { createWorld } from '../../helpers/das-world.ts';
import { startHttpServer } from '../../helpers/http-server.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';

const SEED = Number(process.env['PARHELION_SEED'] ?? 20_261_130);
const LIMIT = 2;
const WALKS = 3;
const MAX_PAGES = 50;

const SHUFFLED = ['getProgramAccounts', 'getTokenAccountsByOwner', 'getTokenAccountsByDelegate'];

interface Call {
  readonly method: string;
}

/** In front of a node: the same answers, with lists of accounts in another order each time. */
async function startShuffler(t: TestContext, node: string) {
  const random = createSfc32(SEED);
  const shuffled = new Map<string, number>();
  const shuffle = ({ method }: Call, text: string): string => {
    if (!SHUFFLED.includes(method)) return text;
    const start = text.search(/(?<="(?:result|value)":)\[/);
    const bytes = Buffer.from(text);
    const items = start < 0 ? null : arrayItems(bytes, start, bytes.lastIndexOf(']') + 1);
    if (items === null) return text;
    const order = items.map((item) => ({ item: bytes.toString('utf8', item.start, item.end), at: random.float() }));
    shuffled.set(method, Math.max(shuffled.get(method) ?? 0, items.length));
    const list = order.toSorted((one, other) => one.at - other.at).map(({ item }) => item);
    const end = items.length === 0 ? start + 1 : items.at(-1)!.end;
    return `${bytes.toString('utf8', 0, start + 1)}${list.join()}${bytes.toString('utf8', end)}`;
  };
  const ask = async (call: unknown) => {
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(node, { method: 'POST', body: JSON.stringify(call), headers });
    return shuffle(call as Call, await answer.text());
  };
  const server = await startHttpServer(async (body, _request, response) => {
    if (body.length === 0) return void response.writeHead(404).end();
    const calls = JSON.parse(body.toString()) as unknown;
    const answer = Array.isArray(calls) ? `[${(await Promise.all(calls.map(ask))).join()}]` : await ask(calls);
    response.writeHead(200, { 'content-type': 'application/json' }).end(answer);
  });
  t.after(() => server.close());
  return { url: server.url, shuffled };
}

type Page = { readonly rows: readonly unknown[]; readonly next: unknown };
type Answer = ReturnType<JSON['parse']>;

test('pages of lists of accounts do not rest on the order in which a node gives them', {
  skip: (await chainMissing()) ?? false,
}, async (t) => {
  const chain = await startChain();
  t.after(() => chain.stop());
  const world = await createWorld(chain);
  const { owner, group, tokens } = world;
  const { url, shuffled } = await startShuffler(t, chain.rpcUrl);
  const daemon = await startDaemon({
    chain: { rpcUrl: url, wsUrl: chain.wsUrl },
    config: {
      plugins: ['access', 'proxy', 'accounts', 'token-metadata', 'das', 'wallet'],
      // Each page is made of a list of its own.
      wallet: { balances: { pagesMs: 0 } },
    },
  });
  t.after(() => daemon.stop());
  const key = `api-key=${daemon.key}`;
  const ask = async (method: string, params: unknown): Promise<Answer> => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const { result, error } = (await (
      await fetch(`${daemon.apiUrl}/?${key}`, { method: 'POST', body })
    ).json()) as Answer;
    assert.equal(error, undefined, JSON.stringify([method, params, error]));
    return result;
  };
  /** A page by its number, and one by the cursor of the page before. */
  const byNumber =
    (method: string, params: object, rowsOf: (result: Answer) => readonly unknown[]) =>
    async (limit: number, at: unknown): Promise<Page> => {
      const page = (at ?? 1) as number;
      const rows = rowsOf(await ask(method, { ...params, limit, page }));
      return { rows, next: rows.length < limit ? null : page + 1 };
    };
  const byCursor =
    (method: string, params: object, rowsOf: (result: Answer) => readonly unknown[]) =>
    async (limit: number, at: unknown): Promise<Page> => {
      const result = await ask(method, { ...params, limit, ...(at === null ? {} : { cursor: at }) });
      return { rows: rowsOf(result), next: result.cursor ?? null };
    };
  const byKey =
    (method: string, ...params: readonly unknown[]) =>
    async (limit: number, at: unknown): Promise<Page> => {
      const options = { encoding: 'base64', limit, ...(at === null ? {} : { paginationKey: at }) };
      const result = await ask(method, [...params, options]);
      const { accounts, paginationKey } = result.value ?? result;
      return { rows: accounts.map(({ pubkey }: { pubkey: string }) => pubkey), next: paginationKey };
    };
  const idsOf = ({ items }: Answer) => items.map(({ id }: { id: string }) => id);
  const addressesOf = ({ token_accounts }: Answer) => token_accounts.map(({ address }: { address: string }) => address);
  const balances =
    (member: 'balances' | 'nfts') =>
    async (limit: number, at: unknown): Promise<Page> => {
      const page = (at ?? 1) as number;
      const path = `/v1/wallet/${owner}/balances?${key}&showNfts=true&showNative=false&limit=${limit}&page=${page}`;
      const response = await fetch(daemon.apiUrl + path);
      const body = (await response.json()) as Answer;
      assert.equal(response.status, 200, JSON.stringify(body));
      const rows = body[member].map(({ mint }: { mint: string }) => mint);
      return { rows, next: member === 'balances' && body.pagination.hasMore ? page + 1 : null };
    };
  const none = { sortBy: 'none', sortDirection: 'asc' };
  const ofGroup = { groupKey: 'collection', groupValue: group };
  const program = String(TOKEN_PROGRAM_ID);
  for (const [name, count, pageOf] of [
    // Of the genesis there is the mint of wrapped SOL.
    ['getProgramAccountsV2', 30, byKey('getProgramAccountsV2', program)],
    ['getTokenAccountsByOwnerV2', 17, byKey('getTokenAccountsByOwnerV2', owner, { programId: program })],
    ['getAssetsByOwner by number', 16, byNumber('getAssetsByOwner', { ownerAddress: owner }, idsOf)],
    ['getAssetsByOwner by cursor', 16, byCursor('getAssetsByOwner', { ownerAddress: owner }, idsOf)],
    [
      'getAssetsByOwner without an order',
      16,
      byNumber('getAssetsByOwner', { ownerAddress: owner, sortBy: none }, idsOf),
    ],
    ['searchAssets', 18, byCursor('searchAssets', { ownerAddress: owner, tokenType: 'all' }, idsOf)],
    ['getAssetsByGroup', 5, byNumber('getAssetsByGroup', ofGroup, idsOf)],
    ['getTokenAccounts of an owner', 17, byCursor('getTokenAccounts', { owner }, addressesOf)],
    ['getTokenAccounts of a mint', 5, byNumber('getTokenAccounts', { mint: tokens[0] }, addressesOf)],
    ['balances', 2, balances('balances')],
    ['NFTs beside balances', 16, balances('nfts')],
  ] as const)
    await t.test(name, async () => {
      const whole = (await pageOf(100, null)).rows;
      assert.equal(whole.length, count);
      for (let walk = 0; walk < WALKS; walk += 1) {
        const found: unknown[] = [];
        let at: unknown = null;
        for (let pages = 0; pages === 0 || at !== null; pages += 1) {
          assert.ok(pages < MAX_PAGES, `${pages} pages`);
          const page = await pageOf(LIMIT, at);
          found.push(...page.rows);
          at = page.next;
        }
        assert.deepEqual(found, whole, `walk ${walk}, seed ${SEED}`);
      }
    });
  t.diagnostic(`the longest lists that came in any order: ${JSON.stringify([...shuffled])}`);
  for (const method of ['getProgramAccounts', 'getTokenAccountsByOwner'])
    assert.ok(shuffled.get(method)! > 2 * LIMIT, `${method} was not shuffled`);
});
