import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import WebSocket from 'ws';
import { twoFreePorts } from '../../helpers/free-port.ts';
import { call, startBed, until } from './rpc-client.ts';
import { connect } from './socket-client.ts';

const BIG = '{"context":{"slot":7},"value":{"lamports":18446744073709551615,"s":"\\u00e9"}}';

test('identical subscriptions share one upstream; a client has one id for them, as at a node; bytes are unchanged', async (t) => {
  const bed = await startBed(t);
  const [a, b] = [await connect(t, bed), await connect(t, bed)];
  const ids = [
    await a.subscribe('slotSubscribe'),
    await a.subscribe('accountSubscribe', ['x', { commitment: 'confirmed' }]),
    await a.subscribe('accountSubscribe', ['x', { commitment: 'confirmed' }]),
  ];
  assert.deepEqual([new Set(ids).size, ids[2]], [2, ids[1]]);
  b.send('{"jsonrpc":"2.0","id":"b","method":"accountSubscribe","params":[ "x" , {"commitment": "confirmed"} ]}');
  await until('b is accepted', () => b.received.length === 1);
  const mine = JSON.parse(b.received[0]!) as { result: number; id: string };
  assert.equal(mine.id, 'b');
  const [held] = bed.first.held('accountSubscribe');
  assert.equal(bed.first.held('accountSubscribe').length, 1);
  bed.first.notify(held!, BIG);
  await until('both are notified', () => a.notifications().length === 1 && b.notifications().length === 1);
  const expected = (id: number) =>
    `{"jsonrpc":"2.0","method":"accountNotification","params":{"result":${BIG},"subscription":${id}}}`;
  assert.deepEqual(a.notifications(), [expected(ids[1]!)]);
  assert.deepEqual(b.notifications(), [expected(mine.result)]);
  assert.equal(bed.first.openSockets <= 2, true);
});

test('the port of the API and the next one both answer websockets: clients derive one or the other', async (t) => {
  const bed = await startBed(t, { config: { http: { port: await twoFreePorts() } } });
  const port = Number(new URL(bed.daemon.apiUrl).port);
  const ports = [port, port + 1];
  const clients = await Promise.all(
    ports.map((one) => connect(t, { daemon: { ...bed.daemon, apiUrl: `http://127.0.0.1:${one}` } })),
  );
  for (const client of clients) await client.subscribe('accountSubscribe', ['x']);
  bed.first.notify(bed.first.held('accountSubscribe')[0]!, BIG);
  await until('both are notified', () => clients.every((client) => client.notifications().length === 1));
});

test('with deduplicate a repeated notification is told once; without it each is passed on', async (t) => {
  const logs = (signature: string, slot: number) =>
    `{"context":{"slot":${slot}},"value":{"signature":"${signature}","err":null,"logs":[]}}`;
  for (const deduplicate of [false, true]) {
    const bed = await startBed(t, { config: { proxy: { websocket: { deduplicate } } } });
    const client = await connect(t, bed);
    await client.subscribe('logsSubscribe', ['all']);
    await client.subscribe('rootSubscribe');
    const [held, roots] = [bed.first.held('logsSubscribe')[0]!, bed.first.held('rootSubscribe')[0]!];
    for (const slot of [5, 6, 6]) bed.first.notify(held, logs('5aa', slot));
    for (const root of ['1', '1', '2']) bed.first.notify(roots, root);
    bed.first.notify(held, logs('5ab', 7));
    await until('the last one', () => client.notifications().some((text) => text.includes('5ab')));
    assert.equal(client.notifications().length, deduplicate ? 4 : 7);
  }
});

test('another commitment is another subscription', async (t) => {
  const bed = await startBed(t);
  const client = await connect(t, bed);
  await client.subscribe('accountSubscribe', ['x', { commitment: 'confirmed' }]);
  await client.subscribe('accountSubscribe', ['x', { commitment: 'finalized' }]);
  assert.equal(bed.first.held('accountSubscribe').length, 2);
});

