import { createHash } from 'node:crypto';
import { createLru } from '../../src/lib/lru.ts';
import { type BlockProcessor, type Log, messageOf, type NewJob, type Store } from '../../src/plugin/plugin.ts';
import type { AccessPlans, StoredBudgets } from '../../src/ports/access.ts';
import type { ChainBlock, NormalTransaction } from '../../src/ports/block.ts';
import type { ChainId } from '../../src/ports/chain.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { ParsedDetails, ParsedMatch } from '../../src/ports/parsed-transactions.ts';
import type { StoreTx } from '../../src/ports/store.ts';
import { matchBlock, type TransactionMatch } from '../../src/solana/address-set.ts';
import type { BlockBodies, BodyBuilder } from './bodies.ts';
import type { DeliveryQueue } from './delivery/queue.ts';
import type { HookIndex, HookSync } from './hook-index.ts';
import {
  type BodyForm,
  chainOf,
  type DeliveryPayload,
  deliveryKey,
  deliveryKind,
  formOf,
  type PlainForm,
  REASONS,
  takesEvents,
  type Webhook,
  wantsOutcome,
  wantsType,
} from './model.ts';
import { watchedAddresses } from './store/changes.ts';
import { addRefs, elementKey, elementsOfSlot, insertElements, type StoredElement } from './store/deliveries.ts';
import { addHealth, type HealthDelta, MINUTE_MS } from './store/health.ts';
import { listHooks } from './store/hooks.ts';
import { addMissed, type MissReason } from './store/missed.ts';
import type { WebhookDb } from './store/tables.ts';

/** Name of the processor's cursor. */
export const PROCESSOR_NAME = 'webhooks';

interface ProcessorParts extends QueueEventsParts {
  readonly sync: HookSync;
  /** Null: transactions cannot be parsed. */
  readonly parsed: ParsedMatcher | null;
  readonly queue: DeliveryQueue;
  readonly chains: readonly ChainId[];
  readonly bodies: BodyBuilder;
  readonly depth: Depth;
  matched(count: number): void;
  /** Called for each reverted block, in its transaction. */
  reverted?(tx: StoreTx, chain: ChainId, slot: number): void;
}

/** Turns the transactions of a block into deliveries, one per webhook and transaction, in the transaction of the block. */
export function createWebhooksProcessor(parts: ProcessorParts): BlockProcessor {
  /** Blocks come one after another above this slot. */
  let top = -1;
  return {
    name: PROCESSOR_NAME,
    version: 1,
    chains: parts.chains,
    ...(parts.parsed !== null && {
      async prepare(block: ChainBlock, chain: ChainId) {
        if (chain !== 'main') return;
        const isLive = block.slot > top;
        await parts.parsed!.prepare(block, { isLive });
        if (isLive) top = block.slot;
      },
    }),
    async apply(tx, block, chain) {
      const index = await parts.sync.current(tx);
      const found = matchBlock(block, index.addresses(chain), { owners: true });
      const parsed = chain === 'main' ? (parts.parsed?.of(block) ?? NOTHING) : NOTHING;
      await noteUnread(tx, { chain, slot: block.slot, now: parts.clock.now() }, index, parsed.unread);
      const events = matchedEvents(block, chain, index, { found, parsed: parsed.events }, parts.bodies);
      if (events.length === 0) return;
      const added = await queueEvents(parts, tx, chain, block.slot, events);
      tx.onCommit(() => {
        parts.depth.added(added);
        parts.matched(added);
      });
    },
    async revert(tx, header, chain) {
      if (chain === 'main') top = Math.min(top, header.slot - 1);
      parts.reverted?.(tx, chain, header.slot);
      await parts.queue.forget(tx, chain, header.slot);
    },
    // A transaction makes one delivery per webhook, however often and in whatever order its block arrives.
    outOfOrder: true,
    addresses: (db, chain, limit) => watchedAddresses(db as WebhookDb, chain, limit),
    pressure: parts.depth.pressure,
  };
}

interface ParsedEvent {
  /** Number of the webhook. */
  readonly number: number;
  readonly match: ParsedMatch;
}

/** What the filters of parsed webhooks found in a block. */
interface ParsedFound {
  readonly events: readonly ParsedEvent[];
  /** Transactions that were not compared, because the interfaces of their programs could not be read, by number of the webhook. */
  readonly unread: ReadonlyMap<number, number>;
}

const NOTHING: ParsedFound = { events: [], unread: new Map() };

