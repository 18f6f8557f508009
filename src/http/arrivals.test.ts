import assert from 'node:assert/strict';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { createMetricsRegistry } from '../runtime/metrics.ts';
import { closeListener, createListener } from './listener.ts';
import { createHttpMeter } from './meter.ts';

const CLIENTS = 60;
const WORK_MS = 1;
const LIMITS = {
  ...{ headerTimeoutMs: 10_000, requestTimeoutMs: 30_000, handlerTimeoutMs: 30_000, keepAliveTimeoutMs: 60_000 },
  targetLimitBytes: 4_096,
};

/** Clients that connect at once and send the next request as soon as they have an answer. */
const CLIENT = `
  const { connect } = require('node:net');
  const { workerData: { port, clients } } = require('node:worker_threads');
  for (let client = 0; client < clients; client += 1) {
    const socket = connect(port, '127.0.0.1');
    const ask = () => socket.write('GET /' + client + ' HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n');
    socket.on('connect', ask);
    socket.on('data', ask);
    socket.on('error', () => socket.destroy());
  }
`;

test('of clients that connect at once, none waits for round after round of the others', async (t) => {
  const known = new Set<string>();
  let answered = 0;
  let all: (answered: number) => void = () => undefined;
  const allKnown = new Promise<number>((resolve) => {
    all = resolve;
  });
  const meter = createHttpMeter(createMetricsRegistry().scope('http'));
  const server = createListener(LIMITS, meter, (request, response) => {
    for (const endMs = performance.now() + WORK_MS; performance.now() < endMs; );
    answered += 1;
    known.add(request.url ?? '');
    if (known.size === CLIENTS) all(answered);
    response.end('a');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const client = new Worker(CLIENT, { eval: true, workerData: { port, clients: CLIENTS } });
  t.after(async () => {
    await client.terminate();
    const closed = closeListener(server);
    server.closeAllConnections();
    await closed;
  });
  // One connection per round of all others would be 1 + 2 + … + 60 = 1,830. A busy machine makes some rounds.
  assert.ok((await allKnown) < CLIENTS * 12, `${await allKnown} requests before each client had one answer`);
});
