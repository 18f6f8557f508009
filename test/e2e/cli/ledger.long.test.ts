import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Keypair, LAMPORTS_PER_SOL } from '@solana/web3.js';
import { createLedgerMeter, openLedger } from '../../../src/ledger/index.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { runCommand, startDaemon } from '../../helpers/daemon.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';

const missing = await chainMissing();
if (missing !== null) console.error(`SKIPPED: ${missing}`);

const TRIES = 3_000;

test('a daemon keeps the blocks as its node answers them, and `ledger verify` finds damage', {
  skip: missing ?? false,
}, async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-ledger-cli-'));
  const chain = await startChain();
  const daemon = await startDaemon({
    chain: { rpcUrl: chain.rpcUrl, wsUrl: chain.wsUrl },
    config: { dataDir, ledger: { retain: { hours: 1 } }, follow: { startSlot: 0, pollMs: 20, enabled: true } },
  });
  t.after(async () => {
    await daemon.stop();
    await chain.stop();
    rmSync(dataDir, { recursive: true, force: true });
  });
  await chain.fund(Keypair.generate().publicKey.toBase58(), LAMPORTS_PER_SOL);
  const { slot } = await chain.connection.getLatestBlockhashAndContext('confirmed').then(({ context }) => context);
  const dir = join(dataDir, 'ledger', 'main');
  const open = () =>
    openLedger({
      dir,
      chain: 'main',
      retainHours: 1,
      retainBytes: 1e9,
      clock: createManualClock(),
      log: createMemoryLog(),
      meter: createLedgerMeter(createMetricsRegistry().scope('ledger')),
    });
  for (let tries = 0; tries < TRIES && (await open()).newest() < slot; tries += 1) await sleep(20);
  const ledger = await open();
  assert.ok(ledger.newest() >= slot);
  let transactions = 0;
  for (let at = ledger.newest(slot); at >= 0; at = ledger.newest(at - 1)) {
    const options = {
      encoding: 'base64',
      transactionDetails: 'full',
      rewards: true,
      commitment: 'confirmed',
      maxSupportedTransactionVersion: 1,
    };
    const response = await fetch(chain.rpcUrl, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getBlock', params: [at, options] }),
    });
    const answer = await response.text();
    const text = (await ledger.text(at))!.toString();
    assert.ok(answer.includes(`"result":${text}`), `block ${at}`);
    transactions += (JSON.parse(text) as { transactions: unknown[] }).transactions.length;
  }
  assert.ok(transactions > 0);
  await daemon.stop();
  // Finality would take longer than the rest of this test.
  const stopped = await open();
  await stopped.finalize(stopped.newest());
  await stopped.close();
  const config = join(dataDir, 'verify.yaml');
  writeFileSync(config, JSON.stringify({ dataDir }));
  const sound = await runCommand(['ledger', 'verify', '--config', config]);
  assert.equal(sound.code, 0, sound.err);
  assert.match(sound.out, /^\d+ sound blocks, 0 damaged places, \d+ bytes in 1 files$/m);
  await exportAndImport(config, dataDir, dir);
  const name = readdirSync(dir).find((each) => each.endsWith('.ledger'));
  const bytes = readFileSync(join(dir, name!));
  bytes[200] = bytes[200]! ^ 1;
  writeFileSync(join(dir, name!), bytes);
  const damaged = await runCommand(['ledger', 'verify', '--json', '--config', config]);
  assert.equal(damaged.code, 75);
  assert.equal((JSON.parse(damaged.out) as { faults: unknown[] }).faults.length, 1);
  const absent = await runCommand(['ledger', 'verify', '--chain', 'devnet', '--config', config]);
  assert.equal(absent.code, 78);
  assert.match(absent.err, /LEDGER_MISSING/);
});

/** A ledger goes out as files and comes back into an empty one. */
async function exportAndImport(config: string, dataDir: string, dir: string): Promise<void> {
  const output = join(dataDir, 'out');
  const range = ['--config', config, '--output', output];
  for (const format of ['car', 'parquet']) {
    const out = await runCommand(['ledger', 'export', '--format', format, ...range]);
    assert.equal(out.code, 0, out.err);
    assert.match(out.out, /^\d+ blocks, \d+ transactions in 1 parts, 0 of them from an earlier run$/m);
  }
  // Tables with amounts in another form are written again, and then reused.
  for (const count of [0, 1]) {
    const out = await runCommand(['ledger', 'export', '--format', 'parquet', '--amounts', 'decimal', ...range]);
    assert.equal(out.code, 0, out.err);
    assert.ok(out.out.includes(` ${count} of them from an earlier run`), out.out);
  }
  const misplaced = await runCommand(['ledger', 'export', '--format', 'car', '--amounts', 'text', ...range]);
  assert.equal(misplaced.code, 64);
  assert.match(misplaced.err, /--amounts is for --format parquet/);
  const again = await runCommand(['ledger', 'export', '--format', 'car', '--json', ...range]);
  const { blocks, reused, to } = JSON.parse(again.out) as { blocks: number; reused: number; to: number };
  assert.ok(blocks > 0);
  assert.equal(reused, 1);
  const beyond = await runCommand(['ledger', 'export', '--format', 'car', '--to', String(to + 1_000_000), ...range]);
  assert.equal(beyond.code, 75);
  assert.match(beyond.err, /LEDGER_EXPORT.*not final yet/);
  const wrong = await runCommand(['ledger', 'export', '--format', 'car', '--from', 'x', ...range]);
  assert.equal(wrong.code, 64);
  const off = await runCommand(['ledger', 'import', '--config', config, '--input', output]);
  assert.equal(off.code, 78);
  renameSync(dir, `${dir}-old`);
  writeFileSync(config, JSON.stringify({ dataDir, ledger: { retain: { hours: 1 } } }));
  const back = await runCommand(['ledger', 'import', '--config', config, '--json', '--input', output]);
  assert.equal(back.code, 0, back.err);
  assert.equal((JSON.parse(back.out) as { blocks: number }).blocks, blocks);
  rmSync(dir, { recursive: true });
  renameSync(`${dir}-old`, dir);
}
