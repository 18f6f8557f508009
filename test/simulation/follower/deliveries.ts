import assert from 'node:assert/strict';
import { createParsedTransactions } from '../../../plugins/parsed/board.ts';
import { createBodyBuilder } from '../../../plugins/webhooks/bodies.ts';
import { createOutboxQueue } from '../../../plugins/webhooks/delivery/queue.ts';
import { createHookIndex, createHookSync } from '../../../plugins/webhooks/hook-index.ts';
import { createDepth, createParsedMatcher, createWebhooksProcessor } from '../../../plugins/webhooks/match.ts';
import { deliveryKey } from '../../../plugins/webhooks/model.ts';
import { insertAddresses, insertHook } from '../../../plugins/webhooks/store/hooks.ts';
import { migrations, type WebhookDb } from '../../../plugins/webhooks/store/tables.ts';
import { createOutbox, insertJobs } from '../../../src/jobs/outbox.ts';
import { jobMigrations } from '../../../src/jobs/table.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import { type BlockProcessor, CodedError } from '../../../src/plugin/plugin.ts';
import type { Clock, Random } from '../../../src/ports/clock.ts';
import type { Store } from '../../../src/ports/store.ts';
import { createWords } from '../../../src/solana/parsers/parser.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { createSfc32, type Sfc32 } from '../../helpers/sfc32.ts';
import { KEYS, keyOf, type World } from './world.ts';

/**
 * The real webhooks in the simulation: three of them over the made-up transactions, one of which has a filter over instructions, and
 * somebody who delivers now and then.
 */

const CHAINS = ['main'] as const;
const RAW_BODIES = createBodyBuilder({
  extraKeys: false,
  explorerUrlTemplate: '',
  explorerCluster: () => '',
  enhance: () => assert.fail('only raw webhooks'),
});
const MANY = 1_000_000;
const PARSED = 'hook-parsed';
/** Which of the made-up keys each webhook watches. */
const HOOKS = [
  { id: 'hook-a', keys: [0] },
  { id: 'hook-b', keys: [0, 1] },
  { id: PARSED, keys: [1, 2] },
] as const;
/** How often interfaces cannot be read. */
const UNREAD = 0.15;

export const deliveryScopes = [
  { scope: 'kernel.jobs', migrations: jobMigrations },
  { scope: 'webhooks', migrations },
];

export async function addHooks(store: Store): Promise<void> {
  for (const [index, { id, keys }] of HOOKS.entries())
    await store.write(async (tx) => {
      const number = index + 1;
      const isParsed = id === PARSED;
      const include = keys.map((key) => encode32(KEYS[key]!));
      const filter = { programs: [], instructionNames: [], include, roles: [], includeFailed: false, includeCpi: true };
      await insertHook(tx.db as WebhookDb, {
        number,
        id,
        projectId: 'project',
        url: 'https://receiver.example/',
        type: isParsed ? 'parsed' : 'raw',
        transactionTypes: [],
        authHeader: null,
        active: true,
        txnStatus: null,
        encoding: null,
        matchTokenOwners: false,
        batchSize: 1,
        ordered: false,
        onInactive: 'drop',
        retryPreset: 'durable',
        addressCount: keys.length,
        nextPosition: keys.length,
        disabledReason: null,
        disabledAt: null,
        graceUntil: null,
        createdAt: 0,
        updatedAt: 0,
        wallet: null,
        parsed: isParsed ? { filter, details: 'full' } : null,
        name: null,
        description: null,
      });
      if (isParsed) return;
      await insertAddresses(
        tx,
        number,
        keys.map((key) => KEYS[key]!),
        0,
      );
    });
}

