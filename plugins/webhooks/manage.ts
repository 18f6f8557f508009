import { codeOf } from '../../src/lib/coded-error.ts';
import { RequestError } from '../../src/plugin/request.ts';
import type { AccessCharges, AccessPlans, Caller, StoredBudgets } from '../../src/ports/access.ts';
import type { ChainId } from '../../src/ports/chain.ts';
import type { Clock, Random } from '../../src/ports/clock.ts';
import type { Following } from '../../src/ports/following.ts';
import type { Store, StoreTx } from '../../src/ports/store.ts';
import type { Log } from '../../src/ports/telemetry.ts';
import type { WebhooksConfig } from './config.ts';
import type { WaitingDeliveries } from './delivery/queue.ts';
import { newSecret } from './delivery/send.ts';
import {
  type InputRules,
  parsedSelection,
  parseInput,
  refuseTooMany,
  refuseUnavailable,
  storedStatusOf,
  type WebhookInput,
} from './input.ts';
import { chainOf, type ParsedSelection, REASONS, type Webhook, type WebhookType } from './model.ts';
import { beginChange, recordChange, takeNumber } from './store/changes.ts';
import { resetHealth } from './store/health.ts';
import {
  clearAddresses,
  countHooks,
  deleteHook,
  findHook,
  indexKeyText,
  insertAddresses,
  insertHook,
  insertSecret,
  listHooks,
  presentAddresses,
  readAddresses,
  removeAddresses,
  retireSecrets,
  updateHook,
  type WebhookPatch,
} from './store/hooks.ts';
import type { WebhookDb } from './store/tables.ts';

/** Parts used by the management of webhooks. */
export interface ManageContext {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly config: WebhooksConfig;
  readonly rules: InputRules;
  /** Limits of plans; null without plans. */
  readonly plans: AccessPlans | null;
  /** Credits; null when they are not counted. */
  readonly charges: AccessCharges | null;
  readonly budgets: StoredBudgets | null;
  /** Ensures that everything that happens on a chain from now on will be processed. */
  ensureFollowed(chain: ChainId): Promise<void>;
  /** Unfinished deliveries. */
  readonly waiting: WaitingDeliveries;
}

/** A write to one webhook, in an open transaction. */
export interface HookWrite {
  readonly tx: StoreTx;
  readonly db: WebhookDb;
  readonly hook: Webhook;
  readonly now: number;
  /** Records the change for the address indexes; without keys only the row of the webhook is read again. */
  record(removed?: readonly Uint8Array[], added?: readonly Uint8Array[]): Promise<void>;
}

/**
 * Runs a write to one webhook of a project. Writes are serialized across all processes, so that the state read here holds until
 * the commit. Throws 404 for a webhook that does not exist or belongs to another project.
 */
export function writeHook<T>(
  { store, clock }: ManageContext,
  projectId: string,
  id: string,
  work: (write: HookWrite) => Promise<T>,
): Promise<T> {
  return store.write(async (tx) => {
    const version = await beginChange(tx);
    const db = tx.db as WebhookDb;
    const hook = await findHook(db, projectId, id);
    if (hook === null) throw webhookNotFound();
    const now = clock.now();
    const { number } = hook;
    return work({
      tx,
      db,
      hook,
      now,
      record: (removed = [], added = []) => recordChange(tx, { version, number, removed, added }, now),
    });
  });
}

/** Address limit of one webhook of a project. */
async function maxAddresses({ plans, config }: ManageContext, db: WebhookDb, projectId: string): Promise<number> {
  return Math.min(config.maxAddresses, (await plans?.maxAddresses(db, projectId)) ?? config.maxAddresses);
}

export const webhookNotFound = (): RequestError => new RequestError(404, 'webhook not found');

export interface CreatedHook {
  readonly hook: Webhook;
  readonly addresses: readonly Uint8Array[];
  /** Returned only in this response. */
  readonly signingSecret: string;
}

