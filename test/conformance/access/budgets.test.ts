/** What one project can take from another one over the real daemon: each test has a project that takes all it can get, and one that goes on. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { WebSocket } from 'ws';
import { type AccessDaemon, rpcCall, startAccessDaemon } from './harness.ts';

const LIMIT = { timeout: 120_000 };
const ROOMS = { sockets: 40, subscriptions: 60 };
let bed: AccessDaemon;
const sockets: WebSocket[] = [];
before(async () => {
  bed = await startAccessDaemon({
    budgets: ROOMS,
    proxy: { websocket: { maxConnections: 50, upstreamSubscriptions: 50, upstreamSockets: 2 } },
  });
});
after(async () => {
  for (const socket of sockets) socket.terminate();
  await bed?.stop();
});

/** An open socket, or the status of its refusal. */
function connect(key: string): Promise<WebSocket | number> {
  const socket = new WebSocket(`${bed.daemon.apiUrl.replace('http', 'ws')}/?api-key=${key}`);
  sockets.push(socket);
  socket.on('error', () => undefined);
  return new Promise((resolve) => {
    socket.once('open', () => resolve(socket));
    socket.once('unexpected-response', (_, response) => resolve(response.statusCode ?? 0));
  });
}

async function open(key: string): Promise<WebSocket> {
  const socket = await connect(key);
  assert.ok(typeof socket !== 'number', `refused with ${String(socket)}`);
  return socket;
}

interface Answer {
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: { readonly details: string } };
}

async function ask(socket: WebSocket, method: string, params: unknown, id = Math.random()): Promise<Answer> {
  socket.send(JSON.stringify(rpcCall(method, id, params)));
  for (;;) {
    const [data] = (await once(socket, 'message')) as [Buffer];
    const answer = JSON.parse(String(data)) as Answer & { readonly id?: unknown };
    if (answer.id === id) return answer;
  }
}

async function endAll(list: readonly (WebSocket | number)[]): Promise<void> {
  for (const socket of list) {
    if (typeof socket === 'number') continue;
    const closed = once(socket, 'close');
    socket.close();
    await closed;
  }
}

async function metric(name: string, budget: string): Promise<number> {
  const text = await (await fetch(`${bed.daemon.adminUrl}/metrics`)).text();
  return Number(
    new RegExp(`^parhelion_budget_${name}\\{budget="${budget}"\\} (\\S+)$`, 'm').exec(text)?.[1] ?? Number.NaN,
  );
}

test('sockets: the plan limits a project; a full room leaves room for others', LIMIT, async () => {
  const limited = await bed.makeKey({ override: { budgets: { sockets: 3 } } });
  const few = [];
  for (let i = 0; i < 4; i += 1) few.push(await connect(limited.key));
  assert.deepEqual(
    few.map((one) => (typeof one === 'number' ? one : 'open')),
    ['open', 'open', 'open', 429],
  );
  await endAll(few);
  assert.notEqual(await connect(limited.key), 429, 'places come back');
  const [attacker, victim] = [await bed.makeKey(), await bed.makeKey()];
  const taken = [];
  for (let i = 0; i < 55; i += 1) taken.push(await connect(attacker.key));
  const opened = taken.filter((one) => typeof one !== 'number');
  assert.ok(opened.length >= ROOMS.sockets - 4 && opened.length <= ROOMS.sockets, String(opened.length));
  assert.ok(taken.every((one) => typeof one !== 'number' || one === 503));
  const mine = await open(victim.key);
  assert.deepEqual((await ask(mine, 'getSlot', [])).result, 1_000);
  assert.ok((await metric('refused_total', 'sockets')) >= 15);
  assert.equal(await metric('limit', 'sockets'), ROOMS.sockets);
  await endAll([...opened, mine]);
});

test(
  'subscriptions: the plan limits a project, and the last places at the upstreams are for others',
  LIMIT,
  async () => {
    const limited = await bed.makeKey({ override: { budgets: { subscriptions: 2, subscriptionBytes: 1_000 } } });
    const one = await open(limited.key);
    const other = await open(limited.key);
    const first = await ask(one, 'accountSubscribe', ['a']);
    assert.equal(typeof first.result, 'number');
    assert.equal(typeof (await ask(other, 'accountSubscribe', ['b'])).result, 'number');
    const third = await ask(other, 'accountSubscribe', ['c']);
    assert.deepEqual([third.error?.code, third.error?.message], [-32005, 'Too many requests']);
    assert.match(third.error?.data?.details ?? '', /at most 2 websocket subscriptions/);
    assert.equal((await ask(one, 'accountUnsubscribe', [first.result])).result, true);
    const tooLong = await ask(other, 'accountSubscribe', ['x'.repeat(1_100)]);
    assert.match(tooLong.error?.data?.details ?? '', /at most 1000 bytes of subscription parameters/);
    assert.equal(typeof (await ask(other, 'accountSubscribe', ['d'])).result, 'number');
    await endAll([one, other]);

    const [attacker, victim] = [await bed.makeKey(), await bed.makeKey()];
    const his = await open(attacker.key);
    let codes = 0;
    for (let i = 0; i < 70; i += 1) {
      const { error } = await ask(his, 'accountSubscribe', [`attacker ${i}`]);
      if (error !== undefined) {
        assert.equal(error.code, -32002);
        codes += 1;
      }
    }
    assert.ok(codes >= 8, String(codes));
    const mine = await open(victim.key);
    assert.equal(typeof (await ask(mine, 'accountSubscribe', ['victim'])).result, 'number');
    await endAll([his, mine]);
  },
);

