import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import type { ChainBlock } from '../../../src/plugin/plugin.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { blocksOf, loadRecording, type Recording } from '../../helpers/compression.ts';
import { readFixture, readJsonFixture, skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { readSnapshot, withoutTimes } from '../../helpers/photon-snapshots.ts';
import { type RecordedDaemon, startRecordedDaemon } from '../../helpers/recorded-daemon.ts';

const BOB = 'EU57rQxcmFhJ24ApVdUy3y4MxFXcTUN3uiVeWvGgtWXu';
const CHARLES = 'CHvwuTvTiwRSNBwAnrCG14V8YTJ6wwhHQrifxdFzHzsX';
const PAYER = 'J6ULJViDpQTRntYTmfkpUZZ71KTVkZNJFSDcQhFCo5Ef';
const RECEIVER = 'FLkMEA7eA82Cvp7MqamqFKsRN3E2Vfg3Xa8NRyVARq5n';
const MINTED = 'e2e_mint_and_transfer_transactions';
const LAMPORTS = 'lamport_transfers';
const NULLIFIED = 'nullfiier_and_address_queue_transactions';

async function recorded(t: TestContext, name: string): Promise<RecordedDaemon & { readonly recording: Recording }> {
  const recording = loadRecording(name);
  const { trees } = recording;
  const programId = recording.expected.compressionProgramId;
  return { recording, ...(await startRecordedDaemon(t, blocksOf(recording), { programId, trees })) };
}

/** Some snapshots are of the whole answer, some of its value. */
function assertSame(answer: unknown, snapshot: unknown): void {
  const whole = snapshot as { readonly context?: unknown };
  const { value } = answer as { readonly value: { readonly items?: unknown } };
  const seen = whole.context !== undefined ? answer : Array.isArray(snapshot) ? value.items : value;
  assert.deepEqual(withoutTimes(seen), withoutTimes(snapshot));
}

/** Photon's order of signatures comes from slots that were all zero. */
function assertSameSet(answer: unknown, snapshot: unknown): void {
  const list = (given: unknown): unknown[] => {
    if (Array.isArray(given)) return given;
    return (given as { readonly value: { readonly items: unknown[] } }).value.items;
  };
  const sorted = (given: unknown) =>
    (withoutTimes(list(given)) as { signature: string }[]).map((one) => one.signature).sort();
  assert.deepEqual(sorted(answer), sorted(snapshot));
}

describe('answers of Photon', { skip: skipWithoutFixtures }, () => {
  test('tokens: accounts, balances and signatures', async (t) => {
    const { call } = await recorded(t, MINTED);
    for (const [name, owner] of [
      ['bob', BOB],
      ['charles', CHARLES],
    ] as const) {
      const snapshot = (what: string) => readSnapshot(`e2e_tests__${MINTED}-${name}-${what}`);
      const by = { owner };
      assertSame(await call('getCompressedTokenAccountsByOwner', by), snapshot('accounts'));
      assertSame(await call('getCompressedTokenAccountsByOwnerV2', by), snapshot('accounts-v2'));
      assertSame(await call('getCompressedTokenBalancesByOwner', by), snapshot('token-balances'));
      assertSameSet(await call('getCompressionSignaturesForTokenOwner', by), snapshot('token-signatures'));
    }
    const latest = readSnapshot(`e2e_tests__${MINTED}-latest-signatures`);
    assertSameSet(await call('getLatestCompressionSignatures', {}), latest);
    const mint = '2U35cKS3Cj2xs5EBdByXYU7LaKAitqjSZc1Jnvu4iPf4';
    const { value } = await call<{ value: unknown }>('getCompressedMintTokenHolders', { mint });
    const items = [
      { owner: CHARLES, balance: 895 },
      { owner: BOB, balance: 105 },
    ];
    assert.deepEqual(value, { items, cursor: null });
  });

  test('lamports: accounts, balances and signatures', async (t) => {
    const { call } = await recorded(t, LAMPORTS);
    for (const [name, owner, lamports] of [
      ['payer', PAYER, 999_998_000],
      ['receiver', RECEIVER, 2_000],
    ] as const) {
      const accounts = readSnapshot(`e2e_tests__${LAMPORTS}-${name}-accounts`);
      assertSame(await call('getCompressedAccountsByOwner', { owner }), accounts);
      const signatures = readSnapshot(`e2e_tests__${name}-${LAMPORTS}-signatures`);
      assertSameSet(await call('getCompressionSignaturesForOwner', { owner }), signatures);
      assert.equal((await call<{ value: number }>('getCompressedBalanceByOwner', { owner })).value, lamports);
    }
  });

  test('an account of a tree that was joined in mid-life', async (t) => {
    const { call } = await recorded(t, NULLIFIED);
    const owner = 'Ecs89dz8NsNoSxyUtp54G2HPbmvJr8qZnxnWUqiLT92r';
    const accounts = readSnapshot(`e2e_tests__${NULLIFIED}-accounts`);
    assertSame(await call('getCompressedAccountsByOwner', { owner }), accounts);
  });

  test('transactions with the accounts that they closed and opened', async (t) => {
    const { call, upstream, recording } = await recorded(t, MINTED);
    const files = new Map(
      recording.expected.steps.map(({ file }) => [
        file,
        readFixture(`compression/transactions/${MINTED}/${file}`).toString('utf8'),
      ]),
    );
    upstream.on('getTransaction', ({ params }) => ({ result: files.get((params as [string])[0]) ?? 'null' }));
    const [mint, transfer] = recording.expected.steps.map(({ file }) => file) as [string, string];
    for (const [name, signature] of [
      ['mint', mint],
      ['transfer', transfer],
    ] as const)
      for (const [suffix, version] of [
        ['', ''],
        ['-v2', 'V2'],
      ] as const) {
        const snapshot = readSnapshot(`e2e_tests__${MINTED}-${name}-transaction${suffix}`) as Parsed;
        const answer = await call<Parsed>(`getTransactionWithCompressionInfo${version}`, { signature });
        assert.deepEqual(
          withoutTimes(answer.compressionInfo),
          withoutTimes(snapshot.compressionInfo),
          `${name}${suffix}`,
        );
        assert.deepEqual(answer.transaction.transaction, snapshot.transaction.transaction);
        // Whatever the node says goes out.
        assert.deepEqual(answer.transaction, JSON.parse(files.get(signature) as string));
      }
    const options = { encoding: 'base64', commitment: 'confirmed', maxSupportedTransactionVersion: 1 };
    assert.deepEqual(upstream.callsOf('getTransaction')[0]?.params, [mint, options]);
  });

  test('a transaction that closed what is not indexed is no half answer', async (t) => {
    const recording = loadRecording(MINTED);
    const { post, upstream } = await startRecordedDaemon(t, [], { trees: recording.trees });
    const [mint, transfer] = recording.expected.steps.map(({ file }) => file) as [string, string];
    upstream.on('getTransaction', ({ params }) => {
      const [signature] = params as [string];
      const path = `compression/transactions/${MINTED}/${signature}`;
      return { result: signature === mint || signature === transfer ? readFixture(path).toString('utf8') : 'null' };
    });
    const ask = async (signature: string) => (await post('getTransactionWithCompressionInfoV2', { signature })).body;
    // What was opened stands in the transaction itself.
    const { result } = await ask(mint);
    assert.equal(
      (result as { compressionInfo: { openedAccounts: unknown[] } }).compressionInfo.openedAccounts.length,
      1,
    );
    const details = (await ask(transfer)).error?.data?.details;
    const [closed] = recording.expected.accounts;
    assert.equal(details, `1 closed accounts of the transaction are not indexed: ${closed?.hash}`);
    const unknown = (await ask('1'.repeat(64))).error;
    assert.deepEqual([unknown?.code, unknown?.message], [-32000, 'Record Not Found: Transaction not found']);
  });

  test('transactions that are no votes', async (t) => {
    const [plain, compressed] = [270_893_658, 380_876_342].map(recordedBlock) as [ChainBlock, ChainBlock];
    await t.test('of a block without compression', async (inner) => {
      const { call } = await startRecordedDaemon(inner, [plain]);
      const snapshot = readSnapshot('e2e_tests__get_lanon_voting_signatures-non-voting-transactions');
      assert.deepEqual(await call('getLatestNonVotingSignatures', {}), snapshot);
      const latest = await call<{ value: unknown }>('getLatestCompressionSignatures', {});
      assert.deepEqual(latest.value, { items: [], cursor: null });
    });
    await t.test('of one with it', async (inner) => {
      const { call } = await startRecordedDaemon(inner, [plain, compressed]);
      const count = async (method: string) => (await call<Listed>(method, {})).value.items.length;
      assert.equal(await count('getLatestNonVotingSignatures'), 46 + 45);
      assert.equal(await count('getLatestCompressionSignatures'), 1);
    });
  });
});

interface Parsed {
  readonly transaction: { readonly transaction: unknown };
  readonly compressionInfo: unknown;
}
interface Listed {
  readonly value: { readonly items: readonly unknown[] };
}

const recordedBlock = (slot: number): ChainBlock => decodeBlock(slot, readJsonFixture(`compression/blocks/${slot}`));