test('unsubscribing ends one subscriber; the last one ends the upstream subscription', async (t) => {
  const bed = await startBed(t);
  const [a, b] = [await connect(t, bed), await connect(t, bed)];
  const id = await a.subscribe('logsSubscribe', ['all']);
  assert.equal(await a.subscribe('logsSubscribe', ['all']), id);
  await b.subscribe('logsSubscribe', ['all']);
  assert.equal(JSON.parse(await a.call('logsUnsubscribe', ['x'])).error.code, -32602);
  assert.equal(JSON.parse(await a.call('logsUnsubscribe', [id])).result, true);
  // A node does not count repeated subscriptions.
  assert.equal(JSON.parse(await a.call('logsUnsubscribe', [id])).error.code, -32602);
  bed.first.notify(bed.first.held('logsSubscribe')[0]!, '{}');
  await until('the rest is notified', () => b.notifications().length === 1);
  assert.equal(a.notifications().length, 0);
  assert.equal(bed.first.held('logsSubscribe').length, 1);
  b.socket.close();
  await until('the upstream subscription ends', () => bed.first.held('logsSubscribe').length === 0);
});

test('any unsubscribe method ends any subscription; an unknown number is refused with the text of a node', async (t) => {
  const bed = await startBed(t);
  const client = await connect(t, bed);
  const id = await client.subscribe('programSubscribe', ['x']);
  assert.equal(JSON.parse(await client.call('accountUnsubscribe', [id])).result, true);
  await until('the upstream subscription ends', () => bed.first.held('programSubscribe').length === 0);
  for (const method of ['accountUnsubscribe', 'programUnsubscribe']) {
    const { error } = JSON.parse(await client.call(method, [id]));
    assert.deepEqual(error, { code: -32602, message: 'Invalid subscription id.' });
  }
});