/** Stores a new webhook with its first signing secret. Errors: 400. */
export async function createHook(
  context: ManageContext,
  { projectId, wallet }: Pick<Caller, 'projectId' | 'wallet'>,
  body: unknown,
): Promise<CreatedHook> {
  const { store, clock, random, config, rules } = context;
  const input = parseInput(body, rules);
  if (input.url === undefined) throw new RequestError(400, 'webhookURL is required');
  refuseUnavailable(input.type ?? 'enhanced', rules);
  const addresses = input.addresses ?? [];
  refuseTooMany(addresses.length, config.maxAddresses);
  const parsed = parsedSelection(input, input.type ?? 'enhanced', null);
  await context.ensureFollowed(chainOf(input.type ?? 'enhanced'));
  const id = random.uuid();
  const signingSecret = newSecret(random);
  const { url } = input;
  const hook = await store.write(async (tx) => {
    const version = await beginChange(tx);
    const db = tx.db as WebhookDb;
    const ofPlan = (await context.plans?.maxWebhooks(db, projectId)) ?? config.maxPerProject;
    if ((await countHooks(db, projectId)) >= Math.min(ofPlan, config.maxPerProject))
      throw new RequestError(400, 'reached webhook limit');
    refuseTooMany(addresses.length, await maxAddresses(context, db, projectId));
    const now = clock.now();
    const number = await takeNumber(tx);
    const made = newHook({ ...input, url }, context, {
      number,
      id,
      projectId,
      wallet,
      count: addresses.length,
      now,
      parsed,
    });
    await insertHook(db, made);
    await insertAddresses(tx, number, addresses, 0);
    await insertSecret(db, number, signingSecret, now);
    await recordChange(tx, { version, number, removed: [], added: addresses }, now);
    return made;
  });
  return { hook, addresses, signingSecret };
}

interface NewHook {
  readonly number: number;
  readonly id: string;
  readonly projectId: string;
  readonly wallet: string | null;
  readonly count: number;
  readonly now: number;
  readonly parsed: ParsedSelection | null;
}

function newHook(
  input: WebhookInput & { url: string },
  { config }: ManageContext,
  { number, id, projectId, wallet, count, now, parsed }: NewHook,
): Webhook {
  const type = input.type ?? 'enhanced';
  const active = input.active ?? true;
  return {
    number,
    id,
    projectId,
    url: input.url,
    type,
    transactionTypes: storedTypes(type, input.transactionTypes ?? []),
    authHeader: input.authHeader ?? null,
    active,
    txnStatus: input.txnStatus ?? null,
    encoding: input.encoding ?? null,
    matchTokenOwners: input.matchTokenOwners ?? config.matchTokenOwners,
    retryPreset: input.retryPreset ?? config.defaultPreset,
    batchSize: input.batchSize ?? 1,
    ordered: input.ordered ?? false,
    onInactive: input.onInactive ?? 'drop',
    addressCount: count,
    nextPosition: count,
    disabledReason: active ? null : 'user',
    disabledAt: active ? null : now,
    graceUntil: null,
    createdAt: now,
    updatedAt: now,
    wallet,
    parsed,
    name: input.name ?? null,
    description: input.description ?? null,
  };
}

/** An empty filter would match no transaction; raw webhooks are not filtered and keep the given list. */
function storedTypes(type: WebhookType, given: readonly string[]): readonly string[] {
  return given.length === 0 && !type.startsWith('raw') ? ['ANY'] : given;
}

interface EditedHook {
  readonly hook: Webhook;
  readonly addresses: readonly Uint8Array[];
}

/** Merges the fields of a request into a webhook: missing fields keep their values. Errors: 400, 404. */
export async function editHook(
  context: ManageContext,
  projectId: string,
  id: string,
  body: unknown,
): Promise<EditedHook> {
  const input = parseInput(body, context.rules);
  if (input.addresses !== undefined) refuseTooMany(input.addresses.length, context.config.maxAddresses);
  if (input.type !== undefined) await context.ensureFollowed(chainOf(input.type));
  return writeHook(context, projectId, id, (write) => applyEdit(context, write, input));
}

/** Switches a webhook on or off. Errors: 404. */
export async function toggleHook(
  context: ManageContext,
  projectId: string,
  id: string,
  active: boolean,
): Promise<EditedHook> {
  return writeHook(context, projectId, id, (write) => applyEdit(context, write, { active }));
}

