/** Websockets to upstreams that open late or never, are silent, fill up, or notify too early. */
import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';
import type { WebSocket } from 'ws';
import type { UpstreamPool } from '../../../src/plugin/plugin.ts';
import { OWN_WORK } from '../../../src/ports/access.ts';
import type { Upstream } from '../../../src/ports/upstream.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { createManualClock } from '../../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../../test/helpers/memory-log.ts';
import { createSubscriptionHub, type Subscriber } from './hub.ts';
import { createLink, type LinkSubscription, type SubscriptionCall } from './link.ts';
import { createLinks, type LinksParts } from './links.ts';
import { createOutlet } from './subscriptions.ts';

const PING_MS = 30_000;

/** A socket whose other side is the test. */
class FakeSocket extends EventEmitter {
  readonly sent: { id: number; method: string; params?: unknown[] }[] = [];
  pings = 0;
  isOver = false;
  send(text: string): void {
    this.sent.push(JSON.parse(text));
  }
  ping(): void {
    this.pings += 1;
  }
  terminate(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.emit('close');
  }
  says(message: unknown): void {
    this.emit('message', Buffer.from(JSON.stringify(message)));
  }
  accepts(at: number, subscription: number): void {
    this.says({ jsonrpc: '2.0', result: subscription, id: this.sent[at]?.id });
  }
  notifies(subscription: number): void {
    this.says({ jsonrpc: '2.0', method: 'slotNotification', params: { result: 1, subscription } });
  }
}

function subscription(family = 'slot') {
  const seen = { accepted: 0, refused: 0, notified: 0 };
  const made: LinkSubscription = {
    family,
    method: `${family}Subscribe`,
    paramsText: null,
    owner: '',
    accepted() {
      seen.accepted += 1;
    },
    refused() {
      seen.refused += 1;
    },
    notified() {
      seen.notified += 1;
    },
    unanswered() {},
  };
  return { made, seen };
}

function startLink() {
  const clock = createManualClock();
  const socket = new FakeSocket();
  let lost: readonly LinkSubscription[] | null = null;
  const link = createLink({
    label: 'main-0',
    socket: socket as unknown as WebSocket,
    clock,
    limits: { pingIntervalMs: PING_MS, subscribeTimeoutMs: 15_000 },
    lost: (subscriptions) => {
      lost = subscriptions;
    },
  });
  return { clock, socket, link, lost: () => lost };
}

test('a socket that does not open is given up, with its pending subscriptions', async () => {
  const { clock, link, lost } = startLink();
  const { made } = subscription();
  link.subscribe(made);
  await clock.advance(60_000);
  assert.deepEqual(lost(), [made]);
});

test('an upstream that is silent when the next ping is due is lost; any message keeps it', async () => {
  for (const sign of [null, 'pong', 'message'] as const) {
    const { clock, socket, link, lost } = startLink();
    const { made } = subscription();
    link.subscribe(made);
    socket.emit('open');
    socket.accepts(0, 9);
    for (let round = 0; round < 4; round += 1) {
      await clock.advance(PING_MS);
      if (sign === 'pong') socket.emit('pong');
      if (sign === 'message') socket.notifies(9);
    }
    assert.deepEqual(lost(), sign === null ? [made] : null, String(sign));
    if (sign !== null) assert.equal(socket.pings, 4);
  }
});

test('a socket without subscriptions is closed', async () => {
  const { clock, socket, link, lost } = startLink();
  const { made } = subscription();
  link.subscribe(made);
  socket.emit('open');
  socket.accepts(0, 9);
  link.unsubscribe(made, false);
  socket.emit('pong');
  await clock.advance(PING_MS);
  assert.deepEqual([lost(), socket.isOver], [[], true]);
});

test('notifications that precede the answer are held for it, up to a limit', () => {
  const { socket, link } = startLink();
  const { made, seen } = subscription();
  socket.emit('open');
  for (let i = 0; i < 500; i += 1) socket.notifies(9);
  link.subscribe(made);
  for (let i = 0; i < 10; i += 1) socket.notifies(9);
  for (let i = 0; i < 500; i += 1) socket.notifies(8);
  socket.accepts(0, 9);
  assert.deepEqual(seen, { accepted: 1, refused: 0, notified: 10 });
  const { made: other, seen: seenOther } = subscription();
  link.subscribe(other);
  for (let i = 0; i < 500; i += 1) socket.notifies(8);
  socket.accepts(1, 8);
  assert.equal(seenOther.notified, 64);
});

