import { Type } from '../../../src/plugin/plugin.ts';
import { answered, anything, type Calls, choice, count, defineTool, given, INPUT, listOf, required } from '../tool.ts';
import { itemsOf, memberOf, moreSentence, nextOf, objectsOf } from './answers.ts';
import { whyNot } from './why.ts';

const VIEWS = ['list', 'webhook', 'deliveries', 'delivery', 'gaps', 'why'] as const;

export const webhookIdInput = Type.String({ minLength: 1, maxLength: 64, description: 'webhookID' });

export const webhooksTool = defineTool({
  name: 'webhooks',
  title: 'Webhooks',
  description:
    'Webhooks of this project, which send a request for each transaction of watched addresses. Views: list, webhook (one with its addresses), deliveries (newest first, by status or signature), delivery (one with its attempts), gaps (slots that were passed over), why (why the event of a transaction did not arrive: checks the webhook, the transaction, its deliveries and the gaps). Use change_webhook to create and change them.',
  input: Type.Object(
    {
      view: Type.Optional(choice(VIEWS, 'default: list')),
      webhookID: Type.Optional(webhookIdInput),
      deliveryId: Type.Optional(Type.String({ minLength: 1, maxLength: 64, description: 'of delivery' })),
      signature: Type.Optional(INPUT.signature('of deliveries and why: the transaction')),
      status: Type.Optional(
        choice(['pending', 'delivered', 'failed', 'discarded'], 'of deliveries: only those with this status'),
      ),
      limit: INPUT.limit(100, 10),
      cursor: INPUT.cursor,
    },
    { additionalProperties: false },
  ),
  data: answered({
    items: listOf('Webhooks, deliveries or gaps'),
    next: Type.Union([Type.String(), Type.Null()]),
    webhook: anything('The webhook'),
    delivery: anything('The delivery with its attempts'),
    missed: listOf('Events that were counted and not stored, by range of slots'),
    reasons: Type.Array(
      Type.Object({
        code: Type.String(),
        sentence: Type.String(),
      }),
      { description: 'Of why: what was found, the deciding reason first' },
    ),
  }),
  async run(input, calls) {
    const { view = 'list' } = input;
    if (view === 'list') {
      const items = itemsOf(await calls.get('/v0/webhooks'));
      return { summary: `${count(items.length, 'webhook')} in this project.`, data: { items } };
    }
    if (view === 'gaps') return await pageOf(calls, '/v0/webhooks/gaps', input, 'gap');
    const path = webhookPath(required(input.webhookID, 'webhookID', view));
    switch (view) {
      case 'webhook': {
        const webhook = await calls.get(path);
        const addresses = count(Number(memberOf(webhook, 'addressCount') ?? 0), 'address', 'addresses');
        const state = memberOf(webhook, 'active') === true ? 'on' : 'off';
        return { summary: `The webhook is ${state} and watches ${addresses}.`, data: { webhook } };
      }
      case 'deliveries':
        return await pageOf(calls, `${path}/deliveries`, input, 'delivery', 'deliveries');
      case 'delivery': {
        const id = required(input.deliveryId, 'deliveryId', view);
        const delivery = await calls.get(`${path}/deliveries/${encodeURIComponent(id)}`);
        const attempts = count(objectsOf(memberOf(delivery, 'attempts')).length, 'attempt');
        return {
          summary: `The delivery is ${String(memberOf(delivery, 'status'))} after ${attempts}.`,
          data: { delivery },
        };
      }
      case 'why':
        return await whyNot(calls, path, required(input.signature, 'signature', view));
    }
  },
});

export const webhookPath = (id: string): string => `/v0/webhooks/${encodeURIComponent(id)}`;

interface PageInput {
  readonly limit?: number;
  readonly cursor?: string;
  readonly signature?: string;
  readonly status?: string;
}

async function pageOf(calls: Calls, path: string, input: PageInput, one: string, many?: string) {
  const { limit = 10, cursor, signature, status } = input;
  const filters = many === undefined ? {} : { signature, status };
  const found = await calls.get(path, given({ limit, cursor, ...filters }));
  const items = itemsOf(memberOf(found, 'data'));
  const next = nextOf(found);
  return {
    summary: `${count(items.length, one, many)}, newest first. ${moreSentence(next)}`,
    data: given({ items, next, missed: memberOf(found, 'missed') }),
  };
}