async function applyEdit(context: ManageContext, write: HookWrite, input: WebhookInput): Promise<EditedHook> {
  const { hook, db, now, tx } = write;
  if (input.addresses !== undefined) {
    refuseTooMany(input.addresses.length, await maxAddresses(context, db, hook.projectId));
  }
  const before = await readAddresses(db, hook.number);
  const after = input.addresses ?? before;
  const removed = without(before, after);
  const added = without(after, before);
  const reordered = removed.length + added.length > 0 || !sameOrder(before, after);
  const patch = { ...fieldPatch(hook, input), ...togglePatchOf(context, write, input) };
  if (reordered) Object.assign(patch, { addressCount: after.length, nextPosition: after.length });
  if (Object.keys(patch).length > 0) await updateHook(db, hook.number, { ...patch, updatedAt: now });
  if (reordered) {
    await clearAddresses(db, hook.number);
    await insertAddresses(tx, hook.number, after, 0);
  }
  const edited: Webhook = { ...hook, ...patch };
  if (edited.batchSize < hook.batchSize) await context.waiting.dissolveBatches(tx, hook.id);
  if (input.active !== undefined)
    await afterToggle(context, { ...write, hook: { ...edited, active: hook.active } }, input.active);
  // Held deliveries are no longer wanted.
  if (!edited.active && edited.onInactive === 'drop' && hook.onInactive === 'hold') {
    await context.waiting.becameInactive(tx, edited);
  }
  // A webhook that moves to another chain leaves one index completely and enters the other.
  const moves = input.type !== undefined && chainOf(input.type) !== chainOf(hook.type);
  await (moves ? write.record(before, after) : write.record(removed, added));
  return { hook: edited, addresses: after };
}

function togglePatchOf({ config }: ManageContext, { hook, now }: HookWrite, { active }: WebhookInput): WebhookPatch {
  return active === undefined ? {} : togglePatch(hook, active, now, config.graceHours);
}

function fieldPatch(hook: Webhook, input: WebhookInput): WebhookPatch {
  const type = input.type ?? hook.type;
  const isParsed = type === 'parsed';
  const types = isParsed ? ['ANY'] : (input.transactionTypes ?? hook.transactionTypes);
  const parsed = parsedSelection(input, type, hook);
  const txnStatus = storedStatusOf(input, hook, parsed);
  return {
    ...(parsed === hook.parsed ? {} : { parsed }),
    ...(input.url === undefined ? {} : { url: input.url }),
    ...(input.type === undefined ? {} : { type }),
    ...(input.transactionTypes === undefined && input.type === undefined
      ? {}
      : { transactionTypes: storedTypes(type, types) }),
    ...(input.authHeader === undefined ? {} : { authHeader: input.authHeader }),
    ...(txnStatus === null || txnStatus === hook.txnStatus ? {} : { txnStatus }),
    ...(input.encoding === undefined ? {} : { encoding: input.encoding }),
    ...(input.matchTokenOwners === undefined ? {} : { matchTokenOwners: input.matchTokenOwners }),
    ...(input.retryPreset === undefined ? {} : { retryPreset: input.retryPreset }),
    ...(input.batchSize === undefined ? {} : { batchSize: input.batchSize }),
    ...(input.ordered === undefined ? {} : { ordered: input.ordered }),
    ...(input.onInactive === undefined ? {} : { onInactive: input.onInactive }),
    ...(input.name === undefined ? {} : { name: input.name }),
    ...(input.description === undefined ? {} : { description: input.description }),
  };
}

function without(keys: readonly Uint8Array[], others: readonly Uint8Array[]): readonly Uint8Array[] {
  if (keys === others) return [];
  const known = new Set(others.map(indexKeyText));
  return keys.filter((key) => !known.has(indexKeyText(key)));
}

function sameOrder(a: readonly Uint8Array[], b: readonly Uint8Array[]): boolean {
  return a === b || (a.length === b.length && a.every((key, at) => indexKeyText(key) === indexKeyText(b[at] ?? key)));
}

const HOUR_MS = 3_600_000;

/** Changes of the row when switching; empty when nothing changes, so that a grace does not restart. */
function togglePatch(hook: Webhook, active: boolean, now: number, graceHours: number): WebhookPatch {
  if (hook.active === active) return {};
  if (!active) return { active: false, disabledReason: 'user', disabledAt: now, graceUntil: null };
  return { active: true, disabledReason: null, disabledAt: null, graceUntil: now + graceHours * HOUR_MS };
}

/** Side effects of switching: on resets the counters and releases held deliveries; off drops or holds the waiting ones. */
async function afterToggle(context: ManageContext, write: HookWrite, active: boolean): Promise<void> {
  if (write.hook.active === active) return;
  if (!active) return await context.waiting.becameInactive(write.tx, write.hook);
  await resetHealth(write.db, write.hook.number);
  await context.waiting.becameActive(write.tx, write.hook);
}

/** Deletes a webhook with its addresses and secrets, and drops its waiting deliveries. Errors: 404. */
export function removeHook(context: ManageContext, projectId: string, id: string): Promise<void> {
  return writeHook(context, projectId, id, (write) => dropHook(context, write));
}

