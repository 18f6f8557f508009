import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { filledTo, readGaps } from '../../../src/chain/gap-records.ts';
import { chainMissing } from '../../helpers/chain.ts';
import { cliArguments, runCommand, startDaemonProcess } from '../../helpers/daemon.ts';
import { eachStore } from '../../helpers/store.ts';
import { LEAST_PAUSE_MS, until } from '../../helpers/until.ts';
import { type Bed, FEW_PLUGINS, FINALITY, makeBed } from './harness.ts';

const skip = (await chainMissing()) ?? false;

interface Listed {
  readonly id: number;
  readonly status: string;
  readonly reason: string;
  readonly fromSlot: number;
  readonly toSlot: number;
  readonly filledTo: number | null;
}

async function list(configFile: string): Promise<readonly Listed[]> {
  const { code, out, err } = await runCommand(['backfill', '--list', '--json', '--config', configFile]);
  assert.equal(code, 0, err);
  return JSON.parse(out) as Listed[];
}

/** How far the newest gap is filled, looked at beside whoever fills it: a command for each look would leave it no time. */
async function watchFilling(t: TestContext, { openStore }: Bed): Promise<() => Promise<number>> {
  const store = await openStore();
  t.after(() => store.close());
  return async () => {
    const [gap] = await readGaps(store.read, { limit: 1 });
    return gap === undefined ? 0 : (filledTo(gap) ?? 0);
  };
}

/** Payments that no webhook knew of, then a webhook for their wallet, and a daemon that was stopped again. */
async function makeHistory(bed: Bed, count: number) {
  const fromSlot = (await bed.tip()) + 1;
  const old = await bed.pay(count);
  const toSlot = await bed.tip();
  await bed.chain.seal(FINALITY + 3);
  const daemon = await bed.start();
  await bed.watch(daemon);
  await daemon.stop();
  return { old, range: ['--from', String(fromSlot), '--to', String(toSlot)], configFile: daemon.configFile };
}

eachStore('parhelion backfill', ({ database }) => {
  test('reads only the transactions of watched addresses where that is asked for', {
    skip,
    timeout: 120_000,
  }, async (t) => {
    const bed = await makeBed(t, database, FEW_PLUGINS);
    const { old, range, configFile } = await makeHistory(bed, 5);
    // Nobody has the blocks, and they are not asked for.
    const prune = ['getBlock', 'getBlocks'].map(
      (method) => ({ action: 'pruned', first: 1_000_000, match: { method } }) as const,
    );
    bed.chain.faults.set(prune);
    const { code, err } = await runCommand(['backfill', ...range, '--by-address', '--config', configFile]);
    assert.equal(code, 0, err);
    assert.deepEqual(
      (await list(configFile)).map(({ status }) => status),
      ['filled'],
    );
    bed.chain.faults.set([]);
    await bed.start();
    await bed.expectReceived(old);
  });

  test('a range from before the webhook is read on a stopped daemon; a second time makes no second delivery', {
    skip,
    timeout: 120_000,
  }, async (t) => {
    const bed = await makeBed(t, database, FEW_PLUGINS);
    const { old, range, configFile } = await makeHistory(bed, 12);
    const first = await runCommand(['backfill', ...range, '--config', configFile]);
    assert.equal(first.code, 0, first.err);
    assert.match(first.out, /filled: 12 slots/);
    const again = await runCommand(['backfill', ...range, '--processor', 'webhooks', '--json', '--config', configFile]);
    assert.equal(again.code, 0, again.err);
    assert.deepEqual(JSON.parse(again.out), { end: 'filled', slots: 12, left: [] });
    await bed.start();
    await bed.expectReceived(old);
    assert.deepEqual(
      (await list(configFile)).map(({ reason, status }) => [reason, status]),
      [
        ['manual', 'filled'],
        ['manual', 'filled'],
      ],
    );
  });

  test('killed in the middle and begun again it goes on where it was; each delivery comes once', {
    skip,
    timeout: 120_000,
  }, async (t) => {
    const bed = await makeBed(t, database, FEW_PLUGINS);
    const { old, range, configFile } = await makeHistory(bed, 40);
    bed.chain.faults.set([{ action: 'latency', ms: 100, match: { method: 'getBlock' } }]);
    const reachedNow = await watchFilling(t, bed);
    let reached = 0;
    for (let kills = 0; kills < 2; kills += 1) {
      const child = spawnCli(['backfill', ...range, '--config', configFile]);
      const gone = once(child, 'exit');
      await untilSoon(async () => (await reachedNow()) > reached || child.exitCode !== null);
      child.kill('SIGKILL');
      await gone;
      assert.ok((await reachedNow()) > reached);
      reached = await reachedNow();
      assert.equal((await list(configFile))[0]?.filledTo, reached);
    }
    const [gap] = await list(configFile);
    assert.equal(gap?.status, 'filling');
    assert.ok(reached < gap.toSlot);
    const asked = bed.chain.faults.log().length;
    const last = await runCommand(['backfill', ...range, '--config', configFile]);
    assert.equal(last.code, 0, last.err);
    // It did not begin anew: what was done is not asked for again.
    const askedAgain = bed.chain.faults
      .log()
      .slice(asked)
      .flatMap(({ slot }) => (slot === null ? [] : [slot]));
    assert.ok(Math.min(...askedAgain) > reached);
    assert.equal((await list(configFile)).length, 1);
    bed.chain.faults.clear();
    await bed.start();
    await bed.expectReceived(old);
  });
});

