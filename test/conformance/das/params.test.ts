/** Every method of the asset API with every parameter: what is refused names why, and all ways through a list lead past the same items. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ORDERS } from '../../../plugins/das/params.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { bytesOf, createWorld, type World } from '../../helpers/das-world.ts';
import { bySeed } from '../../helpers/run-part.ts';
import type { Schema } from '../../helpers/schema-values.ts';
import { eachStore } from '../../helpers/store.ts';
import { until } from '../../helpers/until.ts';
import { startUpstream } from '../../helpers/upstream.ts';

const RUNS = Number(process.env['FUZZ_REQUESTS'] ?? 250);
const PATIENCE_MS = 20_000;

interface Answer {
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: { readonly details?: string } };
}

const listsOf = ({ owner, family, creator, authority, group, tokens }: World) =>
  [
    ['getAssetsByOwner', { ownerAddress: owner }, 16],
    ['getAssetsByOwner', { ownerAddress: owner, options: { showFungible: true } }, 18],
    ['getAssetsByGroup', { groupKey: 'collection', groupValue: family }, 11],
    ['getAssetsByGroup', { groupKey: 'collection', groupValue: group }, 5],
    ['getAssetsByCreator', { creatorAddress: creator }, 11],
    ['getAssetsByCreator', { creatorAddress: creator, onlyVerified: true }, 6],
    ['getAssetsByAuthority', { authorityAddress: authority }, 17],
    ['searchAssets', { ownerAddress: owner, tokenType: 'fungible' }, 2],
    ['searchAssets', { authorityAddress: authority, interface: 'MplCoreAsset' }, 5],
    ['searchAssets', { grouping: ['collection', family], creatorAddress: creator, creatorVerified: false }, 5],
    ['searchAssets', { collections: [family, group, family] }, 16],
    ['searchAssets', { collections: [family, group], interface: 'MplCoreAsset', conditionType: 'all' }, 5],
    ['getTokenAccounts', { owner }, 17],
    ['getTokenAccounts', { mint: tokens[0] }, 5],
  ] as const;

/** Texts of the contract that do not name a member. */
const CONTRACT = /^(Pagination|Batch Size|Validation|Cursor Validation)|key of a group/;
const REQUIRED = ['id', 'ids', 'ownerAddress', 'groupKey', 'groupValue', 'creatorAddress', 'authorityAddress', 'mint'];

const odd: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom(null, true, -1, 0, 1, 1.5, 2 ** 53 - 1, 2 ** 53, 2 ** 64, 1e308, '', 'x', 'desc', '1'.repeat(5_000)),
  fc.constantFrom<unknown>([], {}, [null], [[]], { id: 1 }, { __proto__: null, constructor: 1 }),
  fc.string({ unit: 'binary', maxLength: 60 }),
);

/** Values of members, mostly of the right kind, for the methods that the daemon documents. */
function callsOf(methods: ReadonlyMap<string, Schema>, world: World) {
  const key = fc.constantFrom(...world.ids, ...world.tokens, world.owner, world.family, world.group, world.creator);
  const values: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
    ids: fc.array(key, { maxLength: 4 }),
    groupKey: fc.constant('collection'),
    grouping: fc.tuple(fc.constant('collection'), key),
    collections: fc.array(key, { maxLength: 3 }),
    page: fc.constantFrom(1, 2, 3, 2 ** 31, 2 ** 53 - 1),
    limit: fc.integer({ min: 0, max: 1_001 }),
    leafIndex: fc.constantFrom(0, 1, 2 ** 31, 2 ** 53 - 1),
    sortBy: fc.record(
      {
        sortBy: fc.oneof({ weight: 4, arbitrary: fc.constantFrom('id', 'created', 'updated', 'none', null) }, odd),
        sortDirection: fc.oneof({ weight: 4, arbitrary: fc.constantFrom('asc', 'desc', null) }, odd),
      },
      { requiredKeys: [] },
    ),
    options: fc.dictionary(
      fc.constantFrom('showFungible', 'showGrandTotal', 'showNativeBalance', 'showInscription', 'showZeroBalance', 'x'),
      fc.oneof({ weight: 6, arbitrary: fc.boolean() }, odd),
      { maxKeys: 3, noNullPrototype: true },
    ),
    sortDirection: fc.constantFrom('asc', 'desc'),
    tokenType: fc.constantFrom('fungible', 'nonFungible', 'All', 'Compressed', 'regularNft'),
    interface: fc.constantFrom('V1_NFT', 'MplCoreAsset', 'FungibleToken'),
    conditionType: fc.constantFrom('all', 'any'),
    name: fc.constantFrom('Picture #1', 'Core 2'),
    jsonUri: fc.constant(''),
  };
  const truths = /^(only|frozen|burnt|compress|negate|creatorVerified)/;
  const one = (name: string) => {
    const usual = values[name] ?? (truths.test(name) ? fc.boolean() : fc.oneof({ weight: 3, arbitrary: key }, odd));
    return fc.oneof({ weight: 9, arbitrary: usual }, { weight: 1, arbitrary: odd });
  };
  return fc.oneof(
    ...Array.from(methods, ([method, schema]) => {
      const names = Object.keys(schema['properties'] as Schema);
      const wanted = (schema['required'] as readonly string[] | undefined) ?? [];
      const members = Object.fromEntries([...names, 'unknown'].map((name) => [name, one(name)]));
      // Few at a time: otherwise nearly each call is refused for one of them.
      return fc
        .tuple(fc.record(members), fc.array(fc.constantFrom(...names, 'unknown'), { maxLength: 2 }), fc.nat({ max: 9 }))
        .map(([all, some, dice]) => {
          const given = dice === 0 ? some : [...new Set([...wanted, ...some])];
          return { method, params: Object.fromEntries(given.map((name) => [name, all[name]])) };
        });
    }),
  );
}

