/** What agents cost: a tool against the call behind it, clients that do nothing, and the check of payments. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Agent, request as send } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Keypair } from '@solana/web3.js';
import { createFacilitator, loadSchemes } from '../../../plugins/signup/per-call/facilitator.ts';
import { readFeePayer } from '../../../plugins/signup/per-call/fee-payer.ts';
import { readShown } from '../../../plugins/signup/per-call/shown.ts';
import type { ChainReader } from '../../../src/plugin/plugin.ts';
import { USDC_DEVNET_MINT } from '../../../src/solana/programs.ts';
import { startChain } from '../../helpers/chain.ts';
import {
  clientMissing,
  DOLLAR,
  mintDollars,
  openAccountOf,
  payingClient,
  walletWith,
  writeKeypair,
  X402_DIR,
} from '../../helpers/paying-client.ts';
import { type BenchServer, type LoadRequest, measureServers, startBenchServer } from '../http.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { PROXY_KEY } from '../samples/proxy-answers.ts';
import { siblingModule } from '../sibling.ts';

const TOOL_GOAL = 2;
const SESSIONS_GOAL_MB = 50;
const PAYMENTS_GOAL = 200;
const SIZES = {
  full: { pairs: 10, sessions: 1_000, payments: 1_000 },
  quick: { pairs: 5, sessions: 1_000, payments: 300 },
  smoke: { pairs: 1, sessions: 10, payments: 10 },
} as const;
const ADDRESS = '1'.repeat(32);
/** Nobody has named it. */
const STRANGER = '9'.repeat(43);
const NETWORK = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1';
const rpc = (method: string, params: unknown, id: unknown = 1) =>
  JSON.stringify({ jsonrpc: '2.0', id, method, params });
const CALL = rpc('getAccountInfo', [ADDRESS, { encoding: 'base64', commitment: 'confirmed' }]);
const INITIALIZE = rpc('initialize', {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'bench', version: '1' },
});
const HEADERS = {
  'Content-Type': 'application/json',
  Accept: 'application/json, text/event-stream',
  'X-Api-Key': PROXY_KEY,
};

async function run(options: RunOptions): Promise<RowResult[]> {
  const module = siblingModule(import.meta.url, '../samples/proxy-server.ts');
  const upstream = await startBenchServer(module, ['upstream']);
  const daemon = await startBenchServer(module, ['daemon', upstream.url]);
  try {
    const tools: RowResult[] = [];
    for (const one of TOOL_CASES) tools.push(await tool(daemon, one, options));
    return [...tools, await sessions(daemon, options), ...(await payments(options))];
  } finally {
    daemon.stop();
    upstream.stop();
  }
}

interface ToolCase {
  readonly row: string;
  readonly name: string;
  readonly note: string;
  readonly ours: LoadRequest;
  readonly behind: LoadRequest;
  /** What both answers contain. */
  readonly says: RegExp;
}

const GET = { method: 'GET', headers: HEADERS } as const;
const POST = { method: 'POST', headers: HEADERS } as const;
const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'bench', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
};
const HEADERS_2026 = {
  ...HEADERS,
  'Mcp-Protocol-Version': '2026-07-28',
  'Mcp-Method': 'tools/call',
  'Mcp-Name': 'account',
};
const PAGE = { name: 'docs_search', arguments: { page: 'webhooks' } };
const IDENTITY = { name: 'wallet', arguments: { wallet: STRANGER, view: 'identity' } };
const ACCOUNT = { name: 'account', arguments: { address: ADDRESS, view: 'raw' } };

