import { type TSchema, Type } from '@sinclair/typebox';
import { encode32 } from '../../../src/lib/base58.ts';
import type { Caller, Price, Route, Tag } from '../../../src/plugin/plugin.ts';
import { RequestError, type RouteRequest } from '../../../src/plugin/request.ts';
import { SYSTEM_PROGRAM } from '../../../src/solana/programs.ts';
import {
  address,
  count,
  EXAMPLES,
  flag,
  oneOf,
  orNull,
  signature,
  slot,
  text,
  time,
} from '../../../src/solana/schemas.ts';
import { HEALTH_STATES } from '../health.ts';
import { MAX_DESCRIPTION_CHARS, MAX_NAME_CHARS } from '../input.ts';
import {
  DELIVERY_STATUSES,
  ON_INACTIVE,
  PARSED_DETAILS,
  RESEND_STATUSES,
  RETRY_PRESETS,
  TXN_STATUSES,
  WEBHOOK_TYPES,
  type Webhook,
  webhookView,
} from '../model.ts';
import { HEALTH_DAYS } from '../store/health.ts';
import { MISS_REASONS } from '../store/missed.ts';

const orAbsent = <S extends TSchema>(schema: S) => Type.Optional(orNull(schema));

export const errorReply = Type.Object({ error: Type.String(), code: Type.Integer() });
export const webhookID = text('UUIDv4 of the webhook', '5e1a3c1e-4f0b-4b6f-9d55-0c8a2f6f7d11', { format: 'uuid' });
export const deliveryId = text('Id of the delivery', '1042', { pattern: '^[0-9]{1,15}$' });
/** Forms of path parameters; the handlers validate them with their own texts. */
export const DOCUMENTED_PATHS = { documented: { params: { webhookID, deliveryId } } };

export const hookParams = Type.Object({ webhookID: Type.String({ description: 'UUIDv4 of the webhook' }) });
export const deliveryParams = Type.Object({
  webhookID: Type.String({ description: 'UUIDv4 of the webhook' }),
  deliveryId: Type.String({ description: 'Id of the delivery' }),
});

// ---------------------------------------------------------------------------------------------------------------- bodies

/** Control characters and lone surrogates cannot be stored, a fragment is not sent. */
const URL_TEXT = '^[^\\u0000-\\u001f\\u007f-\\u009f\\ud800-\\udfff#]+$';
const LINE_TEXT = '^[^\\u0000-\\u001f\\u007f-\\u009f\\ud800-\\udfff]*$';
const LINES_TEXT = '^[^\\u0000-\\u0009\\u000b-\\u001f\\u007f-\\u009f\\ud800-\\udfff]*$';
/** What a header can carry, without blanks at the ends. */
const HEADER_TEXT = '^([!-~\\u00a1-\\u00ff]([ -~\\u00a0-\\u00ff]*[!-~\\u00a1-\\u00ff])?)?$';
const DATE_TEXT =
  '^[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\\.[0-9]{1,9})?)?([Zz]|[+-][0-9]{2}:?[0-9]{2})?)?$';

const webhookURL = text(
  'Where deliveries are posted: http or https, without a fragment, to a host that webhooks.allowCidrs permits',
  'https://example.org/hook',
  { format: 'uri', pattern: URL_TEXT, maxLength: 2_048 },
);
const accountAddresses = Type.Array(address('A watched account'), {
  description: 'Accounts to watch: a transaction that names one of them is delivered. Duplicates are dropped.',
});
const transactionTypes = Type.Array(text('Name of a transaction type, in any case', 'TRANSFER'), {
  maxItems: 1_000,
  description: 'Types that enhanced and Discord webhooks deliver; an empty list or `ANY` = all',
});
const instructionName = text('Name, without regard to case and separators', 'transfer', {
  minLength: 1,
  maxLength: 128,
});
/** The filter of subscriptions to parsed transactions. */
const parsedFilter = Type.Partial(
  Type.Object({
    programs: Type.Array(address('A program'), { maxItems: 10, description: 'One of them is its program' }),
    instructionNames: Type.Array(instructionName, { maxItems: 50, description: 'One of them is its name' }),
    accounts: Type.Partial(
      Type.Object({
        include: Type.Array(address('An account'), { maxItems: 100, description: 'One of them is among its accounts' }),
        roles: Type.Record(Type.String(), address('The account in this role'), {
          description: 'At most 20 accounts by their names in the interface: all have to hold',
        }),
      }),
      { additionalProperties: false, description: 'Accounts of the instruction' },
    ),
    includeFailed: flag('Also failed transactions; default false'),
    includeCpi: flag('Also calls of other instructions; default true', true),
  }),
  {
    additionalProperties: false,
    description:
      'Which transactions a parsed webhook delivers: all members have to hold for one and the same instruction. `programs` or `accounts.include` is required',
    examples: [{ programs: [SYSTEM_PROGRAM], instructionNames: ['transfer'] }],
  },
);

