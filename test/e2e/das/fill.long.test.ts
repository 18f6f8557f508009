/** A daemon that is killed while it reads what `das.follow` names: the next one goes on, and reads nothing twice that was written. */

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Keypair } from '@solana/web3.js';
import { decode32 } from '../../../src/lib/base58.ts';
import { CORE_PROGRAM } from '../../../src/solana/programs.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { type StartDaemonOptions, startDaemon, startDaemonProcess } from '../../helpers/daemon.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { eachStore } from '../../helpers/store.ts';
import { startUpstream } from '../../helpers/upstream.ts';

const skip = (await chainMissing()) ?? false;
const ASSETS = 450;
/** Assets that are written at once, the collection among them. */
const BATCH = 200 - 1;

eachStore('reading what is followed', ({ database }) => {
  test('goes on after kill -9', { skip, timeout: 180_000 }, async (t) => {
    const chain = await startChain();
    const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-das-'));
    t.after(async () => {
      await chain.stop();
      rmSync(dataDir, { recursive: true, force: true });
    });
    const random = createSfc32(23);
    const newKey = () => Keypair.fromSeed(random.fill(new Uint8Array(32))).publicKey.toBase58();
    const [collection, owner] = [newKey(), newKey()];
    const name = Buffer.from([1, 0, 0, 0, 65, 0, 0, 0, 0]);
    const write = (address: string, ...parts: Uint8Array[]) =>
      chain.setAccount(address, { lamports: 1_000_000, owner: CORE_PROGRAM, data: Buffer.concat(parts) });
    const bytes = (key: string) => decode32(key) as Uint8Array;
    // How many it ever had, and has.
    const counts = Buffer.from(Uint32Array.of(ASSETS, ASSETS).buffer);
    await write(collection, Buffer.of(5), bytes(owner), name, counts);
    const ids = Array.from({ length: ASSETS }, newKey);
    for (const id of ids)
      await write(id, Buffer.of(1), bytes(owner), Buffer.of(2), bytes(collection), name, Buffer.of(0));

    // Answers for assets of the second batch are held back until the first daemon is dead.
    const node = await startUpstream();
    t.after(() => node.stop());
    const reads = new Map<string, number>();
    let [isHeld, isReleased] = [false, false];
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => (release = resolve));
    const known = new Set(ids);
    const forward = async ({ method, params, body }: { method: string; params: unknown; body: string }) => {
      const asked = method === 'getMultipleAccounts' ? (params as [string[]])[0].filter((key) => known.has(key)) : [];
      const isNext = asked.some((key) => !reads.has(key)) && reads.size >= BATCH;
      if (isNext && !isReleased) {
        isHeld = true;
        await released;
        return { fault: 'reset' } as const;
      }
      for (const key of asked) reads.set(key, (reads.get(key) ?? 0) + 1);
      const answer = await fetch(chain.rpcUrl, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
      });
      return { chunks: [await answer.text()] };
    };
    for (const method of ['*', 'getSlot', 'getHealth', 'getVersion', 'getFirstAvailableBlock', 'getGenesisHash'])
      node.on(method, forward);

    const store = (await database?.(t))?.url;
    const options: StartDaemonOptions = {
      chain: { rpcUrl: node.url },
      dataDir,
      key: 'das-fill-key',
      ...(store === undefined ? {} : { store }),
      config: { plugins: ['access', 'das'], das: { follow: { collections: [collection] } } },
    };
    const first = await startDaemonProcess(options);
    t.after(() => first.kill());
    for (let more = 0; !isHeld; more += 1) {
      if (more % 20 === 0) await chain.seal(1);
      await sleep(25);
    }
    await first.kill();
    const written = [...reads.keys()];
    isReleased = true;
    release();
    assert.equal(written.length, BATCH);

    // The job of a process that has ended is taken back at the start, before its lease is over.
    const second = await startDaemon(options);
    t.after(() => second.stop());
    const list = async (page: number) => {
      const params = { groupKey: 'collection', groupValue: collection, page, limit: 1_000 };
      const response = await fetch(`${second.apiUrl}/?api-key=${second.key}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getAssetsByGroup', params }),
      });
      return (await response.json()) as { result?: { items: { id: string }[] } };
    };
    // From the index only when it is whole: before that it is read from the chain.
    const programs = () => node.callsOf('getProgramAccounts').length;
    for (let more = 0; ; more += 1) {
      const before = programs();
      const { result } = await list(1);
      if (programs() === before && result !== undefined) {
        assert.deepEqual(
          result.items.map(({ id }) => id),
          [...ids].sort((a, b) => Buffer.compare(bytes(a), bytes(b))),
        );
        break;
      }
      if (more % 10 === 0) await chain.seal(1);
      await sleep(100);
    }
    assert.equal(reads.size, ASSETS);
    for (const id of written) assert.equal(reads.get(id), 1, `${id} was written before the kill`);
  });
});
