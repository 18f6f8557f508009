import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createBudgets } from '../../../src/budgets.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { createMemoryLog } from '../../../test/helpers/memory-log.ts';
import type { Feed, Reader, StreamHub } from '../hub/index.ts';
import { type LineRequest, serveSockets, type Tell } from './line.ts';
import type { SocketRequest } from './request.ts';

const LIMITS = { maxSubscriptionBytes: 1_000, maxQueuedBytes: 10_000 };
const FEED: Feed = { level: 'confirmed', content: () => [], slot: () => [] };

/** One subscription, and what the thread with the sockets is told. */
function createLine(request: SocketRequest) {
  const told: Tell[] = [];
  const readers: Reader[] = [];
  const log = createMemoryLog();
  const metrics = createMetricsRegistry();
  let receive: (message: unknown) => void = () => undefined;
  serveSockets({
    openLine: (_name, listener) => {
      receive = listener as typeof receive;
      return { post: (message) => void told.push(message as Tell), close: () => undefined };
    },
    hub: {
      join: (_subscription: unknown, reader: Reader) => {
        readers.push(reader);
        return () => null;
      },
      finalSlot: () => 0,
    } as unknown as StreamHub,
    filters: {} as never,
    parsed: () => FEED,
    tenants: createBudgets(),
    charges: null,
    replayedBlockCredits: () => 0,
    searchCredits: () => 0,
    limits: LIMITS,
    idle: () => null,
    log,
    metrics: metrics.scope('streams'),
  });
  const ask = (message: LineRequest) => receive(message);
  ask({ ask: 'join', id: 1, key: null, request, payer: null });
  const send = (length: number) =>
    readers[0]!.send({ bytes: Buffer.alloc(length), ends: Uint32Array.of(length), updates: 1, messageBytes: length });
  const sentBytes = () => told.flatMap((one) => (one.tell === 'data' ? [one.bytes.length] : []));
  const ended = () => told.filter((one) => one.tell === 'ended');
  return { told, ask, send, sentBytes, ended, log, metrics, reader: readers[0]! };
}

const parsed = (from: number | null): SocketRequest => ({
  kind: 'parsed',
  level: 'confirmed',
  filter: {
    programs: ['11111111111111111111111111111111'],
    instructionNames: [],
    include: [],
    roles: [],
    includeFailed: false,
    includeCpi: true,
  },
  details: 'full',
  from,
});

test('parsed notifications beyond what may wait for the sockets are left out, counted and logged once; the subscription goes on', async () => {
  const { ask, send, sentBytes, ended, log, metrics } = createLine(parsed(null));
  for (const length of [600, 300, 200, 150]) send(length);
  assert.deepEqual([sentBytes(), ended()], [[600, 300], []]);
  assert.match(await metrics.text(), /parhelion_streams_parsed_notifications_left_out_total 2/);
  const warnings = () => log.lines.filter(({ level }) => level === 'warn').length;
  assert.equal(warnings(), 1);
  // The sockets have taken all of it.
  for (const bytes of [600, 300]) ask({ ask: 'took', id: 1, bytes });
  send(800);
  assert.deepEqual([sentBytes(), ended()], [[600, 300, 800], []]);
  send(800);
  assert.equal(warnings(), 2);
});

test('a client that does not read the replay of its parsed subscription learns 1008, as it would not get the rest', () => {
  const { send, ended } = createLine(parsed(5));
  for (const length of [600, 600]) send(length);
  assert.deepEqual(ended(), [
    { tell: 'ended', id: 1, code: 1008, details: 'more than 600 bytes of notifications behind' },
  ]);
});

test('a subscription that cannot leave anything out ends with 1013, and the reason says that the service is behind', () => {
  const { send, ended } = createLine({ kind: 'slot', level: 'confirmed', from: null });
  for (const length of [600, 600]) send(length);
  assert.deepEqual(ended(), [{ tell: 'ended', id: 1, code: 1013, details: 'the service is behind, try again later' }]);
});

test('the reason says which shortage of the daemon ended a subscription', () => {
  const { reader, ended } = createLine(parsed(null));
  reader.lagged('interfaces of programs cannot be read, try again later');
  assert.deepEqual(ended(), [
    { tell: 'ended', id: 1, code: 1013, details: 'interfaces of programs cannot be read, try again later' },
  ]);
});
