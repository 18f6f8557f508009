import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Keypair, NONCE_ACCOUNT_LENGTH, SystemProgram, Transaction } from '@solana/web3.js';
import bs58 from 'bs58';
import fc from 'fast-check';
import { OWN_WORK, type Tenant } from '../../src/ports/access.ts';
import type { ChainReader } from '../../src/ports/chain.ts';
import type { UpstreamPool } from '../../src/ports/upstream.ts';
import { createMetricsRegistry } from '../../src/runtime/metrics.ts';
import { legacy, payer, transfer, version1, versioned } from '../../test/conformance/sender/transactions.ts';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { bySeed } from '../../test/helpers/run-part.ts';
import { createRebroadcast, type RebroadcastParts, type Sender } from './broadcast.ts';
import { createNonceCheck, demandSigned, readSendParams, type SignedTransaction, usesNonce } from './transaction.ts';

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
  /** By signature. */
  const seen = new Map<string, { readonly confirmations: number | null; readonly confirmationStatus?: string }>();
  const expired = new Set<string>();
  const sent: string[] = [];
  /** Whose budgets each repetition used. */
  const senders: string[] = [];
  const asked: { method: string; size: number }[] = [];
  const state = { down: false };
  const answers: Record<string, (params: readonly unknown[]) => unknown> = {
    getSignatureStatuses: ([list]) =>
      (list as string[]).map((one) => (seen.has(one) ? { slot: 1, ...seen.get(one) } : null)),
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
    limits: {
      enabled: true,
      intervalMs: 2_000,
      maxQueued: 1_000,
      maxAgeMs: 90_000,
      concurrency: 4,
      maxRepeatsWithoutKey: 15,
      ...limits,
    },
    send: async ({ peek }, _, tenant) => {
      sent.push(peek.signature);
      senders.push(tenant.id);
    },
    ...options,
  });
  const targets = { pool: {} as UpstreamPool, only: null };
  const add = (transaction: SignedTransaction, sender: Sender = { tenant: OWN_WORK, hasKey: true }): boolean => {
    const place = rebroadcast.reserve(transaction.peek.signature, sender);
    place?.keep(transaction, targets);
    return place !== null;
  };
  return { clock, seen, expired, sent, senders, asked, state, rebroadcast: Object.assign(rebroadcast, { add }) };
}

const FINAL = { confirmations: null, confirmationStatus: 'finalized' } as const;

test('a transaction is repeated until it is final', async () => {
  const { clock, seen, sent, rebroadcast } = bed();
  const one = make(1);
  rebroadcast.add(one);
  await clock.advance(1_999);
  assert.equal(sent.length, 0);
  await clock.advance(4_001);
  assert.deepEqual(sent, [one.peek.signature, one.peek.signature, one.peek.signature]);
  seen.set(one.peek.signature, FINAL);
  await clock.advance(60_000);
  assert.equal(sent.length, 3);
  assert.equal(rebroadcast.size(), 0);
  assert.equal(clock.pending, 0, 'nothing runs while nothing waits');
});

test('in a block that is not final it waits; dropped by a fork it is sent again', async () => {
  for (const level of ['processed', 'confirmed']) {
    const { clock, seen, sent, rebroadcast } = bed();
    const { signature } = make(1).peek;
    rebroadcast.add(make(1));
    seen.set(signature, { confirmations: 0, confirmationStatus: level });
    await clock.advance(20_000);
    assert.deepEqual([sent.length, rebroadcast.size()], [0, 1]);
    seen.delete(signature);
    await clock.advance(4_000);
    assert.equal(sent.length, 2);
    seen.set(signature, { confirmations: 3, confirmationStatus: level });
    await clock.advance(4_000);
    seen.set(signature, FINAL);
    await clock.advance(4_000);
    assert.deepEqual([sent.length, rebroadcast.size(), clock.pending], [2, 0, 0]);
  }
});

