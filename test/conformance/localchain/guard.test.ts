import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { Keypair, LAMPORTS_PER_SOL, SystemProgram, TransactionMessage, VersionedTransaction } from '@solana/web3.js';
import fc from 'fast-check';
import { type LocalChainProcess, startLocalChainProcess } from '../../../packages/local-chain/index.ts';
import { chainMissing } from '../../helpers/chain.ts';
import { bySeed } from '../../helpers/run-part.ts';

/** Batches of damaged transactions, and of calls. */
const ROUNDS = 100;
const BATCH = 100;
const METHODS = [
  'getAccountInfo',
  'getBalance',
  'getBlock',
  'getBlocks',
  'getBlocksWithLimit',
  'getFeeForMessage',
  'getMinimumBalanceForRentExemption',
  'getMultipleAccounts',
  'getProgramAccounts',
  'getSignaturesForAddress',
  'getSignatureStatuses',
  'getTokenAccountBalance',
  'getTokenAccountsByDelegate',
  'getTokenAccountsByOwner',
  'getTokenLargestAccounts',
  'getTokenSupply',
  'getTransaction',
  'isBlockhashValid',
  'local_fork',
  'local_fund',
  'local_pay',
  'local_appendRecorded',
  'local_setAccount',
  'requestAirdrop',
  'sendTransaction',
  'simulateTransaction',
];

interface Answer {
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string };
}

/** Wire bytes with some of them changed, cut, or continued. */
function mutated(valid: readonly Uint8Array[]): fc.Arbitrary<Uint8Array> {
  const edit = fc.record({ at: fc.nat(1300), value: fc.nat(255) });
  return fc.oneof(
    {
      weight: 6,
      arbitrary: fc.tuple(fc.constantFrom(...valid), fc.array(edit, { minLength: 1, maxLength: 4 })).map(changed),
    },
    {
      weight: 1,
      arbitrary: fc.tuple(fc.constantFrom(...valid), fc.nat(400)).map(([bytes, size]) => bytes.slice(0, size)),
    },
    {
      weight: 1,
      arbitrary: fc
        .tuple(fc.constantFrom(...valid), fc.uint8Array({ minLength: 1, maxLength: 40 }))
        .map(([bytes, tail]) => Buffer.concat([bytes, tail])),
    },
    { weight: 1, arbitrary: fc.uint8Array({ maxLength: 1400 }) },
  );
}

function changed([bytes, edits]: [Uint8Array, { at: number; value: number }[]]): Uint8Array {
  const copy = Uint8Array.from(bytes);
  for (const { at, value } of edits) copy[at % copy.length] = value;
  return copy;
}

const missing = await chainMissing();

bySeed(ROUNDS, (rounds) =>
  suite('whatever a client sends, the engine never ends its process', { skip: missing ?? false }, () => {
    let chain: LocalChainProcess;
    let ended: string | null = null;
    let id = 0;
    const payer = Keypair.generate();
    before(async () => {
      chain = await startLocalChainProcess({ seed: 'fuzz', lightAssets: false });
      chain.onExit((reason) => {
        ended = reason;
      });
    });
    after(() => chain.stop());

    async function callAll(calls: readonly [string, readonly unknown[]][]): Promise<Answer[]> {
      const body = JSON.stringify(calls.map(([method, params]) => ({ jsonrpc: '2.0', id: ++id, method, params })));
      const response = await fetch(chain.rpcUrl, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
      });
      const answers = (await response.json()) as Answer[];
      assert.equal(answers.length, calls.length);
      assert.equal(ended, null);
      for (const [index, { error }] of answers.entries()) {
        assert.notEqual(error?.code, -32603, `${JSON.stringify(calls[index])}: ${error?.message}`);
      }
      return answers;
    }

    async function validTransactions(): Promise<Uint8Array[]> {
      const [funded, latest] = await callAll([
        ['requestAirdrop', [payer.publicKey.toString(), 1000 * LAMPORTS_PER_SOL]],
        ['getLatestBlockhash', []],
      ]);
      assert.ok(funded?.result);
      assert.ok(latest?.result);
      const { value } = latest.result as { value: { blockhash: string } };
      const message = new TransactionMessage({
        payerKey: payer.publicKey,
        recentBlockhash: value.blockhash,
        instructions: [
          SystemProgram.transfer({
            fromPubkey: payer.publicKey,
            toPubkey: Keypair.generate().publicKey,
            lamports: 1e6,
          }),
        ],
      });
      return [message.compileToLegacyMessage(), message.compileToV0Message()].map((compiled) => {
        const transaction = new VersionedTransaction(compiled);
        transaction.sign([payer]);
        return transaction.serialize();
      });
    }

    test('10000 damaged transactions', async () => {
      const runs = rounds.length * BATCH;
      const valid = await validTransactions();
      const damaged = fc.sample(mutated(valid), { numRuns: runs, seed: 6 + rounds[0]! });
      const seen = new Map<string, number>();
      for (let at = 0; at < damaged.length; at += BATCH) {
        const calls = damaged.slice(at, at + BATCH).map((bytes, index): [string, unknown[]] => {
          const text = Buffer.from(bytes).toString('base64');
          const config = { encoding: 'base64', skipPreflight: index % 2 === 0, sigVerify: false };
          return [index % 3 === 0 ? 'simulateTransaction' : 'sendTransaction', [text, config]];
        });
        for (const { result, error } of await callAll(calls)) {
          const kind = result === undefined ? String(error?.code) : 'answered';
          seen.set(kind, (seen.get(kind) ?? 0) + 1);
        }
      }
      // Both sides of the guard were reached: what it refused, and what the engine itself had to judge.
      for (const kind of ['-32602', '-32002', 'answered']) {
        assert.ok((seen.get(kind) ?? 0) > runs / 100, `${kind}: ${JSON.stringify([...seen])}`);
      }
    });

    test('random parameters of every method', async () => {
      const oddValue = fc.oneof(
        fc.jsonValue({ maxDepth: 2 }),
        fc.constantFrom(
          '11111111111111111111111111111111',
          '1',
          '',
          'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA',
          2 ** 53,
          -1,
        ),
        fc.record(
          {
            commitment: fc.constantFrom('processed', 'confirmed', 'finalized', 'x'),
            encoding: fc.constantFrom('base58', 'base64', 'jsonParsed', 'base64+zstd'),
            depth: fc.integer(),
            owner: fc.constantFrom('1', '11111111111111111111111111111111'),
            mint: fc.string(),
            limit: fc.integer(),
            filters: fc.jsonValue({ maxDepth: 3 }),
            dataSlice: fc.jsonValue({ maxDepth: 2 }),
          },
          { requiredKeys: [] },
        ),
      );
      const call = fc.tuple(fc.constantFrom(...METHODS), fc.array(oddValue, { maxLength: 3 }));
      const calls = fc.sample(call, { numRuns: 30 * rounds.length, seed: 10 + rounds[0]! });
      for (let at = 0; at < calls.length; at += BATCH) await callAll(calls.slice(at, at + BATCH));
      const [health] = await callAll([['getHealth', []]]);
      assert.equal(health?.result, 'ok');
    });
  }),
);
