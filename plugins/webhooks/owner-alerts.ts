/** Tells the owner of a project when one of its webhooks fails, works again or is switched off: by JSON, a message of Slack or an e-mail. */
import { Type } from '@sinclair/typebox';
import { defineRoute, type JobKind, type PluginContext, type Route } from '../../src/plugin/plugin.ts';
import { json, RequestError } from '../../src/plugin/request.ts';
import type { Clock, Random } from '../../src/ports/clock.ts';
import type { Outbox } from '../../src/ports/outbox.ts';
import type { Store, StoreTx } from '../../src/ports/store.ts';
import type { Log } from '../../src/ports/telemetry.ts';
import { oneOf, orNull, text } from '../../src/solana/schemas.ts';
import type { WebhooksConfig } from './config.ts';
import { type InputRules, parseUrl } from './input.ts';
import { addressOfMail, MAIL_TEXT, type Mail } from './mail.ts';
import type { Webhook } from './model.ts';
import { createNoticeKind, type NoticeKindParts } from './notice-kind.ts';
import { BAD_REPLIES, COMMON, callerOf, FREE_PRICE } from './routes/common.ts';
import type { WebhookDb } from './store/tables.ts';

const CONTACT_FORMATS = ['json', 'slack', 'email'] as const;
type ContactFormat = (typeof CONTACT_FORMATS)[number];

/** Where a project wants to be told. */
interface Contact {
  /** An e-mail goes to `mailto:ADDRESS`. */
  readonly url: string;
  readonly format: ContactFormat;
}

type OwnerEventType = 'webhook.failing' | 'webhook.recovered' | 'webhook.disabled';