/** The same params without their names; null where they cannot be said so. */
function byPosition(method: string, params: Readonly<Record<string, unknown>>): unknown[] | null {
  const order: readonly string[] = Object.hasOwn(ORDERS, method) ? ORDERS[method as keyof typeof ORDERS] : [];
  const places = Object.keys(params).map((name) => order.indexOf(name));
  if (places.length === 0 || places.includes(-1)) return null;
  const values = order.slice(0, Math.max(...places) + 1).map((name) => params[name] ?? null);
  const isNamed = values.length === 1 && typeof values[0] === 'object' && !Array.isArray(values[0]);
  return isNamed ? null : values;
}

const missing = await chainMissing();

test('with the dialect of Metaplex each wrong parameter is -32000, also of a proof', async (t) => {
  const upstream = await startUpstream();
  t.after(() => upstream.stop());
  const daemon = await startDaemon({
    chain: { rpcUrl: upstream.url },
    config: {
      plugins: ['access', 'compression', 'das'],
      follow: { enabled: false },
      compression: { cnft: { trees: 'all' }, verifyChain: false },
      das: { dialect: 'metaplex' },
    },
  });
  t.after(() => daemon.stop());
  const id = '1'.repeat(32);
  for (const [method, params, message] of [
    ['getAsset', { id: 'x' }, 'Pubkey Validation Err: x is invalid'],
    ['getAssetProof', { id: 'x' }, 'Pubkey Validation Err: x is invalid'],
    ['getAssetProof', {}, 'Invalid params'],
    ['getAssetProofBatch', { ids: [id, 'x'] }, 'Pubkey Validation Err: x is invalid'],
    ['getAssetBatch', { ids: Array(1_001).fill(id) }, 'Batch Size Error. Batch size should not be greater than 1000.'],
    ...([{}, { tree: id }, { leafIndex: 3 }, { id, tree: id, leafIndex: 3 }, { tree: id, leafIndex: -1 }] as const).map(
      (params) =>
        [
          'getSignaturesForAsset',
          params,
          "Validation Error: Must provide either 'id' or both 'tree' and 'leafIndex'",
        ] as const,
    ),
    ['getAssetProofs', { ids: Array(1_001).fill(id) }, 'Batch Size Error. Batch size should not be greater than 1000.'],
  ] as const) {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const response = await fetch(`${daemon.apiUrl}/?api-key=${daemon.key}`, { method: 'POST', body });
    const { error } = (await response.json()) as Answer;
    assert.deepEqual([error?.code, error?.message], [-32000, message], method);
  }
});

