import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { eachStore } from '../../test/helpers/store.ts';
import { CodedError } from '../plugin/plugin.ts';
import { migrate } from '../store/migrate.ts';
import type { AssembledChain } from './assemble.ts';
import { createChainRun, identityMigrations } from './chains.ts';

eachStore('a chain is followed only once its identity is certain', (engine) => {
  async function setUp(t: TestContext, answers: (string | Error)[]) {
    const store = await engine.store(t);
    await migrate(store, [{ scope: 'kernel.identity', migrations: identityMigrations }]);
    const clock = createManualClock();
    const calls: string[] = [];
    const fatal: unknown[] = [];
    const reader = {
      call: async () => {
        const answer = answers.length > 1 ? answers.shift()! : answers[0]!;
        if (typeof answer !== 'string') throw answer;
        return answer;
      },
    };
    const pool = { bind: () => undefined, identify: async () => undefined, states: () => [] };
    const log = createMemoryLog();
    const make = (followed = true) =>
      createChainRun({
        chain: { setup: { id: 'main', kind: 'rpc', upstreams: [] }, reader, pool } as unknown as AssembledChain,
        store,
        follower: followed
          ? {
              start: () => void calls.push('start'),
              drain: () => void calls.push('drain'),
              stop: () => void calls.push('stop'),
            }
          : null,
        clock,
        log,
        fatal: (error) => void fatal.push(error),
      });
    return { clock, calls, fatal, make, answers, log };
  }
  const silent = new CodedError('CHAIN_UNREACHABLE', 'nobody');

  test('known at once', async (t) => {
    const { calls, make } = await setUp(t, ['A']);
    const run = make();
    await run.start();
    await run.drain();
    await run.stop();
    assert.deepEqual(calls, ['start', 'drain', 'stop']);
  });

  test('silent at first: retried until it answers; stopping ends the retries', async (t) => {
    const { clock, calls, make, answers } = await setUp(t, [silent]);
    const run = make();
    await run.start();
    await clock.advance(60_000);
    assert.deepEqual(calls, []);
    answers[0] = 'A';
    for (let tries = 0; tries < 100 && calls.length === 0; tries++) {
      await clock.advance(2_000);
      await sleep(5);
    }
    assert.deepEqual(calls, ['start']);
    await run.stop();
    const other = make();
    answers[0] = silent;
    await other.start();
    await other.stop();
    assert.equal(clock.pending, 0);
    assert.deepEqual(calls, ['start', 'stop']);
  });

  test('only the role that follows warns of silent upstreams', async (t) => {
    const { make, log } = await setUp(t, [silent]);
    for (const run of [make(false), make(), make(false)]) {
      await run.start();
      await run.stop();
    }
    assert.deepEqual(
      log.lines.map(({ level }) => level),
      ['info', 'warn', 'info'],
    );
  });

  test('another chain: refused at start', async (t) => {
    const { calls, make, answers } = await setUp(t, ['A']);
    const first = make();
    await first.start();
    await first.stop();
    answers[0] = 'B';
    await assert.rejects(make().start(), { code: 'STORE_WRONG_CHAIN', exitCode: 78 });
    assert.deepEqual(calls, ['start', 'stop']);
  });
});