/** Content of a job. The contact is that of the time of the event. */
interface OwnerEvent {
  readonly contact: Contact;
  readonly type: OwnerEventType;
  /** ISO 8601, UTC. */
  readonly timestamp: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** Events for the owners of projects. */
export interface OwnerAlerts {
  /** Whether any project has a contact, as of the last `refresh`: finished deliveries need not be looked at otherwise. */
  isOn(): boolean;
  refresh(): Promise<void>;
  /** Puts an event into the outbox in the transaction that caused it; nothing without a contact. */
  report(tx: StoreTx, hook: Webhook, type: OwnerEventType, data?: Readonly<Record<string, unknown>>): Promise<void>;
}

const OWNER_KIND = 'webhooks.owner';
const ID_BYTES = 16;

export function createOwnerAlerts(parts: {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly enqueue: PluginContext['jobs']['add'];
  readonly outbox: Pick<Outbox, 'list'>;
  readonly log: Log;
  readonly email: Pick<WebhooksConfig['email'], 'perHour'>;
}): OwnerAlerts {
  const { store, clock, random, enqueue, log } = parts;
  let hasContacts = false;
  return {
    isOn: () => hasContacts,
    async refresh() {
      const row = await (store.read as WebhookDb)
        .selectFrom('webhook_contacts')
        .select('project_id')
        .limit(1)
        .execute();
      hasContacts = row.length > 0;
    },
    async report(tx, hook, type, data = {}) {
      const contact = await readContact(tx.db as WebhookDb, hook.projectId);
      if (contact === null) return;
      if (contact.format === 'email' && (await hasMany(parts, tx, hook.projectId))) {
        log.warn(
          { project: hook.projectId, webhook: hook.id },
          `no e-mail of ${type}: the project had its share of the hour`,
        );
        return;
      }
      const about = { webhookID: hook.id, name: hook.name, host: new URL(hook.url).host, project: hook.projectId };
      const payload: OwnerEvent = {
        contact,
        type,
        timestamp: new Date(clock.now()).toISOString(),
        data: { ...about, ...data },
      };
      const key = `evt_${Buffer.from(random.bytes(ID_BYTES)).toString('hex')}`;
      await enqueue(tx, [{ kind: OWNER_KIND, key, group: hook.projectId, payload }]);
    },
  };
}

const HOUR_MS = 3_600_000;

/** Whether a project was told as often in the last hour as it may be by e-mail: an address can be somebody else's. */
async function hasMany(
  { outbox, clock, email }: Pick<Parameters<typeof createOwnerAlerts>[0], 'outbox' | 'clock' | 'email'>,
  tx: StoreTx,
  projectId: string,
): Promise<boolean> {
  const limit = email.perHour;
  const last = await outbox.list({ kind: OWNER_KIND, group: projectId }, { limit, tx });
  return last.length === limit && last.at(-1)!.createdAt > clock.now() - HOUR_MS;
}

async function readContact(db: WebhookDb, projectId: string): Promise<Contact | null> {
  const row = await db
    .selectFrom('webhook_contacts')
    .select(['url', 'format'])
    .where('project_id', '=', projectId)
    .executeTakeFirst();
  return row === undefined ? null : { url: row.url, format: row.format as ContactFormat };
}

/** For a project that is deleted. */
export async function removeContact(tx: StoreTx, projectId: string): Promise<void> {
  await (tx.db as WebhookDb).deleteFrom('webhook_contacts').where('project_id', '=', projectId).execute();
}

const SENTENCES: Readonly<Record<OwnerEventType, string>> = {
  'webhook.failing':
    'is failing: several attempts of a delivery in a row were refused or not answered. Deliveries wait.',
  'webhook.recovered': 'works again.',
  'webhook.disabled': 'was switched off because its receiver kept failing. Switch it on when the receiver works.',
};

const nameOf = ({ data }: OwnerEvent): string =>
  typeof data['name'] === 'string' ? `${data['name']} (${data['host']})` : String(data['host']);

function bodyOf(event: OwnerEvent): object {
  const { contact, type, timestamp, data } = event;
  if (contact.format === 'json') return { type, timestamp, data };
  return { text: `Webhook ${escapeSlack(nameOf(event))} ${SENTENCES[type]} Id ${data['webhookID']}` };
}

const SUBJECTS: Readonly<Record<OwnerEventType, string>> = {
  'webhook.failing': 'is failing',
  'webhook.recovered': 'works again',
  'webhook.disabled': 'was switched off',
};

function mailOf(event: OwnerEvent, to: string, id: string): Mail {
  const { type, timestamp, data } = event;
  return {
    to,
    id,
    subject: `Webhook ${nameOf(event)} ${SUBJECTS[type]}`,
    text: [
      `The webhook ${nameOf(event)} ${SENTENCES[type]}`,
      '',
      `Webhook  ${data['webhookID']}`,
      `Project  ${data['project']}`,
      `Time     ${timestamp}`,
      '',
      'Its deliveries, with the answers of the receiver, are in the dashboard. Once the receiver works, Resend there sends what waits.',
      'To stop these e-mails, change the notifications of the project.',
      '',
    ].join('\n'),
  };
}

/** Slack takes these characters for links and mentions. */
const escapeSlack = (name: string): string =>
  name.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

/** Sends events to owners. */
export function createOwnerKind(parts: NoticeKindParts): JobKind {
  return createNoticeKind(parts, {
    kind: OWNER_KIND,
    summary: 'tells owners of projects that a webhook fails, works again or was switched off',
    noticeOf({ payload, key }) {
      const event = payload as OwnerEvent;
      const { url: to, format: form } = event.contact;
      if (form === 'email') return { mail: mailOf(event, addressOfMail(to) ?? to, key) };
      return { url: event.contact.url, body: Buffer.from(JSON.stringify(bodyOf(event))) };
    },
  });
}

const PATH = '/v0/webhooks/notifications';
const postUrl = text('Where notices are posted, such as an incoming webhook of Slack', 'https://example.org/notices', {
  format: 'uri',
  maxLength: 2_048,
});
const mailUrl = text('Address of the owner, after `mailto:`', 'mailto:ada@example.org', MAIL_TEXT);
const POST_FORMATS = CONTACT_FORMATS.filter((form) => form !== 'email');
const postFormat = oneOf(POST_FORMATS, 'json: `{type, timestamp, data}`; slack: `{text}`', 'slack');
const mailFormat = oneOf(['email'], 'email: a text to this address');
const format = oneOf(CONTACT_FORMATS, 'json: `{type, timestamp, data}`; slack: `{text}`; email: a text', 'slack');
const contactReply = Type.Object(
  { url: orNull(Type.Union([postUrl, mailUrl]), { description: 'Where notices go' }), format: orNull(format) },
  { title: 'Notifications', description: 'Where the owner is told; null = nowhere' },
);
const EXAMPLE = { url: 'https://example.org/notices', format: 'slack' };

interface ContactParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly rules: InputRules;
  readonly owners: OwnerAlerts;
  /** Whether this daemon has a server for e-mails. */
  readonly canMail: boolean;
}