bySeed(RUNS, ({ length: numRuns }) =>
  eachStore('parameters of the asset API', (engine) => {
    test('calls and lists', { skip: missing ?? false, timeout: 180_000 }, async (t) => {
      const chain = await startChain();
      t.after(() => chain.stop());
      const world = await createWorld(chain);
      const { owner, family, creator, authority, group } = world;
      const daemon = await startDaemon({
        chain,
        store: (await engine.database(t)).url,
        config: {
          plugins: ['access', 'proxy', 'compression', 'das'],
          compression: { cnft: { trees: 'all' }, verifyChain: false },
          das: {
            follow: { collections: [family, group], creators: [creator], authorities: [authority], owners: [owner] },
            documentWaitMs: 0,
          },
        },
      });
      t.after(() => daemon.stop());
      const ask = async (method: string, params: unknown): Promise<Answer> => {
        const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
        const url = `${daemon.apiUrl}/?api-key=${daemon.key}`;
        const response = await fetch(url, { method: 'POST', body, signal: AbortSignal.timeout(PATIENCE_MS) });
        // While something is being read, lists of it are refused with 503.
        assert.ok([200, 503].includes(response.status), `${response.status} ${body}`);
        return (await response.json()) as Answer;
      };
      const idsOf = (answer: Answer, what: string): string[] => {
        assert.equal(answer.error, undefined, `${what}: ${answer.error?.message}`);
        const items = (answer.result?.['items'] ?? answer.result?.['token_accounts']) as {
          id?: string;
          address?: string;
        }[];
        assert.equal(answer.result?.['total'], items.length, what);
        return items.map(({ id, address }) => (id ?? address) as string);
      };
      await until(async () => {
        await chain.seal(1);
        const { result } = await ask('getAssetsByCreator', { creatorAddress: creator });
        const listed = await ask('getAssetsByAuthority', {
          authorityAddress: authority,
          sortBy: { sortBy: 'updated' },
        });
        const grouped = await ask('getAssetsByGroup', { groupKey: 'collection', groupValue: family });
        const owned = await ask('getAssetsByOwner', { ownerAddress: owner, sortBy: { sortBy: 'updated' } });
        return [result, listed.result, grouped.result, owned.result].every((one) => one !== undefined);
      }, 'everything is filled');
      await world.move();
      await until(async () => {
        const sortBy = { sortBy: 'updated', sortDirection: 'desc' };
        const answer = await ask('getAssetsByCreator', { creatorAddress: creator, sortBy, limit: 1, page: 1 });
        return idsOf(answer, 'newest')[0] === world.ids[0];
      }, 'the move is indexed');

      await t.test('all ways through a list lead past the same items', async () => {
        for (const [method, params, size] of listsOf(world)) {
          const isSorted = method !== 'getTokenAccounts';
          const plain = idsOf(await ask(method, params), method);
          for (const sortDirection of isSorted ? ['asc', 'desc'] : [null]) {
            const byId = sortDirection === null ? {} : { sortBy: { sortBy: 'id', sortDirection } };
            const what = `${method} ${JSON.stringify({ ...params, ...byId })}`;
            const get = async (more: object) => {
              const answer = await ask(method, { ...params, ...byId, ...more });
              return { ids: idsOf(answer, what), cursor: answer.result?.['cursor'] as string | undefined };
            };
            const whole = (await get({})).ids;
            assert.equal(whole.length, size, what);
            assert.deepEqual(plain, sortDirection === 'desc' ? whole.toReversed() : whole, what);
            const sorted = [...new Set(whole)].sort((a, b) => Buffer.compare(bytesOf(a), bytesOf(b)));
            assert.deepEqual(whole, sortDirection === 'desc' ? sorted.toReversed() : sorted, what);
            for (const limit of [3, size]) {
              const [pages, cursors, bounds]: [string[], string[], string[]] = [[], [], []];
              for (let page = 1; (page - 1) * limit <= size; page += 1) pages.push(...(await get({ page, limit })).ids);
              for (let cursor: string | undefined, isFirst = true; isFirst || cursor !== undefined; isFirst = false) {
                const part = await get({ limit, ...(cursor === undefined ? {} : { cursor }) });
                cursors.push(...part.ids);
                cursor = part.cursor;
              }
              const side = sortDirection === 'desc' ? 'before' : 'after';
              for (let part = await get({ limit }); part.ids.length > 0; ) {
                bounds.push(...part.ids);
                part = await get({ limit, [side]: part.ids.at(-1) });
              }
              assert.deepEqual([pages, cursors, bounds], [whole, whole, whole], `${what} by ${limit}`);
            }
            const [from, to] = [sorted[Math.floor(size / 4)], sorted[Math.floor((size * 3) / 4)]] as [string, string];
            const parts = [{ before: from }, { after: from, before: to }, { after: to }];
            const ranges = await Promise.all(parts.map(async (part) => (await get(part)).ids));
            const inRanges = new Set(ranges.flat());
            assert.deepEqual([...new Set([...inRanges, from, to])].sort(), [...whole].sort(), what);
            assert.equal(inRanges.size, ranges.flat().length);
            assert.ok(!inRanges.has(from) && !inRanges.has(to), what);
          }
          if (!isSorted || method === 'searchAssets' || 'ownerAddress' in params) continue;
          for (const sortBy of ['created', 'updated', 'recent_action'])
            for (const sortDirection of ['asc', 'desc']) {
              const what: string = `${method} by ${sortBy} ${sortDirection}`;
              const get = async (more: object): Promise<string[]> =>
                idsOf(await ask(method, { ...params, sortBy: { sortBy, sortDirection }, ...more }), what);
              const whole = await get({});
              assert.equal(new Set(whole).size, size, what);
              const pages: string[] = [];
              for (let page = 1; page <= Math.ceil(size / 4); page += 1) pages.push(...(await get({ page, limit: 4 })));
              assert.deepEqual(pages, whole, what);
              const opposite = sortDirection === 'asc' ? 'desc' : 'asc';
              assert.deepEqual(await get({ sortBy: { sortBy, sortDirection: opposite } }), whole.toReversed(), what);
            }
          const { result } = await ask(method, { ...params, limit: 2, displayOptions: { showGrandTotal: true } });
          if (!('options' in params)) assert.equal(result?.['grand_total'], size);
        }
      });

      await t.test('a tree that no block has named is refused at once, not until it was read', async () => {
        const { error } = await ask('searchAssets', { tree: world.owner });
        assert.deepEqual(
          [error?.code, /not all trees/.test(String(error?.data?.details))],
          [-32000, true],
          JSON.stringify(error),
        );
      });

      await t.test('proofs refuse keys and long lists with the texts of the other methods', async () => {
        const many = Array<string>(1_001).fill(owner);
        for (const [method, params, message] of [
          ['getAssetProof', { id: 'x' }, 'Pubkey Validation Err: x is invalid'],
          ['getAssetProof', ['x'], 'Pubkey Validation Err: x is invalid'],
          ['getAssetProofs', { ids: [owner, 'x'] }, 'Pubkey Validation Err: x is invalid'],
          ['getAssetProofBatch', { ids: many }, 'Batch Size Error. Batch size should not be greater than 1000.'],
          ['getAssetProofBatch', [{ ids: many }], 'Batch Size Error. Batch size should not be greater than 1000.'],
          ['getAssetBatch', { ids: many }, 'Batch Size Error. Batch size should not be greater than 1000.'],
        ] as const) {
          const { error } = await ask(method, params);
          assert.deepEqual([error?.code, error?.message], [-32602, message], method);
        }
      });

      await t.test('whatever is sent is answered or refused by name, the same as an object and in a list', async () => {
        const document = (await (await fetch(`${daemon.apiUrl}/openapi.json`)).json()) as {
          'x-rpc': Record<string, { params?: { anyOf?: Schema[] } }>;
        };
        const methods = new Map(
          Object.entries(document['x-rpc']).flatMap(([name, { params }]) => {
            const object = params?.anyOf?.[0];
            // Proofs also take a bare list, and wait for slots.
            const isOurs = /asset|edition|grouping|token_?accounts$/i.test(name) && !/proof/i.test(name);
            return isOurs && object?.['properties'] !== undefined ? [[name, object] as const] : [];
          }),
        );
        assert.ok(methods.size >= 25, String([...methods.keys()]));
        const outcomes = { answered: 0, refused: 0, byPosition: 0 };
        await fc.assert(
          fc.asyncProperty(callsOf(methods, world), async ({ method, params }) => {
            const text = `${method} ${JSON.stringify(params).slice(0, 500)}`;
            let answer = await ask(method, params);
            // On a busy machine blocks may be missing for a moment; what they could change is withheld until they are there.
            await until(async () => {
              if (answer.error?.code === -32002) answer = await ask(method, params);
              return answer.error?.code !== -32002;
            }, text);
            const { error } = answer;
            assert.deepEqual(await ask(method, [params]), answer, text);
            const values = byPosition(method, params);
            if (values !== null) assert.deepEqual(await ask(method, values), answer, `${text}, by position`);
            outcomes.byPosition += Number(values !== null);
            outcomes[error === undefined ? 'answered' : 'refused'] += 1;
            if (error === undefined) return;
            assert.ok([-32602, -32000].includes(error.code), `${text}: ${JSON.stringify(error)}`);
            if (error.code !== -32602 || CONTRACT.test(error.message)) return;
            const known = Object.entries(params).flatMap(([name, value]) => [
              name,
              ...(typeof value === 'object' ? Object.keys(value ?? {}) : []),
            ]);
            const why = `${error.message} ${error.data?.details}`;
            assert.ok(
              [...known, ...REQUIRED].some((name) => why.includes(name.slice(0, 64))),
              `${text}: ${why}`,
            );
          }),
          { numRuns },
        );
        // Of few calls all may have one outcome.
        if (numRuns >= 100)
          for (const count of Object.values(outcomes)) assert.ok(count > numRuns / 10, JSON.stringify(outcomes));
      });
    });
  }),
);
