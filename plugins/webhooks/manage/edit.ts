import { RequestError } from '../../../src/plugin/request.ts';
import { REASONS } from '../delivery/batch.ts';
import { newSecret } from '../delivery/signature.ts';
import { parseInput, refuseTooMany, type WebhookInput } from '../input/fields.ts';
import { chainOf, type Webhook } from '../model/webhook.ts';
import { resetHealth } from '../store/health.ts';
import {
  clearAddresses,
  deleteHook,
  insertAddresses,
  insertSecret,
  keyText,
  readAddresses,
  retireSecrets,
  updateHook,
  type WebhookPatch,
} from '../store/hooks.ts';
import { type HookWrite, type ManageContext, maxAddresses, writeHook } from './context.ts';
import { storedTypes } from './create.ts';

interface EditedHook {
  readonly hook: Webhook;
  readonly addresses: readonly Uint8Array[];
}

/** Merges the fields of a request into a webhook: what is not named stays. Errors: 400, 404. */
export async function editHook(
  context: ManageContext,
  projectId: string,
  id: string,
  body: unknown,
): Promise<EditedHook> {
  const input = parseInput(body, context.rules);
  if (input.addresses !== undefined) refuseTooMany(input.addresses.length, context.config.maxAddresses);
  if (input.type !== undefined) await context.keepPromises(chainOf(input.type));
  return writeHook(context, projectId, id, (write) => applyEdit(context, write, input));
}

/** Switches a webhook on or off; the rest of it stays. Errors: 404. */
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
  // What was kept for the time after is not wanted any more.
  if (!edited.active && edited.onInactive === 'drop' && hook.onInactive === 'hold') {
    await context.waiting.becameInactive(tx, edited);
  }
  // A webhook that moves to another chain leaves one index whole and enters the other.
  const moves = input.type !== undefined && chainOf(input.type) !== chainOf(hook.type);
  await (moves ? write.record(before, after) : write.record(removed, added));
  return { hook: edited, addresses: after };
}

function togglePatchOf({ config }: ManageContext, { hook, now }: HookWrite, { active }: WebhookInput): WebhookPatch {
  return active === undefined ? {} : togglePatch(hook, active, now, config.graceHours);
}

function fieldPatch(hook: Webhook, input: WebhookInput): WebhookPatch {
  const type = input.type ?? hook.type;
  const types = input.transactionTypes ?? hook.transactionTypes;
  return {
    ...(input.url === undefined ? {} : { url: input.url }),
    ...(input.type === undefined ? {} : { type }),
    ...(input.transactionTypes === undefined && input.type === undefined
      ? {}
      : { transactionTypes: storedTypes(type, types) }),
    ...(input.authHeader === undefined ? {} : { authHeader: input.authHeader }),
    ...(input.txnStatus === undefined ? {} : { txnStatus: input.txnStatus }),
    ...(input.encoding === undefined ? {} : { encoding: input.encoding }),
    ...(input.matchTokenOwners === undefined ? {} : { matchTokenOwners: input.matchTokenOwners }),
    ...(input.retryPreset === undefined ? {} : { retryPreset: input.retryPreset }),
    ...(input.batchSize === undefined ? {} : { batchSize: input.batchSize }),
    ...(input.ordered === undefined ? {} : { ordered: input.ordered }),
    ...(input.onInactive === undefined ? {} : { onInactive: input.onInactive }),
  };
}

function without(keys: readonly Uint8Array[], others: readonly Uint8Array[]): readonly Uint8Array[] {
  if (keys === others) return [];
  const known = new Set(others.map(keyText));
  return keys.filter((key) => !known.has(keyText(key)));
}

function sameOrder(a: readonly Uint8Array[], b: readonly Uint8Array[]): boolean {
  return a === b || (a.length === b.length && a.every((key, at) => keyText(key) === keyText(b[at] ?? key)));
}

const HOUR_MS = 3_600_000;

/** What switching does to the row; nothing where the webhook is already there, so that a grace is not started again. */
function togglePatch(hook: Webhook, active: boolean, now: number, graceHours: number): WebhookPatch {
  if (hook.active === active) return {};
  if (!active) return { active: false, disabledReason: 'user', disabledAt: now, graceUntil: null };
  return { active: true, disabledReason: null, disabledAt: null, graceUntil: now + graceHours * HOUR_MS };
}

/** What switching does beside the row: counters begin anew and what was kept goes out, or what still waits is dropped or kept. */
async function afterToggle(context: ManageContext, write: HookWrite, active: boolean): Promise<void> {
  if (write.hook.active === active) return;
  if (!active) return await context.waiting.becameInactive(write.tx, write.hook);
  await resetHealth(write.db, write.hook.number);
  await context.waiting.becameActive(write.tx, write.hook);
}

/** Deletes a webhook with its addresses and secrets; what still waits for delivery is dropped. Errors: 404. */
export function removeHook(context: ManageContext, projectId: string, id: string): Promise<void> {
  return writeHook(context, projectId, id, async ({ tx, db, hook, record }) => {
    const addresses = await readAddresses(db, hook.number);
    await context.waiting.drop(tx, hook.id, REASONS.deleted);
    await deleteHook(db, hook.number);
    await record(addresses, []);
  });
}

const MAX_OLD_SECRETS = 5;

interface Rotation {
  readonly signingSecret: string;
  /** Unix milliseconds. */
  readonly previousExpiresAt: number;
}

/** Gives a webhook a new signing secret; the old ones sign beside it until they expire. Errors: 400, 404. */
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