const fields = {
  webhookType: oneOf(WEBHOOK_TYPES, 'Form of the deliveries, and the chain'),
  transactionTypes,
  accountAddresses,
  authHeader: orNull(
    text('Sent as the header Authorization of each delivery', 'Bearer secret', {
      pattern: HEADER_TEXT,
      maxLength: 4_096,
    }),
  ),
  txnStatus: orNull(oneOf(TXN_STATUSES, 'Which transactions are delivered, by their outcome')),
  encoding: orNull(oneOf(['jsonParsed', 'json'], 'Kept and returned; it does not change the deliveries')),
  active: orNull(flag('Whether deliveries are made', true)),
  matchTokenOwners: orNull(flag('Also match the owners of token accounts that the transaction changes')),
  retryPreset: orNull(
    oneOf(RETRY_PRESETS, 'How failed deliveries are retried: for more than a day, or as the hosted service does'),
  ),
  batchSize: orNull(
    Type.Integer({ minimum: 1, maximum: 100, description: 'Most events in one request', examples: [1] }),
  ),
  ordered: orNull(flag('Send one request at a time, in the order of the chain')),
  onInactive: orNull(oneOf(ON_INACTIVE, 'What happens to events while the webhook is inactive')),
  parsedFilter: orNull(parsedFilter),
  parsedDetails: orNull(oneOf(PARSED_DETAILS, 'How much of a transaction a parsed webhook delivers; default full')),
  name: orNull(text('Name for people', 'Deposits', { maxLength: MAX_NAME_CHARS, pattern: LINE_TEXT })),
  description: orNull(
    text('Description for people', 'Credits accounts', { maxLength: MAX_DESCRIPTION_CHARS, pattern: LINES_TEXT }),
  ),
};
/** A parsed webhook. */
const PARSED_EXAMPLE = {
  webhookURL: 'https://example.org/hook',
  webhookType: 'parsed',
  parsedFilter: { programs: [SYSTEM_PROGRAM], instructionNames: ['transfer'] },
};
const EXAMPLE = {
  webhookURL: 'https://example.org/hook',
  webhookType: 'enhanced',
  transactionTypes: ['TRANSFER', 'SWAP'],
  accountAddresses: [EXAMPLES.address],
  authHeader: 'Bearer secret',
};

export const createBody = Type.Object(
  { webhookURL, ...Type.Partial(Type.Object(fields)).properties },
  { title: 'NewWebhook', description: 'The webhook; only webhookURL is required', examples: [EXAMPLE, PARSED_EXAMPLE] },
);
export const editBody = Type.Partial(Type.Object({ webhookURL, ...fields }), {
  title: 'WebhookChange',
  description: 'The fields to change; others keep their values',
  examples: [{ accountAddresses: EXAMPLE.accountAddresses, transactionTypes: ['ANY'] }],
});
export const toggleBody = Type.Object(
  { active: flag('True: make deliveries', false) },
  { description: 'Whether deliveries are made' },
);
export const addressesBody = Type.Object({ accountAddresses }, { description: 'The addresses' });
/** Anything but an object counts as an empty one. */
export const rotateBody = Type.Unsafe<unknown>({
  description: 'How long the old secret also signs',
  properties: {
    overlapSeconds: orNull(
      Type.Integer({
        minimum: 0,
        maximum: 604_800,
        description: 'Seconds; default: secret.overlapSeconds',
        examples: [3_600],
      }),
    ),
  },
  examples: [{ overlapSeconds: 3_600 }],
});
export const ignoredBody = Type.Unsafe<unknown>({
  type: ['object', 'array', 'string', 'number', 'boolean', 'null'],
  items: {},
  description: 'Not needed; any JSON is accepted and ignored',
  examples: [{}],
});