const TOOL_CASES: readonly ToolCase[] = [
  {
    row: 'agents/tool',
    name: 'a tool; baseline: the call behind it',
    note: 'tools/call of account, raw; getAccountInfo',
    ours: { ...POST, path: '/mcp', body: rpc('tools/call', ACCOUNT) },
    behind: { ...POST, path: '/', body: CALL },
    says: /2039280/,
  },
  {
    row: 'agents/tool-2026',
    name: 'the same by a client of 2026',
    note: 'tools/call of account, raw; getAccountInfo',
    ours: { ...POST, headers: HEADERS_2026, path: '/mcp', body: rpc('tools/call', { ...ACCOUNT, _meta: META }) },
    behind: { ...POST, path: '/', body: CALL },
    says: /2039280/,
  },
  {
    row: 'agents/page',
    name: 'a page of the guide, twice in the answer; baseline: the page',
    note: 'tools/call of docs_search, page; GET /docs/guide/webhooks.md, without a key',
    ours: { ...POST, path: '/mcp', body: rpc('tools/call', PAGE) },
    behind: { ...GET, path: '/docs/guide/webhooks.md' },
    says: /Receive an HTTP request/,
  },
  {
    row: 'agents/page-2026',
    name: 'the same by a client of 2026',
    note: 'tools/call of docs_search, page; GET /docs/guide/webhooks.md, without a key',
    ours: {
      ...POST,
      headers: { ...HEADERS_2026, 'Mcp-Name': 'docs_search' },
      path: '/mcp',
      body: rpc('tools/call', { ...PAGE, _meta: META }),
    },
    behind: { ...GET, path: '/docs/guide/webhooks.md' },
    says: /Receive an HTTP request/,
  },
  {
    row: 'agents/identity',
    name: 'who an unknown wallet is; baseline: the call, a 404',
    note: 'tools/call of wallet, identity; GET /v1/wallet/:wallet/identity',
    ours: { ...POST, path: '/mcp', body: rpc('tools/call', IDENTITY) },
    behind: { ...GET, path: `/v1/wallet/${STRANGER}/identity`, status: 404 },
    says: /"identity":null|No identity information/,
  },
];

async function tool(daemon: BenchServer, one: ToolCase, { size, seed, say }: RunOptions): Promise<RowResult> {
  say(one.name);
  for (const { path, body, status = 200, ...rest } of [one.ours, one.behind]) {
    const response = await fetch(daemon.url + path, { ...rest, ...(body === undefined ? {} : { body }) });
    const text = await response.text();
    assert.equal(response.status, status, `${path}: ${text}`);
    assert.match(text, one.says, `${path}: ${text}`);
    assert.doesNotMatch(text, /"isError":true/, text);
  }
  const options = { pairs: SIZES[size].pairs, seconds: 1, connections: 16 };
  const { cpuUs, latencyNote } = await measureServers(
    { server: daemon, request: one.ours },
    { server: daemon, request: one.behind },
    options,
  );
  const ratio = ratioOf(cpuUs.ours, cpuUs.baseline);
  return {
    row: one.row,
    name: one.name,
    unit: 'us of CPU',
    ours: cpuUs.ours,
    baseline: cpuUs.baseline,
    ratio,
    goal: `<= ${TOOL_GOAL}x the call`,
    verdict: size === 'smoke' ? 'not assessed' : ratio.median <= TOOL_GOAL ? 'met' : 'missed',
    sizes: { connections: options.connections },
    seed,
    notes: [latencyNote, one.note],
  };
}

/** Clients that said hello, and keep their connection. */
async function sessions(daemon: BenchServer, { size, seed, say }: RunOptions): Promise<RowResult> {
  const count = SIZES[size].sessions;
  say(`${count} clients that do nothing`);
  const agent = new Agent({ keepAlive: true, maxSockets: count, maxFreeSockets: count });
  const hello = () =>
    new Promise<void>((resolve, reject) => {
      const request = send(`${daemon.url}/mcp`, { method: 'POST', headers: HEADERS, agent }, (response) => {
        response.resume();
        response.once('end', () =>
          response.statusCode === 200 ? resolve() : reject(new Error(`${response.statusCode}`)),
        );
      });
      request.once('error', reject);
      request.end(INITIALIZE);
    });
  await hello();
  await sleep(1_000);
  const before = residentMb(daemon);
  await Promise.all(Array.from({ length: count }, hello));
  await sleep(1_000);
  const open = Object.values(agent.freeSockets).reduce((sum, list) => sum + (list?.length ?? 0), 0);
  const grown = residentMb(daemon) - before;
  agent.destroy();
  assert.ok(open >= count * 0.9, `${open} connections are open`);
  return {
    row: 'agents/sessions',
    name: 'memory for clients that do nothing',
    unit: 'MB',
    ours: [grown],
    baseline: [],
    ratio: null,
    goal: `<= ${SESSIONS_GOAL_MB} MB for 1,000`,
    verdict: size === 'smoke' ? 'not assessed' : grown <= SESSIONS_GOAL_MB ? 'met' : 'missed',
    sizes: { clients: count },
    seed,
    notes: ['what the process grew by after all of them said hello at once; their connections stay open'],
  };
}