/** Compares blocks with the filters of parsed webhooks, before their transactions: it may have to read interfaces from an upstream. */
export interface ParsedMatcher {
  /** Errors: for blocks that are not live, the interfaces of programs cannot be read now. */
  prepare(block: ChainBlock, how: { readonly isLive: boolean }): Promise<void>;
  /** What `prepare` found. Errors: the block was not prepared. */
  of(block: ChainBlock): ParsedFound;
}

interface ParsedMatcherParts {
  readonly sync: HookSync;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
}

/** Pauses before the further attempts to read interfaces; after the last one the chain continues without them. */
const READ_PAUSES_MS = [1_000, 4_000];
/** No attempt starts after this time, because the deadline of a block processor is near. */
const READ_MS = 15_000;

export function createParsedMatcher({ sync, store, clock, log }: ParsedMatcherParts): ParsedMatcher {
  const prepared = new WeakMap<ChainBlock, ParsedFound>();
  let isDown = false;

  /**
   * Interfaces that cannot be read must not stop the chain: possible events of a live block become a missed range, which a replay
   * reads. While the problem lasts, each block makes only one attempt.
   */
  async function compare(block: ChainBlock, isLive: boolean): Promise<ParsedFound> {
    const { filters } = await sync.committed(store);
    if (filters === null) return NOTHING;
    const pauses = isDown || !isLive ? [] : READ_PAUSES_MS;
    const startedAt = clock.monotonic();
    for (let attempt = 0; ; attempt++) {
      try {
        const unread = new Map<number, number>();
        const found = await filters.match(block, {
          isLive,
          // Its project can upload another interface, and replay what it has missed.
          costly: (number) => unread.set(number, filters.candidates(block).get(number) ?? 1),
        });
        if (isLive) isDown = false;
        return { events: [...found].flatMap(([number, list]) => list.map((match) => ({ number, match }))), unread };
      } catch (error) {
        if (!isLive) throw error;
        const pause = pauses[attempt];
        if (pause !== undefined && clock.monotonic() - startedAt < READ_MS) {
          await clock.sleep(pause);
          continue;
        }
        if (!isDown)
          log.warn(
            { slot: block.slot, error: messageOf(error) },
            'interfaces of programs cannot be read: events of parsed webhooks are recorded as missed',
          );
        isDown = true;
        return { events: [], unread: filters.candidates(block) };
      }
    }
  }

  return {
    async prepare(block, { isLive }) {
      prepared.set(block, await compare(block, isLive));
    },
    of(block) {
      const found = prepared.get(block);
      if (found === undefined) throw new Error(`block ${block.slot} was not prepared`);
      return found;
    },
  };
}

/** Records possible events of a block that was not matched. For a webhook that was edited since then, its former filter counts. */
async function noteUnread(
  tx: StoreTx,
  place: Parameters<typeof addMissed>[1],
  index: HookIndex,
  unread: ParsedFound['unread'],
): Promise<void> {
  const missed = [...unread].flatMap(([number, events]) => {
    const hook = index.hook(number);
    return hook === undefined || !takesEvents(hook) ? [] : [{ number, events, reason: 'interfaces_unread' as const }];
  });
  if (missed.length > 0) await addMissed(tx, place, missed);
}

export interface Depth {
  /** Deliveries were added since the last count. */
  added(count: number): void;
  /** A new count of unfinished deliveries. */
  counted(depth: number): void;
  readonly value: () => number;
  readonly pressure: NonNullable<BlockProcessor['pressure']>;
}

/** Tracks the number of waiting deliveries between counts; at the limit the follower pauses, and nothing is dropped. */
export function createDepth(outbox: { readonly maxRows: number }): Depth {
  let depth = 0;
  return {
    added: (count) => {
      depth += count;
    },
    counted: (count) => {
      depth = count;
    },
    value: () => depth,
    pressure: () =>
      depth < outbox.maxRows
        ? { ok: true }
        : { ok: false, reason: `${depth} deliveries are waiting; webhooks.outbox.maxRows is ${outbox.maxRows}` },
  };
}

export interface QueueEventsParts {
  readonly queue: DeliveryQueue;
  readonly clock: Clock;
  readonly room: HookRoom;
}

/**
 * Puts the events of a block into the outbox, each with its element. A transaction that was seen in another block before keeps the
 * deliveries that were attempted, which move to this one; only missing ones are added. Returns how many were added.
 */