/** Deletes all webhooks of a project. */
export async function removeHooksOf(context: ManageContext, tx: StoreTx, projectId: string): Promise<void> {
  const db = tx.db as WebhookDb;
  if ((await countHooks(db, projectId)) === 0) return;
  const version = await beginChange(tx);
  const now = context.clock.now();
  for (const hook of await listHooks(db, projectId)) {
    const { number } = hook;
    const record: HookWrite['record'] = (removed = [], added = []) =>
      recordChange(tx, { version, number, removed, added }, now);
    await dropHook(context, { tx, db, hook, now, record });
  }
}

async function dropHook({ waiting }: ManageContext, { tx, db, hook, record }: HookWrite): Promise<void> {
  const addresses = await readAddresses(db, hook.number);
  await waiting.drop(tx, hook.id, REASONS.deleted);
  await deleteHook(db, hook.number);
  await record(addresses, []);
}

const MAX_OLD_SECRETS = 5;

interface Rotation {
  readonly signingSecret: string;
  /** Unix milliseconds. */
  readonly previousExpiresAt: number;
}

/** Creates a new signing secret; old ones also sign until they expire. Errors: 400, 404. */
export function rotateSecret(
  context: ManageContext,
  projectId: string,
  id: string,
  overlapSeconds: number,
): Promise<Rotation> {
  const signingSecret = newSecret(context.random);
  return writeHook(context, projectId, id, async ({ db, hook, now, record }) => {
    const previousExpiresAt = now + overlapSeconds * 1_000;
    const old = await retireSecrets(db, hook.number, now, previousExpiresAt);
    if (old > MAX_OLD_SECRETS) throw new RequestError(400, 'too many active secrets');
    await insertSecret(db, hook.number, signingSecret, now);
    await record();
    return { signingSecret, previousExpiresAt };
  });
}

export interface AddressChange {
  readonly webhookID: string;
  readonly changed: number;
  readonly unchanged: number;
  readonly addressCount: number;
}

/** Appends addresses. Errors: 400 (nothing is changed then), 404. */
export function addAddresses(
  context: ManageContext,
  projectId: string,
  id: string,
  keys: readonly Uint8Array[],
): Promise<AddressChange> {
  return writeHook(context, projectId, id, async ({ tx, db, hook, now, record }) => {
    const present = await presentAddresses(db, hook.number, keys);
    if (hook.type === 'parsed' && keys.length > 0)
      throw new RequestError(400, 'a webhook of type parsed has no addresses: use parsedFilter.accounts.include');
    const fresh = keys.filter((key) => !present.has(indexKeyText(key)));
    const addressCount = hook.addressCount + fresh.length;
    refuseTooMany(addressCount, await maxAddresses(context, db, projectId));
    if (fresh.length > 0) {
      await insertAddresses(tx, hook.number, fresh, hook.nextPosition);
      const nextPosition = hook.nextPosition + fresh.length;
      await updateHook(db, hook.number, { addressCount, nextPosition, updatedAt: now });
    }
    await record([], fresh);
    return { webhookID: hook.id, changed: fresh.length, unchanged: present.size, addressCount };
  });
}

/** Removes addresses; absent ones are only counted. Errors: 404. */
export function dropAddresses(
  context: ManageContext,
  projectId: string,
  id: string,
  keys: readonly Uint8Array[],
): Promise<AddressChange> {
  return writeHook(context, projectId, id, async ({ db, hook, now, record }) => {
    const present = await presentAddresses(db, hook.number, keys);
    const gone = keys.filter((key) => present.has(indexKeyText(key)));
    const addressCount = hook.addressCount - gone.length;
    if (gone.length > 0) {
      await removeAddresses(db, hook.number, gone);
      await updateHook(db, hook.number, { addressCount, updatedAt: now });
    }
    await record(gone, []);
    return { webhookID: hook.id, changed: gone.length, unchanged: keys.length - gone.length, addressCount };
  });
}

/**
 * Before the first start of a follower of the chain, a webhook would miss everything until then, so the first slot is fixed
 * here. When no upstream answers there is no slot, and the chain starts with the first slot that is reported. Errors: those of the
 * store.
 */
export function createEnsureFollowed(following: Following | null, log: Log): (chain: ChainId) => Promise<void> {
  return async (chain) => {
    try {
      await following?.begin(chain);
    } catch (error) {
      if (codeOf(error)?.startsWith('CHAIN_') !== true) throw error;
      log.warn({ chain, err: error }, 'webhook created before its chain is followed, and no upstream reports a slot');
    }
  };
}
