/**
 * A daemon that follows `confirmed` sees forks of every depth above the newest final block. Its sinks write final blocks alone: what a fork
 * takes back never was in a target, and what takes its place is there once.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Keypair } from '@solana/web3.js';
import { ALL_TABLES } from '../../../plugins/sinks/rows/tables.ts';
import { ndjsonKind } from '../../../plugins/sinks/targets/ndjson.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { runCommand, startDaemon } from '../../helpers/daemon.ts';
import { openSink } from '../../helpers/sinks.ts';
import { until } from '../../helpers/until.ts';

const FINALITY = 12;
const REPLAYS = ['all', 'reverse', 'none'] as const;

test('forks of every depth leave exactly the rows of the blocks that became final', {
  skip: (await chainMissing()) ?? false,
}, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-sinks-'));
  const chain = await startChain({ consensus: 'towerbft', finalityDepth: FINALITY });
  const wallet = Keypair.generate().publicKey.toBase58();
  const target = join(folder, 'rows');
  const daemon = await startDaemon({
    chain,
    config: {
      plugins: ['access', 'proxy', 'sinks'],
      ledger: { retain: { hours: 24 } },
      follow: { commitment: 'confirmed', pollMs: 20, auditIntervalMs: 50 },
      sinks: {
        accounts: [wallet],
        targets: [
          {
            name: 'rows',
            kind: 'ndjson',
            target,
            tables: ALL_TABLES.map(({ name }) => name),
            batchSlots: 3,
            batchSeconds: 0,
          },
        ],
      },
    },
  });
  t.after(async () => {
    await daemon.stop();
    await chain.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  const released = async () => {
    const answer = await fetch(`${daemon.adminUrl}/metrics`);
    return Number(/^parhelion_follow_cursor_slot (\d+)$/m.exec(await answer.text())?.[1] ?? -1);
  };
  const seen = (slot: number) => until(async () => (await released()) >= slot, `slot ${slot} is released`);
  let lamports = 1_000_000_000;
  const pay = async (count: number) => {
    for (let paid = 0; paid < count; paid++) {
      lamports += 1;
      await chain.fund(wallet, lamports);
    }
  };
  const lost: string[] = [];
  await pay(FINALITY);
  // Not deeper: final blocks do not fork.
  for (let depth = 1; depth < FINALITY; depth++) {
    await pay(depth);
    await seen(await chain.connection.getSlot('confirmed'));
    const replay = REPLAYS[depth % REPLAYS.length]!;
    const report = await chain.fork({ depth, replay, gap: depth % 3, extraBlocks: 1 });
    assert.equal(report.dropped.length, depth);
    lost.push(...report.lost);
    await pay(1);
    await seen(await chain.connection.getSlot('confirmed'));
  }
  await pay(FINALITY + 2);
  const end = await chain.connection.getSlot('finalized');
  const rows = await ndjsonKind.open(openSink(target, { tables: ALL_TABLES }));
  await until(async () => ((await rows.positions())[0]?.last ?? -1) >= end, `the target has slot ${end}`);

  const args = ['sinks', 'verify', '--sink', 'rows', '--to', String(end), '--json', '--config', daemon.configFile];
  const { code, out, err } = await runCommand(args);
  assert.equal(code, 0, out + err);
  assert.equal((JSON.parse(out) as { differenceCount: number }).differenceCount, 0);

  // By the chain itself, which knows nothing of our ledger.
  const blocks = await rows.read!('blocks', 0, end);
  const first = Math.min(...blocks.map(([slot]) => slot as number));
  const slots = await chain.connection.getBlocks(first, end, 'finalized');
  assert.deepEqual(
    blocks.map(([slot]) => slot).toSorted((a, b) => (a as number) - (b as number)),
    slots,
  );
  const expected: string[] = [];
  for (const slot of slots) {
    const block = await chain.connection.getBlock(slot, { commitment: 'finalized', maxSupportedTransactionVersion: 0 });
    expected.push(...block!.transactions.map(({ transaction }) => transaction.signatures[0]!));
  }
  const signatures = (await rows.read!('transactions', 0, end)).map((row) => String(row[3]));
  assert.deepEqual(signatures.toSorted(), expected.toSorted());
  assert.ok(lost.length >= FINALITY, `${lost.length} transactions are lost`);
  for (const signature of lost) assert.ok(!signatures.includes(signature), `${signature} was taken back`);
  const writes = (await rows.read!('account_writes', 0, end)).map((row) => String(row[3]));
  assert.ok(writes.length > FINALITY);
  for (const signature of writes) assert.ok(expected.includes(signature), `${signature} is of no final block`);
});
