/** Not a goal of its own: what token and wallet endpoints ask of the node, the first time and then. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { startChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { createEconomy, type Economy } from '../../helpers/wallet-economy.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';

const BLOCKS = { full: 120, quick: 40, smoke: 8 } as const;
const NATIVE = 'So11111111111111111111111111111111111111111';
/** Blocks above a final one. */
const FINALITY = 4;
/** Reads of accounts and of the past; what the follower asks for beside them is not counted. */
const COUNTED = new Set([
  'getAccountInfo',
  'getBalance',
  'getBlockTime',
  'getFirstAvailableBlock',
  'getMultipleAccounts',
  'getProgramAccounts',
  'getSignaturesForAddress',
  'getTokenAccountsByOwner',
  'getTransaction',
]);

interface Endpoint {
  readonly name: string;
  readonly path: string;
  readonly body?: string;
  /** What the first one costs goes with the transactions of the wallet. */
  readonly wallet?: string;
}

function endpoints({ wallets, mints }: Economy, slot: number): readonly Endpoint[] {
  const paths = ['balances', 'history', 'transfers', `balance-at?mint=${NATIVE}&slot=${slot}`, 'funded-by'];
  return [
    { name: 'token metadata', path: '/v0/token-metadata', body: JSON.stringify({ mintAccounts: [mints[0]?.mint] }) },
    ...paths.map((path, at) => {
      const wallet = wallets[at] as string;
      return { name: path.split('?')[0] as string, path: `/v1/wallet/${wallet}/${path}`, wallet };
    }),
  ];
}

async function run({ size, seed, say }: RunOptions): Promise<RowResult[]> {
  const chain = await startChain({ finalityDepth: FINALITY });
  const node = await countingNode(chain.rpcUrl);
  const daemon = await startDaemon({
    chain: { rpcUrl: node.url, wsUrl: chain.wsUrl },
    config: { plugins: ['access', 'token-metadata', 'wallet'], wallet: { balances: { cacheMs: 60_000 } } },
  });
  try {
    const economy = await createEconomy(chain, seed, 5);
    say(`upstream calls: an economy of ${BLOCKS[size]} blocks`);
    await economy.run(BLOCKS[size]);
    const slot = Math.max(...economy.truth.keys());
    const ask = async ({ path, body }: Endpoint): Promise<string> => {
      for (;;) {
        const init = body === undefined ? {} : { method: 'POST', body };
        const response = await fetch(`${daemon.apiUrl}${path}`, { ...init, headers: { 'x-api-key': daemon.key } });
        const text = await response.text();
        if (response.status === 200) return text;
        assert.ok(response.headers.has('retry-after'), text);
      }
    };
    const results: RowResult[] = [];
    for (const endpoint of endpoints(economy, slot)) {
      const before = node.count();
      const first = await ask(endpoint);
      // From then on the wallet comes with the blocks.
      const tip = await chain.seal(FINALITY * 3);
      if (endpoint.wallet !== undefined) await untilCurrent(daemon.adminUrl, endpoint.wallet, tip);
      const between = node.count();
      const cold = between - before;
      assert.equal(await ask(endpoint), first, endpoint.name);
      const warm = node.count() - between;
      results.push({
        row: `calls/${endpoint.name}`,
        name: `${endpoint.name}: calls to the node`,
        unit: 'calls',
        ours: [warm],
        baseline: [cold],
        ratio: null,
        goal: 'none when it is known',
        seed,
        verdict: size === 'smoke' ? 'not assessed' : warm === 0 ? 'met' : 'missed',
        sizes: { blocks: BLOCKS[size] },
        notes: [
          `baseline: the first request${endpoint.wallet === undefined ? '' : ', of a wallet nobody had asked for'}`,
        ],
      });
    }
    return results;
  } finally {
    await daemon.stop();
    await chain.stop();
    await node.stop();
  }
}

/** Hands everything on and counts what is counted. */
async function countingNode(target: string) {
  let count = 0;
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const { method } = JSON.parse(body.toString()) as { method?: string };
    if (method !== undefined && COUNTED.has(method)) count += 1;
    const answer = await fetch(target, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    response.writeHead(answer.status, { 'content-type': 'application/json' });
    response.end(await answer.text());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    count: () => count,
    async stop() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close').catch(() => undefined);
    },
  };
}

/** The index of a wallet goes on behind the answer, until it comes with the blocks; and these have to have come. Other endpoints need none. */
async function untilCurrent(adminUrl: string, wallet: string, tip: number): Promise<void> {
  const ask = async <T>(path: string): Promise<T> => (await (await fetch(`${adminUrl}${path}`)).json()) as T;
  for (;;) {
    const { wallets } = await ask<{ wallets: { address: string; state: string }[] }>('/v0/admin/wallets');
    const { chain } = await ask<{ chain: { chain: string; cursorSlot: number }[] }>('/readyz');
    const state = wallets.find(({ address }) => address === wallet)?.state;
    const cursor = chain.find((one) => one.chain === 'main')?.cursorSlot ?? -1;
    if ((state === undefined || state === 'complete, current') && cursor >= tip) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

export const row: Row = { id: 'calls', name: 'calls to the node', run };
