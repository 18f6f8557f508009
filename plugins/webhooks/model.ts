import type { ChainId } from '../../src/ports/chain.ts';
import type { ParsedDetails, ParsedFilter } from '../../src/ports/parsed-transactions.ts';
import { SYSTEM_PROGRAM } from '../../src/solana/programs.ts';

export const WEBHOOK_TYPES = [
  ...(['enhanced', 'raw', 'discord', 'parsed'] as const),
  ...(['enhancedDevnet', 'rawDevnet', 'discordDevnet'] as const),
] as const;
export type WebhookType = (typeof WEBHOOK_TYPES)[number];

/** Hours of the chain per replay. */
export const REPLAYED_HOURS = 2;

export const TXN_STATUSES = ['all', 'success', 'failed'] as const;
export type TxnStatus = (typeof TXN_STATUSES)[number];

export const RETRY_PRESETS = ['durable', 'compat'] as const;
export type RetryPreset = (typeof RETRY_PRESETS)[number];

/** Events while a webhook is off: dropped, or held until it is on again. */
export const ON_INACTIVE = ['drop', 'hold'] as const;
export type OnInactive = (typeof ON_INACTIVE)[number];

export type DisabledReason = 'user' | 'failure_rate' | 'gone';

/** What a parsed webhook gets: which transactions, and how much of them. */
export interface ParsedSelection {
  readonly filter: ParsedFilter;
  readonly details: ParsedDetails;
}

export const PARSED_DETAILS = ['full', 'matched', 'raw'] as const satisfies readonly ParsedDetails[];

/** A webhook without its addresses, as stored. Times are unix milliseconds. */
export interface Webhook {
  /** Dense number: the owner number in the address index. */
  readonly number: number;
  /** UUIDv4 */
  readonly id: string;
  readonly projectId: string;
  readonly url: string;
  readonly type: WebhookType;
  readonly transactionTypes: readonly string[];
  readonly authHeader: string | null;
  readonly active: boolean;
  /** Null when the request had none: the type then decides. */
  readonly txnStatus: TxnStatus | null;
  readonly encoding: string | null;
  readonly matchTokenOwners: boolean;
  readonly retryPreset: RetryPreset;
  /** Maximum number of events per request. */
  readonly batchSize: number;
  /** One request at a time, strictly in the order of the chain. */
  readonly ordered: boolean;
  readonly onInactive: OnInactive;
  readonly addressCount: number;
  readonly nextPosition: number;
  readonly disabledReason: DisabledReason | null;
  readonly disabledAt: number | null;
  readonly graceUntil: number | null;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Wallet of the key that created it; null when unknown. */
  readonly wallet: string | null;
  /** Selection of a parsed webhook, which has no addresses; null for other types. */
  readonly parsed: ParsedSelection | null;
  /** For people; null: none was given. */
  readonly name: string | null;
  readonly description: string | null;
}

export const chainOf = (type: WebhookType): ChainId => (type.endsWith('Devnet') ? 'devnet' : 'main');

/** Name of the network of a chain that is not local. */
export const networkName = (chain: ChainId): 'devnet' | 'mainnet' => (chain === 'devnet' ? 'devnet' : 'mainnet');

/** Name of the network for receivers of deliveries and for the operator: `local` where the daemon runs its local chain. */
export type NetworkOf = (chain: ChainId) => 'devnet' | 'local' | 'mainnet';

type WithStatus = Pick<Webhook, 'type' | 'txnStatus' | 'parsed'>;

/** Raw webhooks get every transaction, parsed ones what their filter says, others only successful ones, unless configured otherwise. */
export function effectiveStatus({ type, txnStatus, parsed }: WithStatus): TxnStatus {
  return txnStatus ?? (type.startsWith('raw') || parsed?.filter.includeFailed === true ? 'all' : 'success');
}

export function wantsOutcome(hook: WithStatus, failed: boolean): boolean {
  const status = effectiveStatus(hook);
  return status === 'all' || (status === 'failed') === failed;
}

/** Whether new events are stored for it, to be sent at once or held. */
export const takesEvents = (hook: Pick<Webhook, 'active' | 'onInactive'>): boolean =>
  hook.active || hook.onInactive === 'hold';

/** Whether the filter passes a transaction of this type. `type` is evaluated only when needed. */
export function wantsType(hook: Pick<Webhook, 'type' | 'transactionTypes'>, type: () => string): boolean {
  if (hook.type.startsWith('raw') || hook.transactionTypes.includes('ANY')) return true;
  const name = type();
  // Both words stand for unrecognized transactions.
  if (name === 'UNKNOWN' && hook.transactionTypes.includes('UNLABELED')) return true;
  return hook.transactionTypes.includes(name);
}

/** `wallet` of webhooks without one: clients parse it as an address. */
const NO_WALLET = SYSTEM_PROGRAM;

/**
 * The webhook as the API shows it. `addresses` may be cut; `addressCount` is the full number. `wallet` is the default for webhooks without one.
 */