test('with a daemon that runs, the daemon does the work and the command shows it', {
  skip,
  timeout: 120_000,
}, async (t) => {
  const bed = await makeBed(t, undefined, FEW_PLUGINS);
  const { old, range, configFile } = await makeHistory(bed, 20);
  const daemon = await startDaemonProcess(bed.options());
  t.after(() => daemon.kill());
  const live = await bed.pay(3);
  const { code, out, err } = await runCommand(['backfill', ...range, '--config', configFile]);
  assert.equal(code, 0, err);
  assert.match(out, /filled: 20 slots/);
  await bed.expectReceived([...old, ...live]);
});

test('a gap that no upstream can fill ends with 75 and stays open; one that was given up is skipped', {
  skip,
  timeout: 120_000,
}, async (t) => {
  const bed = await makeBed(t, undefined, FEW_PLUGINS);
  const { range, configFile } = await makeHistory(bed, 10);
  const first = Number(range[3]) + 1;
  bed.chain.faults.set([{ action: 'pruned', first }]);
  const { code, err } = await runCommand(['backfill', ...range, '--config', configFile]);
  assert.equal(code, 75);
  assert.match(err, /cannot be filled now[\s\S]*no upstream has the block at slot \d+ any more/);
  const [gap] = await list(configFile);
  assert.equal(gap?.status, 'open');
  assert.match(err, new RegExp(`to give it up: .* backfill --abandon ${gap.id}$`, 'm'));
  const all = await runCommand(['backfill', '--gaps', '--config', configFile]);
  assert.equal(all.code, 75);
  const given = await runCommand(['backfill', '--abandon', String(gap.id), '--config', configFile]);
  assert.equal(given.code, 0);
  assert.equal((await list(configFile))[0]?.status, 'abandoned');
  const none = await runCommand(['backfill', '--gaps', '--config', configFile]);
  assert.equal(none.code, 0);
  assert.match(none.out, /no open gaps/);
});

test('wrong requests are refused with 64, ranges that are not final with 75', { skip, timeout: 120_000 }, async (t) => {
  const bed = await makeBed(t, undefined, FEW_PLUGINS);
  const { configFile } = await makeHistory(bed, 2);
  const wrong = [
    [],
    ['--gaps', '--list'],
    ['--from', '5'],
    ['--from', '9', '--to', '5'],
    ['--from', 'x', '--to', '5'],
    ['--from', '1', '--to', '5', '--processor', 'nobody'],
    ['--gaps', '--processor', 'webhooks'],
    ['--abandon', '99'],
    ['--chain', 'testnet', '--gaps'],
  ];
  for (const args of wrong) {
    const { code, err } = await runCommand(['backfill', ...args, '--config', configFile]);
    assert.equal(code, 64, `${args.join(' ')}: ${err}`);
  }
  const early = ['backfill', '--from', '1000', '--to', '999999', '--config', configFile];
  const { code, err } = await runCommand(early);
  assert.equal(code, 75);
  assert.match(err, /FOLLOW_NOT_FINAL/);
  const devnet = ['backfill', '--from', '1', '--to', '5', '--chain', 'devnet', '--config', configFile];
  assert.equal((await runCommand(devnet)).code, 78);
});

test('Ctrl-C ends the work cleanly, and the same command goes on', { skip, timeout: 120_000 }, async (t) => {
  const bed = await makeBed(t, undefined, FEW_PLUGINS);
  const { old, range, configFile } = await makeHistory(bed, 40);
  bed.chain.faults.set([{ action: 'latency', ms: 100, match: { method: 'getBlock' } }]);
  const child = spawnCli(['backfill', ...range, '--config', configFile]);
  const said: string[] = [];
  child.stderr?.on('data', (chunk: Buffer) => said.push(chunk.toString()));
  const gone = once(child, 'exit');
  const reachedNow = await watchFilling(t, bed);
  await untilSoon(async () => (await reachedNow()) !== 0 || child.exitCode !== null);
  child.kill('SIGINT');
  await gone;
  assert.equal(child.exitCode, 75, said.join(''));
  assert.match(said.join(''), /interrupted; run the same command again/);
  bed.chain.faults.clear();
  const { code, err } = await runCommand(['backfill', ...range, '--config', configFile]);
  assert.equal(code, 0, err);
  await bed.start();
  await bed.expectReceived(old);
});

/** The work goes on while this waits. */
const untilSoon = (look: () => Promise<boolean>) => until(look, undefined, undefined, LEAST_PAUSE_MS);

function spawnCli(args: readonly string[]): ChildProcess {
  return spawn(process.execPath, [...cliArguments, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
}