test('a subscription that is no longer wanted when it is accepted is ended at the upstream', () => {
  const { socket, link } = startLink();
  const { made, seen } = subscription();
  socket.emit('open');
  link.subscribe(made);
  link.unsubscribe(made, false);
  socket.accepts(0, 9);
  assert.deepEqual(seen, { accepted: 0, refused: 0, notified: 0 });
  assert.deepEqual(socket.sent.at(-1), { jsonrpc: '2.0', id: 2, method: 'slotUnsubscribe', params: [9] });
});

test('subscriptions with one number at a node: each is notified once, and the last one ends it', () => {
  const { socket, link } = startLink();
  const [one, two] = [subscription(), subscription()];
  socket.emit('open');
  link.subscribe(one.made);
  link.subscribe(two.made);
  socket.accepts(0, 9);
  socket.accepts(1, 9);
  socket.notifies(9);
  assert.deepEqual([one.seen.notified, two.seen.notified], [1, 1]);
  link.unsubscribe(one.made, false);
  socket.notifies(9);
  assert.deepEqual([one.seen.notified, two.seen.notified, socket.sent.length], [1, 2, 2]);
  link.unsubscribe(two.made, false);
  assert.deepEqual(socket.sent.at(-1)?.params, [9]);
});

test('a subscription whose number was ended during its call is requested again', () => {
  const { socket, link } = startLink();
  const [one, two] = [subscription(), subscription()];
  socket.emit('open');
  link.subscribe(one.made);
  socket.accepts(0, 9);
  link.subscribe(two.made);
  link.unsubscribe(one.made, false);
  socket.accepts(1, 9);
  assert.deepEqual([two.seen.accepted, socket.sent.at(-1)?.method], [0, 'slotSubscribe']);
  socket.says({ jsonrpc: '2.0', result: true, id: socket.sent[2]?.id });
  socket.accepts(3, 10);
  socket.notifies(10);
  assert.deepEqual(two.seen, { accepted: 1, refused: 0, notified: 1 });
});

test('notifications of a number that is being ended are neither held for its next user nor delivered twice', () => {
  const { socket, link } = startLink();
  const [one, two, stuck, three] = [subscription(), subscription(), subscription(), subscription()];
  socket.emit('open');
  link.subscribe(stuck.made);
  link.subscribe(one.made);
  socket.accepts(1, 9);
  link.unsubscribe(one.made, false);
  for (let i = 0; i < 100; i += 1) socket.notifies(9);
  socket.says({ jsonrpc: '2.0', result: true, id: socket.sent[2]?.id });
  link.subscribe(two.made);
  socket.notifies(9);
  socket.accepts(3, 9);
  assert.equal(two.seen.notified, 1);
  link.subscribe(three.made);
  socket.accepts(4, 9);
  assert.deepEqual([two.seen.notified, three.seen.notified], [1, 0]);
});

test('late messages of a cut socket are ignored', () => {
  const { socket, link } = startLink();
  const { made, seen } = subscription();
  socket.emit('open');
  link.subscribe(made);
  socket.accepts(0, 9);
  socket.terminate();
  socket.notifies(9);
  assert.equal(seen.notified, 0);
});

test('a subscription that moved and gets no answer moves again', async () => {
  const { parts, opened, clock } = startPool(['a', 'b']);
  const hub = createSubscriptionHub({ ...parts, metrics: createMetricsRegistry().scope('x') });
  let notified = 0;
  const notify = () => {
    notified += 1;
  };
  const subscriber = { accepted() {}, refused() {}, lost() {}, notified: notify };
  hub.subscribe({ family: 'slot', method: 'slotSubscribe', paramsText: null }, subscriber);
  opened[0]?.socket.emit('open');
  opened[0]?.socket.accepts(0, 9);
  opened[0]?.socket.terminate();
  assert.equal(opened[1]?.label, 'b');
  opened[1]?.socket.emit('open');
  await clock.advance(6_000);
  assert.equal(opened[2]?.label, 'a');
  opened[2]?.socket.emit('open');
  opened[2]?.socket.accepts(0, 10);
  opened[2]?.socket.notifies(10);
  assert.equal(notified, 1);
});