test('a status without a level is final when it has no confirmations left to come', async () => {
  const { clock, seen, sent, rebroadcast } = bed();
  rebroadcast.add(make(1));
  seen.set(make(1).peek.signature, { confirmations: 12 });
  await clock.advance(4_000);
  assert.deepEqual([sent.length, rebroadcast.size()], [0, 1]);
  seen.set(make(1).peek.signature, { confirmations: null });
  await clock.advance(2_000);
  assert.deepEqual([sent.length, rebroadcast.size()], [0, 0]);
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
  seen.set(one.peek.signature, FINAL);
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
  assert.deepEqual([rebroadcast.add(two), rebroadcast.add(three), rebroadcast.add(one)], [true, false, true]);
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

bySeed(60, ({ length: numRuns }) => {
  test('a transaction in a block is not sent again, one that a fork dropped is, and all repetitions end', async () => {
    const all = Array.from({ length: 6 }, (_, i) => make(i + 100, hashOf(i % 2)));
    const step = fc.oneof(
      fc.record({ kind: fc.constant('add' as const), index: fc.nat(5) }),
      fc.record({ kind: fc.constant('seen' as const), index: fc.nat(5), isFinal: fc.boolean() }),
      fc.record({ kind: fc.constant('dropped' as const), index: fc.nat(5) }),
      fc.record({ kind: fc.constant('expire' as const), index: fc.nat(1) }),
      fc.record({ kind: fc.constant('wait' as const), index: fc.nat(6) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
        const { clock, seen, expired, sent, rebroadcast } = bed();
        for (const one of steps) {
          const { kind, index } = one;
          const signature = all[index]?.peek.signature as string;
          if (kind === 'add') rebroadcast.add(all[index]!);
          else if (kind === 'seen')
            seen.set(signature, one.isFinal ? FINAL : { confirmations: 1, confirmationStatus: 'confirmed' });
          else if (kind === 'dropped') {
            if (seen.get(signature) !== FINAL) seen.delete(signature);
          } else if (kind === 'expire') expired.add(hashOf(index));
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
      { numRuns },
    );
  });
});

const senderOf = (name: string, hasKey: boolean): Sender => ({ tenant: { id: name } as Tenant, hasKey });

test('one sender that has filled the queue leaves places for the others, theirs come first, and each repetition is of its sender', async () => {
  const { clock, sent, senders, rebroadcast } = bed({ limits: { maxQueued: 100, concurrency: 1 } });
  const stranger = senderOf(' 127.0.0.7', false);
  let lamports = 0;
  const next = () => {
    lamports += 1;
    return make(lamports);
  };
  let taken = 0;
  for (let i = 0; i < 300; i += 1) if (rebroadcast.add(next(), stranger)) taken += 1;
  assert.equal(taken, 100);
  const mine = next();
  const other = next();
  assert.ok(rebroadcast.add(mine, senderOf('project', true)));
  assert.ok(rebroadcast.add(other, senderOf(' 127.0.0.8', false)));
  await clock.advance(2_000);
  assert.equal(sent[0], mine.peek.signature);
  assert.ok(sent.indexOf(other.peek.signature) <= 2);
  assert.deepEqual([senders[0], senders[sent.indexOf(other.peek.signature)]], ['project', ' 127.0.0.8']);
});

test('without a key, what the chain never shows is given up after some transmissions', async () => {
  const { clock, seen, sent, rebroadcast } = bed({ limits: { maxRepeatsWithoutKey: 5 } });
  const [unseen, late] = [make(1), make(2)];
  rebroadcast.add(unseen, senderOf(' 127.0.0.7', false));
  rebroadcast.add(late, senderOf('project', true));
  await clock.advance(40_000);
  assert.equal(sent.filter((one) => one === unseen.peek.signature).length, 5);
  assert.ok(sent.filter((one) => one === late.peek.signature).length > 15);
  seen.set(late.peek.signature, FINAL);
  await clock.advance(4_000);
  assert.equal(rebroadcast.size(), 0);
});

test('blockhashes beyond the number of one round are checked in the next ones', async () => {
  const { clock, expired, rebroadcast } = bed();
  for (let n = 0; n < 200; n += 1) {
    expired.add(hashOf(n));
    rebroadcast.add(make(n + 1, hashOf(n)));
  }
  await clock.advance(20_000);
  assert.equal(rebroadcast.size(), 0);
});

test('a place that was reserved counts until it is kept or released', () => {
  const { rebroadcast } = bed({ limits: { maxQueued: 1 } });
  const sender = senderOf('project', true);
  const place = rebroadcast.reserve('first', sender);
  assert.equal(rebroadcast.reserve('second', sender), null);
  place!.release();
  place!.release();
  assert.notEqual(rebroadcast.reserve('second', sender), null);
  assert.equal(rebroadcast.reserve('third', sender), null);
});

test('every signature has to be one of its key over the message', async () => {
  const other = Keypair.generate();
  const good = [
    legacy([transfer(somewhere, 1)]),
    versioned([transfer(somewhere, 1)]),
    await version1([transfer(somewhere, 1)]),
  ];
  for (const { wire } of good) {
    const read = (bytes: Buffer) => readSendParams([bytes.toString('base64'), { encoding: 'base64' }]);
    demandSigned(read(wire));
    for (let at = 0; at < wire.length; at += 7) {
      const changed = Buffer.from(wire);
      changed[at] = changed[at]! ^ 1;
      let one: SignedTransaction;
      try {
        one = read(changed);
      } catch {
        continue;
      }
      assert.throws(() => demandSigned(one), { rpcCode: -32602 }, `byte ${at}`);
    }
  }
  const two = new Transaction({ feePayer: payer.publicKey, blockhash: hashOf(1), lastValidBlockHeight: 1 });
  two.add(SystemProgram.transfer({ fromPubkey: other.publicKey, toPubkey: somewhere, lamports: 1 })).partialSign(payer);
  const wire = two.serialize({ requireAllSignatures: false });
  assert.throws(() => demandSigned(readSendParams([bs58.encode(wire)])), { rpcCode: -32602 });
});

test('a durable nonce has to be the one of its account', async () => {
  const nonce = SystemProgram.nonceAdvance({ noncePubkey: somewhere, authorizedPubkey: payer.publicKey });
  const one = parse(legacy([nonce, transfer(somewhere, 1)], hashOf(5)).base58);
  const data = Buffer.alloc(NONCE_ACCOUNT_LENGTH);
  data.writeUInt32LE(1, 4);
  data.set(bs58.decode(hashOf(5)), 40);
  const other = Buffer.from(data);
  other.fill(9, 40, 72);
  const tenant = { id: 'project' } as Tenant;
  const asked: unknown[] = [];
  const check = (value: object | null | Error) =>
    createNonceCheck({
      async call(_: string, __: unknown, options: object) {
        asked.push(options);
        if (value instanceof Error) throw value;
        return { value };
      },
    } as unknown as ChainReader)(one, tenant);
  const account = (bytes: Buffer, owner = SystemProgram.programId.toBase58()) => ({
    owner,
    data: [bytes.toString('base64'), 'base64'],
  });
  assert.deepEqual(
    [
      await check(account(data)),
      await check(account(other)),
      await check(account(data, somewhere.toBase58())),
      await check(account(Buffer.alloc(0))),
      await check(null),
      await check(new Error('down')),
    ],
    [true, false, false, false, false, true],
  );
  assert.deepEqual(asked[0], { tenant });
});