/** Bodies that name a period. `sinceMs`: Unix milliseconds of a time that is kept, for the examples. */
export function periodBodies(sinceMs: number) {
  const since = new Date(Math.floor(sinceMs / 1_000) * 1_000).toISOString().replace('.000Z', 'Z');
  const instant = Type.Union(
    [
      Type.Integer({ minimum: 0, description: 'Unix seconds', examples: [Math.floor(sinceMs / 1_000)] }),
      text('Date, or date and time; UTC unless it names a zone', since, { pattern: DATE_TEXT }),
    ],
    { description: 'Unix seconds, or a date and time', examples: [since] },
  );
  const until = orAbsent(instant);
  const recover = Type.Object(
    { since: instant, until },
    { description: 'The period, up to now by default', examples: [{ since }] },
  );
  const resend = Type.Object(
    {
      status: orAbsent(
        oneOf(
          RESEND_STATUSES,
          'Which deliveries; undelivered, the default, is pending, failed and discarded',
          'failed',
        ),
      ),
      since: orAbsent(instant),
      until,
    },
    { description: 'Which deliveries; {} = all that were not delivered and are still stored', examples: [{}] },
  );
  const replay = Type.Union(
    [
      Type.Object(
        {
          since: instant,
          until,
          status: orAbsent(oneOf(['failed', 'discarded', 'all'], 'Which deliveries; default failed')),
          fromSlot: never,
          toSlot: never,
        },
        { description: 'Stored deliveries of a period' },
      ),
      Type.Object(
        {
          fromSlot: { ...slotNumber, description: 'First slot' },
          toSlot: { ...slotNumber, description: 'Last slot, inclusive' },
          force: Type.Optional(flag('Also send existing deliveries again')),
        },
        { description: 'A range of slots, which is read again' },
      ),
    ],
    { description: 'Stored deliveries of a period, or a range of slots', examples: [{ since, status: 'failed' }] },
  );
  return { resend, recover, replay };
}

const slotNumber = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, examples: [381_204_511] });
const never = Type.Optional(Type.Never({ description: 'Not in this form' }));

// --------------------------------------------------------------------------------------------------------------- replies

