/** A node that restarts between two calls: what it denied while it was starting is never passed on, whatever it says afterwards. */
import assert from 'node:assert/strict';
import { suite, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Keypair, LAMPORTS_PER_SOL } from '@solana/web3.js';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { until } from '../../helpers/until.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';

const UNKNOWN = '1'.repeat(64);
const HISTORY = { searchTransactionHistory: true };
/** Longer than tips of a node are believed. */
const LATER_MS = 1_100;
const NOT_AVAILABLE = -32002;

interface Reply {
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string };
}

/** A node before the chain. While it is `starting` it knows no transaction, and its confirmed slot is far below the final one. */
interface Node {
  readonly upstream: TestUpstream;
  isStarting: boolean;
  /** Called with each call before it is answered; what it changes counts from the next call on. */
  onCall: (method: string) => void;
}

async function startNode(t: TestContext, chain: TestChain): Promise<Node> {
  const upstream = await startUpstream();
  t.after(() => upstream.stop());
  const node: Node = { upstream, isStarting: false, onCall: () => undefined };
  upstream.on('*', async ({ method, params, body }) => {
    const wasStarting = node.isStarting;
    node.onCall(method);
    const response = await fetch(chain.rpcUrl, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    });
    const text = await response.text();
    if (!wasStarting) return { chunks: [text] };
    const { result } = JSON.parse(text) as { readonly result: { readonly value?: unknown[] } };
    if (method === 'getTransaction') return { result: 'null' };
    if (method === 'getSignatureStatuses')
      return { result: JSON.stringify({ ...result, value: result.value!.map(() => null) }) };
    const isConfirmed = JSON.stringify(params).includes('confirmed');
    return method === 'getSlot' && isConfirmed ? { result: '1' } : { chunks: [text] };
  });
  upstream.on('getSlot', ({ id, params }) => passOn(id, params));
  const passOn = async (id: unknown, params: unknown) => {
    const wasStarting = node.isStarting;
    node.onCall('getSlot');
    if (wasStarting && JSON.stringify(params ?? []).includes('confirmed')) return { result: '1' };
    const body = JSON.stringify({ jsonrpc: '2.0', id, method: 'getSlot', params: params ?? [] });
    const headers = { 'content-type': 'application/json' };
    return { chunks: [await (await fetch(chain.rpcUrl, { method: 'POST', headers, body })).text()] };
  };
  return node;
}