export function webhookView(
  hook: Webhook,
  addresses: readonly string[],
  wallet: string | null,
  now: number,
): Record<string, unknown> {
  const inGrace = hook.active && hook.graceUntil !== null && hook.graceUntil > now;
  return {
    webhookID: hook.id,
    project: hook.projectId,
    wallet: hook.wallet ?? wallet ?? NO_WALLET,
    webhookURL: hook.url,
    ...(hook.name === null ? {} : { name: hook.name }),
    ...(hook.description === null ? {} : { description: hook.description }),
    transactionTypes: hook.transactionTypes,
    accountAddresses: addresses,
    webhookType: hook.type,
    authHeader: hook.authHeader ?? '',
    active: hook.active,
    addressCount: hook.addressCount,
    txnStatus: effectiveStatus(hook),
    ...(hook.encoding === null ? {} : { encoding: hook.encoding }),
    ...(hook.parsed !== null && { parsedFilter: filterView(hook.parsed.filter), parsedDetails: hook.parsed.details }),
    matchTokenOwners: hook.matchTokenOwners,
    retryPreset: hook.retryPreset,
    batchSize: hook.batchSize,
    ordered: hook.ordered,
    onInactive: hook.onInactive,
    ...(hook.disabledReason === null ? {} : { disabledReason: hook.disabledReason }),
    ...(hook.disabledAt === null ? {} : { disabledAt: isoTime(hook.disabledAt) }),
    ...(inGrace ? { graceUntil: isoTime(hook.graceUntil ?? 0) } : {}),
  };
}

/** In the form in which it is given. */
const filterView = ({ programs, instructionNames, include, roles, ...flags }: ParsedFilter) => ({
  programs,
  instructionNames,
  accounts: { include, roles: Object.fromEntries(roles) },
  ...flags,
});

export const isoTime = (ms: number): string => new Date(ms).toISOString();

/** Forms of the elements of a body. */
export const PLAIN_FORMS = ['raw', 'enhanced', 'discord'] as const;

/** Forms that a transaction has once. */
export type PlainForm = (typeof PLAIN_FORMS)[number];

export type BodyKind = PlainForm | 'parsed';

/** What is shown of a parsed transaction depends on the filter: each content has a form of its own, named by a hash. */
export type BodyForm = PlainForm | `parsed/${string}`;

export const kindOf = (form: BodyForm): BodyKind => (form.startsWith('parsed') ? 'parsed' : (form as PlainForm));

/** The forms of a type; the same on all chains. */
export function formOf(type: WebhookType): BodyKind {
  if (type === 'parsed') return 'parsed';
  if (type.startsWith('enhanced')) return 'enhanced';
  return type.startsWith('discord') ? 'discord' : 'raw';
}

export const DELIVERY_STATUSES = ['pending', 'delivered', 'failed', 'discarded'] as const;

/** Which deliveries of a webhook are sent: `undelivered` are all but the delivered ones. */
export const RESEND_STATUSES = ['undelivered', 'pending', 'failed', 'discarded', 'all'] as const;

export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

/** A matched transaction on its way to a webhook. Times are unix milliseconds. */
export interface Delivery {
  readonly id: number;
  readonly webhookId: string;
  readonly status: DeliveryStatus;
  readonly payload: DeliveryPayload;
  /** Error of the last attempt, or why it was discarded. */
  readonly error: string | null;
  readonly createdAt: number;
  /** Null when it is finished. */
  readonly nextAttemptAt: number | null;
}

/** Payload of a delivery in the outbox; the webhook is the job's group. */
export interface DeliveryPayload {
  readonly signature: string;
  /** Slot of the block that matched; with the signature it names the stored element. */
  readonly slot: number;
  readonly chain: ChainId;
  /** Form of the webhook when the transaction matched. */
  readonly form: BodyForm;
  /** Size of the stored element. */
  readonly bytes: number;
}

/** One kind per chain: a reorg must not confuse slots of different chains. */
export const deliveryKind = (chain: ChainId): string => (chain === 'main' ? 'webhooks.deliver' : 'webhooks.devnet');

/** At most one delivery per webhook and transaction. */
export const deliveryKey = (webhookId: string, signature: string): string => `${webhookId}:${signature}`;

/** Why a delivery is held, discarded or failed without an answer: its `reason`. */
export const REASONS = {
  disabled: 'webhook disabled',
  deleted: 'webhook deleted',
  /** Held until the webhook is switched on. */
  inactive: 'webhook inactive',
  /** Held until the project has credits again. */
  credits: 'credits',
  /** Held too long, or pushed out by newer ones. */
  heldTooLong: 'held too long',
  tooManyHeld: 'too many held',
  /** Part of the request of another delivery. */
  batch: 'batch',
} as const;

/** Hold reasons of single deliveries, which can be dropped individually. */
export const SELF_HELD = [REASONS.inactive, REASONS.credits] as const;

/** Discord's limit of embeds in one message. */
const MAX_EMBEDS = 10;

export const batchLimit = (hook: Webhook): number =>
  formOf(hook.type) === 'discord' ? Math.min(hook.batchSize, MAX_EMBEDS) : hook.batchSize;
