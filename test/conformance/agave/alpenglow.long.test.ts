/**
 * A real node that finalizes by Alpenglow, followed at `finalized` and at `confirmed` beside each other: the same blocks, none missing, none
 * taken back; empty blocks, whose hash is that of their parent hashed, are found by their slots.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { test } from 'node:test';
import { Keypair } from '@solana/web3.js';
import { decode32, encode32 } from '../../../src/lib/base58.ts';
import { openSqliteStore } from '../../../src/store/sqlite.ts';
import { type AgaveRelease, agaveMissing, namedNode, startAgave } from '../../helpers/agave.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { eventually } from './harness.ts';

const named = namedNode();
const releases: readonly AgaveRelease[] = named === null ? ['4.4'] : [named.release];
const BLOCKS = Number(process.env['PARHELION_AGAVE_BLOCKS'] ?? 120);
const COMMITMENTS = ['finalized', 'confirmed'] as const;
const PAYMENT_EVERY = 20;

interface Header {
  readonly slot: number;
  readonly parent_slot: number;
  readonly blockhash: string;
}

async function headersOf({ dataDir }: DaemonInProcess): Promise<Header[]> {
  const store = openSqliteStore({ path: join(dataDir, 'parhelion.db'), busyTimeoutMs: 5_000 });
  try {
    return await store.read
      .selectFrom('follow_headers')
      .select(['slot', 'parent_slot', 'blockhash'])
      .orderBy('slot')
      .execute();
  } finally {
    await store.close();
  }
}

const metricOf = async ({ adminUrl }: DaemonInProcess, name: string): Promise<number> => {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\d+)$`, 'm').exec(text)?.[1] ?? Number.NaN);
};

for (const release of releases)
  test(`Agave ${release} with Alpenglow from slot 0: ${BLOCKS} blocks at finalized and at confirmed are the same`, {
    skip: agaveMissing(release) ?? (named?.alpenglow === false && 'this node runs on TowerBFT'),
  }, async (t) => {
    const node = await startAgave({ release, alpenglow: true, slotMs: 200 });
    t.after(node.stop);
    const daemons = await Promise.all(
      COMMITMENTS.map((commitment) =>
        startDaemon({
          chain: node,
          config: { plugins: ['access', 'proxy', 'fees'], follow: { commitment, headers: BLOCKS + 1_000 } },
        }),
      ),
    );
    t.after(() => Promise.all(daemons.map((daemon) => daemon.stop())));
    const cursors = () => daemons.map(({ daemon }) => daemon.load().chains[0]?.cursorSlot ?? 0);
    await eventually(() => (cursors().every((slot) => slot > 0) ? null : 'they do not follow'));
    const from = Math.max(...cursors());
    for (let paid = 0; paid < BLOCKS / PAYMENT_EVERY; paid += 1) {
      await node.fund([Keypair.generate().publicKey], 1_000_000);
      await eventually(() =>
        Math.min(...cursors()) >= from + (paid + 1) * PAYMENT_EVERY ? null : `the cursors are at ${cursors()}`,
      );
    }
    const to = Math.min(...cursors());
    const [final, confirmed] = (await Promise.all(daemons.map(headersOf))).map((headers) =>
      headers.filter(({ slot }) => slot >= from && slot <= to),
    ) as [Header[], Header[]];
    assert.deepEqual(confirmed, final);
    assert.ok(final.length > (to - from) / 2, `${final.length} blocks in ${to - from} slots`);
    // Each is the child of the one before it, and no slot between them has a block by the word of the node.
    const produced = await node.call<number[]>('getBlocks', [from, to, { commitment: 'finalized' }]);
    assert.deepEqual(
      final.map(({ slot }) => slot),
      produced,
    );
    assert.deepEqual(
      final.slice(1).map((header) => header.parent_slot),
      final.slice(0, -1).map(({ slot }) => slot),
    );
    for (const daemon of daemons) {
      assert.equal(await metricOf(daemon, 'parhelion_follow_blocks_rolled_back_total'), 0);
      const [status] = daemon.daemon.load().chains;
      assert.deepEqual([status?.openGaps, status?.stalled, status?.consensus?.era], [0, null, 'alpenglow']);
    }
    let empty = 0;
    const url = `${daemons[0]!.apiUrl}/?api-key=${daemons[0]!.key}`;
    for (const { slot, blockhash } of final) {
      const body = JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'getBlock',
        params: [slot, { transactionDetails: 'signatures', rewards: false, maxSupportedTransactionVersion: 1 }],
      });
      const init = { method: 'POST', body, headers: { 'content-type': 'application/json' } };
      const { result } = (await (await fetch(url, init)).json()) as {
        readonly result: {
          readonly blockhash: string;
          readonly previousBlockhash: string;
          readonly signatures: string[];
        };
      };
      assert.equal(result.blockhash, blockhash, `slot ${slot}`);
      if (result.signatures.length > 0) continue;
      empty += 1;
      const parent = decode32(result.previousBlockhash)!;
      assert.equal(blockhash, encode32(createHash('sha256').update(parent).digest()), `slot ${slot} is empty`);
    }
    assert.ok(empty > final.length / 2, `${empty} empty blocks of ${final.length}`);
    t.diagnostic(`${final.length} blocks, ${empty} of them empty`);
  });
