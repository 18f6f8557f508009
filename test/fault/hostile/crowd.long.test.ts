import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type HostileBed, outcome, startHostileBed } from './harness.ts';

const BODY_BYTES = 400_000;
const MAX_CONNECTIONS = 60;
let bed: HostileBed;
before(async () => {
  bed = await startHostileBed({
    http: { maxBodyBytesInFlight: 1_000_000, maxConnectionsPerAddress: MAX_CONNECTIONS, requestTimeoutMs: 20_000 },
  });
});
after(() => bed?.stop());

/** A number of the metrics page. */
async function metric(name: string): Promise<number> {
  const text = await (await fetch(`${bed.daemon.adminUrl}/metrics`)).text();
  const [, value] = new RegExp(`^parhelion_http_${name}(?:{[^}]*})? (\\S+)$`, 'm').exec(text) ?? [];
  return Number(value);
}

async function eventually(condition: () => Promise<boolean>, what: string): Promise<void> {
  for (let round = 0; round < 500; round += 1) {
    if (await condition()) return;
    await sleep(20);
  }
  assert.fail(`waited in vain: ${what}`);
}

test('bodies together have a limit: what is too much is 503, and its room comes back with the others', async () => {
  const half = () => {
    const connection = bed.connect();
    connection.send(
      `POST /?api-key=${bed.daemon.key} HTTP/1.1\r\nHost: x\r\nContent-Length: ${BODY_BYTES}\r\n\r\n{${' '.repeat(BODY_BYTES - 2)}`,
    );
    return connection;
  };
  const first = [half(), half()];
  await eventually(
    async () => (await metric('request_body_bytes')) === 2 * (BODY_BYTES - 1),
    'both wait for their last byte',
  );
  const third = half();
  const refused = await third.answer();
  assert.equal(refused.status, 503);
  assert.ok(Number(refused.headers['retry-after']) > 0);
  third.destroy();
  assert.ok((await metric('bodies_refused_total')) >= 1);
  // One goes on to its end, the other one breaks off: both give their room back.
  first[0]?.send('}');
  assert.ok(((await first[0]?.answer())?.status ?? 0) < 500);
  first[1]?.destroy();
  await eventually(async () => (await metric('request_body_bytes')) === 0, 'nothing is held');
  const again = half();
  again.send('}');
  assert.ok((await again.answer()).status < 500);
  again.destroy();
  first[0]?.destroy();
});

test('one address has a limit of connections, and gets its places back', async () => {
  // The client of the bed has a few connections of its own.
  const crowd = Array.from({ length: MAX_CONNECTIONS + 20 }, () => bed.connect());
  await eventually(async () => (await metric('connections_crowded_total')) >= 20, 'what is too much is closed');
  const ended = await Promise.all(
    crowd.map((connection) => Promise.race([connection.closed.then(() => true), sleep(500).then(() => false)])),
  );
  const held = ended.filter((isClosed) => !isClosed).length;
  assert.ok(held <= MAX_CONNECTIONS && held > MAX_CONNECTIONS / 2, String(held));
  for (const connection of crowd) connection.destroy();
  await sleep(300);
  const next = Array.from({ length: MAX_CONNECTIONS / 2 }, () => {
    const connection = bed.connect();
    connection.send('GET /ping HTTP/1.1\r\nHost: x\r\n\r\n');
    return outcome(connection);
  });
  assert.deepEqual([...new Set(await Promise.all(next))], [200]);
});
