/** Standard methods from the ledger: each answer of the daemon is the node's, byte by byte, and the node is not asked. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { Keypair, PublicKey, SystemProgram } from '@solana/web3.js';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { byCase } from '../../helpers/run-part.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { signVersion1 } from '../../helpers/version-1.ts';
import { createEconomy, type Economy } from '../../helpers/wallet-economy.ts';

const SEED = 26;
const missing = await chainMissing();

interface Shown {
  readonly encoding?: string | undefined;
  readonly maxSupportedTransactionVersion?: number | undefined;
}

byCase([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], (turns) =>
  suite('standard methods from the ledger', { skip: missing ?? false }, () => {
    let chain: TestChain;
    let daemon: DaemonInProcess;
    let economy: Economy;
    let slots: readonly number[];
    let signatures: readonly string[];
    /** The newest with a transaction. */
    let busySlot: number;
    const { float } = createSfc32(SEED);
    const below = (count: number) => Math.floor(float() * count);
    const pick = <T>(list: readonly T[]): T => list[below(list.length)] as T;

    const post = async (url: string, method: string, params: unknown) => {
      const headers = { 'content-type': 'application/json' };
      const response = await fetch(url, {
        method: 'POST',
        headers,
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
      });
      const text = (await response.text()).trim();
      const source = response.headers.get('x-cache');
      // The rest of the envelope is of the one who answers.
      const body = /^\{"jsonrpc":"2.0","(?:id":1,")?((?:result|error)":.*?)(?:,"id":1)?\}$/s.exec(text)?.[1];
      return { source, body: body ?? text };
    };
    const ours = (method: string, params: unknown) => post(`${daemon.apiUrl}/?api-key=${daemon.key}`, method, params);
    const theirs = (method: string, params: unknown) => post(chain.rpcUrl, method, params);
    const result = async (method: string, params: unknown) =>
      (JSON.parse(`{"${(await theirs(method, params)).body}}`) as { result: never }).result;

    /** Whether the ledger or the node answers, the answer is the node's. */
    async function same(method: string, params: unknown, source: 'LEDGER' | null) {
      const [given, wanted] = [await ours(method, params), await theirs(method, params)];
      assert.equal(given.body, wanted.body, `${method} ${JSON.stringify(params)}`);
      assert.equal(
        given.source === 'LEDGER',
        source === 'LEDGER',
        `${method} ${JSON.stringify(params)}: ${given.source}`,
      );
    }

    /** Base58 has no form for version 1: nodes since Agave 4.3 refuse the pair, so a node has to answer it. */
    const sourceOf = (
      { encoding, maxSupportedTransactionVersion: most = 0 }: Shown,
      source: 'LEDGER' | null = 'LEDGER',
    ) => ((encoding === 'base58' || encoding === 'binary') && most >= 1 ? null : source);

    async function until(what: string, is: () => Promise<boolean>): Promise<void> {
      for (let turn = 0; !(await is()); turn++) {
        assert.ok(turn < 600, what);
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }

    before(async () => {
      chain = await startChain();
      daemon = await startDaemon({
        chain,
        config: {
          plugins: ['access', 'proxy', 'wallet', 'history'],
          ledger: { retain: { hours: 1 } },
          proxy: { cache: { enabled: false } },
        },
      });
      await until('the daemon follows the chain', async () => {
        const state = (await (await fetch(`${daemon.adminUrl}/readyz`)).json()) as {
          chain: { cursorSlot: number | null }[];
        };
        return state.chain[0]?.cursorSlot != null;
      });
      economy = await createEconomy(chain, SEED);
      await economy.run(25);
      const rich = Keypair.generate();
      await chain.setAccount(rich.publicKey.toBase58(), {
        lamports: 9_007_199_254_740_993n + 5_000_000_000_000n,
        owner: SystemProgram.programId.toBase58(),
        data: new Uint8Array(0),
      });
      const pay = { fromPubkey: rich.publicKey, toPubkey: new PublicKey(economy.wallets[0]!), lamports: 1_000_000_000 };
      const { blockhash } = await chain.connection.getLatestBlockhash();
      const { wire } = await signVersion1(rich, blockhash, [SystemProgram.transfer(pay)]);
      await chain.submitAll([wire]);
      await chain.skip(3);
      await chain.fork({ depth: 4, replay: 'all' });
      await chain.seal(50);
      const finalSlot = (await result('getSlot', [{ commitment: 'finalized' }])) as number;
      slots = (await result('getBlocks', [0, finalSlot])) as number[];
      await until('the newest final block is in the ledger', async () => {
        return (await ours('getBlockTime', [slots.at(-1)])).source === 'LEDGER';
      });
      const lists = await Promise.all(
        slots.map((slot) => result('getBlock', [slot, { transactionDetails: 'signatures', rewards: false }])),
      );
      signatures = lists.flatMap(({ signatures }) => signatures as string[]);
      busySlot = slots[lists.findLastIndex(({ signatures }) => (signatures as string[]).length > 0)]!;
    });
    after(async () => {
      await daemon?.stop();
      await chain?.stop();
    });

    test('blocks and transactions in every encoding and detail', async () => {
      const kept: number[] = [];
      for (const slot of slots) if ((await ours('getBlockTime', [slot])).source === 'LEDGER') kept.push(slot);
      assert.ok(kept.length > 40, String(kept.length));
      const options = () => ({
        ...(float() < 0.8 ? { encoding: pick(['json', 'jsonParsed', 'base58', 'base64']) } : {}),
        ...(float() < 0.8 ? { maxSupportedTransactionVersion: pick([0, 1, 1, 1]) } : {}),
        ...(float() < 0.3 ? { commitment: pick(['confirmed', 'finalized']) } : {}),
      });
      for (const slot of kept) {
        const transactionDetails = pick(['full', 'full', 'full', 'accounts', 'signatures', 'none']);
        const more = {
          ...options(),
          ...(float() < 0.7 ? { transactionDetails } : {}),
          ...(float() < 0.3 ? { rewards: false } : {}),
        };
        await same('getBlock', [slot, more], sourceOf(more));
        await same('getBlockTime', [slot], 'LEDGER');
      }
      await same('getBlock', [kept[0]], 'LEDGER');
      await same('getBlock', [kept[0], 'base64'], 'LEDGER');
      for (const signature of signatures) {
        const more = options();
        await same('getTransaction', [signature, more], sourceOf(more, (await known(signature)) ? 'LEDGER' : null));
      }
      assert.ok((await Promise.all(signatures.map(known))).filter(Boolean).length > 30);
    });

    test('every combination of encoding, details, rewards and version is what the node answers', async () => {
      const slot = busySlot;
      const [signature] = signatures.slice(-1) as [string];
      let made = 0;
      for (const encoding of [undefined, 'json', 'jsonParsed', 'base58', 'base64', 'binary']) {
        for (const maxSupportedTransactionVersion of [undefined, 0, 1]) {
          for (const rewards of [undefined, true, false]) {
            for (const transactionDetails of [undefined, 'full', 'accounts', 'signatures', 'none']) {
              const options = { encoding, transactionDetails, rewards, maxSupportedTransactionVersion };
              made += 1;
              if (turns.includes(made % 10)) await same('getBlock', [slot, options], sourceOf(options));
            }
          }
          const options = { encoding, maxSupportedTransactionVersion };
          await same(
            'getTransaction',
            [signature, options],
            sourceOf(options, (await known(signature)) ? 'LEDGER' : null),
          );
        }
        if (encoding !== undefined) await same('getBlock', [slot, encoding], 'LEDGER');
      }
    });

    test('without rewards those of a transaction are null, and absent beside the keys', async () => {
      const slot = busySlot;
      const options = { rewards: false, maxSupportedTransactionVersion: 1 };
      type Block = { readonly transactions: readonly { readonly meta: object }[] };
      const blockOf = async (url: 'ours' | 'theirs', more: object): Promise<Block> => {
        const { body } = await (url === 'ours' ? ours : theirs)('getBlock', [slot, { ...options, ...more }]);
        return (JSON.parse(`{"${body}}`) as { result: Block }).result;
      };
      for (const url of ['ours', 'theirs'] as const) {
        for (const encoding of ['json', 'jsonParsed', 'base58', 'base64', 'binary']) {
          const block = await blockOf(url, { encoding });
          assert.ok(block.transactions.length > 0 && !('rewards' in block));
          for (const { meta } of block.transactions)
            assert.equal((meta as { rewards: unknown }).rewards, null, encoding);
        }
        const block = await blockOf(url, { transactionDetails: 'accounts' });
        for (const { meta } of block.transactions) assert.ok('fee' in meta && !('rewards' in meta));
      }
    });

    test('one parameter too many is refused, whatever the source of the answer', async () => {
      const slot = slots.at(-1)!;
      const [signature] = signatures.slice(-1) as [string];
      const [address] = economy.wallets as [string];
      for (const [method, params] of [
        ['getBlock', [slot, {}, 3]],
        ['getTransaction', [signature, {}, 2]],
        ['getBlockTime', [slot, {}]],
        ['getBlocks', [slot, slot, {}, 1]],
        ['getBlocksWithLimit', [slot, 1, {}, 1]],
        ['getSignaturesForAddress', [address, {}, 1]],
        ['getSignatureStatuses', [[signature], { searchTransactionHistory: true }, 3]],
      ] as const) {
        await same(method, params, null);
        const { body } = await ours(method, params);
        assert.match(body, /"code":-32602/, method);
      }
    });

    /** Whether its block is in the ledger: those before the start of the daemon are not. */
    const known = async (signature: string) => {
      const { slot } = (await result('getTransaction', [signature, { maxSupportedTransactionVersion: 1 }])) as {
        slot: number;
      };
      return (await ours('getBlockTime', [slot])).source === 'LEDGER';
    };

    test('lists of slots, and of signatures of an address', async () => {
      const kept = slots.slice(-40);
      for (let round = 0; round < 15; round++) {
        const [from, to] = [pick(kept), pick(kept)].sort((a, b) => a - b) as [number, number];
        await same('getBlocks', [from, to], 'LEDGER');
        const limit = 1 + below(5);
        await same('getBlocksWithLimit', [from, limit], 'LEDGER');
      }
      const [address] = economy.wallets as [string];
      const whole = (await result('getSignaturesForAddress', [address])) as { signature: string }[];
      assert.ok(whole.length > 10);
      await same('getSignaturesForAddress', [address, { limit: 3 }], 'LEDGER');
      await same('getSignaturesForAddress', [address, { limit: 4, before: whole[2]!.signature }], 'LEDGER');
      await same('getSignaturesForAddress', [address, { until: whole[5]!.signature }], 'LEDGER');
      await same(
        'getSignaturesForAddress',
        [address, { limit: 2, before: whole[1]!.signature, commitment: 'confirmed' }],
        'LEDGER',
      );
      // All of it reaches below the ledger: the rest is the node's, in the same page.
      await same('getSignaturesForAddress', [address], 'LEDGER');
    });

    test('released blocks that are not final, with their status', async () => {
      const tip = (await result('getSlot', [{ commitment: 'confirmed' }])) as number;
      const confirmed = { commitment: 'confirmed' };
      const { signatures: newest } = (await result('getBlock', [
        tip,
        { ...confirmed, transactionDetails: 'signatures', rewards: false },
      ])) as { signatures: string[] };
      await same('getBlock', [tip, { ...confirmed, maxSupportedTransactionVersion: 1 }], 'LEDGER');
      await same('getBlockTime', [tip], 'LEDGER');
      await same('getBlocks', [slots.at(-3), tip, confirmed], 'LEDGER');
      await same('getBlocks', [slots.at(-3), confirmed], 'LEDGER');
      await same('getBlocks', [slots.at(-3), tip], 'LEDGER');
      await same('getBlocks', [slots.at(-1)], 'LEDGER');
      await same('getBlocksWithLimit', [slots.at(-3), 500, confirmed], 'LEDGER');
      for (const signature of newest)
        await same('getTransaction', [signature, { ...confirmed, maxSupportedTransactionVersion: 1 }], 'LEDGER');
      for (const address of economy.wallets) await same('getSignaturesForAddress', [address, confirmed], 'LEDGER');
    });

    test('calls that the ledger cannot answer, and invalid ones, go to the node', async () => {
      const [signature] = signatures.slice(-1) as [string];
      const tip = (await result('getSlot', [{ commitment: 'confirmed' }])) as number;
      for (const [method, params] of [
        ['getBlock', [tip + 10]],
        ['getBlock', [slots[0]! - 1]],
        ['getBlock', [slots.at(-1), { encoding: 'json', transactionDetails: 'some' }]],
        ['getBlock', [slots.at(-1), { commitment: 'processed' }]],
        ['getBlock', ['x']],
        ['getBlock', []],
        ['getBlockTime', [tip + 1_000]],
        ['getTransaction', ['1'.repeat(64)]],
        ['getTransaction', [signature, { encoding: 'base64+zstd', maxSupportedTransactionVersion: 1 }]],
        ['getSignaturesForAddress', [economy.wallets[0], { limit: 0 }]],
        ['getSignaturesForAddress', [economy.wallets[0], { before: '1'.repeat(64) }]],
        ['getSignatureStatuses', [[signature]]],
      ] as const)
        await same(method, params, null);
      const skipped = slots.find((slot, at) => at > 0 && slot > slots[at - 1]! + 1)! - 1;
      await same('getBlock', [skipped], null);
    });

    test('statuses of final transactions', async () => {
      const list = signatures.slice(-5);
      const { body, source } = await ours('getSignatureStatuses', [list, { searchTransactionHistory: true }]);
      assert.equal(source, 'LEDGER');
      const { value } = (await result('getSignatureStatuses', [list, { searchTransactionHistory: true }])) as {
        value: unknown;
      };
      const answer = JSON.parse(`{"${body}}`) as { result: { context: { slot: number }; value: unknown } };
      assert.equal(JSON.stringify(answer.result.value), JSON.stringify(value));
      assert.ok(answer.result.context.slot >= slots.at(-1)!);
    });

    test('statuses from the ledger and from the node are of the processed slot, which never goes back', async () => {
      const [final] = signatures.slice(-1) as [string];
      let told = 0;
      for (let turn = 0; turn < 12; turn += 1) {
        if (turn % 3 === 0) await chain.seal(1);
        // The node answers what nobody has.
        const asked = turn % 2 === 0 ? [final] : [final, '1'.repeat(64)];
        let { source, body } = await ours('getSignatureStatuses', [asked, { searchTransactionHistory: true }]);
        // The tip of the node that is known may be older than what has become final since: then it counts as starting.
        for (let again = 0; body.includes('is starting'); again += 1) {
          assert.ok(again < 600, body);
          await new Promise((resolve) => setTimeout(resolve, 100));
          ({ source, body } = await ours('getSignatureStatuses', [asked, { searchTransactionHistory: true }]));
        }
        assert.equal(source === 'LEDGER', turn % 2 === 0);
        assert.match(body, /^result/);
        const { context } = (JSON.parse(`{"${body}}`) as { result: { context: { slot: number } } }).result;
        assert.ok(context.slot >= told, `${context.slot} after ${told}`);
        told = context.slot;
      }
      const processed = (await result('getSlot', [{ commitment: 'processed' }])) as number;
      await until('the ledger tells the processed slot', async () => {
        const { body } = await ours('getSignatureStatuses', [[final], { searchTransactionHistory: true }]);
        return body.includes(`"slot":${processed}}`);
      });
    });
  }),
);
