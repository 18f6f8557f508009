import { EventEmitter } from 'node:events';
import type { WebSocket } from 'ws';
import { createSubscriptionHub } from '../../../plugins/proxy/socket/hub.ts';
import { createSubscriptions, type Outlet } from '../../../plugins/proxy/socket/subscriptions.ts';
import type { UpstreamPool } from '../../../src/plugin/plugin.ts';
import { OWN_WORK } from '../../../src/ports/access.ts';
import type { Upstream } from '../../../src/ports/upstream.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { createSfc32, type Sfc32 } from '../../helpers/sfc32.ts';

const STEPS = 120;
const TOPICS = ['logs', 'account', 'program'];
/** Params that mean the same to a node. */
const SPELLINGS = ['["x"]', '["x",{}]', '["x",{"commitment":"finalized"}]'];

/** The node's end of a websocket of the daemon, and the wire between them: a queue each way. */
class Wire extends EventEmitter {
  readonly toNode: string[] = [];
  readonly toDaemon: string[] = [];
  /** Replies that the node sends after what it says next. */
  late: string[] = [];
  readonly topics = new Map<number, string>();
  isOpen = false;
  isOver = false;
  readonly node: Node;
  constructor(node: Node) {
    super();
    this.node = node;
  }
  send(text: string): void {
    if (!this.isOver) this.toNode.push(text);
  }
  ping(): void {
    this.emit('pong');
  }
  terminate(): void {
    if (this.isOver) return;
    this.isOver = true;
    for (const id of this.topics.keys()) this.node.end(this, id);
    this.node.wires.delete(this);
    this.emit('close');
  }
  /** What has arrived is delivered also when the socket is cut, as `ws` does. */
  arrive(): void {
    const text = this.toDaemon.shift();
    if (text === undefined) return;
    this.node.arrived(text);
    this.emit('message', Buffer.from(text));
  }
}

