import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import pg from 'pg';
import { broadcastLine, createBus, openBus } from '../../../src/adapters/bus/index.ts';

import { postgresLine } from '../../../src/adapters/bus/postgres-line.ts';
import { createSystemClock, createSystemRandom } from '../../../src/adapters/clock.ts';
import type { Bus } from '../../../src/ports/processes.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { onEngine } from '../../helpers/run-part.ts';
import { postgresDatabase } from '../../helpers/store.ts';

const clock = createSystemClock();
const random = createSystemRandom();
const TRIES = 500;

/** Neither the bus nor its lines keep the process alive: the test does. */
async function eventually(what: string, ask: () => boolean | Promise<boolean>): Promise<void> {
  for (let round = 0; round < TRIES; round++) {
    if (await ask()) return;
    await sleep(20);
  }
  assert.fail(`never: ${what}`);
}

interface Pair {
  readonly one: Bus;
  readonly other: Bus;
}

const kinds: Record<string, (t: TestContext) => Promise<Pair>> = {
  async 'one thread'() {
    const bus = createBus([], createMemoryLog());
    return { one: bus, other: bus };
  },
  async 'between threads'() {
    const name = `test-${random.uuid()}`;
    const make = () => createBus([broadcastLine(name)], createMemoryLog());
    return { one: make(), other: make() };
  },
  async 'between processes'(t) {
    const { url } = await postgresDatabase(t);
    const make = () => createBus([postgresLine({ url, clock, random, log: createMemoryLog() })], createMemoryLog());
    return { one: make(), other: make() };
  },
};

function declareSuite(name: string, make: (t: TestContext) => Promise<Pair>): void {
  describe(`bus, ${name}`, () => {
    async function setUp(t: TestContext) {
      const pair = await make(t);
      t.after(() => Promise.all([pair.one.close(), pair.other.close()]));
      // Lines connect in the background: earlier messages are lost, which is allowed.
      for (const [from, to] of [
        [pair.one, pair.other],
        [pair.other, pair.one],
      ] as const) {
        let isThere = false;
        const off = to.subscribe('warm-up', () => {
          isThere = true;
        });
        await eventually('the buses are connected', () => {
          from.publish('warm-up', {});
          return isThere;
        });
        off();
      }
      return pair;
    }

    test('a message reaches every subscriber of its topic once, including those of the sender, as a copy and asynchronously', async (t) => {
      const { one, other } = await setUp(t);
      const got: unknown[] = [];
      const note = (who: string) => (message: unknown) => void got.push([who, message]);
      one.subscribe('a', note('own'));
      other.subscribe('a', note('first'));
      other.subscribe('a', note('second'));
      other.subscribe('b', note('wrong'));
      const message = { slot: 5, text: 'ä"\u0000\u2028', list: [null, true, 1.5] };
      one.publish('a', message);
      assert.deepEqual(got, [], 'not within the call');
      await eventually('three messages', () => got.length >= 3);
      await sleep(100);
      const expected = ['own', 'first', 'second'].map((who) => [who, message]);
      assert.deepEqual(
        new Set(got.map((one) => JSON.stringify(one))),
        new Set(expected.map((one) => JSON.stringify(one))),
      );
      assert.equal(got.length, 3);
      assert.ok(got.every((entry) => (entry as unknown[])[1] !== message));
    });

    test('messages of one sender keep their order; an unsubscribed listener gets nothing more', async (t) => {
      const { one, other } = await setUp(t);
      const got: number[] = [];
      let isOver = false;
      const off = other.subscribe('n', (message) => void got.push((message as { n: number }).n));
      other.subscribe('end', () => {
        isOver = true;
      });
      for (let n = 0; n < 200; n++) one.publish('n', { n });
      await eventually('all are there', () => got.length === 200);
      off();
      one.publish('n', { n: 200 });
      one.publish('end', {});
      await eventually('the end', () => isOver);
      assert.deepEqual(
        got,
        Array.from({ length: 200 }, (_, n) => n),
      );
    });

    test('a throwing listener does not affect others; unsendable messages are no error; nothing is sent or received after close', async (t) => {
      const { one, other } = await setUp(t);
      let count = 0;
      other.subscribe('x', () => {
        throw new Error('listener');
      });
      other.subscribe('x', () => {
        count += 1;
      });
      const circle: { self?: object } = {};
      circle.self = circle;
      one.publish('x', circle);
      one.publish('x', { bad: 1n });
      one.publish('x', { text: 'y'.repeat(6_000) });
      await eventually('the good one is there', () => count === 1);
      await one.close();
      one.publish('x', {});
      await sleep(50);
      assert.equal(count, 1);
      await one.close();
    });
  });
}

