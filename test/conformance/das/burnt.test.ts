/** Assets that were burnt, of every kind, without an index and with one that had them before. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { TOKEN_PROGRAM_ID } from '@solana/spl-token';
import {
  Keypair,
  LAMPORTS_PER_SOL,
  PublicKey,
  SystemProgram,
  sendAndConfirmTransaction,
  Transaction,
} from '@solana/web3.js';
import { editionAddress } from '../../../src/solana/addresses.ts';
import { createAssets, newKey } from '../../helpers/burnt-assets.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { isFilled } from '../../helpers/das-filled.ts';
import { until } from '../../helpers/until.ts';
import { writeMint } from '../../helpers/write-mint.ts';

// biome-ignore lint/suspicious/noExplicitAny: answers are looked at as the assertions go.
type Answer = { result?: any; error?: { code: number; message: string } };

suite('burnt assets', { skip: (await chainMissing()) ?? false }, () => {
  test('each says so, keeps what the index knew, and is found by burnt: true alone', {
    timeout: 180_000,
  }, async (t) => {
    const chain = await startChain();
    t.after(() => chain.stop());
    const payer = Keypair.generate();
    await chain.fund(payer.publicKey.toBase58(), LAMPORTS_PER_SOL);
    const [owner, creator, authority, family, group] = [newKey(), newKey(), newKey(), newKey(), newKey()];
    const TOKEN = TOKEN_PROGRAM_ID.toBase58();
    const made = createAssets(chain, { owner, creator, authority, family, group });
    const { set, nft, closedMint, coreAsset } = made;
    await made.coreCollection(2);
    const burns = [
      await nft('closed', 'NonFungible', true),
      await nft('one byte', 'NonFungible', false),
      await nft('programmable', 'ProgrammableNonFungible', true),
      await closedMint('closed mint'),
      await coreAsset('core'),
      await nft('print', 'NonFungibleEdition', true),
      await made.emptyCollection('core collection'),
    ];
    const [stays, coreStays] = [await nft('stays', 'NonFungible', true), await coreAsset('core stays')];
    await chain.seal(1);

    const plugins = ['access', 'proxy', 'das'];
    const mints = burns.map(({ id }) => id);
    const follow = {
      collections: [family, group],
      creators: [creator],
      authorities: [authority],
      owners: [owner, authority],
      mints,
    };
    const [following, plain] = await Promise.all([
      startDaemon({ chain, config: { plugins, das: { follow } } }),
      startDaemon({ chain, config: { plugins, follow: { enabled: false } } }),
    ]);
    t.after(() => Promise.all([following.stop(), plain.stop()]));
    const call = async (to: typeof plain, method: string, params: object): Promise<Answer> => {
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
      return (await (await fetch(`${to.apiUrl}/?api-key=${to.key}`, { method: 'POST', body })).json()) as Answer;
    };
    const namesOf = async (method: string, params: object): Promise<string[]> => {
      const { result } = await call(following, method, { ...params, limit: 100 });
      return (result?.items ?? []).map((one: Answer['result']) => one.content.metadata.name as string).toSorted();
    };
    const untilSealed = (holds: () => Promise<boolean>) =>
      until(async () => {
        const isSo = await holds();
        if (!isSo) await chain.seal(1);
        if (!isSo) await sleep(50);
        return isSo;
      }, String(holds));
    const ofOwner = () => namesOf('getAssetsByOwner', { ownerAddress: owner });
    const ofOthers = ['core collection'];
    const owned = burns
      .map(({ name }) => name)
      .filter((name) => !ofOthers.includes(name))
      .toSorted();
    const living = [...owned, 'core stays', 'stays'].toSorted();
    // What is not stored yet is read from the chain, so the lists do not show when the index is complete.
    await untilSealed(async () => isFilled(following.dataDir));
    assert.deepEqual(await ofOwner(), living);
    const nftNames = ['closed', 'one byte', 'print', 'programmable', 'stays'];

    for (const { after } of burns) for (const change of after) await set(...change);
    for (const { after } of burns) {
      const burn = SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: payer.publicKey, lamports: 1 });
      for (const [address] of after)
        burn.keys.push({ pubkey: new PublicKey(address), isSigner: false, isWritable: true });
      for (const program of new Set(after.map(([, one]) => one)))
        burn.keys.push({ pubkey: new PublicKey(program), isSigner: false, isWritable: false });
      await sendAndConfirmTransaction(chain.connection, new Transaction().add(burn), [payer]);
    }

    // Without an index the accounts that stay say it; of a closed mint nothing stays.
    const { result: batch } = await call(plain, 'getAssetBatch', { ids: burns.map(({ id }) => id) });
    for (const [at, { id, name, alone }] of burns.entries()) {
      const { result, error } = await call(plain, 'getAsset', { id });
      if (alone === null) assert.equal(error?.message, 'Asset Not Found');
      else assert.deepEqual([result.id, result.interface, result.burnt], [id, alone, true], name);
      assert.deepEqual(batch[at] === null ? null : batch[at].burnt, alone === null ? null : true, name);
    }
    for (const { id } of [stays, coreStays]) assert.equal((await call(plain, 'getAsset', { id })).result.burnt, false);

    // A list of them would be empty, and look complete.
    for (const [params, why] of [
      [{ ownerAddress: owner }, `the owner ${owner} .* \\(das.follow.owners\\)`],
      [{ creatorAddress: creator }, `the creator ${creator} .* \\(das.follow.creators\\)`],
      [{ grouping: ['collection', group] }, `the collection ${group} .* \\(das.follow.collections\\)`],
      [{ authorityAddress: authority }, `the authority ${authority} .* \\(das.follow.authorities\\)`],
    ] as const) {
      const { error } = await call(plain, 'searchAssets', { ...params, burnt: true });
      assert.deepEqual([error?.code, new RegExp(why).test(String(error?.message))], [-32000, true], error?.message);
    }

    // With it, the last state stays.
    await untilSealed(async () => (await ofOwner()).length === 2);
    for (const { id, name, interface: kind, owner: last } of burns) {
      const { result, error } = await call(following, 'getAsset', { id });
      assert.equal(error, undefined, `${name}: ${JSON.stringify(error)}`);
      const { content, ownership, burnt } = result;
      assert.deepEqual([result.interface, content.metadata.name, ownership.owner, burnt], [kind, name, last, true]);
    }
    const { grouping } = (await call(following, 'getAsset', { id: burns[0]!.id })).result;
    assert.equal(grouping[0].group_value, family);
    const burnt = (params: object) => namesOf('searchAssets', { ...params, burnt: true });
    const burntNames = burns.map(({ name }) => name).toSorted();
    const burntNfts = nftNames.filter((name) => name !== 'stays');
    // Twice: the second page is the text of the first.
    for (const _ of [1, 2]) {
      assert.deepEqual(await burnt({ ownerAddress: owner }), owned);
      assert.deepEqual(await burnt({ ownerAddress: authority }), ofOthers);
      assert.deepEqual(await burnt({ creatorAddress: creator }), burntNfts);
      assert.deepEqual(await burnt({ grouping: ['collection', family] }), burntNfts);
      assert.deepEqual(await burnt({ grouping: ['collection', group] }), ['core']);
      assert.deepEqual(await burnt({ authorityAddress: authority }), burntNames);
      assert.deepEqual(await ofOwner(), ['core stays', 'stays']);
      assert.deepEqual(await namesOf('getAssetsByCreator', { creatorAddress: creator }), ['stays']);
      const byGroup = (groupValue: string) => namesOf('getAssetsByGroup', { groupKey: 'collection', groupValue });
      assert.deepEqual(await byGroup(family), ['stays']);
    }

    // An address that is used again is no longer burnt.
    const again = burns[0]!;
    await set(again.id, TOKEN, writeMint({ mintAuthority: editionAddress(again.id) }));
    const reuse = SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: payer.publicKey, lamports: 2 });
    reuse.keys.push({ pubkey: new PublicKey(again.id), isSigner: false, isWritable: true });
    reuse.keys.push({ pubkey: new PublicKey(TOKEN), isSigner: false, isWritable: false });
    await sendAndConfirmTransaction(chain.connection, new Transaction().add(reuse), [payer]);
    await untilSealed(async () => (await call(following, 'getAsset', { id: again.id })).result.burnt === false);
    await untilSealed(async () => (await burnt({ ownerAddress: owner })).length === owned.length - 1);
  });
});
