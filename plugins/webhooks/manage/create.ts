import { RequestError } from '../../../src/plugin/request.ts';
import type { Caller } from '../../../src/ports/access.ts';
import { newSecret } from '../delivery/signature.ts';
import { parseInput, refuseTooMany, refuseUnavailable, type WebhookInput } from '../input/fields.ts';
import { chainOf, type Webhook, type WebhookType } from '../model/webhook.ts';
import { beginChange, recordChange, takeNumber } from '../store/changes.ts';
import { countHooks, insertAddresses, insertHook, insertSecret } from '../store/hooks.ts';
import type { Db } from '../store/tables.ts';
import { type ManageContext, maxAddresses } from './context.ts';

export interface CreatedHook {
  readonly hook: Webhook;
  readonly addresses: readonly Uint8Array[];
  /** Shown in this one answer. */
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
  await context.keepPromises(chainOf(input.type ?? 'enhanced'));
  const id = random.uuid();
  const signingSecret = newSecret(random);
  const { url } = input;
  const hook = await store.write(async (tx) => {
    const version = await beginChange(tx);
    const db = tx.db as Db;
    const ofPlan = (await context.plans?.maxWebhooks(db, projectId)) ?? config.maxPerProject;
    if ((await countHooks(db, projectId)) >= Math.min(ofPlan, config.maxPerProject))
      throw new RequestError(400, 'reached webhook limit');
    refuseTooMany(addresses.length, await maxAddresses(context, db, projectId));
    const now = clock.now();
    const number = await takeNumber(tx);
    const made = newHook({ ...input, url }, context, { number, id, projectId, wallet, count: addresses.length, now });
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
}

function newHook(
  input: WebhookInput & { url: string },
  { config }: ManageContext,
  { number, id, projectId, wallet, count, now }: NewHook,
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
  };
}

/** A filter without any type would never let a transaction through; raw webhooks are not filtered and keep what was given. */
export function storedTypes(type: WebhookType, given: readonly string[]): readonly string[] {
  return given.length === 0 && !type.startsWith('raw') ? ['ANY'] : given;
}