for (const [name, make] of Object.entries(kinds)) {
  if (name === 'between processes') onEngine('postgres', () => declareSuite(name, make));
  else declareSuite(name, make);
}

test('a worker thread receives messages of the main thread and answers', async (t) => {
  const name = `test-${random.uuid()}`;
  const bus = openBus({ channel: name, storeUrl: null, clock, random, log: createMemoryLog() });
  t.after(() => bus.close());
  const worker = new Worker(
    `const { BroadcastChannel } = require('node:worker_threads');
     const channel = new BroadcastChannel(${JSON.stringify(name)});
     channel.onmessage = ({ data }) => channel.postMessage({ topic: 'answer', message: data.message });`,
    { eval: true },
  );
  t.after(() => worker.terminate());
  let answer: unknown = null;
  bus.subscribe('answer', (message) => {
    answer = message;
  });
  await eventually('an answer', () => {
    bus.publish('question', { n: 7 });
    return answer !== null;
  });
  assert.deepEqual(answer, { n: 7 });
});

onEngine('postgres', () => {
  test('the main thread forwards messages between its threads and other processes, once', async (t) => {
    const { url } = await postgresDatabase(t);
    const common = { clock, random, log: createMemoryLog() };
    const [a, b] = [`test-${random.uuid()}`, `test-${random.uuid()}`];
    const mains = [a, b].map((channel) => openBus({ channel, storeUrl: url, ...common }));
    const threads = [a, b].map((channel) => openBus({ channel, storeUrl: null, ...common }));
    t.after(() => Promise.all([...mains, ...threads].map((bus) => bus.close())));
    const got: string[] = [];
    for (const [index, bus] of [...mains, ...threads].entries()) {
      bus.subscribe('warm-up', () => void got.push(`w${index}`));
      bus.subscribe('t', () => void got.push(`t${index}`));
    }
    await eventually('all four are connected', () => {
      threads[0]?.publish('warm-up', {});
      return new Set(got).size === 4;
    });
    await sleep(300);
    got.length = 0;
    threads[0]?.publish('t', {});
    await eventually('all four', () => got.length >= 4);
    await sleep(200);
    assert.deepEqual(got.sort(), ['t0', 't1', 't2', 't3']);
  });

  test('between processes: a lost connection is replaced; a message that is too large is dropped', async (t) => {
    const { url } = await postgresDatabase(t);
    const log = createMemoryLog();
    const make = () => createBus([postgresLine({ url, clock, random, log })], log);
    const [one, other] = [make(), make()];
    t.after(() => Promise.all([one.close(), other.close()]));
    let count = 0;
    other.subscribe('x', () => {
      count += 1;
    });
    const arrives = () =>
      eventually('a message arrives', () => {
        one.publish('x', {});
        return count > 0;
      });
    await arrives();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'parhelion bus'",
    );
    await client.end();
    await sleep(100);
    count = 0;
    await arrives();
    await sleep(300);
    count = 0;
    one.publish('x', { text: 'y'.repeat(8_000) });
    one.publish('x', {});
    await eventually('the small one', () => count === 1);
    assert.ok(log.lines.some(({ message }) => message.includes('too large')));
  });

  test('between processes: excess messages are dropped, oldest first, and foreign notifications are ignored', async (t) => {
    const { url } = await postgresDatabase(t);
    const log = createMemoryLog();
    const make = () => createBus([postgresLine({ url, clock, random, log })], log);
    const [one, other] = [make(), make()];
    t.after(() => Promise.all([one.close(), other.close()]));
    const got: number[] = [];
    other.subscribe('n', (message) => void got.push((message as { n: number }).n));
    await eventually('both are connected', () => {
      one.publish('n', { n: -1 });
      return got.length > 0;
    });
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    for (const payload of ['nonsense', '', 'null', '7', '[]', '{"from":"x"}', '{"from":"x","topic":5,"message":1}'])
      await client.query('select pg_notify($1, $2)', ['parhelion_bus', payload]);
    await client.end();
    await sleep(200);
    got.length = 0;
    for (let n = 0; n < 5_000; n++) one.publish('n', { n });
    await eventually('the last one', () => got.at(-1) === 4_999);
    assert.ok(got.length <= 1_200, `${got.length} arrived`);
  });
});

test('a bus to an unresponsive server works locally, and closes', async () => {
  const log = createMemoryLog();
  const bus = openBus({ channel: null, storeUrl: 'postgres://u:hunter2@127.0.0.1:9/x', clock, random, log });
  bus.publish('x', {});
  await sleep(50);
  await bus.close();
  assert.equal(JSON.stringify(log.lines).includes('hunter2'), false);
});
