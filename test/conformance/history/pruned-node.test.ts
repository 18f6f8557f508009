/** Histories behind a node that has pruned its past: what the ledger holds is answered, and nothing is shorter. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { createEconomy, type Economy } from '../../helpers/wallet-economy.ts';

const SEED = 43;
const missing = await chainMissing();
type Row = { readonly signature: string; readonly slot: number };

suite('histories without the past of a node', { skip: missing ?? false }, () => {
  let chain: TestChain;
  let daemon: DaemonInProcess;
  let economy: Economy;
  /** What the complete node answered. */
  let complete: ReadonlyMap<string, string>;
  let slots: readonly number[];

  const post = async (url: string, method: string, params: unknown) => {
    const headers = { 'content-type': 'application/json' };
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const response = await fetch(url, { method: 'POST', headers, body });
    return (await response.json()) as { result?: never; error?: { code: number } };
  };
  const ours = (method: string, params: unknown) => post(`${daemon.apiUrl}/?api-key=${daemon.key}`, method, params);
  const nodeResult = async (method: string, params: unknown) => (await post(chain.rpcUrl, method, params)).result;

  async function until<T>(what: string, look: () => Promise<T | null>): Promise<T> {
    for (let turn = 0; turn < 600; turn++) {
      const found = await look();
      if (found !== null) return found;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    throw new Error(`${what} did not happen`);
  }

  /** A page, once the index of the address covers it. */
  const page = (method: string, params: unknown) =>
    until(`${method} ${JSON.stringify(params)}`, async () => {
      const { result, error } = await ours(method, params);
      if (error !== undefined) assert.equal(error.code, -32002, JSON.stringify(error));
      return result === undefined ? null : (result as { data: Row[]; paginationToken: string | null });
    });

  before(async () => {
    chain = await startChain();
    daemon = await startDaemon({
      chain,
      config: {
        plugins: ['access', 'proxy', 'wallet', 'history', 'enhanced'],
        ledger: { retain: { hours: 1 } },
        proxy: { cache: { enabled: false } },
        follow: { auditIntervalMs: 100 },
      },
    });
    await until('the daemon follows the chain', async () => {
      const state = (await (await fetch(`${daemon.adminUrl}/readyz`)).json()) as {
        chain: { cursorSlot: number | null }[];
      };
      return state.chain[0]?.cursorSlot ?? null;
    });
    economy = await createEconomy(chain, SEED);
    await economy.run(20);
    await chain.fork({ depth: 3, replay: 'all' });
    await chain.seal(20);
    const tip = (await nodeResult('getSlot', [{ commitment: 'confirmed' }])) as unknown as number;
    const finalSlot = (await nodeResult('getSlot', [{ commitment: 'finalized' }])) as unknown as number;
    await until('the ledger has all', async () => {
      const { chain: states } = (await (await fetch(`${daemon.adminUrl}/readyz`)).json()) as {
        chain: { cursorSlot: number; finalizedSlot: number }[];
      };
      const { cursorSlot, finalizedSlot } = states[0]!;
      return cursorSlot === tip && finalizedSlot === finalSlot ? true : null;
    });
    const lists = economy.wallets.flatMap((address) =>
      ['confirmed', 'finalized'].map(async (commitment) => {
        const params = [address, { commitment }];
        return [JSON.stringify(params), JSON.stringify(await nodeResult('getSignaturesForAddress', params))] as const;
      }),
    );
    complete = new Map(await Promise.all(lists));
    slots = (await nodeResult('getBlocks', [0, tip, { commitment: 'confirmed' }])) as unknown as number[];
    assert.ok([...complete.values()].some((text) => (JSON.parse(text) as Row[]).length > 20));
  });
  after(async () => {
    await daemon?.stop();
    await chain?.stop();
  });

  async function standardLists(): Promise<void> {
    for (const [params, wanted] of complete)
      assert.equal(JSON.stringify((await ours('getSignaturesForAddress', JSON.parse(params))).result), wanted, params);
    for (const params of [
      [slots[0], slots.at(-1), { commitment: 'confirmed' }],
      [slots[0], { commitment: 'confirmed' }],
    ])
      assert.deepEqual((await ours('getBlocks', params)).result, slots, JSON.stringify(params));
    const some = await ours('getBlocksWithLimit', [slots[0], slots.length + 10, { commitment: 'confirmed' }]);
    assert.deepEqual(some.result, slots);
  }

  test('behind a node that has pruned all but its newest blocks, lists are those of the complete node', async () => {
    await standardLists();
    // No node prunes what it has not made final.
    await chain.prune((await nodeResult('getSlot', [{ commitment: 'finalized' }])) as unknown as number);
    await standardLists();
  });

  test('an address that nobody asked for is answered from the index of the ledger behind a pruned node', async () => {
    const [address] = economy.wallets as [string];
    await historyOf(address);
  });

  test('enhanced transactions of an address are those of the complete node behind a pruned one', async () => {
    const [address] = economy.wallets as [string];
    for (const commitment of ['confirmed', 'finalized']) {
      const path = `/v0/addresses/${address}/transactions?limit=100&commitment=${commitment}&api-key=${daemon.key}`;
      const found = (await (await fetch(`${daemon.apiUrl}${path}`)).json()) as Row[];
      const wanted = JSON.parse(complete.get(JSON.stringify([address, { commitment }]))!) as Row[];
      assert.deepEqual(
        found.map(({ signature }) => signature),
        wanted.slice(0, 100).map(({ signature }) => signature),
      );
    }
  });

  async function historyOf(address: string): Promise<void> {
    for (const commitment of ['confirmed', 'finalized']) {
      const rows = JSON.parse(complete.get(JSON.stringify([address, { commitment }]))!) as Row[];
      const wanted = rows.map(({ signature }) => signature);
      for (const sortOrder of ['desc', 'asc']) {
        const { data, paginationToken } = await page('getTransactionsForAddress', [address, { commitment, sortOrder }]);
        const found = data.map(({ signature }) => signature);
        assert.deepEqual(sortOrder === 'asc' ? found.toReversed() : found, wanted, `${commitment} ${sortOrder}`);
        assert.equal(paginationToken, null);
      }
    }
  }
});
