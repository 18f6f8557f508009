import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import type { Clock } from '../ports/clock.ts';
import { createWatchdog } from './supervision.ts';

const TIMEOUT_MS = 60_000;

/** A manual clock whose timers are late by `lagMs()`, as those of a busy event loop are. */
function lagging(clock: Clock, lagMs: () => number): Clock {
  return { ...clock, sleep: (ms, signal) => clock.sleep(ms + (ms < 1_000 ? lagMs() : 0), signal) };
}

type Weather = 'fine' | 'fails' | 'hangs' | 'lags';

/** Lets time pass second by second through spells of weather; the times of the signs of life and the weather they fell in. */
async function live(spells: readonly { readonly weather: Weather; readonly seconds: number }[]) {
  const clock = createManualClock();
  const log = createMemoryLog();
  let weather: Weather = 'fine';
  let probing = 0;
  let mostProbing = 0;
  const signs: { readonly atMs: number; readonly weather: Weather }[] = [];
  const hanging = new Set<() => void>();
  const watchdog = createWatchdog({
    timeoutMs: TIMEOUT_MS,
    clock: lagging(clock, () => (weather === 'lags' ? 20_000 : 0)),
    log,
    async probe() {
      probing += 1;
      mostProbing = Math.max(mostProbing, probing);
      if (weather === 'hangs') await new Promise<void>((resolve) => hanging.add(resolve));
      probing -= 1;
      if (weather === 'fails') throw Object.assign(new Error('disk full'), { code: 'STORE_FULL' });
    },
    async alive() {
      signs.push({ atMs: clock.monotonic(), weather });
    },
  });
  watchdog.start();
  for (const spell of spells) {
    weather = spell.weather;
    if (weather !== 'hangs') for (const resolve of hanging) resolve();
    for (let second = 0; second < spell.seconds; second++) await clock.advance(1_000);
  }
  watchdog.stop();
  await clock.advance(10 * TIMEOUT_MS);
  return { signs, mostProbing, log, endMs: spells.reduce((sum, { seconds }) => sum + seconds * 1_000, 0) };
}

test('a healthy process sends the watchdog signal at once and then every half timeout; none after the stop', async () => {
  const { signs, log, endMs } = await live([{ weather: 'fine', seconds: 600 }]);
  assert.ok(signs[0]!.atMs <= 1_000);
  assert.ok(signs.length >= 20);
  const gaps = signs.slice(1).map(({ atMs }, i) => atMs - signs[i]!.atMs);
  assert.ok(Math.max(...gaps) <= TIMEOUT_MS / 2 + 1_000);
  assert.ok(signs.at(-1)!.atMs <= endMs);
  assert.deepEqual(log.lines, []);
});

test('a failure longer than the watchdog timeout stops its signal, whatever the failure; the log has each reason', async () => {
  const reasons = {
    fails: /the store takes no write: STORE_FULL/,
    hangs: /the store takes no write/,
    lags: /answers \d+ ms late/,
  };
  for (const [weather, reason] of Object.entries(reasons) as [Weather, RegExp][]) {
    const { signs, log, mostProbing } = await live([
      { weather: 'fine', seconds: 45 },
      { weather, seconds: 120 },
      { weather: 'fine', seconds: 45 },
    ]);
    const gaps = signs.slice(1).map(({ atMs }, i) => atMs - signs[i]!.atMs);
    assert.ok(Math.max(...gaps) > TIMEOUT_MS, `${weather}: the process would have lived on`);
    assert.match(String(log.lines[0]!.fields['reason' as never]), reason);
    assert.ok(mostProbing <= 1, `${weather}: probes piled up`);
    assert.equal(signs.at(-1)!.weather, 'fine');
  }
});

test('a silent role also stops the watchdog signal, and the log names it', async () => {
  const clock = createManualClock();
  const log = createMemoryLog();
  let signs = 0;
  const watchdog = createWatchdog({
    timeoutMs: TIMEOUT_MS,
    clock,
    log,
    probe: async () => {
      throw Object.assign(new Error('the role indexer did not do "ping" within 10000 ms'), { code: 'ROLE_SILENT' });
    },
    async alive() {
      signs += 1;
    },
  });
  watchdog.start();
  for (let second = 0; second < 120; second++) await clock.advance(1_000);
  watchdog.stop();
  assert.equal(signs, 0);
  assert.match(String(log.lines[0]?.fields['reason' as never]), /^the role indexer did not/);
});

test('an unhealthy process sends no watchdog signal; a failure of a few seconds does not end it', async () => {
  const spell = fc.record({
    weather: fc.constantFrom<Weather>('fails', 'hangs'),
    seconds: fc.integer({ min: 1, max: 10 }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(spell, fc.integer({ min: 60, max: 90 })), { maxLength: 6 }), async (bad) => {
      const spells = bad.flatMap(([trouble, seconds]) => [{ weather: 'fine' as const, seconds }, trouble]);
      const { signs, mostProbing, endMs } = await live([...spells, { weather: 'fine', seconds: 60 }]);
      assert.ok(signs.every(({ weather }) => weather === 'fine'));
      assert.ok(mostProbing <= 1, 'probes piled up');
      const times = [0, ...signs.map(({ atMs }) => atMs), endMs];
      const longest = Math.max(...times.slice(1).map((atMs, i) => atMs - times[i]!));
      assert.ok(longest <= TIMEOUT_MS, `${longest} ms of silence`);
    }),
    { numRuns: 50 },
  );
});
