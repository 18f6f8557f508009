/** What the gate remembers of keys and projects is never older than `access.keyCacheMs`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { KyselyPlugin } from 'kysely';
import { CodedError, codeOf } from '../../../src/lib/coded-error.ts';
import { GateRefusal } from '../../../src/plugin/plugin.ts';
import type { Store } from '../../../src/ports/store.ts';
import { accessBed, pricedItem, startAccess } from '../../helpers/access-harness.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { eachStore } from '../../helpers/store.ts';
import { createStoreWatch } from '../../helpers/store-watch.ts';
import { until } from '../../helpers/until.ts';

/** The default of `access.keyCacheMs`. */
const KEY_CACHE_MS = 500;
const SLOWEST_MS = 300;
const MAX_WAITING = 2;
/** The plan `free` has none of these. */
const BUNDLE = pricedItem('sendBundle', { groups: ['sendBundle'] });

type Refusal = 'bad-key' | 'ip' | 'permission' | 'plan';
/** Which refusals a key has, from this time on. */
type State = Readonly<Record<Refusal, boolean>> & { readonly atMs: number };

const step = fc.oneof(
  { weight: 12, arbitrary: fc.record({ what: fc.constant('call' as const), key: fc.nat(3), process: fc.nat(1) }) },
  { weight: 6, arbitrary: fc.record({ what: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 700 }) }) },
  { weight: 1, arbitrary: fc.record({ what: fc.constant('revoke' as const), key: fc.nat(3) }) },
  { weight: 2, arbitrary: fc.record({ what: fc.constantFrom('ip' as const, 'permission' as const), key: fc.nat(3) }) },
  { weight: 3, arbitrary: fc.record({ what: fc.constantFrom('disable' as const, 'plan' as const), of: fc.nat(1) }) },
);

/** The same store, whose results arrive late or never. */
const afterReads = (store: Store, after: () => Promise<void>): Store => {
  const plugin: KyselyPlugin = {
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      await after();
      return result;
    },
  };
  return { ...store, read: store.read.withPlugin(plugin) };
};