suite('a node restarts between two calls', { skip: (await chainMissing()) ?? false }, () => {
  async function prepare(t: TestContext, count = 1) {
    const chain = await startChain();
    t.after(() => chain.stop());
    const nodes: Node[] = [];
    for (let at = 0; at < count; at += 1) nodes.push(await startNode(t, chain));
    const daemon = await startDaemon({
      chain: { rpcUrl: nodes[0]!.upstream.url },
      config: {
        plugins: ['access', 'proxy', 'wallet', 'history'],
        proxy: { cache: { enabled: false } },
        // The node is not asked how it is: only the calls themselves show it.
        upstream: { urls: nodes.map(({ upstream }) => ({ url: upstream.url })), healthIntervalMs: 600_000 },
        follow: { auditIntervalMs: 100, pollMs: 50 },
      },
    });
    t.after(() => daemon.stop());
    const states = async () =>
      ((await (await fetch(`${daemon.adminUrl}/readyz`)).json()) as { chain: { finalizedSlot: number | null }[] })
        .chain[0]!;
    await until(async () => (await states()).finalizedSlot !== null, 'the daemon follows');
    const signature = await chain.fund(Keypair.generate().publicKey.toBase58(), LAMPORTS_PER_SOL);
    await chain.seal(40);
    const final = await chain.connection.getSlot('finalized');
    await until(async () => ((await states()).finalizedSlot ?? -1) >= final, 'the daemon knows what is final');
    const ask = async (method: string, params: readonly unknown[]): Promise<Reply> => {
      const headers = { 'content-type': 'application/json' };
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
      return (await (
        await fetch(`${daemon.apiUrl}/?api-key=${daemon.key}`, { method: 'POST', headers, body })
      ).json()) as Reply;
    };
    return { chain, nodes, node: nodes[0]!, ask, signature: String(signature) };
  }
  const CALLS = {
    getTransaction: (signature: string) => [signature, { maxSupportedTransactionVersion: 1 }],
    getSignatureStatuses: (signature: string) => [[signature], HISTORY],
  } as const;
  const denies = ({ result }: Reply): boolean =>
    result === null || (result as { readonly value?: readonly unknown[] } | undefined)?.value?.[0] === null;

  test('it denies, and has come back when its tips are asked for: it is asked again', async (t) => {
    const { node, ask, signature } = await prepare(t);
    for (const [method, paramsOf] of Object.entries(CALLS))
      for (let turn = 0; turn < 2; turn += 1) {
        await sleep(LATER_MS);
        node.isStarting = true;
        node.onCall = (called) => {
          if (called === method) node.isStarting = false;
        };
        const reply = await ask(method, paramsOf(signature));
        assert.equal(node.isStarting, false, `${method} was asked`);
        assert.equal(denies(reply), false, `${method}: ${JSON.stringify(reply)}`);
        assert.ok(reply.error === undefined, JSON.stringify(reply));
      }
  });

  test('its tips were seen a moment before, and it denies while it is starting: that is an error', async (t) => {
    const { node, ask, signature } = await prepare(t);
    for (const [method, paramsOf] of Object.entries(CALLS)) {
      assert.equal(denies(await ask(method, paramsOf(UNKNOWN))), true);
      await sleep(LATER_MS);
      node.isStarting = true;
      const reply = await ask(method, paramsOf(signature));
      assert.equal(reply.error?.code, NOT_AVAILABLE, `${method}: ${JSON.stringify(reply)}`);
      node.isStarting = false;
    }
  });

  test('it is below what was final for a moment only: the answer waits for it', async (t) => {
    const { node, ask } = await prepare(t);
    for (const [method, paramsOf] of Object.entries(CALLS)) {
      await sleep(LATER_MS);
      let tips = 0;
      node.isStarting = true;
      node.onCall = (called) => {
        if (called === 'getSlot') tips += 1;
        if (tips === 4) node.isStarting = false;
      };
      const reply = await ask(method, paramsOf(UNKNOWN));
      assert.equal(denies(reply), true, `${method}: ${JSON.stringify(reply)}`);
    }
  });

  test('two callers of one call at the same time: both are asked for again', async (t) => {
    const { node, ask, signature } = await prepare(t);
    node.isStarting = true;
    node.onCall = (called) => {
      if (called === 'getTransaction') node.isStarting = false;
    };
    const replies = await Promise.all(
      Array.from({ length: 4 }, () => ask('getTransaction', CALLS.getTransaction(signature))),
    );
    for (const reply of replies) assert.equal(denies(reply), false, JSON.stringify(reply));
  });

  test('the other of two nodes is fine: its tips say nothing about the one that denies', async (t) => {
    const { nodes, ask, signature } = await prepare(t, 2);
    for (const starting of nodes)
      for (const [method, paramsOf] of Object.entries(CALLS)) {
        starting.isStarting = true;
        for (let turn = 0; turn < 6; turn += 1) {
          const reply = await ask(method, paramsOf(signature));
          assert.equal(denies(reply), false, `${method}: ${JSON.stringify(reply)}`);
          await sleep(LATER_MS / 5);
        }
        starting.isStarting = false;
      }
  });

  test('what nobody has is denied, with few calls of the node', async (t) => {
    const { node, ask } = await prepare(t);
    for (const [method, paramsOf] of Object.entries(CALLS)) {
      const calls = () => node.upstream.callsOf(method).length;
      const before = calls();
      assert.equal(denies(await ask(method, paramsOf(UNKNOWN))), true);
      assert.ok(calls() - before <= 2, `${calls() - before} calls`);
      const second = calls();
      assert.equal(denies(await ask(method, paramsOf(UNKNOWN))), true);
      assert.equal(calls() - second, 1);
    }
  });
});
