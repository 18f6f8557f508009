import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Value } from '@sinclair/typebox/value';
import { migrate } from '../../src/store/migrate.ts';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { bySeed } from '../../test/helpers/run-part.ts';
import { createSfc32 } from '../../test/helpers/sfc32.ts';
import { eachStore } from '../../test/helpers/store.ts';
import { type Cost, createBudget } from './budget.ts';
import { type ShadowConfig, shadowConfig } from './config.ts';
import { migrations } from './tables.ts';

const DAY_MS = 86_400_000;
const PROCESSES = 3;
const TAKES = 400;

bySeed(10, (seeds) => {
  eachStore('the budget of a day', (engine) => {
    test('processes together never spend more requests, credits or bytes than a day has', async (t) => {
      const store = await engine.store(t);
      await migrate(store, [{ scope: 'shadow', migrations }]);
      const clock = createManualClock();
      for (const seed of seeds) {
        await clock.advance(DAY_MS);
        const draw = createSfc32(seed);
        // One of the three runs out first.
        const scarce = draw.below(3);
        const budget = {
          requestsPerDay: scarce === 0 ? draw.below(200) : 100_000,
          creditsPerDay: scarce === 1 ? draw.below(2_000) : 1e9,
          bytesPerDay: scarce === 2 ? draw.below(400_000) : 1e12,
        };
        const config = { ...(Value.Default(shadowConfig, {}) as ShadowConfig), budget };
        let processes = Array.from({ length: PROCESSES }, () => createBudget(store, clock, config));
        const spent = { requests: 0, credits: 0, bytes: 0 };
        let refused = 0;
        const spend = async () => {
          const one = processes[draw.below(PROCESSES)]!;
          const cost: Cost = { requests: 1, credits: draw.below(30), bytes: 100 + draw.below(5_000) };
          const unused = draw.below(cost.bytes);
          if (!(await one.take(cost))) {
            refused += 1;
            return;
          }
          one.giveBack(unused);
          spent.requests += cost.requests;
          spent.credits += cost.credits;
          spent.bytes += cost.bytes - unused;
        };
        for (let at = 0; at < TAKES; at += 8) {
          await Promise.all(Array.from({ length: 8 }, spend));
          // A process that ends loses what it had taken.
          if (draw.float() < 0.05)
            processes = processes.map((one) => (draw.float() < 0.5 ? createBudget(store, clock, config) : one));
        }
        assert.ok(spent.requests <= budget.requestsPerDay, `seed ${seed}: ${spent.requests} requests`);
        assert.ok(spent.credits <= budget.creditsPerDay, `seed ${seed}: ${spent.credits} credits`);
        assert.ok(spent.bytes <= budget.bytesPerDay, `seed ${seed}: ${spent.bytes} bytes`);
        assert.ok(refused > 0, `seed ${seed}: it ran out`);
      }
    });
  });
});