export async function queueEvents(
  parts: QueueEventsParts,
  tx: StoreTx,
  chain: ChainId,
  slot: number,
  matched: readonly MatchedEvent[],
): Promise<number> {
  const { queue, clock, room } = parts;
  const nowMs = clock.now();
  const full = await room.reserveRoom(tx, chain, matched);
  const keys = matched.flatMap(({ hooks, signature }) => hooks.map(({ id }) => deliveryKey(id, signature)));
  const existing = await queue.existing(tx, chain, keys);
  await queue.moveSlot(tx, chain, [...existing], slot);
  const isMissing = ({ signature }: MatchedEvent, { id }: Webhook) => !existing.has(deliveryKey(id, signature));
  const missing = existing.size === 0 ? matched : onlyHooks(matched, isMissing);
  if (full.size > 0) await refuse(tx, { chain, slot, now: nowMs }, missing, full);
  const events = full.size === 0 ? missing : onlyHooks(missing, (_, { id }) => !full.has(id));
  await addElements(
    tx,
    events.map(({ signature, form, json, hooks }) => ({ signature, slot, chain, form, json, refs: hooks.length })),
    nowMs,
  );
  const jobs = events.flatMap((event) => event.hooks.map((hook) => newJob({ chain, slot, nowMs }, event, hook)));
  return await queue.enqueue(tx, jobs);
}

/** If the slot was read before, for other webhooks or in another fork, some of its elements are already stored. */
async function addElements(tx: StoreTx, elements: readonly StoredElement[], nowMs: number): Promise<void> {
  const [first] = elements;
  if (first === undefined) return;
  const stored = await elementsOfSlot(tx, first.chain, first.slot);
  const isStored = (element: StoredElement) => stored.has(elementKey(element));
  await insertElements(tx, stored.size === 0 ? elements : elements.filter((one) => !isStored(one)), nowMs);
  if (stored.size > 0) for (const element of elements.filter(isStored)) await addRefs(tx, element);
}

interface JobPlace {
  readonly chain: ChainId;
  readonly slot: number;
  readonly nowMs: number;
}

/** More than the transactions of any block; its product with the highest slot is an exact number. */
const POSITIONS = 1_000_000;
/** How long the events of a batch are gathered. */
const GATHER_MS = 1_000;

function newJob(
  { chain, slot, nowMs }: JobPlace,
  { signature, form, index, json }: MatchedEvent,
  hook: Webhook,
): NewJob {
  const payload: DeliveryPayload = { signature, slot, chain, form, bytes: Buffer.byteLength(json) };
  const held = hook.active ? null : REASONS.inactive;
  return {
    kind: deliveryKind(chain),
    key: deliveryKey(hook.id, signature),
    group: hook.id,
    payload,
    slot,
    ...(hook.ordered ? { position: slot * POSITIONS + index } : {}),
    ...(hook.batchSize > 1 ? { runAt: nowMs + GATHER_MS } : {}),
    ...(held === null ? {} : { held }),
  };
}

/** The events, each with only the webhooks that are wanted. */
function onlyHooks(
  events: readonly MatchedEvent[],
  isWanted: (event: MatchedEvent, hook: Webhook) => boolean,
): readonly MatchedEvent[] {
  return events.flatMap((event) => {
    const hooks = event.hooks.filter((hook) => isWanted(event, hook));
    return hooks.length === 0 ? [] : [{ ...event, hooks }];
  });
}

/** Counts events without room as missed ranges of slots, which a replay can read, and does not store them. */
async function refuse(
  tx: StoreTx,
  place: { readonly chain: ChainId; readonly slot: number; readonly now: number },
  events: readonly MatchedEvent[],
  full: ReadonlyMap<string, MissReason>,
): Promise<void> {
  const missed = new Map<number, { events: number; readonly reason: MissReason }>();
  for (const { id, number } of events.flatMap(({ hooks }) => hooks)) {
    const reason = full.get(id);
    if (reason === undefined) continue;
    const one = missed.get(number) ?? { events: 0, reason };
    one.events += 1;
    missed.set(number, one);
  }
  await addMissed(
    tx,
    place,
    [...missed].map(([number, one]) => ({ number, ...one })),
  );
  const minute = Math.floor(place.now / MINUTE_MS);
  const none = { succeeded: 0, attemptsOk: 0, attemptsFailed: 0, lastSuccessAt: 0 };
  await addHealth(
    tx,
    [...missed].map(([number, one]): HealthDelta => ({ ...none, number, minute, failed: one.events })),
  );
}

