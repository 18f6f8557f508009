import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Keypair, NONCE_ACCOUNT_LENGTH, SystemProgram } from '@solana/web3.js';
import bs58 from 'bs58';
import fc from 'fast-check';
import type { ChainReader } from '../../src/ports/chain.ts';
import type { UpstreamPool } from '../../src/ports/upstream.ts';
import { createMetricsRegistry } from '../../src/runtime/metrics.ts';
import { legacy, payer, transfer } from '../../test/conformance/sender/transactions.ts';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { createRebroadcast, type RebroadcastParts } from './broadcast.ts';
import { readSendParams, type SignedTransaction, usesNonce } from './transaction.ts';

const somewhere = Keypair.generate().publicKey;
const hashOf = (n: number) => bs58.encode(new Uint8Array(32).fill(n + 1));
const parse = (base58: string): SignedTransaction => readSendParams([base58]);
const make = (lamports: number, blockhash = hashOf(0)) =>
  parse(legacy([transfer(somewhere, lamports)], blockhash).base58);

/** A chain with statuses set by the test, which counts requests. */
function bed({
  limits = {},
  ...options
}: Partial<Omit<RebroadcastParts, 'limits'>> & { limits?: Partial<RebroadcastParts['limits']> } = {}) {
  const clock = createManualClock();
  const seen = new Set<string>();
  const expired = new Set<string>();
  const sent: string[] = [];
  const asked: { method: string; size: number }[] = [];
  const state = { down: false };
  const answers: Record<string, (params: readonly unknown[]) => unknown> = {
    getSignatureStatuses: ([list]) => (list as string[]).map((one) => (seen.has(one) ? { slot: 1 } : null)),
    isBlockhashValid: ([hash]) => !expired.has(hash as string),
  };
  const reader = {
    async call(method: string, params: readonly unknown[]) {
      asked.push({ method, size: Array.isArray(params[0]) ? params[0].length : 1 });
      if (state.down) throw new Error('down');
      return { value: answers[method]!(params) };
    },
  } as unknown as ChainReader;
  const rebroadcast = createRebroadcast({
    reader,
    clock,
    log: createMemoryLog(),
    metrics: createMetricsRegistry().scope('sender'),
    limits: { enabled: true, intervalMs: 2_000, maxQueued: 1_000, maxAgeMs: 90_000, concurrency: 4, ...limits },
    send: async ({ peek }) => {
      sent.push(peek.signature);
    },
    ...options,
  });
  const targets = { pool: {} as UpstreamPool, only: null };
  const add = (transaction: SignedTransaction) => rebroadcast.add(transaction, targets);
  return { clock, seen, expired, sent, asked, state, rebroadcast: { ...rebroadcast, add } };
}

test('a transaction is repeated until it is seen', async () => {
  const { clock, seen, sent, rebroadcast } = bed();
  const one = make(1);
  rebroadcast.add(one);
  await clock.advance(1_999);
  assert.equal(sent.length, 0);
  await clock.advance(4_001);
  assert.deepEqual(sent, [one.peek.signature, one.peek.signature, one.peek.signature]);
  seen.add(one.peek.signature);
  await clock.advance(60_000);
  assert.equal(sent.length, 3);
  assert.equal(rebroadcast.size(), 0);
  assert.equal(clock.pending, 0, 'nothing runs while nothing waits');
});

test('an expired blockhash ends it, but not while the transaction is fresh', async () => {
  const { clock, expired, sent, rebroadcast } = bed();
  expired.add(hashOf(0));
  rebroadcast.add(make(1));
  await clock.advance(8_000);
  assert.equal(sent.length, 4);
  await clock.advance(20_000);
  assert.equal(rebroadcast.size(), 0);
  assert.equal(sent.length, 4);
});

