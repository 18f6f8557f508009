/**
 * One table says what a refusal inside HTTP 200 means, for every product: while the first upstream refuses everything for a reason of its own,
 * each product answers from the second one, and the follower goes on.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import {
  AddressLookupTableAccount,
  AddressLookupTableProgram,
  Keypair,
  LAMPORTS_PER_SOL,
  SystemProgram,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js';
import { encode } from '../../../src/lib/base58.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { startReceiver } from '../../helpers/receiver.ts';
import { until } from '../../helpers/until.ts';
import { startUpstream } from '../../helpers/upstream.ts';
import { apiOf } from '../webhooks/daemon.ts';
import { OF_THE_NODE } from './refusal-rows.ts';

/** What nodes say about blocks only: they have no reason to say it of accounts. */
const OF_SLOTS: readonly number[] = [-32001, -32004, -32007, -32011, -32014, -32019];
const HAS_SLOTS = /Block$|^getBlock|^getTransaction$|^getSignature/;

interface OpenRpc {
  readonly methods: readonly {
    readonly name: string;
    readonly tags: readonly { readonly name: string }[];
    readonly examples: readonly { readonly params: readonly { readonly name: string; readonly value: unknown }[] }[];
  }[];
}

suite('refusals of the first upstream', { skip: (await chainMissing()) ?? false }, () => {
  test('every refusal about the node, every product', async (t) => {
    const chain = await startChain();
    const receiver = await startReceiver();
    let refusal: readonly [code: number, message: string] | null = null;
    const refused = new Set<string>();
    const upstreams = [await startUpstream(), await startUpstream()];
    const headers = { 'content-type': 'application/json' };
    for (const [number, upstream] of upstreams.entries())
      for (const method of ['*', 'getSlot', 'getFirstAvailableBlock', 'getVersion', 'getHealth', 'getGenesisHash'])
        upstream.on(method, async (call) => {
          // Who serves another chain is out of service, whatever else it says.
          const isOfSlots =
            refusal !== null && OF_SLOTS.includes(refusal[0]) && /[Bb]lock|Slot|history/.test(refusal[1]);
          const isRefused = refusal !== null && (!isOfSlots || HAS_SLOTS.test(call.method));
          if (number === 0 && refusal !== null && isRefused && call.method !== 'getGenesisHash') {
            refused.add(call.method);
            const [code, message] = refusal;
            return { chunks: [JSON.stringify({ jsonrpc: '2.0', id: call.id, error: { code, message } })] };
          }
          const response = await fetch(chain.rpcUrl, { method: 'POST', headers, body: call.body });
          return { chunks: [await response.text()] };
        });
    const daemon = await startDaemon({
      chain: { rpcUrl: upstreams[0]!.url },
      config: {
        plugins: [
          'access',
          'proxy',
          'wallet',
          'history',
          'enhanced',
          'fees',
          'webhooks',
          'das',
          'compression',
          'token-metadata',
        ],
        upstream: { urls: upstreams.map(({ url }) => ({ url })), coolDownMs: 1, healthIntervalMs: 100 },
        follow: { pollMs: 20, auditIntervalMs: 100 },
        webhooks: { allowCidrs: ['127.0.0.0/8'], allowHttp: true },
        proxy: { stickyMs: 0, cache: { enabled: false } },
      },
    });
    t.after(async () => {
      await daemon.stop();
      await Promise.all([receiver.close(), chain.stop(), ...upstreams.map((upstream) => upstream.stop())]);
    });
    const api = apiOf(daemon.apiUrl, daemon.key);
    const stateOf = async () =>
      ((await (await fetch(`${daemon.adminUrl}/readyz`)).json()) as { chain: { cursorSlot: number | null }[] })
        .chain[0]!;
    await until(async () => (await stateOf()).cursorSlot !== null, 'the daemon follows');
    const rpc = async (method: string, params: unknown) => {
      const { body } = await api('POST', '/', { jsonrpc: '2.0', id: 1, method, params });
      return body as {
        readonly result?: { readonly data: readonly unknown[] };
        readonly error?: { readonly code: number };
      };
    };
    const unknown = Keypair.generate().publicKey.toBase58();
    const lookingUp = await transactionWithTable(chain);
    const shown = (one: { readonly result?: unknown }) =>
      JSON.stringify(one.result === undefined ? one : { result: one.result })
        .replaceAll(/[1-9A-HJ-NP-Za-km-z]{32,44}/g, 'KEY')
        .replaceAll(/\d{2,}/g, 'N');
    // The documented call of each method of the compression indexer, and an asset: of things that nobody has.
    const { methods } = (await (await fetch(`${daemon.apiUrl}/openrpc.json`)).json()) as OpenRpc;
    const calls: (readonly [method: string, params: unknown])[] = [['getAsset', { id: unknown }]];
    for (const { name, tags, examples } of methods) {
      // The newest signatures are others each time.
      if (tags[0]?.name !== 'Compression' || name.startsWith('getLatest')) continue;
      calls.push([name, Object.fromEntries(examples[0]!.params.map(({ name, value }) => [name, value]))]);
    }
    assert.ok(calls.length > 30, `${calls.length} calls`);
    /** What is said while no upstream refuses. */
    const usual = new Map<string, string>();
    for (const [method, params] of calls) usual.set(method, shown(await rpc(method, params)));
    /** False: it is not there yet, as the daemon says itself. */
    const products: Readonly<Record<string, (address: string, signature: string) => Promise<boolean>>> = {
      getTransactionsForAddress: async (address) => {
        const { result, error } = await rpc('getTransactionsForAddress', [address, { commitment: 'confirmed' }]);
        if (error !== undefined) assert.equal(error.code, -32002, JSON.stringify(error));
        return result?.data.length === 1;
      },
      'wallet history': async (address) => {
        const { status, body } = await api('GET', `/v1/wallet/${address}/history`);
        assert.ok([200, 503].includes(status), JSON.stringify(body));
        return status === 200 && body.data.length === 1;
      },
      'wallet balances': async (address) => {
        const { status, body } = await api('GET', `/v1/wallet/${address}/balances`);
        assert.ok([200, 503].includes(status), JSON.stringify(body));
        return status === 200;
      },
      'enhanced transactions': async (_, signature) => {
        const { status, body } = await api('POST', '/v0/transactions', { transactions: [signature] });
        assert.equal(status, 200, JSON.stringify(body));
        return body.length === 1;
      },
      'token metadata': async (address) => {
        const { status, body } = await api('POST', '/v0/token-metadata', { mintAccounts: [address] });
        assert.equal(status, 200, JSON.stringify(body));
        return body.length === 1;
      },
      // The addresses that it looks up are read at each call.
      'fees of a transaction with a lookup table': async () => {
        const { result, error } = await rpc('getPriorityFeeEstimate', [{ transaction: lookingUp }]);
        assert.equal(error, undefined, JSON.stringify(error));
        return result !== undefined;
      },
      'a transaction with what it did to compressed accounts': async (_, signature) => {
        const { result, error } = await rpc('getTransactionWithCompressionInfo', { signature });
        assert.equal(error, undefined);
        return result !== undefined;
      },
      'assets and compressed accounts': async () => {
        for (const [method, params] of calls) assert.equal(shown(await rpc(method, params)), usual.get(method), method);
        return true;
      },
    };
    for (const [code, message] of OF_THE_NODE) {
      const named = `${code} ${message}`;
      const address = Keypair.generate().publicKey.toBase58();
      const hook = {
        webhookURL: `${receiver.url}/${address}`,
        webhookType: 'enhanced',
        transactionTypes: ['ANY'],
        accountAddresses: [address],
      };
      assert.equal((await api('POST', '/v0/webhooks', hook)).status, 200, named);
      refused.clear();
      refusal = [code, message];
      const signature = String(await chain.fund(address, LAMPORTS_PER_SOL));
      await chain.seal(2);
      const tip = await chain.connection.getSlot('confirmed');
      await until(async () => ((await stateOf()).cursorSlot ?? -1) >= tip, `${named}: the follower goes on`);
      for (const [name, isAnswered] of Object.entries(products))
        await until(() => isAnswered(address, signature), `${named}: ${name}`);
      await until(() => receiver.received.some(({ url }) => url === `/${address}`), `${named}: the webhook`);
      assert.ok(refused.size > 0, `${named}: the first upstream was asked`);
      refusal = null;
    }
  });
});

/** A transaction whose receiver stands in a lookup table of the chain, in base58. */
async function transactionWithTable(chain: TestChain): Promise<string> {
  const [payer, receiver, table] = [Keypair.generate(), Keypair.generate().publicKey, Keypair.generate().publicKey];
  // State, no end, slot and start of its last change, no authority: 56 bytes before the addresses.
  const head = Buffer.alloc(56);
  head.writeUInt32LE(1, 0);
  head.fill(0xff, 4, 12);
  const data = Buffer.concat([head, receiver.toBuffer()]);
  const owner = AddressLookupTableProgram.programId.toBase58();
  await chain.setAccount(table.toBase58(), { lamports: LAMPORTS_PER_SOL, owner, data });
  const message = new TransactionMessage({
    payerKey: payer.publicKey,
    recentBlockhash: (await chain.connection.getLatestBlockhash()).blockhash,
    instructions: [SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: receiver, lamports: 1 })],
  }).compileToV0Message([
    new AddressLookupTableAccount({ key: table, state: AddressLookupTableAccount.deserialize(data) }),
  ]);
  const transaction = new VersionedTransaction(message);
  transaction.sign([payer]);
  return encode(transaction.serialize());
}
