import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encode, encode32 } from '../../src/lib/base58.ts';
import { accessBed } from '../../test/helpers/access-harness.ts';
import { eachStore } from '../../test/helpers/store.ts';
import { createWallets, listWallets } from './projects.ts';

const address = (seed: number) => encode32(new Uint8Array(32).fill(seed));
const [OWNER, ANNA, BEN] = [address(1), address(2), address(3)];

eachStore('wallets of members', (engine) => {
  test('a key of a member names the wallet of the member, all others that of the owner', async (t) => {
    const bed = await accessBed(await engine.store(t));
    const { store, addKey, ask, clock } = bed;
    const wallets = createWallets(clock, { note: async () => undefined });
    const owned = await store.write((tx) => bed.projects.create(tx, { name: 'o', plan: 'free', wallet: OWNER }));
    const projectId = owned.id;
    assert.equal(await store.write((tx) => wallets.add(tx, projectId, ANNA)), true);
    assert.equal(await store.write((tx) => wallets.add(tx, projectId, ANNA)), false, 'once');
    const walletOf = async (key: string) => (await ask({ header: key })).wallet;

    const plain = await addKey({ projectId });
    const own = await addKey({ projectId, wallet: OWNER });
    const hers = await addKey({ projectId, wallet: ANNA });
    assert.deepEqual(await Promise.all([plain, own, hers].map(({ key }) => walletOf(key))), [OWNER, OWNER, ANNA]);
    const rotated = await store.write((tx) => bed.keys.rotate(tx, hers.id, 60_000));
    assert.equal(await walletOf(rotated.key), ANNA, 'the new key is the same member’s');
    assert.equal(await walletOf((await addKey()).key), null, 'a project without an owner');

    await assert.rejects(addKey({ projectId, wallet: BEN }), { code: 'ACCESS_NOT_A_MEMBER' });
    await assert.rejects(addKey({ wallet: ANNA }), { code: 'ACCESS_NOT_A_MEMBER' }, 'of another project');
  });

  test('a member who leaves loses their keys, and no other member does', async (t) => {
    const bed = await accessBed(await engine.store(t));
    const { store, addKey, ask, clock, project } = bed;
    const wallets = createWallets(clock, { note: async () => undefined });
    for (const wallet of [ANNA, BEN]) await store.write((tx) => wallets.add(tx, project.id, wallet));
    const first = await addKey({ wallet: ANNA });
    const second = await addKey({ wallet: ANNA });
    const bens = await addKey({ wallet: BEN });
    const plain = await addKey();
    await store.write((tx) => bed.keys.revoke(tx, second.id));
    assert.equal(await store.write((tx) => wallets.remove(tx, project.id, ANNA)), 1, 'one was revoked before');
    assert.equal(await store.write((tx) => wallets.remove(tx, project.id, ANNA)), null);
    assert.deepEqual(await listWallets(store, project.id), [BEN]);
    await assert.rejects(ask({ header: first.key }), { reason: 'bad-key' });
    assert.equal((await ask({ header: bens.key })).wallet, BEN);
    assert.equal((await ask({ header: plain.key })).wallet, null);
    await assert.rejects(addKey({ wallet: ANNA }), { code: 'ACCESS_NOT_A_MEMBER' });
  });

  test('an invalid wallet and an unknown project are refused', async (t) => {
    const { store, clock, project, projects } = await accessBed(await engine.store(t));
    const wallets = createWallets(clock, { note: async () => undefined });
    for (const bad of [
      '',
      'x',
      encode(new Uint8Array(33).fill(2)),
      encode(new Uint8Array(31).fill(2)),
      '0'.repeat(44),
    ]) {
      await assert.rejects(
        store.write((tx) => wallets.add(tx, project.id, bad)),
        { code: 'ACCESS_BAD_WALLET' },
      );
      await assert.rejects(
        store.write((tx) => projects.create(tx, { name: 'n', plan: 'free', wallet: bad })),
        { code: 'ACCESS_BAD_WALLET' },
      );
    }
    for (const write of [wallets.add, wallets.remove])
      await assert.rejects(
        store.write<unknown>((tx) => write(tx, 'nobody', ANNA)),
        { code: 'ACCESS_UNKNOWN_PROJECT' },
      );
  });
});