test('with a nonce only age ends it', async () => {
  const nonce = SystemProgram.nonceAdvance({ noncePubkey: somewhere, authorizedPubkey: payer.publicKey });
  assert.ok(NONCE_ACCOUNT_LENGTH > 0);
  const one = parse(legacy([nonce, transfer(somewhere, 1)]).base58);
  assert.equal(usesNonce(one.peek), true);
  assert.equal(usesNonce(make(1).peek), false);
  const { clock, expired, rebroadcast } = bed();
  expired.add(one.peek.recentBlockhash);
  rebroadcast.add(one);
  await clock.advance(80_000);
  assert.equal(rebroadcast.size(), 1);
  await clock.advance(20_000);
  assert.equal(rebroadcast.size(), 0);
});

test('without an answer of the chain nothing is concluded', async () => {
  const { clock, seen, sent, state, rebroadcast } = bed();
  const one = make(1);
  seen.add(one.peek.signature);
  state.down = true;
  rebroadcast.add(one);
  await clock.advance(20_000);
  assert.equal(sent.length, 10);
  state.down = false;
  await clock.advance(2_000);
  assert.equal(rebroadcast.size(), 0);
});

test('without a reader age ends it', async () => {
  const { clock, sent, rebroadcast } = bed({ reader: null, limits: { maxAgeMs: 10_000 } });
  rebroadcast.add(make(1));
  await clock.advance(60_000);
  assert.equal(sent.length, 4);
});

test('the queue is bounded, and a signature is queued once', async () => {
  const { clock, sent, rebroadcast } = bed({ limits: { maxQueued: 2 } });
  const [one, two, three] = [make(1), make(2), make(3)];
  rebroadcast.add(one);
  rebroadcast.add(one);
  assert.equal(rebroadcast.hasRoom(two.peek.signature), true);
  rebroadcast.add(two);
  assert.equal(rebroadcast.hasRoom(three.peek.signature), false);
  assert.equal(rebroadcast.hasRoom(one.peek.signature), true);
  await clock.advance(2_000);
  assert.deepEqual([...sent].sort(), [one.peek.signature, two.peek.signature].sort());
});

test('statuses are requested in groups of at most 256, blockhashes once each', async () => {
  const { clock, asked, rebroadcast } = bed();
  for (let i = 0; i < 600; i++) rebroadcast.add(make(i + 1, hashOf(i % 3)));
  await clock.advance(2_000);
  assert.deepEqual(
    asked.map(({ size }) => size),
    [256, 256, 88],
  );
  asked.length = 0;
  await clock.advance(10_000);
  const round = asked.slice(-6).map(({ method }) => method);
  assert.deepEqual(round.filter((method) => method === 'isBlockhashValid').length, 3);
});

test('stopping ends all repetitions', async () => {
  const { clock, sent, rebroadcast } = bed();
  rebroadcast.add(make(1));
  rebroadcast.stop();
  await clock.advance(10_000);
  assert.deepEqual([sent.length, rebroadcast.size()], [0, 0]);
});

test('no seen or expired transaction is sent again, and all repetitions end', async () => {
  const all = Array.from({ length: 6 }, (_, i) => make(i + 100, hashOf(i % 2)));
  const step = fc.oneof(
    fc.record({ kind: fc.constant('add' as const), index: fc.nat(5) }),
    fc.record({ kind: fc.constant('seen' as const), index: fc.nat(5) }),
    fc.record({ kind: fc.constant('expire' as const), index: fc.nat(1) }),
    fc.record({ kind: fc.constant('wait' as const), index: fc.nat(6) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
      const { clock, seen, expired, sent, rebroadcast } = bed();
      for (const { kind, index } of steps) {
        if (kind === 'add') rebroadcast.add(all[index]!);
        else if (kind === 'seen') seen.add(all[index]!.peek.signature);
        else if (kind === 'expire') expired.add(hashOf(index));
        else {
          const from = sent.length;
          await clock.advance(index * 2_000);
          assert.equal(
            sent.slice(from).some((signature) => seen.has(signature)),
            false,
          );
        }
      }
      await clock.advance(200_000);
      assert.equal(rebroadcast.size(), 0);
      assert.equal(clock.pending, 0);
    }),
    { numRuns: 60 },
  );
});
