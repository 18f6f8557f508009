/** Credits of a project over several processes of the API: together they answer no more calls than there are credits for. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type Caller, GateRefusal } from '../../../src/plugin/plugin.ts';
import type { ApiPeers } from '../../../src/ports/processes.ts';
import { accessBed, pricedItem, startAccess } from '../../helpers/access-harness.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { eachStore, type StoreEngine } from '../../helpers/store.ts';

const PROCESSES = 3;
const MONTH_MS = 32 * 86_400_000;

/** Peers whose messages arrive in a later turn of the event loop, in order. */
function createPeers(): readonly ApiPeers[] {
  const answers: Map<string, (message: unknown) => unknown>[] = Array.from({ length: PROCESSES }, () => new Map());
  const later = () => new Promise((resolve) => setImmediate(resolve));
  const ask = async (to: number, topic: string, message: unknown) => {
    const sent = JSON.stringify(message);
    await later();
    const answer: unknown = await answers[to]!.get(topic)?.(JSON.parse(sent));
    await later();
    return answer === undefined ? undefined : (JSON.parse(JSON.stringify(answer)) as unknown);
  };
  return answers.map((own, index) => ({
    count: PROCESSES,
    name: `api-${index}`,
    isMain: index === 0,
    answer: (topic, fn) => void own.set(topic, fn),
    askMain: (topic, message) => ask(0, topic, message),
    askOthers: (topic, message) =>
      Promise.all(answers.flatMap((_, at) => (at === index ? [] : [ask(at, topic, message)]))),
  }));
}

async function startBed(engine: StoreEngine, t: Parameters<StoreEngine['store']>[0], creditsLimit: number) {
  const store = await engine.store(t);
  const clock = createManualClock();
  const bed = await accessBed(store, { clock, plan: 'unlimited', overrides: { creditsLimit } });
  const { key } = await bed.addKey();
  const processes = createPeers().map((peers) => startAccess(store, clock, {}, peers));
  const callers = await Promise.all(processes.map((process) => process.ask({ header: key })));
  let answered = 0;
  /** A call that is charged at its end, or not at all. */
  async function call(at: number, { credits = 1, isCharged = true, hold = async () => {} } = {}): Promise<boolean> {
    try {
      const caller = callers[at] as Caller;
      const admission = await processes[at]!.gate.admit(caller, [pricedItem('m', { credits, groups: [] })]);
      await hold();
      answered += admission.charge([{ charged: isCharged, bytesOut: 0 }]);
      return true;
    } catch (error) {
      if (error instanceof GateRefusal && error.reason === 'credits') return false;
      throw error;
    }
  }
  const flush = (at: number) => processes[at]!.meter.flush();
  const readAgain = async () => {
    await clock.advance(10_000);
    for (const process of processes) process.directory.forget(bed.project.id);
  };
  return { bed, clock, call, flush, readAgain, answered: () => answered };
}

eachStore('credits of several processes', (engine) => {
  test('many calls at once answer exactly what is left; so do calls after a top-up, and in a new cycle', async (t) => {
    const { bed, clock, call, flush, readAgain, answered } = await startBed(engine, t, 60);
    const burst = async () => {
      const outcomes = await Promise.all(Array.from({ length: 240 }, (_, i) => call(i % PROCESSES)));
      return outcomes.filter(Boolean).length;
    };
    assert.equal(await burst(), 60);
    assert.equal(await burst(), 0);
    for (let at = 0; at < PROCESSES; at += 1) await flush(at);
    assert.equal(await burst(), 0);
    await bed.store.write((tx) => bed.projects.grant(tx, bed.project.id, 25));
    await readAgain();
    assert.equal(await burst(), 25);
    // What a process took in the old cycle is held against the new one until it is written.
    for (let at = 0; at < PROCESSES; at += 1) await flush(at);
    await clock.advance(MONTH_MS);
    await readAgain();
    assert.equal(await burst(), 60);
    for (let at = 0; at < PROCESSES; at += 1) await flush(at);
    await readAgain();
    assert.equal(await burst(), 0);
    assert.equal(answered(), 145);
  });

  test('calls that are not charged give their credits back', async (t) => {
    const { call } = await startBed(engine, t, 10);
    for (let i = 0; i < 30; i += 1) assert.ok(await call(i % PROCESSES, { isCharged: false }), `call ${i}`);
    let passed = 0;
    for (let i = 0; i < 30; i += 1) if (await call(i % PROCESSES)) passed += 1;
    assert.equal(passed, 10);
  });

  test('whatever is called, written and read in any order, no more is answered than there are credits for', async (t) => {
    const step = fc.oneof(
      {
        weight: 8,
        arbitrary: fc.record({
          kind: fc.constant('call' as const),
          at: fc.nat(PROCESSES - 1),
          many: fc.integer({ min: 1, max: 12 }),
        }),
      },
      { weight: 2, arbitrary: fc.record({ kind: fc.constant('flush' as const), at: fc.nat(PROCESSES - 1) }) },
      {
        weight: 1,
        arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 2_000 }) }),
      },
      {
        weight: 1,
        arbitrary: fc.record({ kind: fc.constant('grant' as const), credits: fc.integer({ min: 1, max: 2_000 }) }),
      },
    );
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(20, 1_500, 4_000),
        fc.array(step, { minLength: 5, maxLength: 25 }),
        async (limit, steps) => {
          const { bed, clock, call, flush, readAgain, answered } = await startBed(engine, t, limit);
          let credits = limit;
          const running: Promise<unknown>[] = [];
          for (const one of steps) {
            if (one.kind === 'call')
              for (let i = 0; i < one.many; i += 1) running.push(call(one.at, { credits: 1 + ((i * 37) % 90) }));
            else if (one.kind === 'flush') running.push(flush(one.at));
            else if (one.kind === 'wait') await clock.advance(one.ms);
            else {
              credits += one.credits;
              await bed.store.write((tx) => bed.projects.grant(tx, bed.project.id, one.credits));
              await readAgain();
            }
            await new Promise((resolve) => setImmediate(resolve));
            assert.ok(answered() <= credits, `${answered()} of ${credits}`);
          }
          await Promise.all(running);
          assert.ok(answered() <= credits, `${answered()} of ${credits}`);
          for (let at = 0; at < PROCESSES; at += 1) await flush(at);
          await readAgain();
          // And what is left can be used, in every process.
          let left = credits - answered();
          for (let at = 0; left > 0 && at < PROCESSES; at += 1) {
            assert.ok(await call(at), `${left} left, process ${at}`);
            left -= 1;
          }
        },
      ),
      { numRuns: 15 },
    );
  });
});