/** As a process would make it: nothing that it remembers outlives it. */
export function createDeliveries(store: Store, clock: Clock, random: Random): BlockProcessor {
  const outbox = createOutbox({ store, clock, wake: () => {} });
  const enqueue: Parameters<typeof createOutboxQueue>[0]['enqueue'] = (tx, jobs) => insertJobs(tx, jobs, clock.now());
  const queue = createOutboxQueue({ outbox, enqueue, chains: CHAINS });
  const draw = createSfc32(clock.now());
  const parsed = createParsedTransactions({
    interfaces: {
      async learn() {
        if (draw.float() < UNREAD) throw new CodedError('UPSTREAM_TIMEOUT', 'the upstream did not answer');
        const learned = { find: () => null, versionsOf: () => [], with: () => learned };
        return learned;
      },
      follow: () => {},
    },
    ownOf: async () => null,
    words: createWords(null),
    random,
  });
  const sync = createHookSync(() => createHookIndex(random, parsed));
  return createWebhooksProcessor({
    queue,
    clock,
    chains: CHAINS,
    depth: createDepth({ maxRows: MANY }),
    bodies: RAW_BODIES,
    matched: () => {},
    // Never full: the real one keeps counts of a hundred thousand webhooks.
    room: { reserveRoom: async () => new Map() },
    sync,
    parsed: createParsedMatcher({ sync, store, clock, log: createMemoryLog() }),
  });
}

/** Some of the deliveries that wait are tried, and most of those succeed. */
export async function deliverSome(store: Store, draw: Sfc32): Promise<void> {
  const rows = await store.read
    .selectFrom('outbox')
    .select(['id'])
    .where('state', '=', 'pending')
    .orderBy('id')
    .execute();
  const tried = rows.filter(() => draw.float() < 0.4).map(({ id }) => id);
  if (tried.length === 0) return;
  const isOver = draw.float() < 0.7;
  await store.write(async ({ db }) => {
    await db
      .updateTable('outbox')
      .set({ claims: 1, attempts: 1, state: isOver ? 'done' : 'pending', finished_at: isOver ? 1 : null })
      .where('id', 'in', tried)
      // A fork may have taken one back since they were read; a deliverer asks for the same.
      .where('state', '=', 'pending')
      .execute();
  });
}

/** What is wrong with the outbox, in words; null when each delivery of the chain is there once, at its slot, and nothing else is. */
export async function outboxFault(store: Store, world: World): Promise<string | null> {
  const wanted = new Map<string, number>();
  for (const { slot, signatures } of world.chain)
    for (const signature of signatures)
      for (const { id, keys } of HOOKS)
        if ((keys as readonly number[]).includes(keyOf(signature))) wanted.set(deliveryKey(id, signature), slot);
  const missed = await store.read
    .selectFrom('webhook_missed')
    .select(['from_slot', 'to_slot', 'reason'])
    .where('number', '=', HOOKS.length)
    .execute();
  // What was not compared can be replayed.
  const isMissed = (slot: number) =>
    missed.some((row) => row.from_slot <= slot && slot <= row.to_slot && row.reason === 'interfaces_unread');
  const isUnread = (key: string, slot: number) => key.startsWith(`${PARSED}:`) && isMissed(slot);
  const rows = await store.read.selectFrom('outbox').select(['key', 'slot', 'state', 'claims', 'error']).execute();
  for (const { key, slot, state, claims, error } of rows) {
    if (String(key).includes('#forked#')) {
      if (state !== 'discarded' || error !== 'forked' || claims !== 0) return `a forked delivery is ${state}: ${key}`;
      continue;
    }
    const expected = wanted.get(key as string);
    wanted.delete(key as string);
    if (expected === undefined && claims === 0) return `a delivery of no block, never tried: ${key} at ${slot}`;
    // It was tried before its block was forked away, and where it came again nothing was compared.
    const isOfFork = expected !== undefined && claims > 0 && isUnread(key as string, expected);
    if (expected !== undefined && expected !== slot && !isOfFork)
      return `a delivery at ${slot} and not at ${expected}: ${key}`;
    if (expected !== undefined && state === 'discarded') return `a delivery of the chain is discarded: ${key}`;
  }
  const lost = [...wanted].find(([key, slot]) => !isUnread(key, slot));
  return lost === undefined ? null : `no delivery for ${lost[0]}`;
}