function startPool(labels: readonly string[]) {
  const clock = createManualClock();
  const opened: { label: string; socket: FakeSocket }[] = [];
  const unwell = new Set<string>();
  let change = () => {};
  const candidates = ({ healthyOnly = false } = {}) =>
    labels.filter((label) => !healthyOnly || !unwell.has(label)).map((label) => ({ label }) as Upstream);
  const pool = {
    candidates,
    openSocket({ label }: Upstream) {
      const socket = new FakeSocket();
      opened.push({ label, socket });
      return socket as unknown as WebSocket;
    },
    states: () => [],
    onChange(listener: () => void) {
      change = listener;
      return () => {};
    },
  } as unknown as UpstreamPool;
  const parts: Omit<LinksParts, 'lost' | 'isSuspect'> = {
    pool,
    clock,
    log: createMemoryLog(),
    limits: {
      pingIntervalMs: PING_MS,
      upstreamSockets: 2,
      upstreamSubscriptions: 3,
      deduplicate: false,
      subscribeTimeoutMs: 5_000,
    },
    random: { float: () => 0.5, bytes: (count: number) => new Uint8Array(count), uuid: () => 'u' },
  };
  return { clock, opened, parts, unwell, change: () => change() };
}

test('sockets per upstream and subscriptions per socket are limited', () => {
  const { parts, opened } = startPool(['a']);
  const links = createLinks({ ...parts, isSuspect: () => false, lost: () => undefined });
  for (let i = 0; i < 6; i += 1) {
    const placement = links.place(new Set());
    assert.equal(placement.kind, 'link');
    if (placement.kind === 'link') placement.link.subscribe(subscription().made);
  }
  assert.deepEqual([links.place(new Set()).kind, opened.length, links.size()], ['full', 2, 2]);
  assert.equal(links.place(new Set(['a'])).kind, 'none');
});

test('an upstream whose socket broke is cooling down', async () => {
  const { parts, opened, clock } = startPool(['a']);
  const links = createLinks({ ...parts, isSuspect: () => false, lost: () => undefined });
  const placement = links.place(new Set());
  if (placement.kind === 'link') placement.link.subscribe(subscription().made);
  opened[0]?.socket.terminate();
  assert.equal(links.place(new Set()).kind, 'rest');
  await clock.advance(1_000);
  assert.equal(links.place(new Set()).kind, 'link');
});

test('subscriptions leave an unhealthy upstream when a healthy one exists', () => {
  const { parts, unwell, change } = startPool(['a', 'b']);
  const moved: string[] = [];
  const links = createLinks({ ...parts, isSuspect: () => false, lost: (label) => void moved.push(label) });
  const placement = links.place(new Set());
  if (placement.kind === 'link') placement.link.subscribe(subscription().made);
  unwell.add('a').add('b');
  change();
  assert.deepEqual(moved, []);
  unwell.delete('b');
  change();
  assert.deepEqual(moved, ['a']);
});

test('a subscription has a deadline for its acceptance, and ends with its last client', async () => {
  const { parts, opened, clock } = startPool(['a']);
  const hub = createSubscriptionHub({ ...parts, metrics: createMetricsRegistry().scope('x') });
  const told: string[] = [];
  const subscriber: Subscriber = {
    accepted: () => void told.push('accepted'),
    refused: (reason) => void told.push('error' in reason ? reason.error.message : reason.errorText),
    notified: () => void told.push('notified'),
    lost: () => void told.push('lost'),
  };
  const call = { kind: 'subscribe', family: 'slot', method: 'slotSubscribe', paramsText: null } as SubscriptionCall;
  hub.subscribe(call, subscriber);
  const socket = opened[0]?.socket as FakeSocket;
  socket.emit('open');
  await clock.advance(5_000);
  assert.equal(told.length, 1);
  assert.match(told[0] ?? '', /timeout/i);
  const leaveFirst = hub.subscribe(call, subscriber);
  const leaveSecond = hub.subscribe(call, { ...subscriber });
  socket.accepts(socket.sent.length - 1, 9);
  assert.deepEqual(told.slice(1), ['accepted', 'accepted']);
  leaveFirst();
  assert.notEqual(socket.sent.at(-1)?.method, 'slotUnsubscribe');
  leaveSecond();
  assert.equal(socket.sent.at(-1)?.method, 'slotUnsubscribe');
});