const chain = oneOf(['main', 'devnet'], 'The chain');
export const webhookReply = Type.Object(
  {
    webhookID,
    project: text('Project that owns it', 'b5a3e1c2-7d64-4c0a-9e39-2f1f5a0d8c11'),
    wallet: text('Wallet of the key that created it, or of the calling key; 32 ones if there is none', SYSTEM_PROGRAM),
    webhookURL: text('Where deliveries are posted', 'https://example.org/hook'),
    name: Type.Optional(text('Name for people', 'Deposits')),
    description: Type.Optional(text('Description for people', 'Credits accounts')),
    transactionTypes: Type.Array(text('Name of a transaction type', 'TRANSFER'), {
      description: 'Types that it delivers',
    }),
    accountAddresses: Type.Array(address('A watched account'), { description: 'Accounts that it watches' }),
    webhookType: oneOf(WEBHOOK_TYPES, 'Form of the deliveries, and the chain'),
    authHeader: text('Header Authorization of each delivery; empty when none', ''),
    active: flag('Whether deliveries are made', true),
    addressCount: count('Number of watched accounts'),
    txnStatus: oneOf(TXN_STATUSES, 'Which transactions are delivered, by their outcome'),
    encoding: Type.Optional(text('As it was given', 'jsonParsed')),
    parsedFilter: Type.Optional(parsedFilter),
    parsedDetails: Type.Optional(oneOf(PARSED_DETAILS, 'How much of a transaction a parsed webhook delivers')),
    matchTokenOwners: flag('Whether owners of token accounts match too'),
    retryPreset: oneOf(RETRY_PRESETS, 'How failed deliveries are retried'),
    batchSize: count('Most events in one request'),
    ordered: flag('Whether deliveries keep the order of the chain'),
    onInactive: oneOf(ON_INACTIVE, 'What happens to events while it is inactive'),
    disabledReason: Type.Optional(oneOf(['user', 'failure_rate', 'gone'], 'Why it is off', 'failure_rate')),
    disabledAt: Type.Optional(time('When it was switched off')),
    graceUntil: Type.Optional(time('Until then it is not switched off automatically')),
    signingSecret: Type.Optional(
      text(
        'Secret that signs the deliveries; only in the response of create',
        'whsec_c2VjcmV0LW9mLXRoaXMtd2ViaG9vaw==',
      ),
    ),
  },
  {
    title: 'Webhook',
    description: 'The webhook',
    examples: [
      {
        webhookID: '5e1a3c1e-4f0b-4b6f-9d55-0c8a2f6f7d11',
        project: 'b5a3e1c2-7d64-4c0a-9e39-2f1f5a0d8c11',
        wallet: SYSTEM_PROGRAM,
        ...EXAMPLE,
        active: true,
        addressCount: 1,
        txnStatus: 'all',
        matchTokenOwners: false,
        retryPreset: 'durable',
        batchSize: 1,
        ordered: false,
        onInactive: 'drop',
      },
    ],
  },
);

export const healthReply = Type.Object(
  {
    webhookID,
    state: oneOf(
      HEALTH_STATES,
      'working; failing: most attempts of the last hour, or else of the last day, failed; idle: no attempt for a day; off',
      'working',
    ),
    disabledReason: Type.Optional(oneOf(['user', 'failure_rate', 'gone'], 'Why it is off', 'failure_rate')),
    disabledAt: Type.Optional(time('When it was switched off')),
    attempts: Type.Object(
      { succeeded: count('Successful ones', 120), failed: count('Failed ones', 3) },
      { description: 'Attempts of the last 24 hours' },
    ),
    successRate: orNull(
      Type.Number({ description: 'Share of them that succeeded, 0 to 1; null without an attempt', examples: [0.975] }),
    ),
    lastDeliveredAt: orNull(time('Time of the last successful delivery of the last 28 days')),
    waiting: count('Deliveries that wait for an attempt, or run', 3),
    held: count('Deliveries that wait for something else: credits, that the webhook is on, or their batch', 0),
    nextAttemptAt: orNull(time('When the next attempt of a waiting delivery is due')),
    days: Type.Array(
      Type.Object({
        day: text('UTC date', '2026-11-28'),
        succeeded: count('Successful attempts', 120),
        failed: count('Failed attempts', 3),
      }),
      { description: `The last ${HEALTH_DAYS} days with today, oldest first` },
    ),
  },
  { title: 'WebhookHealth', description: 'How the deliveries of a webhook go' },
);

export const gapReply = Type.Object(
  {
    id: text('Id of the gap', '7'),
    network: chain,
    fromSlot: slot('First slot'),
    toSlot: slot('Last slot, inclusive'),
    reason: oneOf(['pruned', 'too_old', 'hole', 'manual', 'skipped'], 'Why it was passed over'),
    detectedAt: time('When it was found'),
    status: oneOf(['open', 'filling', 'filled', 'abandoned'], 'State of the gap', 'filled'),
    filledTo: orNull(slot('It is filled up to this slot')),
    trouble: orNull(text('Why it is not being filled', 'no upstream has the block')),
  },
  { title: 'Gap', description: 'A range of slots that was passed over' },
);