/** A node: with `shares` it has one number for all subscriptions that mean the same, on whatever connection, as Agave has. */
class Node {
  readonly wires = new Set<Wire>();
  forgets = true;
  readonly #numbers = new Map<string, { readonly id: number; readonly wires: Set<Wire> }>();
  readonly shares: boolean;
  readonly #random: Sfc32;
  static nextId = 1;
  static nextCopy = 1;
  readonly arrived: (text: string) => void;
  constructor(shares: boolean, random: Sfc32, arrived: (text: string) => void) {
    this.shares = shares;
    this.#random = random;
    this.arrived = arrived;
  }
  get held(): number {
    return [...this.wires].reduce((sum, { topics }) => sum + topics.size, 0);
  }
  end(wire: Wire, id: number): boolean {
    const topic = wire.topics.get(id);
    if (topic === undefined) return false;
    wire.topics.delete(id);
    const shared = this.#numbers.get(topic);
    shared?.wires.delete(wire);
    if (shared?.wires.size === 0) this.#numbers.delete(topic);
    return true;
  }
  handle(wire: Wire): void {
    const text = wire.toNode.shift();
    if (text === undefined) return;
    const { id, method, params } = JSON.parse(text) as { id: number; method: string; params: [unknown] };
    if (method.endsWith('Unsubscribe')) {
      wire.toDaemon.push(JSON.stringify({ id, result: this.end(wire, params[0] as number) }));
      return;
    }
    // Now and then a node forgets to answer.
    if (this.forgets && this.#random.below(40) === 0) return;
    const number = this.#subscribe(wire, method.replace('Subscribe', ''));
    const reply = JSON.stringify({ id, result: number });
    if (!this.shares && this.#random.below(3) === 0) wire.late.push(reply);
    else wire.toDaemon.push(reply);
  }
  #subscribe(wire: Wire, topic: string): number {
    const shared = this.shares ? this.#numbers.get(topic) : undefined;
    const { id, wires } = shared ?? { id: Node.nextId++, wires: new Set<Wire>() };
    if (this.shares) this.#numbers.set(topic, { id, wires: wires.add(wire) });
    wire.topics.set(id, topic);
    return id;
  }
  notify(topic: string, seq: number): void {
    for (const wire of this.wires) {
      for (const [id, held] of wire.topics)
        if (held === topic)
          wire.toDaemon.push(
            JSON.stringify({
              method: 'n',
              params: { result: { topic, seq, copy: Node.nextCopy++ }, subscription: id },
            }),
          );
      wire.toDaemon.push(...wire.late.splice(0));
    }
  }
}

interface Held {
  readonly topic: string;
  /** How many messages had arrived at the daemon when it was asked for. */
  readonly since: number;
  readonly seen: Set<number>;
}

/** Clients of the daemon, its hub, and nodes, with sockets that break on both sides. Gives what went wrong, null when nothing did. */
export async function socketLife(seed: number): Promise<string | null> {
  const random = createSfc32(seed);
  const clock = createManualClock();
  const problems: string[] = [];
  /** When each copy of an event arrived at the daemon, in messages. */
  const arrivals = new Map<number, number>();
  let arrived = 0;
  const onArrival = (text: string) => {
    arrived += 1;
    const copy = /"copy":(\d+)/.exec(text)?.[1];
    if (copy !== undefined) arrivals.set(Number(copy), arrived);
  };
  const nodes = [0, 1].map(() => new Node(random.below(3) > 0, random, onArrival));
  const unwell = new Set<string>();
  let onChange = () => {};
  const pool = {
    candidates: ({ healthyOnly = false } = {}) => {
      const all = nodes.map((_, i) => ({ label: String(i) }) as Upstream);
      const well = all.filter(({ label }) => !unwell.has(label));
      return healthyOnly ? well : [...well, ...all.filter(({ label }) => unwell.has(label))];
    },
    openSocket({ label }: Upstream) {
      const node = nodes[Number(label)] as Node;
      const wire = new Wire(node);
      node.wires.add(wire);
      return wire as unknown as WebSocket;
    },
    states: () => [],
    onChange(listener: () => void) {
      onChange = listener;
      return () => {};
    },
  } as unknown as UpstreamPool;
  const hub = createSubscriptionHub({
    pool,
    clock,
    log: createMemoryLog(),
    metrics: createMetricsRegistry().scope('x'),
    limits: {
      pingIntervalMs: 30_000,
      subscribeTimeoutMs: 15_000,
      upstreamSockets: 2,
      upstreamSubscriptions: 3,
      deduplicate: false,
    },
    random: { float: random.float, bytes: (count: number) => new Uint8Array(count), uuid: () => 'u' },
  });
  const wires = () => nodes.flatMap((node) => [...node.wires]);
  let seq = 0;
  const emit = (topic: string) => {
    seq += 1;
    for (const node of nodes) node.notify(topic, seq);
  };

  const pending = new Map<string, { readonly since: number; calls: number }>();

  function newClient() {
    const held = new Map<number, Held>();
    const outlet: Outlet = {
      send(message) {
        const { params } = JSON.parse(String(message)) as {
          params: { result: { topic: string; seq: number; copy: number }; subscription: number };
        };
        const { topic, seq: number, copy } = params.result;
        const mine = held.get(params.subscription);
        if (mine === undefined) problems.push(`event ${number} of ${topic} for a subscription that is not held`);
        else if (mine.topic !== topic) problems.push(`event ${number} of ${topic} for ${mine.topic}`);
        else if ((arrivals.get(copy) ?? 0) <= mine.since)
          problems.push(`event ${number} of ${topic} is older than the subscription`);
        else if (mine.seen.has(number)) problems.push(`event ${number} of ${topic} came twice`);
        mine?.seen.add(number);
        return true;
      },
      limitBehind: () => undefined,
      ready: async () => undefined,
      close: () => leave(),
      end: () => {},
    };
    const price = () => ({ product: 'rpc', credits: 1, groups: [] }) as const;
    const subscriptions = createSubscriptions({
      hub,
      followed: null,
      clock,
      outlet,
      price,
      maxSubscriptions: 5,
      maxHeldBytes: 1e6,
      maxParamsBytes: 3_500,
      tenant: OWN_WORK,
    });
    const leave = () => {
      clients.delete(client);
      subscriptions.end();
    };
    const client = {
      held,
      leave,
      subscribe(topic: string, paramsText: string) {
        const calls = subscriptions.calls();
        // Who joins others that still wait for the node gets what came early for them.
        const key = `${topic} ${paramsText}`;
        const waiting = pending.get(key) ?? { since: arrived, calls: 0 };
        const { since } = waiting;
        waiting.calls += 1;
        pending.set(key, waiting);
        void calls
          .run({ method: `${topic}Subscribe`, params: JSON.parse(paramsText), paramsText })
          .then((outcome) => {
            if ('resultText' in outcome) held.set(Number(outcome.resultText), { topic, since, seen: new Set() });
          })
          .catch(() => {})
          .finally(() => {
            waiting.calls -= 1;
            if (waiting.calls === 0 && pending.get(key) === waiting) pending.delete(key);
            calls.answered();
          });
      },
      async unsubscribe(id: number) {
        held.delete(id);
        await subscriptions.calls().run({ method: 'anyUnsubscribe', params: [id], paramsText: `[${id}]` });
      },
    };
    return client;
  }
  const clients = new Set<ReturnType<typeof newClient>>();
  const pick = <T>(list: readonly T[]): T | undefined => list[random.below(list.length)];

  const actions: readonly (() => unknown)[] = [
    () => clients.size < 4 && clients.add(newClient()),
    () => random.below(3) === 0 && pick([...clients])?.leave(),
    ...Array.from({ length: 4 }, () => () => pick([...clients])?.subscribe(pick(TOPICS) as string, pick(SPELLINGS)!)),
    () => {
      const client = pick([...clients]);
      const id = pick([...(client?.held.keys() ?? [])]);
      return id === undefined ? undefined : client?.unsubscribe(id);
    },
    ...Array.from({ length: 4 }, () => () => emit(pick(TOPICS) as string)),
    ...Array.from({ length: 6 }, () => () => {
      const wire = pick(wires());
      for (let i = random.below(6); wire?.isOpen && i > 0; i -= 1) {
        if (random.below(2) === 0) wire.node.handle(wire);
        else wire.arrive();
      }
    }),
    () => open(pick(wires())),
    () => {
      const wire = pick(wires());
      if (random.below(2) > 0 || wire === undefined) return;
      const rest = random.below(3);
      wire.terminate();
      for (let i = 0; i < rest; i += 1) wire.arrive();
    },
    () => {
      const label = pick(['0', '1']) as string;
      if (!unwell.delete(label)) unwell.add(label);
      onChange();
    },
    () => clock.advance(random.below(3_000)),
  ];
  const open = (wire: Wire | undefined) => {
    if (wire === undefined || wire.isOpen || wire.isOver) return;
    wire.isOpen = true;
    wire.emit('open');
  };
  const drain = async () => {
    for (let round = 0; round < 12; round += 1) {
      for (const wire of wires()) {
        open(wire);
        while (!wire.isOver && wire.toNode.length + wire.toDaemon.length + wire.late.length > 0) {
          wire.node.handle(wire);
          wire.arrive();
          if (wire.toDaemon.length === 0) wire.toDaemon.push(...wire.late.splice(0));
        }
      }
      await clock.advance(5_000);
    }
  };

  for (let step = 0; step < STEPS; step += 1) {
    await pick(actions)?.();
    await clock.advance(0);
  }
  unwell.clear();
  for (const node of nodes) node.forgets = false;
  await drain();
  for (const topic of TOPICS) emit(topic);
  await drain();
  for (const { held } of clients)
    for (const [id, { topic, seen }] of held) {
      const last = seq - TOPICS.length + 1 + TOPICS.indexOf(topic);
      if (!seen.has(last)) problems.push(`subscription ${id} of ${topic} lives and missed event ${last}`);
    }
  for (const client of [...clients]) client.leave();
  await drain();
  const left = nodes.reduce((sum, node) => sum + node.held, 0);
  if (left > 0) problems.push(`${left} subscriptions are left at the nodes`);
  hub.close();
  return problems.length === 0 ? null : problems.slice(0, 5).join('; ');
}
