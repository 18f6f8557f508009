import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startFront } from '../../helpers/http-front.ts';
import { rawConnect } from '../../helpers/raw-http.ts';
import { type HostileBed, outcome, startHostileBed } from './harness.ts';

/** Without the guards these would wait for ever. */
const LIMIT_MS = 120_000;
let bed: HostileBed;
before(async () => {
  bed = await startHostileBed({
    http: { headerTimeoutMs: 3_000, requestTimeoutMs: 4_000, maxInFlight: 200, keepAliveTimeoutMs: 60_000 },
  });
});
after(() => bed?.stop());

const many = <T>(count: number, make: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));

test('headers that never end are given up, hundreds at once', { timeout: LIMIT_MS }, async () => {
  await bed.during(async () => {
    const outcomes = many(400, async () => {
      const connection = bed.connect();
      connection.send('GET /ping HTTP/1.1\r\nHost: x\r\n');
      const drip = setInterval(() => connection.send('X-A: b\r\n'), 100);
      const result = await outcome(connection);
      clearInterval(drip);
      await connection.closed;
      return result;
    });
    const seen = new Set(await Promise.all(outcomes));
    for (const one of seen) assert.ok(one === 408 || one === 'closed', String(one));
  });
});

test('headers have a time of their own, whatever the whole request may take', { timeout: LIMIT_MS }, async () => {
  const front = await startFront({ http: { headerTimeoutMs: 300, requestTimeoutMs: 3_600_000 } });
  const connection = rawConnect(front.port);
  connection.send('GET /ping HTTP/1.1\r\nHost: x\r\n');
  const result = await outcome(connection);
  assert.ok(result === 408 || result === 'closed', String(result));
  await connection.closed;
  await front.stop();
});

test('bodies that never end do not block other clients, with or without a key', async () => {
  for (const [target, allowed] of [
    ['/', [401, 'closed']],
    [`/v0/webhooks?api-key=wrong`, [401, 'closed']],
    [`/v0/token-metadata`, [401, 404, 'closed']],
    [`/fast`, [400, 408, 503, 'closed']],
  ] as const) {
    await bed.during(async () => {
      // More than may be handled at once.
      const outcomes = many(300, async () => {
        const connection = bed.connect();
        connection.send(`POST ${target} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{`);
        const drip = setInterval(() => connection.send(' '), 100);
        const result = await outcome(connection);
        clearInterval(drip);
        connection.destroy();
        return result;
      });
      for (const one of new Set(await Promise.all(outcomes)))
        assert.ok((allowed as readonly unknown[]).includes(one), `${target}: ${one}`);
    });
  }
});

test('a slow body with a key is 408 and its connection is closed', { timeout: LIMIT_MS }, async () => {
  await bed.during(async () => {
    const outcomes = many(50, async () => {
      const connection = bed.connect();
      connection.send(`POST /?api-key=${bed.daemon.key} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n`);
      const drip = setInterval(() => connection.send('1\r\n \r\n'), 100);
      const result = await outcome(connection);
      clearInterval(drip);
      await connection.closed;
      return result;
    });
    assert.deepEqual([...new Set(await Promise.all(outcomes))], [408]);
  });
});

test('unread answers do not block other clients', async () => {
  await bed.during(async () => {
    const greedy = many(4, () => {
      const connection = bed.connect();
      connection.socket.pause();
      connection.send('GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(4_000));
      return connection;
    });
    await sleep(3_000);
    for (const connection of greedy) connection.destroy();
  });
});

test('pipelined requests are answered in order, also before nonsense; a flood of them is refused', async () => {
  await bed.during(async () => {
    const connection = bed.connect();
    const ping = 'GET /ping HTTP/1.1\r\nHost: x\r\n\r\n';
    connection.send(`${ping.repeat(90)}\u0000nonsense\r\n\r\n`);
    for (let i = 0; i < 90; i += 1) assert.equal((await connection.answer()).status, 200, String(i));
    assert.ok([400, 'closed'].includes(await outcome(connection)));
    await connection.closed;
    const flood = bed.connect();
    flood.send(ping.repeat(2_000));
    let answered = 0;
    let status = await outcome(flood);
    for (; status === 200; answered += 1) status = await outcome(flood);
    assert.equal(status, 503);
    // Fewer than all connections together may have.
    assert.ok(answered <= 100, `${answered}`);
    await flood.closed;
    const cut = bed.connect();
    cut.send('GET /ping HTTP/1.1\r\nHost: x\r\n\r\nGET /pi');
    assert.equal(await outcome(cut), 200);
    cut.socket.end();
    await cut.closed;
  });
});

test('thousands of idle sockets', async () => {
  await bed.during(async () => {
    const idle = many(2_500, () => bed.connect());
    await sleep(500);
    const last = idle.at(-1);
    last?.send('GET /ping HTTP/1.1\r\nHost: x\r\n\r\n');
    assert.equal((await last?.answer())?.status, 200);
    for (const connection of idle) connection.destroy();
  });
});

test('an offer of another protocol on each of thousands of requests of one connection', async () => {
  await bed.during(async () => {
    const connection = bed.connect();
    const request = 'GET /ping HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n';
    for (let i = 0; i < 3_000; i += 1) {
      connection.send(request);
      assert.equal((await connection.answer()).status, 200);
    }
    connection.destroy();
    assert.doesNotMatch(bed.daemon.output(), /MaxListenersExceeded/);
  });
});