/** A transaction in one form, with the webhooks that match it. */
interface MatchedEvent {
  readonly signature: string;
  /** Position in the block. */
  readonly index: number;
  readonly form: BodyForm;
  readonly hooks: readonly Webhook[];
  /** The element of the request body. */
  readonly json: string;
}

interface FoundInBlock {
  readonly found: readonly TransactionMatch[];
  readonly parsed: readonly ParsedEvent[];
}

/** The events of a block, in its order. */
export function matchedEvents(
  block: ChainBlock,
  chain: ChainId,
  index: HookIndex,
  { found, parsed }: FoundInBlock,
  builder: BodyBuilder,
): readonly MatchedEvent[] {
  if (found.length + parsed.length === 0) return [];
  const events: MatchedEvent[] = parsedEvents(block, index, parsed);
  const bodies = builder.ofBlock(block, chain);
  for (const match of found) {
    const transaction = block.transactions[match.index];
    if (transaction === undefined) continue;
    const hooks = hooksOf(index, chain, match, transaction, bodies);
    const { signature } = transaction;
    for (const [form, wanting] of byForm(hooks)) {
      const json = bodies.element(transaction, form);
      events.push({ signature, index: match.index, form, hooks: wanting, json });
    }
  }
  return events.sort((left, right) => left.index - right.index);
}