function residentMb({ pid }: BenchServer): number {
  const found = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1];
  return Number(found) / 1_000;
}

/** Payments of the official client, checked by the official package over a node on this machine. */
async function payments({ size, seed, say }: RunOptions): Promise<RowResult[]> {
  if (clientMissing() !== false) return [];
  const count = SIZES[size].payments;
  say(`${count} payments`);
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-bench-agents-'));
  const chain = await startChain();
  try {
    const issuer = await mintDollars(chain);
    const treasury = Keypair.generate().publicKey;
    await openAccountOf(chain, issuer, treasury);
    const client = await payingClient(chain, await walletWith(chain, issuer, DOLLAR));
    const feePayer = await readFeePayer(writeKeypair(join(folder, 'fees.json'), issuer), null);
    const reader = { call: async (method: string, params: unknown[]) => await ask(chain.rpcUrl, method, params) };
    const facilitator = createFacilitator(
      await loadSchemes([X402_DIR]),
      {
        network: NETWORK,
        networkOfVersion1: 'solana-devnet',
        mint: USDC_DEVNET_MINT,
        treasury: treasury.toBase58(),
        feePayer,
      },
      reader as unknown as ChainReader,
    );
    const { blockhash } = await chain.connection.getLatestBlockhash();
    const shown = await Promise.all(
      Array.from({ length: count }, async (_, at) => {
        const payload = await client.pay({
          x402Version: 2,
          resource: { url: 'http://127.0.0.1/' },
          accepts: [
            {
              scheme: 'exact',
              network: NETWORK,
              amount: '10',
              asset: USDC_DEVNET_MINT,
              payTo: treasury.toBase58(),
              maxTimeoutSeconds: 90,
              extra: { feePayer: feePayer.address, memo: `x402-${at}`, recentBlockhash: blockhash },
            },
          ],
        });
        const text = Buffer.from(JSON.stringify(payload)).toString('base64');
        const read = readShown({ header: (name) => (name === 'payment-signature' ? text : undefined) });
        assert.ok(read !== null && typeof read !== 'string', String(read));
        return read;
      }),
    );
    const check = async (some: typeof shown) => {
      const rest = [...some];
      await Promise.all(
        Array.from({ length: 8 }, async () => {
          for (let one = rest.pop(); one !== undefined; one = rest.pop())
            assert.equal(await facilitator.problemOf(one, 10n), null);
        }),
      );
    };
    const warm = Math.floor(count / 2);
    await check(shown.slice(0, warm));
    const before = process.cpuUsage();
    await check(shown.slice(warm));
    const { user, system } = process.cpuUsage(before);
    const rate = (count - warm) / ((user + system) / 1_000_000);
    return [
      {
        row: 'agents/payments',
        name: 'payments that are checked',
        unit: 'payments/s of CPU',
        ours: [rate],
        baseline: [],
        ratio: null,
        goal: `>= ${PAYMENTS_GOAL} payments/s on one core`,
        verdict: size === 'smoke' ? 'not assessed' : rate >= PAYMENTS_GOAL ? 'met' : 'missed',
        sizes: { payments: count },
        seed,
        notes: ['form, signatures and simulation; the node that simulates them runs in the same process'],
      },
    ];
  } finally {
    await chain.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function ask(url: string, method: string, params: unknown[]): Promise<unknown> {
  const headers = { 'Content-Type': 'application/json' };
  const response = await fetch(url, { method: 'POST', headers, body: rpc(method, params) });
  const { result, error } = (await response.json()) as { result?: unknown; error?: unknown };
  assert.equal(error, undefined);
  return result;
}

export const row: Row = { id: 'agents', name: 'tools, idle clients and payments of agents', run };