export const missedReply = Type.Object(
  {
    network: chain,
    fromSlot: slot('First slot'),
    toSlot: slot('Last slot, inclusive; a replay of the range delivers its events'),
    events: count('Events that were not stored; those of a block that was read twice count twice', 120),
    reason: oneOf(MISS_REASONS, 'Why they were not stored'),
    since: time('Time of the first one'),
  },
  { title: 'MissedRange', description: 'Slots whose events were counted and not stored' },
);

const headers = (description: string) =>
  Type.Record(Type.String(), Type.String(), { description, examples: [{ 'content-type': 'application/json' }] });

export const deliveryReply = Type.Object(
  {
    deliveryId,
    webhookID,
    status: oneOf(DELIVERY_STATUSES, 'State of the delivery', 'delivered'),
    signature: signature('The transaction'),
    slot: slot('Its slot'),
    type: Type.Optional(orNull(text('Type of the transaction; null unless the webhook is enhanced', 'TRANSFER'))),
    createdAt: time('When it was queued'),
    nextAttemptAt: orNull(time('When it is attempted next')),
    reason: orNull(text('Error of the last attempt, or why it is held or was discarded', 'http_status 500')),
    attempts: Type.Array(
      Type.Object({
        attempt: count('Number of the attempt'),
        at: time('When it started'),
        durationMs: count('Milliseconds until its end', 84),
        statusCode: orNull(Type.Integer({ description: 'Status of the response', examples: [200] })),
        failure: orNull(text('Why it failed', 'timeout')),
        responseBody: orNull(text('Start of the response body', 'ok')),
        responseHeaders: Type.Optional(
          headers('Headers of the response, at most 20 and without cookies; only for a single delivery'),
        ),
        requestHeaders: Type.Optional(
          headers('Headers of the request; signature and authorization are hidden; only for a single delivery'),
        ),
      }),
      { description: 'Attempts, oldest first' },
    ),
    body: Type.Optional(Type.Unknown({ description: 'The request body; only for a single delivery' })),
  },
  { title: 'Delivery', description: 'A delivery and its attempts' },
);

export const pageReply = Type.Object(
  {
    hasMore: flag('Whether there is another page'),
    nextCursor: orNull(text('`cursor` of the next page', '1041')),
  },
  { title: 'WebhookPage', description: 'Where the list continues' },
);

const WRITE_CREDITS = 100;

/** Create and edit. */
export const WRITE_PRICE: Price = { product: 'webhooks', credits: WRITE_CREDITS, groups: ['das'] };
/** Switching and deletion: a project without credits must be able to end its costs. */
export const END_PRICE: Price = { ...WRITE_PRICE, neverRefused: true };
/** Reading and delivery operations. */
export const FREE_PRICE: Price = { product: 'webhooks', credits: 0, groups: ['das'] };

/** Common members of all routes of this plugin. */
const WEBHOOKS: Tag = { name: 'Webhooks', description: 'Transactions of watched accounts, posted to an address' };
export const COMMON = { tag: WEBHOOKS, auth: 'key', errors: 'plain' } as const satisfies Partial<Route>;

export const BAD_REPLIES = { 400: errorReply, 401: errorReply, 429: errorReply } as const;
export const HOOK_REPLIES = { ...BAD_REPLIES, 404: errorReply } as const;

export function callerOf(request: Pick<RouteRequest, 'caller'>): Caller {
  // The gate refuses calls without a key.
  if (request.caller === null) throw new RequestError(401, 'Invalid API key');
  return request.caller;
}

const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

export function hookIdOf({ params }: { readonly params: { readonly webhookID: string } }): string {
  const id = params.webhookID.toLowerCase();
  if (!UUID_V4.test(id)) throw new RequestError(400, 'webhookID must be a UUID');
  return id;
}

/** The response object of a webhook. */
export function webhookViewOf(
  hook: Webhook,
  addresses: readonly Uint8Array[],
  caller: Caller,
  now: number,
): Record<string, unknown> {
  return webhookView(
    hook,
    addresses.map((key) => encode32(key)),
    caller.wallet,
    now,
  );
}
