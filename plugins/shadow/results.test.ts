import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { Value } from '@sinclair/typebox/value';
import { migrate } from '../../src/store/migrate.ts';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { createSfc32 } from '../../test/helpers/sfc32.ts';
import { eachStore } from '../../test/helpers/store.ts';
import { type ShadowConfig, shadowConfig } from './config.ts';
import { type Compared, createResults } from './results.ts';
import { migrations, tables } from './tables.ts';

const KEEP = { differences: 12, perGroup: 2, groups: 9, bodyBytes: 300 };
const METHODS = 500;
const KEY = '0a1b2c3d-1234-4567-89ab-0123456789ab';

eachStore('results of comparisons', (engine) => {
  test('what is stored stays within its bounds', async (t) => {
    const store = await engine.store(t);
    await migrate(store, [{ scope: 'shadow', migrations }]);
    const clock = createManualClock();
    const config = Value.Default(shadowConfig, {}) as ShadowConfig;
    const random = { ...createSfc32(1), uuid: randomUUID, bytes: (count: number) => new Uint8Array(count) };
    const results = createResults({ store, clock, random, config: { ...config, keep: KEEP } });
    const answer = { status: 200, text: 'x'.repeat(5_000) };
    const compared = (method: string, path: string): Compared => ({
      method,
      product: 'rpc',
      question: 'q'.repeat(9_000),
      ours: answer,
      theirs: answer,
      differences: [{ path, kind: 'number', ours: 1, theirs: 2, reason: '' }],
    });
    const countOf = async (name: 'shadow_groups' | 'shadow_differences' | 'shadow_counts') => {
      const row = await tables(store.read)
        .selectFrom(name)
        .select(({ fn }) => fn.countAll<number>().as('total'))
        .executeTakeFirstOrThrow();
      return Number(row.total);
    };
    for (let round = 0; round < 6; round += 1) {
      for (let at = 0; at < 200; at += 1) {
        const method = `method-${round}-${at}`;
        results.note(compared(method, 'p'.repeat(1_000)));
        results.note(compared('busy', `result.${at % 5}`));
        results.count(method, 'rpc', 'different');
        results.count('busy', 'rpc', 'equal');
      }
      results.count('m'.repeat(100_000), 'rpc', 'equal');
      results.note(compared('m'.repeat(100_000), 'result'));
      await results.flush();
      await clock.advance(1_000);
      assert.ok((await countOf('shadow_groups')) <= KEEP.groups);
      assert.ok((await countOf('shadow_differences')) <= KEEP.differences);
      assert.ok((await countOf('shadow_counts')) <= METHODS + 1);
    }
    assert.equal(await countOf('shadow_groups'), KEEP.groups);
    assert.equal(await countOf('shadow_counts'), METHODS);
    const groups = await tables(store.read).selectFrom('shadow_groups').selectAll().execute();
    for (const { method, path } of groups) assert.ok(method.length <= 100 && path.length <= 200);
    const rows = await tables(store.read).selectFrom('shadow_differences').selectAll().execute();
    for (const { id } of groups) assert.ok(rows.filter(({ group_id }) => group_id === id).length <= KEEP.perGroup);
    for (const { ours, theirs, question } of rows)
      assert.ok(ours.length <= KEEP.bodyBytes && theirs.length <= KEEP.bodyBytes && question.length <= KEEP.bodyBytes);
    const counts = await tables(store.read).selectFrom('shadow_counts').selectAll().execute();
    const sum = (name: 'different' | 'equal') => counts.reduce((total, row) => total + Number(row[name]), 0);
    assert.deepEqual([sum('different'), sum('equal')], [1_200, 1_206], 'nothing is lost from the counts');
    const secret = 'key-of-the-reference';
    const keyed = createResults({
      store,
      clock,
      random,
      config: {
        ...config,
        reference: { ...config.reference, apiKey: secret },
        keep: { ...KEEP, groups: KEEP.groups + 1 },
      },
    });
    await clock.advance(1_000);
    const leaking = (text: string) => ({ status: 200, text: `{"Authorization":"Bearer abc","text":"${text} ${KEY}"}` });
    keyed.note({
      ...compared('keyed', 'result'),
      question: `/v0/x?api-key=${KEY} ${secret}`,
      ours: leaking(secret),
      theirs: leaking(`?api-key=${secret}`),
      differences: [{ path: 'result', kind: 'text', ours: secret, theirs: `x ${KEY}`, reason: '' }],
    });
    await keyed.flush();
    const kept = await tables(store.read).selectFrom('shadow_differences').selectAll().orderBy('at', 'desc').execute();
    assert.match(kept[0]!.question, /^\/v0\/x/);
    for (const hidden of [secret, KEY, 'Bearer abc']) assert.ok(!JSON.stringify(kept).includes(hidden), hidden);
    await clock.advance(41 * 86_400_000);
    results.count('late', 'rpc', 'equal');
    await results.flush();
    assert.equal(await countOf('shadow_counts'), 1, 'old days go away');
  });
});