/** Routes that read and set where a project is told. */
export function contactRoutes({ store, clock, owners, ...parts }: ContactParts): readonly Route[] {
  const get = defineRoute({
    ...COMMON,
    method: 'GET',
    path: PATH,
    summary: 'Show where the owner is told of failing webhooks',
    price: FREE_PRICE,
    replies: { 200: contactReply, ...BAD_REPLIES },
    async handler(request) {
      const contact = await readContact(store.read as WebhookDb, callerOf(request).projectId);
      return json(contact ?? { url: null, format: null });
    },
  });
  const put = defineRoute({
    ...COMMON,
    method: 'PUT',
    path: PATH,
    summary: 'Set where the owner is told of failing webhooks; url null: nowhere',
    price: FREE_PRICE,
    body: Type.Union(
      [
        Type.Object({
          url: Type.Null({ description: 'Nowhere', examples: [null] }),
          format: Type.Optional(orNull(format)),
        }),
        Type.Object({ url: postUrl, format: Type.Optional(orNull(postFormat)) }),
        Type.Object({ url: mailUrl, format: mailFormat }),
      ],
      { description: 'Where to, and in which form; json by default', examples: [EXAMPLE] },
    ),
    explain: (body) => contactOf(body, parts),
    replies: { 200: contactReply, ...BAD_REPLIES },
    async handler(request) {
      const { projectId } = callerOf(request);
      const contact = contactOf(request.body, parts);
      await store.write(async (tx) => {
        if (contact === null) return await removeContact(tx, projectId);
        const values = { ...contact, updated_at: clock.now() };
        await (tx.db as WebhookDb)
          .insertInto('webhook_contacts')
          .values({ project_id: projectId, ...values })
          .onConflict((conflict) => conflict.column('project_id').doUpdateSet(values))
          .execute();
      });
      await owners.refresh();
      return json(contact ?? { url: null, format: null });
    },
  });
  return [get, put];
}

/** Null: nowhere. Errors: 400. */
function contactOf(body: unknown, { rules, canMail }: Pick<ContactParts, 'rules' | 'canMail'>): Contact | null {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw new RequestError(400, 'the body must be a JSON object');
  const given = body as Readonly<Record<string, unknown>>;
  if (given['url'] === null) return null;
  const form = CONTACT_FORMATS.find((one) => one === (given['format'] ?? 'json'));
  if (form === undefined) throw new RequestError(400, `format: must be one of ${CONTACT_FORMATS.join(', ')}`);
  if (form !== 'email') return { url: parseUrl(given['url'], rules, 'url'), format: form };
  if (!canMail) throw new RequestError(400, 'format: this daemon sends no e-mails (webhooks.email.server is not set)');
  const address = typeof given['url'] === 'string' ? addressOfMail(given['url']) : null;
  if (address === null) throw new RequestError(400, 'url must be one e-mail address, such as mailto:ada@example.org');
  return { url: `mailto:${address}`, format: form };
}