eachStore('changes of keys', (engine) => {
  test('count in each process within the time of the cache, whatever runs meanwhile', async (t) => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 20, maxLength: 80 }),
        fc.infiniteStream(fc.constantFrom(0, 0, 0, 0, 20, SLOWEST_MS)),
        fc.constantFrom(3, 100),
        async (steps, delays, keyCacheSize) => {
          const watch = createStoreWatch(engine.dialect);
          const clock = createManualClock(undefined, watch.settle);
          const database = await engine.database(t);
          const store = await database.open();
          const bed = await accessBed(watch.of(store), { clock, plan: 'unlimited' });
          let waiting = 0;
          const late = afterReads(watch.of(store), async () => {
            const ms = delays.next().value as number;
            // A result that waits holds a connection, and time moves on only when no query waits for one.
            if (ms === 0 || waiting === MAX_WAITING) return;
            waiting += 1;
            await clock.sleep(ms);
            waiting -= 1;
          });
          const processes = [0, 1].map(() => startAccess(late, clock, { keyCacheSize }));
          const { id: other } = await store.write((tx) => bed.projects.create(tx, { name: 'other', plan: 'free' }));
          const projects = [
            { id: bed.project.id, isDisabled: false, plan: 'unlimited' },
            { id: other, isDisabled: false, plan: 'free' },
          ];
          const keys: (Readonly<{ id: string; key: string; of: number; past: State[] }> &
            Record<'revoke' | 'ip' | 'permission', boolean>)[] = [];
          for (const of of [0, 1, 0, 1]) {
            const { id, key } = await bed.addKey({ projectId: projects[of]!.id });
            keys.push({ id, key, of, past: [], revoke: false, ip: false, permission: false });
          }
          const record = () => {
            for (const { of, past, revoke, ip, permission } of keys) {
              const { isDisabled, plan } = projects[of]!;
              const atMs = clock.monotonic();
              past.push({ atMs, 'bad-key': revoke || isDisabled, ip, permission, plan: plan === 'free' });
            }
          };
          record();

          const call = async (at: number, key: number) => {
            const startMs = clock.monotonic();
            const process = processes[at]!;
            let outcome: string;
            try {
              const admission = await process.gate.admit(await process.ask({ header: keys[key]!.key }), [BUNDLE]);
              admission.charge([{ charged: true, bytesOut: 1 }]);
              outcome = 'admitted';
            } catch (error) {
              if (!(error instanceof GateRefusal)) throw error;
              outcome = error.reason;
            }
            const { past } = keys[key]!;
            /** Whether the key was so at any time since `fromMs`. */
            const was = (refusal: Refusal, isRefused: boolean, fromMs: number) =>
              past.some((state, n) => state[refusal] === isRefused && (past[n + 1]?.atMs ?? Infinity) >= fromMs);
            // A wrong key is remembered from the answer of the query on.
            const fromMs = startMs - KEY_CACHE_MS - (outcome === 'bad-key' ? SLOWEST_MS : 0);
            const isPossible =
              outcome === 'admitted'
                ? (['bad-key', 'ip', 'permission', 'plan'] as const).every((refusal) => was(refusal, false, fromMs))
                : was(outcome as Refusal, true, fromMs);
            assert.ok(isPossible, `${outcome} at ${startMs}: ${JSON.stringify(past)}`);
          };

          const calls: Promise<unknown>[] = [];
          const failures: unknown[] = [];
          /** The new state is possible from the beginning of the write on: a call may read it before the write has returned. */
          const change = async (
            given: Exclude<typeof step extends fc.Arbitrary<infer S> ? S : never, { what: 'call' | 'wait' }>,
          ) => {
            if ('of' in given) {
              const project = projects[given.of]!;
              if (given.what === 'disable') project.isDisabled = !project.isDisabled;
              else project.plan = project.plan === 'free' ? 'unlimited' : 'free';
              record();
              const { id, ...next } = project;
              await bed.store.write((tx) => bed.projects.change(tx, id, next));
            } else {
              const key = keys[given.key]!;
              key[given.what] = given.what === 'revoke' || !key[given.what];
              record();
              await bed.store.write(async (tx) => {
                if (given.what === 'revoke') await bed.keys.revoke(tx, key.id);
                else
                  await bed.keys.limit(tx, key.id, {
                    cidrs: key.ip ? ['10.0.0.0/8'] : null,
                    permissions: key.permission ? ['das'] : null,
                  });
              });
            }
          };
          const start = (at: number, key: number) => calls.push(call(at, key).catch((error) => failures.push(error)));
          for (const given of steps) {
            if (given.what === 'call') start(given.process, given.key);
            else if (given.what === 'wait') await clock.advance(given.ms);
            else await change(given);
          }
          await clock.advance(KEY_CACHE_MS + 1);
          for (const at of [0, 1]) for (const key of [0, 1, 2, 3]) start(at, key);
          await clock.passWhile(Promise.all(calls), 'the calls are answered');
          // Refreshes in the background hold connections.
          await clock.advance(3 * SLOWEST_MS);
          await Promise.all(processes.map(({ meter }) => clock.passWhile(meter.stop(), 'usage is written')));
          await database.destroy();
          if (failures.length > 0) throw failures[0];
        },
      ),
      { numRuns: engine.dialect === 'sqlite' ? 60 : 15, endOnFailure: true },
    );
  });

  test('a read that began before a change and ends after later reads does not bring the old plan back', async (t) => {
    const store = await engine.store(t);
    const watch = createStoreWatch(engine.dialect);
    const clock = createManualClock(undefined, watch.settle);
    const bed = await accessBed(watch.of(store), { clock, plan: 'unlimited' });
    const held: (() => void)[] = [];
    let isHeld = true;
    const late = afterReads(watch.of(store), async () => {
      if (isHeld) await new Promise<void>((resolve) => held.push(resolve));
    });
    const process = startAccess(late, clock);
    const [first, second, third] = [await bed.addKey(), await bed.addKey(), await bed.addKey()];
    const outcome = async ({ key }: typeof first) => {
      const caller = await process.ask({ header: key });
      try {
        await process.gate.admit(caller, [BUNDLE]);
        return 'admitted';
      } catch (error) {
        return error instanceof GateRefusal ? error.reason : codeOf(error);
      }
    };
    const slow = outcome(first);
    await until(() => held.length > 0, 'the first key has been read');
    isHeld = false;
    await bed.store.write((tx) => bed.projects.change(tx, bed.project.id, { plan: 'free' }));
    // The second known key lets the first look for changes begin, which begins after this one.
    for (const key of [second, third]) assert.equal(await outcome(key), 'plan');
    await watch.settle();
    for (const release of held) release();
    await slow;
    for (let ms = 0; ms <= 2 * KEY_CACHE_MS; ms += 100) {
      for (const key of [first, second, third]) assert.equal(await outcome(key), 'plan');
      await clock.advance(100);
    }
  });

  test('a key is used without the store no longer than it is cached, and again when the store answers', async (t) => {
    const store = await engine.store(t);
    const watch = createStoreWatch(engine.dialect);
    const clock = createManualClock(undefined, watch.settle);
    const bed = await accessBed(watch.of(store), { clock, plan: 'unlimited' });
    let isAway = false;
    const broken = afterReads(watch.of(store), async () => {
      if (isAway) throw new CodedError('STORE_UNREACHABLE', 'away');
    });
    const process = startAccess(broken, clock);
    const { key } = await bed.addKey();
    const call = () =>
      process.ask({ header: key }).then(
        () => 'admitted',
        (error: unknown) => codeOf(error),
      );
    for (const plan of ['unlimited', 'free']) {
      await store.write((tx) => bed.projects.change(tx, bed.project.id, { plan }));
      for (let n = 0; n < 10; n += 1) {
        assert.equal(await call(), 'admitted');
        await watch.settle();
        await clock.advance(200);
      }
      isAway = true;
      assert.equal(await call(), 'admitted');
      await clock.advance(KEY_CACHE_MS + 1);
      for (let n = 0; n < 3; n += 1) assert.equal(await call(), 'STORE_UNREACHABLE');
      isAway = false;
      assert.equal(await call(), 'admitted');
    }
  });
});