/** Webhooks that want the same of a transaction share its element. */
function parsedEvents(block: ChainBlock, index: HookIndex, parsed: readonly ParsedEvent[]): MatchedEvent[] {
  const groups = new Map<
    string,
    { readonly match: ParsedMatch; readonly details: ParsedDetails; readonly hooks: Webhook[] }
  >();
  for (const { number, match } of parsed) {
    const hook = index.hook(number);
    if (hook?.parsed == null || !takesEvents(hook)) continue;
    if (!wantsOutcome(hook, block.transactions[match.index]?.error !== null)) continue;
    const { details } = hook.parsed;
    const key = `${match.index} ${match.key(details)}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { match, details, hooks: [hook] });
    else group.hooks.push(hook);
  }
  return Array.from(groups.values(), ({ match, details, hooks }) => {
    const { signature, index: at } = match;
    const hash = createHash('sha256').update(match.key(details)).digest('hex').slice(0, FORM_HASH_DIGITS);
    return { signature, index: at, form: `parsed/${hash}` as const, hooks, json: match.text(details) };
  });
}

/** Enough for the few contents that are shown of one transaction. */
const FORM_HASH_DIGITS = 32;

function byForm(hooks: readonly Webhook[]): ReadonlyMap<PlainForm, readonly Webhook[]> {
  const groups = new Map<PlainForm, Webhook[]>();
  for (const hook of hooks) {
    const form = formOf(hook.type);
    // Their filters are compared otherwise.
    if (form === 'parsed') continue;
    const group = groups.get(form);
    if (group === undefined) groups.set(form, [hook]);
    else group.push(hook);
  }
  return groups;
}

function hooksOf(
  index: HookIndex,
  chain: ChainId,
  { byKey, byTokenOwner }: TransactionMatch,
  transaction: NormalTransaction,
  bodies: BlockBodies,
): readonly Webhook[] {
  const hooks: Webhook[] = [];
  const failed = transaction.error !== null;
  const consider = (number: number, onlyByOwner: boolean): void => {
    const hook = index.hook(number);
    if (hook === undefined || !takesEvents(hook) || chainOf(hook.type) !== chain || !wantsOutcome(hook, failed)) return;
    if (onlyByOwner && !hook.matchTokenOwners) return;
    if (wantsType(hook, () => bodies.typeOf(transaction))) hooks.push(hook);
  };
  for (const number of byKey) consider(number, false);
  for (const number of byTokenOwner) consider(number, true);
  return hooks;
}

interface HookRoom {
  /** Reserves room for the events; returns the webhooks (by id) without enough room, and why. */
  reserveRoom(tx: StoreTx, chain: ChainId, events: readonly MatchedEvent[]): Promise<ReadonlyMap<string, MissReason>>;
}

interface RoomBounds {
  /** `outbox.maxPerWebhook` limits the waiting deliveries of an active webhook, `hold.maxRows` those of one that is off. */
  readonly config: { readonly outbox: { readonly maxPerWebhook: number }; readonly hold: { readonly maxRows: number } };
  /** Storage limits of plans; null without plans. */
  readonly plans: AccessPlans | null;
  readonly budgets: StoredBudgets | null;
}

export interface Amount {
  events: number;
  bytes: number;
}

/** Remaining storage of a project. */
interface ProjectRoom extends Amount {
  /** Monotonic milliseconds: not counted again before. */
  countedAgainAt: number;
}

const MAX_WEBHOOKS = 100_000;
const MAX_PROJECTS = 10_000;
/** A full project is counted at most this often: counting takes longer the more is stored. */
const FULL_MS = 10_000;

/**
 * Limits the stored events of each webhook, and of all webhooks of a project. Both are counted once and again only when the room found by
 * that count is used up, so that most blocks need no count. A webhook that is off and holds always has room within its
 * project: its oldest events are dropped.
 */
export function createHookRoom(queue: DeliveryQueue, clock: Clock, bounds: RoomBounds): HookRoom {
  const left = createLru<string, number>({ max: MAX_WEBHOOKS });
  const projects = createLru<string, ProjectRoom>({ max: MAX_PROJECTS });

  async function take(tx: StoreTx, chain: ChainId, { id, active }: Webhook, need: number): Promise<boolean> {
    const { outbox, hold } = bounds.config;
    const most = active ? outbox.maxPerWebhook : hold.maxRows;
    const name = active ? id : `${id} held`;
    let room = left.get(name) ?? 0;
    if (room < need) room = most - (await queue.countWaiting(tx, chain, id, most));
    if (room < need && !active) {
      room += await queue.discardHeld(tx, id, { limit: need - room }, REASONS.tooManyHeld);
      // A single block above the limit is admitted once: the next ones push it out.
      room = Math.max(room, need);
    }
    // Room taken by a reverted block is not returned: the next count corrects it.
    if (room < need) return false;
    left.set(name, room - need);
    return true;
  }

  async function takeOfProject(tx: StoreTx, project: string, need: Amount): Promise<boolean> {
    const known = projects.get(project);
    const now = clock.monotonic();
    const isCounted = known !== undefined && (fits(known, need) || now < known.countedAgainAt);
    const room = isCounted ? known : await countProject(tx, project, now);
    projects.set(project, room);
    if (!fits(room, need)) {
      room.countedAgainAt = Math.max(room.countedAgainAt, now + (isCounted ? 0 : FULL_MS));
      return false;
    }
    room.events -= need.events;
    room.bytes -= need.bytes;
    return true;
  }

  async function countProject(tx: StoreTx, project: string, now: number): Promise<ProjectRoom> {
    const budgets = await bounds.plans?.budgets(tx.db, project);
    const events = budgets?.storedEvents ?? Number.POSITIVE_INFINITY;
    const bytes = budgets?.storedEventBytes ?? Number.POSITIVE_INFINITY;
    const room = { events, bytes, countedAgainAt: now };
    // Without a limit nothing is counted, but the plan is read again later.
    if (events === Number.POSITIVE_INFINITY && bytes === Number.POSITIVE_INFINITY)
      return { ...room, events: PLAN_EVENTS };
    const stored = await storedOf(queue, tx.db as WebhookDb, project, tx);
    return { ...room, events: events - stored.events, bytes: bytes - stored.bytes };
  }

  return {
    async reserveRoom(tx, chain, events) {
      const needs = new Map<Webhook, Amount>();
      for (const { hooks, json } of events) {
        const bytes = Buffer.byteLength(json);
        for (const hook of hooks) {
          const need = needs.get(hook) ?? { events: 0, bytes: 0 };
          needs.set(hook, { events: need.events + 1, bytes: need.bytes + bytes });
        }
      }
      const full = new Map<string, MissReason>();
      for (const [hook, need] of needs) {
        // The project first: a webhook that is off makes room by discarding its oldest.
        if (!(await takeOfProject(tx, hook.projectId, need))) {
          full.set(hook.id, 'plan_full');
          bounds.budgets?.refused('storedEvents', hook.projectId);
        } else if (!(await take(tx, chain, hook, need.events))) full.set(hook.id, 'queue_full');
      }
      return full;
    },
  };
}

/** Events of all webhooks of a project that are queued, held or failed. */
export async function storedOf(queue: DeliveryQueue, db: WebhookDb, project: string, tx?: StoreTx): Promise<Amount> {
  const all = { events: 0, bytes: 0 };
  for (const { id } of await listHooks(db, project)) {
    const stored = await queue.stored(id, tx);
    all.events += stored.events;
    all.bytes += stored.bytes;
  }
  return all;
}

/** After this many events of a project without a limit its plan is read again: it may have changed. */
const PLAN_EVENTS = 1_000_000;

const fits = (room: Amount, need: Amount): boolean => room.events >= need.events && room.bytes >= need.bytes;
