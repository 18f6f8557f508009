import { createHash } from 'node:crypto';
import { stringify } from '../../../src/lib/json.ts';
import { Type } from '../../../src/plugin/plugin.ts';
import {
  answered,
  anything,
  type Calls,
  choice,
  count,
  defineTool,
  given,
  INPUT,
  required,
  ToolError,
} from '../tool.ts';
import { memberOf } from './answers.ts';
import { webhookIdInput, webhookPath } from './webhooks.ts';

const ACTIONS = [
  'create',
  'edit',
  'enable',
  'disable',
  'delete',
  'add_addresses',
  'remove_addresses',
  'test',
  'resend',
] as const;
type Action = (typeof ACTIONS)[number];

const addresses = Type.Array(INPUT.address('address'), { minItems: 1, maxItems: 1_000, description: 'to watch' });

const settings = Type.Object(
  {
    webhookURL: Type.Optional(Type.String({ minLength: 1, maxLength: 2_048, description: 'the receiver' })),
    webhookType: Type.Optional(
      choice(
        ['enhanced', 'raw', 'discord', 'enhancedDevnet', 'rawDevnet', 'discordDevnet'],
        'form of the events; default enhanced',
      ),
    ),
    transactionTypes: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 64 }), {
        maxItems: 200,
        description: 'types of transactions, or ANY',
      }),
    ),
    accountAddresses: Type.Optional(addresses),
    txnStatus: Type.Optional(choice(['all', 'success', 'failed'], 'which transactions')),
    authHeader: Type.Optional(Type.String({ maxLength: 1_024, description: 'sent as Authorization' })),
  },
  { additionalProperties: false, description: 'of create and edit; edit changes only what is named' },
);

export const changeWebhookTool = defineTool({
  name: 'change_webhook',
  title: 'Change webhooks',
  description:
    'Creates, changes, tests and deletes webhooks. Nothing happens at the first call: it says what would change and returns `confirm`. Show that to the person you work for, and call again with the same arguments and `confirm` when they agree. A code is valid only for this change and while the webhook stays as it is.',
  isWrite: true,
  input: Type.Object(
    {
      action: choice(ACTIONS, 'what to do; test sends a sample event, resend sends a finished delivery again'),
      webhookID: Type.Optional(webhookIdInput),
      settings: Type.Optional(settings),
      addresses: Type.Optional(addresses),
      deliveryId: Type.Optional(Type.String({ minLength: 1, maxLength: 64, description: 'of resend' })),
      confirm: Type.Optional(Type.String({ maxLength: 64, description: 'code of the first call' })),
    },
    { additionalProperties: false },
  ),
  data: answered({
    done: Type.Boolean({ description: 'False: only said what would change' }),
    confirm: Type.String({ description: 'Pass it to do this' }),
    change: anything('What would change, or changed'),
    result: anything('Answer of the change'),
  }),
  async run(input, calls) {
    const plan = planOf(input);
    // Reading needs the same permission as the change: a key without it gets no code.
    const now = await calls.get(plan.reads);
    const code = codeOf({ ...input, confirm: undefined }, now);
    const change = given({ action: input.action, settings: input.settings, addresses: input.addresses });
    if (input.confirm === undefined)
      return {
        summary: `Nothing was changed. ${plan.sentence(now)} To do it, call again with confirm ${code}.`,
        data: { done: false, confirm: code, change, now: input.action === 'create' ? undefined : now },
      };
    if (input.confirm !== code)
      throw new ToolError(
        'confirm does not belong to this change, or the webhook changed in between: nothing was changed. Call without confirm to see what would change now.',
      );
    const result = await plan.run(calls);
    return { summary: `Done. ${plan.sentence(now)}`, data: { done: true, change, result: result ?? null } };
  },
});

interface ChangeInput {
  readonly action: Action;
  readonly webhookID?: string;
  readonly settings?: Readonly<Record<string, unknown>>;
  readonly addresses?: readonly string[];
  readonly deliveryId?: string;
}

interface Plan {
  /** What the code is bound to. */
  readonly reads: string;
  /** What it changes, given what was read. */
  sentence(now: unknown): string;
  run(calls: Calls): Promise<unknown>;
}

/** Errors: ToolError for inputs that are missing. */
function planOf({ action, webhookID, settings: given, addresses: listed, deliveryId }: ChangeInput): Plan {
  if (action === 'create') {
    const body = required(given, 'settings', action);
    required(body['webhookURL'] as string | undefined, 'settings.webhookURL', action);
    return {
      reads: '/v0/webhooks',
      sentence: () =>
        'This creates a webhook with the settings in `change`, which sends requests to its webhookURL. The answer has its signingSecret, only once.',
      run: (calls) => calls.send('POST', '/v0/webhooks', body),
    };
  }
  const path = webhookPath(required(webhookID, 'webhookID', action));
  const name = (now: unknown) => `the webhook ${String(memberOf(now, 'webhookID'))}`;
  switch (action) {
    case 'edit': {
      const body = required(given, 'settings', action);
      return {
        reads: path,
        sentence: (now) => `This changes ${count(Object.keys(body).length, 'setting')} of ${name(now)}.`,
        run: (calls) => calls.send('PUT', path, body),
      };
    }
    case 'enable':
    case 'disable':
      return {
        reads: path,
        sentence: (now) => `This switches ${name(now)} ${action === 'enable' ? 'on' : 'off'}.`,
        run: (calls) => calls.send('PATCH', path, { active: action === 'enable' }),
      };
    case 'delete':
      return {
        reads: path,
        sentence: (now) =>
          `This deletes ${name(now)}, which watches ${count(Number(memberOf(now, 'addressCount')), 'address', 'addresses')}, for good.`,
        run: (calls) => calls.send('DELETE', path),
      };
    case 'add_addresses':
    case 'remove_addresses': {
      const body = { accountAddresses: required(listed, 'addresses', action) };
      const verb = action === 'add_addresses' ? 'adds' : 'removes';
      return {
        reads: path,
        sentence: (now) =>
          `This ${verb} ${count(body.accountAddresses.length, 'address', 'addresses')} ${verb === 'adds' ? 'to' : 'from'} ${name(now)}.`,
        run: (calls) => calls.send(verb === 'adds' ? 'POST' : 'DELETE', `${path}/addresses`, body),
      };
    }
    case 'test':
      return {
        reads: path,
        sentence: (now) => `This sends a sample event to the receiver of ${name(now)}.`,
        run: (calls) => calls.send('POST', `${path}/test`, {}),
      };
    case 'resend': {
      const delivery = `${path}/deliveries/${encodeURIComponent(required(deliveryId, 'deliveryId', action))}`;
      return {
        reads: path,
        sentence: (now) => `This sends the delivery again to the receiver of ${name(now)}.`,
        run: (calls) => calls.send('POST', `${delivery}/resend`),
      };
    }
  }
}

const CODE_LENGTH = 16;

/**
 * Binds a confirmation to what will change: the same arguments on another state have another code. It is no secret: it only keeps a change
 * from happening that was not said before.
 */
const codeOf = (input: unknown, now: unknown): string =>
  createHash('sha256')
    .update(stringify([input, now]))
    .digest('hex')
    .slice(0, CODE_LENGTH);
