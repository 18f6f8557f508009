import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { blocksOf, loadRecording, type Recording, recordingNames } from '../../helpers/compression.ts';
import { startFakeProver } from '../../helpers/fake-prover.ts';
import { skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { redirectHostedClients } from '../../helpers/hosted-client.ts';
import { loadPackage } from '../../helpers/packages.ts';
import { readSnapshot, withoutTimes } from '../../helpers/photon-snapshots.ts';
import { type RecordedDaemon, startRecordedDaemon } from '../../helpers/recorded-daemon.ts';
import { byCase } from '../../helpers/run-part.ts';

const sdk = await loadPackage('helius-sdk', () => import('helius-sdk'));

const MINTED = 'e2e_mint_and_transfer_transactions';
const LAMPORTS = 'lamport_transfers';
const NULLIFIED = 'nullfiier_and_address_queue_transactions';
const AMT1 = 'amt1Ayt45jfbdw5YSo7iz6WZxUmnZsQTYXy82hVwyC2';

interface Proof {
  readonly hash: string;
  readonly proof: readonly string[];
  readonly root: string;
}
interface Answer<T> {
  readonly context: { readonly slot: number };
  readonly value: T;
}

interface Recorded extends RecordedDaemon {
  readonly recording: Recording;
}

async function recorded(t: TestContext, name: string, proverUrl?: string): Promise<Recorded> {
  const recording = loadRecording(name);
  const { trees, expected } = recording;
  const programId = expected.compressionProgramId;
  const options = { programId, trees, ...(proverUrl === undefined ? {} : { proverUrl }) };
  return { recording, ...(await startRecordedDaemon(t, blocksOf(recording), options)) };
}

byCase(recordingNames, (names) =>
  describe('proofs of recorded accounts and addresses', { skip: skipWithoutFixtures }, () => {
    for (const name of names)
      test(name, async (t) => {
        const { call, post, recording } = await recorded(t, name);
        const {
          inclusionProofsAfterLastStep: known,
          newAddressProofsAfterLastStep: absent,
          accounts,
        } = recording.expected;
        const hashes = known.map(({ hash }) => hash);
        if (known.length > 0) {
          const { value } = await call<Answer<Proof[]>>('getMultipleCompressedAccountProofs', hashes);
          assert.deepEqual(value, known);
          for (const one of [known[0]!, known.at(-1)!])
            assert.deepEqual((await call<Answer<Proof>>('getCompressedAccountProof', { hash: one.hash })).value, one);
          const second = await call<Answer<object[]>>('getMultipleCompressedAccountProofsV2', hashes);
          for (const [i, one] of known.entries()) {
            const { merkleTree, ...rest } = one;
            const { treeType: type, queue } = treeOf(recording, merkleTree);
            const treeContext = { treeType: type, tree: merkleTree, queue, cpiContext: null };
            assert.deepEqual(second.value[i], { ...rest, proveByIndex: false, treeContext });
          }
        }
        if (absent.length > 0) {
          const asked = absent.map(({ address, merkleTree: tree }) => ({ address, tree }));
          assert.deepEqual((await call<Answer<object>>('getMultipleNewAddressProofsV2', asked)).value, absent);
          const first = absent.filter(({ merkleTree }) => merkleTree === AMT1);
          if (first.length > 0)
            assert.deepEqual(
              (
                await call<Answer<object>>(
                  'getMultipleNewAddressProofs',
                  first.map(({ address }) => address),
                )
              ).value,
              first,
            );
        }
        for (const { hash, leafInTree, inOutputQueue } of accounts.filter((one) => !one.leafInTree).slice(0, 3)) {
          const { status, body } = await post('getCompressedAccountProof', { hash });
          assert.deepEqual([status, body.error?.code, leafInTree], [200, -32000, false]);
          assert.equal(
            body.error?.message,
            'Record Not Found: Leaf nodes not found for hashes. Got 0 hashes. Expected 1.',
          );
          const again = await post('getCompressedAccountProofV2', { hash });
          assert.equal(
            (again.body.result as Answer<{ proveByIndex: boolean }>)?.value.proveByIndex ?? false,
            inOutputQueue,
          );
        }
        for (const [tree, queue] of Object.entries(recording.expected.addressQueueAfterLastStep)) {
          if (queue.length === 0) continue;
          const { body } = await post('getMultipleNewAddressProofsV2', [{ address: queue[0], tree }]);
          assert.equal(body.error?.data?.details, `Address ${queue[0]} already exists`);
        }
      });
  }),
);

const treeOf = ({ trees }: Recording, key: string) => {
  const found = trees.find(({ tree }) => tree === key)!;
  return { treeType: found.type, queue: found.queue ?? '1'.repeat(32) };
};

describe('answers of Photon about proofs', { skip: skipWithoutFixtures }, () => {
  for (const [name, who] of [
    [MINTED, 'bob'],
    [MINTED, 'charles'],
    [LAMPORTS, 'payer'],
    [LAMPORTS, 'receiver'],
  ] as const)
    test(`${name}: ${who}`, async (t) => {
      const prover = await startFakeProver(t);
      const { call } = await recorded(t, name, prover.url);
      const snapshot = readSnapshot(`e2e_tests__${name}-${who}-proofs`) as Answer<Proof[]>;
      const hashes = snapshot.value.map(({ hash }) => hash);
      const answer = await call<Answer<Proof[]>>('getMultipleCompressedAccountProofs', hashes);
      assert.deepEqual(withoutTimes(answer), withoutTimes(snapshot));
      for (const [suffix, file] of [['', ''], ...(name === MINTED ? [['V2', '-v2'] as const] : [])]) {
        const known = withoutProof(readSnapshot(`e2e_tests__${name}-${who}-validity-proof${file}`));
        const asked = (known as Answer<{ leaves?: string[]; accounts?: { hash: string }[] }>).value;
        const params = { hashes: asked.leaves ?? asked.accounts?.map(({ hash }) => hash) };
        assert.deepEqual(withoutProof(await call(`getValidityProof${suffix}`, params)), known);
      }
    });

  test('addresses', async (t) => {
    const snapshot = readSnapshot(`e2e_tests__${NULLIFIED}-proof-address`) as Answer<{ address: string }[]>;
    const addresses = snapshot.value.map(({ address }) => address);
    const { call } = await recorded(t, NULLIFIED);
    assert.deepEqual(withoutTimes(await call('getMultipleNewAddressProofs', addresses)), withoutTimes(snapshot));
    const states = readSnapshot(`e2e_tests__${NULLIFIED}-proofs`) as Answer<Proof[]>;
    const hashes = states.value.map(({ hash }) => hash);
    assert.deepEqual(withoutTimes(await call('getMultipleCompressedAccountProofs', hashes)), withoutTimes(states));
  });

  test('addresses of a tree that is still empty', async (t) => {
    const { call } = await recorded(t, 'address_with_nullifiers');
    const snapshot = readSnapshot('e2e_tests__address_with_nullifiers-proof') as Answer<{ address: string }[]>;
    const addresses = snapshot.value.map(({ address }) => address);
    assert.deepEqual(withoutTimes(await call('getMultipleNewAddressProofs', addresses)), withoutTimes(snapshot));
  });
});

/** Photon had no prover; ours answers with points. */
function withoutProof(answer: unknown): unknown {
  const { value } = withoutTimes(answer) as { value: Record<string, unknown> };
  return { value: { ...value, compressedProof: null } };
}

test('the hosted SDK asks for proofs', { skip: skipWithoutFixtures || sdk.skip }, async (t) => {
  const prover = await startFakeProver(t);
  const { daemon, recording } = await recorded(t, MINTED, prover.url);
  t.after(redirectHostedClients(daemon.apiUrl));
  const { zk } = sdk.module.createHelius({ apiKey: daemon.key });
  const { inclusionProofsAfterLastStep: known } = recording.expected;
  const [first] = known;
  const hashes = known.map(({ hash }) => hash);
  const single = await zk.getCompressedAccountProof({ hash: first!.hash });
  assert.deepEqual((single as unknown as Answer<Proof>).value ?? single, first);
  const many = await zk.getMultipleCompressedAccountProofs(hashes as never);
  assert.deepEqual((many as unknown as Answer<Proof[]>).value ?? many, known);
  const address = '1111111ogCyDbaRMvkdsHB3qfdyFYaG1WtRUAfdh';
  const fresh = await zk.getMultipleNewAddressProofs([address] as never);
  assert.equal(((fresh as unknown as Answer<{ address: string }[]>).value ?? fresh)[0]?.address, address);
  const tree = AMT1;
  const later = await zk.getMultipleNewAddressProofsV2([{ address, tree }] as never);
  assert.equal(((later as unknown as Answer<{ merkleTree: string }[]>).value ?? later)[0]?.merkleTree, tree);
  const validity = await zk.getValidityProof({ hashes: [first!.hash], newAddresses: [] } as never);
  assert.deepEqual((validity as unknown as Answer<{ leaves: string[] }>).value.leaves, [first!.hash]);
});