/** A subscription that was unanswered when its link broke, and the messages to its client. Calls `onProbe` for each probe and control. */
async function suspected(onProbe: (control: FakeSocket, probe: () => FakeSocket) => void, tries: number) {
  const { parts, opened, clock } = startPool(['a']);
  const hub = createSubscriptionHub({
    ...parts,
    limits: { ...parts.limits, subscribeTimeoutMs: 600_000 },
    metrics: createMetricsRegistry().scope('x'),
  });
  const heard: string[] = [];
  const subscriber: Subscriber = {
    accepted: () => void heard.push('accepted'),
    refused: (reason) => void heard.push('error' in reason ? String(reason.error.rpcCode) : reason.errorText),
    notified: () => undefined,
    lost: () => void heard.push('lost'),
  };
  hub.subscribe({ family: 'logs', method: 'logsSubscribe', paramsText: '["all"]' }, subscriber, 'p');
  opened[0]?.socket.emit('open');
  opened[0]?.socket.terminate();
  for (let at = 1, done = 0; done < tries && heard.length === 0; done += 1) {
    while (opened.length <= at) await clock.advance(1_000);
    const control = opened[at]?.socket as FakeSocket;
    control.emit('open');
    assert.equal(control.sent[0]?.method, 'slotSubscribe');
    onProbe(control, () => {
      control.accepts(0, 1);
      const probe = opened[at + 1]?.socket as FakeSocket;
      probe.emit('open');
      assert.equal(probe.sent[0]?.method, 'logsSubscribe');
      return probe;
    });
    await clock.advance(1_000);
    at = opened.length;
  }
  await clock.advance(1_000);
  return { heard, opened };
}

test('a subscription that breaks only its own connections is refused', async () => {
  const { heard } = await suspected((_, probe) => probe().terminate(), 5);
  assert.deepEqual(heard, ['-32602']);
});

test('when every connection breaks, no subscription is to blame, and it returns with the upstream', async () => {
  let tries = 0;
  const { heard, opened } = await suspected((control, openProbe) => {
    tries += 1;
    // The node stops: before the control is answered, with the control first, or with the probe first.
    if (tries % 3 === 0) return control.terminate();
    const probe = openProbe();
    if (tries > 12) return probe.accepts(0, 7);
    for (const socket of tries % 3 === 1 ? [probe, control] : [control, probe]) socket.terminate();
  }, 13);
  assert.deepEqual([tries, heard], [13, []]);
  // Cleared: it joins the others.
  const joined = opened.at(-1)?.socket as FakeSocket;
  joined.emit('open');
  joined.accepts(0, 9);
  assert.deepEqual(heard, ['accepted']);
});

test('the queue of a slow client is bounded; it has limited time for its close, and nothing follows that', async () => {
  const clock = createManualClock();
  const said: unknown[] = [];
  const socket = {
    bufferedAmount: 0,
    send: (message: string) => void said.push(message.length),
    close: (code: number) => void said.push(`close ${code}`),
    terminate: () => void said.push('cut'),
  };
  const outlet = createOutlet(socket as unknown as WebSocket, clock, 1_000, OWN_WORK);
  assert.ok(outlet.send('x'.repeat(1_000)));
  socket.bufferedAmount = 900;
  assert.ok(outlet.send('x'.repeat(100)));
  assert.equal(outlet.send('x'.repeat(101)), false);
  assert.equal(outlet.send('x'), false);
  assert.deepEqual(said, [1_000, 100, 'close 1013']);
  await clock.advance(60_000);
  assert.deepEqual(said.slice(3), ['cut']);
});
