/** Burns in blocks that a fork drops: what was burnt there is alive again, with an index and without one. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  Keypair,
  LAMPORTS_PER_SOL,
  PublicKey,
  SystemProgram,
  sendAndConfirmTransaction,
  Transaction,
} from '@solana/web3.js';
import { encode32 } from '../../../src/lib/base58.ts';
import { hashLeaf } from '../../../src/solana/concurrent/decode-concurrent.ts';
import { createModelTree, mintOf, treeTransaction } from '../../helpers/bubblegum.ts';
import { createAssets, newKey } from '../../helpers/burnt-assets.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { isFilled } from '../../helpers/das-filled.ts';
import { until } from '../../helpers/until.ts';

// biome-ignore lint/suspicious/noExplicitAny: answers are looked at as the assertions go.
type Answer = { result?: any; error?: { code: number; message: string } };

/** Data of the instruction `burnV2` of Bubblegum. */
const BURN = Buffer.from('73d222f0e88fb710', 'hex');
const TREE = new Uint8Array(32).fill(151);

suite('burns that a fork takes back', { skip: (await chainMissing()) ?? false }, () => {
  test('every kind of asset is alive again, burns again, and stays burnt when that is final', {
    timeout: 240_000,
  }, async (t) => {
    const chain = await startChain();
    t.after(() => chain.stop());
    const payer = Keypair.generate();
    await chain.fund(payer.publicKey.toBase58(), LAMPORTS_PER_SOL);
    const [owner, creator, authority, family, group] = [newKey(), newKey(), newKey(), newKey(), newKey()];
    const made = createAssets(chain, { owner, creator, authority, family, group });
    await made.coreCollection(1);
    const burns = [
      await made.nft('closed', 'NonFungible', true),
      await made.nft('one byte', 'NonFungible', false),
      await made.nft('programmable', 'ProgrammableNonFungible', true),
      await made.closedMint('closed mint'),
      await made.coreAsset('core'),
    ];
    await chain.seal(1);

    // A compressed asset, whose owner is another one: a key of one byte.
    let tree = createModelTree(TREE, 5);
    let number = 0;
    const append = (transaction: object) => chain.appendRecorded(transaction as never);
    const leafOf = mintOf(TREE, 0, 91, 'compressed');
    const compressedId = encode32(leafOf.schema.id);
    const start = async () => {
      await append(treeTransaction(1, ++number, [{ call: 'start', tree: TREE, told: tree.started() }]));
      const told = tree.set(0, hashLeaf(leafOf.schema));
      await append(
        treeTransaction(1, ++number, [{ call: 'replace', tree: TREE, told, schema: leafOf.schema, data: leafOf.data }]),
      );
    };

    const plugins = ['access', 'proxy', 'compression', 'das'];
    const ids = burns.map(({ id }) => id);
    const follow = {
      collections: [family, group],
      creators: [creator],
      authorities: [authority],
      owners: [owner],
      mints: ids,
    };
    const [following, plain] = await Promise.all([
      startDaemon({
        chain,
        config: { plugins, das: { follow }, compression: { verifyChain: false, cnft: { trees: [encode32(TREE)] } } },
      }),
      startDaemon({ chain, config: { plugins: ['access', 'proxy', 'das'], follow: { enabled: false } } }),
    ]);
    t.after(() => Promise.all([following.stop(), plain.stop()]));
    const call = async (to: typeof plain, method: string, params: object): Promise<Answer> => {
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
      return (await (await fetch(`${to.apiUrl}/?api-key=${to.key}`, { method: 'POST', body })).json()) as Answer;
    };
    const names = async (method: string, params: object): Promise<string> => {
      const { result, error } = await call(following, method, { ...params, limit: 100 });
      if (error !== undefined) return error.message;
      return result.items
        .map((one: Answer['result']) => one.content.metadata.name as string)
        .toSorted()
        .join();
    };
    const tip = () => chain.connection.getSlot('confirmed');

    /** What an asset is, to both daemons: `burnt`, `alive`, or `absent` with the error. */
    const stateOf = async (to: typeof plain, id: string): Promise<string> => {
      const { result, error } = await call(to, 'getAsset', { id });
      return error === undefined ? (result.burnt === true ? 'burnt' : 'alive') : 'absent';
    };
    const all = [...ids, compressedId];
    const states = async (to: typeof plain) => (await Promise.all(all.map((id) => stateOf(to, id)))).join();
    const lists = async () => [
      await names('getAssetsByOwner', { ownerAddress: owner }),
      await names('searchAssets', { ownerAddress: owner, burnt: true }),
      await names('getAssetsByCreator', { creatorAddress: creator }),
      await names('getAssetsByGroup', { groupKey: 'collection', groupValue: group }),
      await names('searchAssets', { tree: encode32(TREE), burnt: true }),
    ];
    const becomes = async (what: string, state: () => Promise<unknown>, wanted: unknown, isSealing = false) => {
      let now: unknown = null;
      const isSo = async () => {
        now = await state();
        if (JSON.stringify(now) === JSON.stringify(wanted)) return true;
        if (isSealing) await chain.seal(1);
        await sleep(50);
        return false;
      };
      // What it was instead says more than that time is over.
      await until(isSo, what).catch(() => assert.deepEqual(now, wanted, what));
    };

    const living = ['closed,closed mint,core,one byte,programmable', '', 'closed,one byte,programmable', 'core', ''];
    const dead = ['', 'closed,closed mint,core,one byte,programmable', '', '', 'compressed'];
    const alive = 'alive,alive,alive,alive,alive';
    await becomes('followed', async () => isFilled(following.dataDir), true, true);
    // The tree has no account: what came before the first block could not be read.
    await start();
    await becomes('at first', () => states(following), `${alive},alive`, true);
    await becomes('lists at first', lists, living, true);
    const leaf = tree.leaf(0).slice();

    /** One block with all burns, and one with that of the compressed asset. */
    async function burnAll(): Promise<void> {
      const burn = SystemProgram.transfer({
        fromPubkey: payer.publicKey,
        toPubkey: payer.publicKey,
        lamports: ++number,
      });
      const changes = burns.flatMap(({ after }) => after);
      const keys = [
        { pubkey: new PublicKey(group), isSigner: false, isWritable: true },
        ...changes.map(([address]) => ({ pubkey: new PublicKey(address), isSigner: false, isWritable: true })),
        ...[...new Set(changes.map(([, program]) => program))].map((program) => ({
          pubkey: new PublicKey(program),
          isSigner: false,
          isWritable: false,
        })),
      ];
      burn.keys.push(...keys);
      for (const change of changes) await made.set(...change);
      await made.coreCollection(0);
      await sendAndConfirmTransaction(chain.connection, new Transaction().add(burn), [payer]);
      const told = tree.set(0, new Uint8Array(32));
      await append(treeTransaction(1, ++number, [{ call: 'replace', tree: TREE, told, data: BURN }]));
    }

    for (const [round, isSeenBeforeFork] of [true, true, false].entries()) {
      const below = await tip();
      await burnAll();
      if (isSeenBeforeFork) {
        await becomes(`burnt ${round}`, () => states(following), 'burnt,burnt,burnt,burnt,burnt,burnt');
        await becomes(`burnt without an index ${round}`, () => states(plain), 'burnt,burnt,burnt,absent,burnt,absent');
        await becomes(`lists of burnt ${round}`, lists, dead);
      }
      const dropped = await chain.connection.getBlocks(below + 1, await tip());
      await chain.fork({ depth: dropped.length, replay: 'none', extraBlocks: 1 });
      // The program counts the changes of a tree from where the branch has it.
      tree = createModelTree(TREE, 5);
      tree.started();
      tree.set(0, leaf);
      await becomes(`alive again ${round}`, () => states(following), `${alive},alive`);
      await becomes(`alive again without an index ${round}`, () => states(plain), `${alive},absent`);
      await becomes(`lists of the living ${round}`, lists, living);
      const { result } = await call(following, 'getAsset', { id: compressedId });
      assert.equal(result.compression.asset_hash, encode32(leaf));
    }

    // For good: final, and still so after a restart of what is in memory.
    await burnAll();
    await chain.seal(40);
    await becomes('burnt for good', () => states(following), 'burnt,burnt,burnt,burnt,burnt,burnt');
    await becomes('lists of burnt for good', lists, dead);
    // Of an owner that is not followed only the compressed ones are known, and the list says so.
    const search = { ownerAddress: encode32(leafOf.schema.owner), burnt: true };
    const { result } = await call(following, 'searchAssets', search);
    const idsOf = ({ items }: { readonly items: readonly { readonly id: string }[] }) => items.map(({ id }) => id);
    assert.deepEqual([idsOf(result), result.errors.length], [[compressedId], 1]);
    assert.deepEqual(
      [result.errors[0].id, /das\.follow\.owners/.test(result.errors[0].error)],
      [search.ownerAddress, true],
    );
    for (const more of [{ compressed: true }, { tokenType: 'compressedNft' }]) {
      const { result: compressed } = await call(following, 'searchAssets', { ...search, ...more });
      assert.deepEqual([idsOf(compressed), compressed.errors], [[compressedId], undefined]);
    }
    const whole = await call(following, 'searchAssets', { ...search, options: { requireFullIndex: true } });
    assert.match(String(whole.error?.message), /das\.follow\.owners/);
  });
});