test('parameters beyond what nodes take are refused before they reach an upstream, and charged', LIMIT, async () => {
  const { key, project } = await bed.makeKey();
  const socket = await open(key);
  const { error } = await ask(socket, 'accountSubscribe', ['x'.repeat(3_500)]);
  assert.deepEqual([error?.code, error?.message], [-32602, 'Invalid params']);
  assert.ok(bed.upstream.subscriptions.every(({ paramsText }) => paramsText.length < 3_500));
  assert.equal(typeof (await ask(socket, 'accountSubscribe', ['x'.repeat(3_000)])).result, 'number');
  await endAll([socket]);
  const usage = async () =>
    ((await (await bed.request(`/v0/admin/projects/${project}/usage`, key)).json()) as { creditsUsed: number })
      .creditsUsed;
  // The socket, the refused call and the accepted one.
  assert.equal(await usage(), 3);
});

test(
  'a subscription over which the upstream closes the connection harms nobody else, however often it is sent',
  LIMIT,
  async () => {
    const [attacker, victim] = [await bed.makeKey(), await bed.makeKey()];
    bed.upstream.onSubscribe((_method, params) => (params.includes('poison') ? 'close' : 'accept'));
    const mine = await open(victim.key);
    const { result: number } = await ask(mine, 'accountSubscribe', ['of the victim']);
    let received = 0;
    mine.on('message', (data) => {
      if (String(data).includes(`"subscription":${String(number)}`)) received += 1;
    });
    /** A notice to the victim comes through, on whatever connection its subscription is now. */
    const isServed = async () => {
      const before = received;
      for (let i = 0; i < 200 && received === before; i += 1) {
        for (const held of bed.upstream.held('accountSubscribe'))
          if (held.paramsText.includes('of the victim')) bed.upstream.notify(held, String(i));
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      return received > before;
    };
    assert.ok(await isServed());
    const moves = () =>
      bed.upstream.subscriptions.filter(({ paramsText }) => paramsText.includes('of the victim')).length;
    const his = await open(attacker.key);
    // Some wait for their answer, some go away before it comes.
    const answers = [];
    for (let i = 0; i < 6; i += 1) {
      answers.push(ask(his, 'accountSubscribe', [`poison ${i}`]));
      const fleeting = await open(attacker.key);
      fleeting.send(JSON.stringify(rpcCall('accountSubscribe', 1, [`poison that flees ${i}`])));
      await new Promise((resolve) => setTimeout(resolve, 20));
      fleeting.terminate();
      assert.ok(await isServed(), `after ${i}`);
    }
    // The first of them broke the common connection, maybe a second that was on its way; then they were tried alone.
    assert.ok(moves() <= 4, `the victim was moved ${moves()} times`);
    const fresh = await ask(await open(victim.key), 'accountSubscribe', ['another of the victim']);
    assert.equal(typeof fresh.result, 'number');
    const { error } = await (answers[0] as Promise<Answer>);
    assert.ok(error?.code === -32602 || error?.code === -32003, JSON.stringify(error));
    assert.ok(await isServed());
    // What is harmless is served to him too, after it was tried alone.
    assert.equal(typeof (await ask(await open(attacker.key), 'accountSubscribe', ['harmless'])).result, 'number');
    bed.upstream.onSubscribe(() => 'accept');
  },
);

test('operators see what a project holds of the shared limits', LIMIT, async () => {
  const { key, project } = await bed.makeKey({ override: { budgets: { sockets: 2 } } });
  const mine = [await open(key), await open(key)];
  assert.equal(await connect(key), 429);
  const path = `${bed.daemon.adminUrl}/v0/admin/projects/${project}/budgets`;
  const { budgets } = (await (await fetch(path)).json()) as { budgets: { budget: string }[] };
  assert.deepEqual(
    budgets.find(({ budget }) => budget === 'sockets'),
    { budget: 'sockets', used: 2, limit: 2, refused: 1 },
  );
  assert.equal(
    (await bed.request(`/v0/admin/projects/${project}/budgets`, key)).status,
    404,
    'on the admin listener only',
  );
  await endAll(mine);
});
