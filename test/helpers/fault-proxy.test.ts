import assert from 'node:assert/strict';
import { type AddressInfo, connect, createServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import fc from 'fast-check';
import { type FaultPlan, startFaultProxy } from './fault-proxy.ts';

const DATA = Buffer.from(Array.from({ length: 5_000 }, (_, i) => i % 251));

async function bed(t: TestContext, seed = 1) {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.pipe(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const proxy = await startFaultProxy((server.address() as AddressInfo).port, seed);
  t.after(async () => {
    await proxy.close();
    await new Promise((resolve) => server.close(resolve));
  });
  return proxy;
}

interface Echo {
  readonly bytes: Buffer;
  readonly pieces: number;
  readonly end: 'end' | 'reset' | 'silence';
}

/** Sends everything and collects what comes back until the other side ends, or nothing came for a while. */
function echo(port: number, data: Buffer = DATA, patienceMs = 300): Promise<Echo> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port });
    const parts: Buffer[] = [];
    const done = (end: Echo['end']) => {
      socket.destroy();
      resolve({ bytes: Buffer.concat(parts), pieces: parts.length, end });
    };
    socket.setTimeout(patienceMs, () => done('silence'));
    socket.on('data', (part) => void parts.push(part));
    socket.on('end', () => done('end'));
    socket.on('error', () => done('reset'));
    socket.end(data);
  });
}

test('without a fault, and with those that only delay, every byte arrives in order', async (t) => {
  const proxy = await bed(t);
  const slow = fc.record(
    {
      latencyMs: fc.integer({ min: 0, max: 10 }),
      jitterMs: fc.integer({ min: 0, max: 10 }),
      sliceBytes: fc.integer({ min: 500, max: 6_000 }),
      bytesPerSecond: fc.integer({ min: 500_000, max: 5_000_000 }),
      slowCloseMs: fc.integer({ min: 0, max: 20 }),
    },
    { requiredKeys: [] },
  );
  await fc.assert(
    fc.asyncProperty(slow, slow, async (up, down) => {
      proxy.set({ up, down });
      const { bytes, end } = await echo(proxy.port, DATA, 5_000);
      assert.ok(bytes.equals(DATA));
      assert.equal(end, 'end');
    }),
    { numRuns: 20 },
  );
});

test('slices arrive as pieces of at most that size', async (t) => {
  const proxy = await bed(t);
  proxy.set({ down: { sliceBytes: 1_000, bytesPerSecond: 200_000 } });
  const { bytes, pieces } = await echo(proxy.port);
  assert.ok(bytes.equals(DATA));
  assert.ok(pieces >= 4, `${pieces} pieces`);
});

test('byte limits lose exactly the rest', async (t) => {
  const proxy = await bed(t);
  for (const direction of ['up', 'down'] as const) {
    proxy.set({ [direction]: { endAfterBytes: 1_234 } });
    const { bytes, end } = await echo(proxy.port);
    assert.ok(bytes.equals(DATA.subarray(0, 1_234)), direction);
    assert.equal(end, 'end');
  }
});

test('a reset is one, and is counted', async (t) => {
  const proxy = await bed(t);
  for (const plan of [
    { up: { resetAfterBytes: 0 } },
    { down: { resetAfterBytes: 0 } },
    { down: { resetAfterBytes: 100, sliceBytes: 50, bytesPerSecond: 5_000 } },
  ] satisfies FaultPlan[]) {
    const before = proxy.seen.broken;
    proxy.set(plan);
    const { bytes, end } = await echo(proxy.port);
    assert.equal(end, 'reset');
    assert.ok(bytes.length <= 100);
    assert.ok(proxy.seen.broken > before);
  }
});

test('a black hole says nothing and stays open, also for an open connection; clearing helps new ones', async (t) => {
  const proxy = await bed(t);
  proxy.set({ up: { blackhole: true } });
  assert.deepEqual(await echo(proxy.port, DATA, 100), { bytes: Buffer.alloc(0), pieces: 0, end: 'silence' });
  proxy.clear();
  assert.equal((await echo(proxy.port)).end, 'end');
});

test('the same seed befalls the same connections', async (t) => {
  const draw = async (seed: number) => {
    const proxy = await bed(t, seed);
    proxy.set({ down: { resetAfterBytes: 0 }, probability: 0.5 });
    const ends: string[] = [];
    for (let i = 0; i < 16; i += 1) ends.push((await echo(proxy.port)).end);
    return ends;
  };
  const first = await draw(7);
  assert.deepEqual(await draw(7), first);
  assert.notDeepEqual(await draw(8), first);
  assert.deepEqual([...new Set(first)].sort(), ['end', 'reset']);
});