test('subscriptions inside a batch subscribe; notifications come after the answer that names them', async (t) => {
  const bed = await startBed(t);
  const client = await connect(t, bed);
  let letGo = () => {};
  const waits = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  bed.first.on('getSlow', async () => {
    await waits;
    return { result: '"slow"' };
  });
  client.send(
    `[{"jsonrpc":"2.0","id":18446744073709551615,"method":"voteSubscribe"},
      {"jsonrpc":"2.0","method":"rootSubscribe"},
      {"jsonrpc":"2.0","id":"a","method":"getSlow"},
      {"jsonrpc":"2.0","id":"b","method":"accountUnsubscribe","params":[77]},
      {"jsonrpc":"2.0","id":"c","method":"accountSubscribe","params":["x"]}]`,
  );
  await until(
    'both are held',
    () => bed.first.held('voteSubscribe').length + bed.first.held('accountSubscribe').length === 2,
  );
  bed.first.notify(bed.first.held('voteSubscribe')[0]!, '5');
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(client.received.length, 0);
  letGo();
  await until('answered and notified', () => client.received.length === 2);
  const [answer, notification] = client.received as [string, string];
  assert.match(answer, /^\[\{"jsonrpc":"2.0","result":\d+,"id":18446744073709551615\},/);
  const items = JSON.parse(answer) as { id: unknown; result?: unknown; error?: { message: string } }[];
  assert.deepEqual(items.map(({ id }) => id).slice(1), ['a', 'b', 'c']);
  assert.equal(items[2]?.error?.message, 'Invalid subscription id.');
  assert.equal(JSON.parse(notification).params.subscription, items[0]?.result);
  assert.equal(bed.first.held('rootSubscribe').length, 0);
  assert.equal(JSON.parse(await client.call('voteUnsubscribe', [items[0]?.result])).result, true);
});

test('a signature subscription ends with its notification, not with the receipt notification', async (t) => {
  const bed = await startBed(t);
  const [a, b] = [await connect(t, bed), await connect(t, bed)];
  await a.subscribe('signatureSubscribe', ['sig', { enableReceivedNotification: true }]);
  await b.subscribe('signatureSubscribe', ['sig', { enableReceivedNotification: true }]);
  const [held] = bed.first.held('signatureSubscribe');
  bed.first.notify(held!, '{"context":{"slot":1},"value":"receivedSignature"}');
  bed.first.notify(held!, '{"context":{"slot":1},"value":{"err":null}}');
  bed.first.notify(held!, '{"context":{"slot":2},"value":{"err":null}}');
  await until('both are told', () => a.notifications().length === 2 && b.notifications().length === 2);
  await a.subscribe('signatureSubscribe', ['sig', { enableReceivedNotification: true }]);
  assert.equal(bed.first.subscriptions.filter(({ method }) => method === 'signatureSubscribe').length, 2);
  assert.equal(a.notifications().length, 2);
});

test('a refusal of the upstream is returned unchanged', async (t) => {
  const bed = await startBed(t);
  const client = await connect(t, bed);
  bed.first.onSubscribe(() => ({
    error: '{"code":-32602,"message":"Invalid Request: odd","data":18446744073709551615}',
  }));
  const answer = await client.call('accountSubscribe', ['bad'], 42);
  assert.equal(
    answer,
    '{"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid Request: odd","data":18446744073709551615},"id":42}',
  );
  bed.first.onSubscribe(() => 'accept');
  await client.subscribe('accountSubscribe', ['bad']);
});

test('when an upstream drops, subscriptions move and clients keep them', async (t) => {
  const bed = await startBed(t, { upstreams: 2 });
  const client = await connect(t, bed);
  const id = await client.subscribe('accountSubscribe', ['x']);
  assert.equal(bed.first.held('accountSubscribe').length, 1);
  await bed.first.down();
  await until('it moved', () => bed.second.held('accountSubscribe').length === 1);
  bed.second.notify(bed.second.held('accountSubscribe')[0]!, '1');
  await until('notified', () => client.notifications().length === 1);
  assert.equal(JSON.parse(client.notifications()[0]!).params.subscription, id);
  assert.equal(client.received.length, 2);
  assert.equal(client.socket.readyState, WebSocket.OPEN);
});

test('a single upstream that drops and comes back is used again', async (t) => {
  const bed = await startBed(t);
  const client = await connect(t, bed);
  await client.subscribe('accountSubscribe', ['x']);
  bed.first.dropSockets();
  await until(
    'subscribed again',
    () => bed.first.subscriptions.filter((s) => s.method === 'accountSubscribe').length === 2,
  );
  bed.first.notify(bed.first.held('accountSubscribe')[0]!, '1');
  await until('notified', () => client.notifications().length === 1);
});

test('a subscription that no upstream carries closes its clients', async (t) => {
  const bed = await startBed(t, { upstreams: 2 });
  const client = await connect(t, bed);
  await client.subscribe('blockSubscribe', ['all']);
  for (const upstream of bed.upstreams) upstream.onSubscribe(() => ({ error: '{"code":-32601,"message":"no"}' }));
  bed.first.dropSockets();
  assert.equal(await client.closed, 1012);
});

test('a subscription that is not answered in time is -32003', async (t) => {
  const bed = await startBed(t, { config: { proxy: { websocket: { subscribeTimeoutMs: 100 } } } });
  const client = await connect(t, bed);
  bed.first.onSubscribe(() => 'silence');
  assert.equal(JSON.parse(await client.call('accountSubscribe', ['x'])).error.code, -32003);
});

test('calls over the socket are answered as over HTTP, in any order', async (t) => {
  const bed = await startBed(t);
  const client = await connect(t, bed);
  bed.first.on('getOdd', { chunks: ['{ "result":18446744073709551615 ,"id":9,"jsonrpc":"2.0"}'] });
  assert.equal(await client.call('getOdd', [], 9), '{ "result":18446744073709551615 ,"id":9,"jsonrpc":"2.0"}');
  bed.first.on('getBig', { result: `"${'x'.repeat(300_000)}"` });
  assert.equal((await client.call('getBig', [], 10)).length > 300_000, true);
  bed.first.on('getDown', { status: 500, chunks: ['x'] });
  assert.deepEqual(JSON.parse(await client.call('getDown', [], 11)).error, {
    code: -32002,
    message: 'Service unavailable',
  });
  client.send(`[${call('getOdd').replace('"id":1', '"id":"batch"')}]`);
  await until('the batch is answered', () => client.received.some((text) => text.startsWith('[')));
});

test('garbage is answered or ignored, never fatal', async (t) => {
  const bed = await startBed(t);
  const client = await connect(t, bed);
  for (const [text, code] of [
    ['{', -32700],
    ['', -32700],
    ['5', -32600],
    ['[]', -32600],
    ['{"jsonrpc":"1.0","id":1,"method":"accountSubscribe","params":[]}', -32600],
    ['{"jsonrpc":"2.0","id":{},"method":"accountSubscribe","params":[]}', -32600],
    ['{"jsonrpc":"2.0","id":1,"method":"accountSubscribe","method":"getSlot","params":[]}', -32600],
  ] as const) {
    const before = client.received.length;
    client.send(text);
    await until(`an answer to ${text}`, () => client.received.length > before);
    assert.equal(JSON.parse(client.received.at(-1)!).error.code, code, text);
  }
  const before = client.received.length;
  client.send('{"jsonrpc":"2.0","method":"ping"}');
  client.send('{"jsonrpc":"2.0","method":"accountSubscribe","params":["x"]}');
  client.socket.send(Buffer.from(call('getSlot')), { binary: true });
  await until('the binary call is answered', () => client.received.length > before);
  assert.equal(client.received.length, before + 1);
  assert.equal(bed.first.callsOf('ping').length, 0);
  assert.equal(bed.first.held('accountSubscribe').length, 0);
});

test('a message beyond the limit closes with 1009, a broken frame with 1002', async (t) => {
  const bed = await startBed(t, { config: { proxy: { websocket: { maxMessageBytes: 1_000 } } } });
  const client = await connect(t, bed);
  client.send(call('getSlot', ['x'.repeat(2_000)]));
  assert.equal(await client.closed, 1009);
  const other = await connect(t, bed);
  (other.socket as unknown as { _socket: { write(bytes: Buffer): void } })._socket.write(
    Buffer.from([0xff, 0xff, 0xff]),
  );
  assert.equal(await other.closed, 1002);
});

test('a client has a limited number of subscriptions', async (t) => {
  const bed = await startBed(t, { config: { proxy: { websocket: { maxSubscriptions: 2 } } } });
  const client = await connect(t, bed);
  const id = await client.subscribe('accountSubscribe', ['a']);
  await client.subscribe('accountSubscribe', ['b']);
  assert.equal(JSON.parse(await client.call('accountSubscribe', ['c'])).error.code, -32005);
  await client.call('accountUnsubscribe', [id]);
  await client.subscribe('accountSubscribe', ['c']);
});

test('a slow client is closed with 1013; the others get everything', async (t) => {
  const bed = await startBed(t, { config: { proxy: { websocket: { maxQueuedBytes: 1_000_000 } } } });
  const [slow, quick] = [await connect(t, bed), await connect(t, bed)];
  await slow.subscribe('blockSubscribe', ['all']);
  await quick.subscribe('blockSubscribe', ['all']);
  slow.socket.pause();
  const [held] = bed.first.held('blockSubscribe');
  const result = JSON.stringify('x'.repeat(500_000));
  for (let i = 0; i < 40; i++) {
    bed.first.notify(held!, result);
    await until('the quick one has it', () => quick.notifications().length === i + 1);
  }
  slow.socket.resume();
  assert.equal(await slow.closed, 1013);
  assert.ok(slow.notifications().length < 40);
});

test('upgrades: no key 401, wrong key 401, too many 503', async (t) => {
  const bed = await startBed(t, { config: { proxy: { websocket: { maxConnections: 1 } } } });
  const status = async (query: string, headers = {}) => {
    const socket = new WebSocket(`${bed.daemon.apiUrl.replace('http', 'ws')}/any/path${query}`, { headers });
    socket.on('error', () => {});
    const made = await Promise.race([
      once(socket, 'unexpected-response').then(([, response]) => (response as { statusCode: number }).statusCode),
      once(socket, 'open').then(() => 101),
    ]);
    t.after(() => socket.terminate());
    return made;
  };
  assert.equal(await status(''), 401);
  assert.equal(await status('?api-key=wrong'), 401);
  assert.equal(await status('', { 'x-api-key': bed.daemon.key }), 101);
  assert.equal(await status(`?api-key=${bed.daemon.key}`), 503);
});

test('denied subscriptions are -32601', async (t) => {
  const bed = await startBed(t, { config: { rpc: { denyMethods: ['programSubscribe'] } } });
  const client = await connect(t, bed);
  assert.equal(JSON.parse(await client.call('programSubscribe', ['x'])).error.code, -32601);
  await client.subscribe('accountSubscribe', ['x']);
});

test('the drain closes with 1001', async (t) => {
  const bed = await startBed(t);
  const client = await connect(t, bed);
  await client.subscribe('accountSubscribe', ['x']);
  const stopping = bed.daemon.stop();
  assert.equal(await client.closed, 1001);
  await stopping;
  await until('the upstream is let go', () => bed.first.openSockets === 0);
});

test('a silent client is pinged and cut; one that answers stays', async (t) => {
  const bed = await startBed(t, { config: { proxy: { websocket: { pingIntervalMs: 60 } } } });
  const quiet = new WebSocket(`${bed.daemon.apiUrl.replace('http', 'ws')}/?api-key=${bed.daemon.key}`, {
    autoPong: false,
  });
  quiet.on('error', () => {});
  const cut = once(quiet, 'close');
  const fine = await connect(t, bed);
  await fine.subscribe('accountSubscribe', ['x']);
  assert.equal((await cut)[0], 1006);
  await new Promise((resolve) => setTimeout(resolve, 200));
  assert.equal(fine.socket.readyState, WebSocket.OPEN);
  assert.equal(bed.first.held('accountSubscribe').length, 1);
});
