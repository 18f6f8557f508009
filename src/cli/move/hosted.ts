/**
 * Webhooks of hosted services in the form in which this daemon takes them. Sources: the public references of the webhook API
 * (`GET /v0/webhooks`, `GET /v0/webhooks/{id}`) and of QuickNode (`GET /webhooks/rest/v1/webhooks`, `GET /streams/rest/v1/streams`).
 */
import { createHash } from 'node:crypto';
import { decode32 } from '../../lib/base58.ts';
import { CodedError, EXIT } from '../../lib/coded-error.ts';
import { isPlainObject } from '../../lib/json.ts';
import type { Service } from './service.ts';

/** A webhook as `POST /v0/webhooks` takes it. */
export interface WantedWebhook {
  readonly webhookURL: string;
  readonly webhookType: string;
  readonly accountAddresses: readonly string[];
  readonly transactionTypes: readonly string[];
  readonly authHeader: string | null;
  readonly txnStatus: string | null;
  readonly encoding: string | null;
  /** For people; null: the service has none, and that of ours is left as it is. */
  readonly name: string | null;
  readonly description: string | null;
}

/** One row of the plan. */
export interface PlannedWebhook {
  /** Id of the service. */
  readonly id: string;
  /** For people; no address of a receiver, which may hold a secret. */
  readonly what: string;
  readonly active: boolean;
  /** Null: it cannot come along; `reasons` say why. */
  readonly wanted: WantedWebhook | null;
  /** What is different here, or why it is impossible; empty: one to one. */
  readonly reasons: readonly string[];
}

const WEBHOOK_FORMS = ['raw', 'enhanced', 'discord', 'rawDevnet', 'enhancedDevnet', 'discordDevnet'] as const;
const MAX_ADDRESSES = 100_000;
/** Longest texts that `POST /v0/webhooks` takes. */
const MAX_LABEL_CHARS = { name: 100, description: 1_000 } as const;
/** What cannot be stored in them. */
const CONTROLS = /(?!\n)[\p{Cc}\p{Cs}]/gu;
const PAGE = 100;
const MAX_PAGES = 1_000;

type Members = Readonly<Record<string, unknown>>;

/** All webhooks of a project of the hosted API, each with all its addresses: the list may cut them. */
export async function readHelius(service: Service): Promise<PlannedWebhook[]> {
  const list = listOf(await service.ask('GET', '/v0/webhooks'), service.host);
  const planned: PlannedWebhook[] = [];
  for (const entry of list) {
    const { webhookID } = entry;
    const whole =
      typeof webhookID === 'string' ? await service.ask('GET', `/v0/webhooks/${encodeURIComponent(webhookID)}`) : entry;
    planned.push(planHelius(isPlainObject(whole) ? whole : entry));
  }
  return planned;
}

/** Webhooks and streams of an account of QuickNode. */
export async function readQuickNode(service: Service): Promise<PlannedWebhook[]> {
  const webhooks = await pagesOf(service, '/webhooks/rest/v1/webhooks');
  const streams = await pagesOf(service, '/streams/rest/v1/streams');
  return [...webhooks.map(planQuickNode), ...streams.map(planStream)];
}

/** A list that was saved: of either service, alone or as the member `data`. Error: MOVE_USAGE. */
export function readSaved(text: string): PlannedWebhook[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = null;
  }
  const list = isPlainObject(value) ? value['data'] : value;
  if (!Array.isArray(list) || !list.every(isPlainObject))
    throw new CodedError(
      'MOVE_USAGE',
      'the file is no list of webhooks: a JSON array, or an object with the member data',
      {
        exitCode: EXIT.usage,
      },
    );
  return list.map((entry) => {
    if ('dataset' in entry) return planStream(entry);
    return 'destination_attributes' in entry ? planQuickNode(entry) : planHelius(entry);
  });
}

async function pagesOf(service: Service, path: string): Promise<Members[]> {
  const all: Members[] = [];
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const answer = await service.ask('GET', `${path}?limit=${PAGE}&offset=${all.length}`);
    const list = listOf(isPlainObject(answer) ? answer['data'] : answer, service.host);
    all.push(...list);
    const total = isPlainObject(answer) && isPlainObject(answer['pageInfo']) ? answer['pageInfo']['total'] : undefined;
    if (list.length === 0 || (typeof total === 'number' ? all.length >= total : list.length < PAGE)) break;
  }
  return all;
}

function listOf(value: unknown, host: string): Members[] {
  if (Array.isArray(value) && value.every(isPlainObject)) return value;
  throw new CodedError('MOVE_SERVICE', `${host} does not answer with a list of webhooks`, { exitCode: EXIT.temporary });
}

/** Members that are taken, and those that only report. */
const TAKEN = new Set([
  'webhookID',
  'webhookURL',
  'webhookType',
  'transactionTypes',
  'accountAddresses',
  'authHeader',
  'txnStatus',
  'encoding',
  'active',
  'name',
  'description',
]);
const REPORTED =
  /^(wallet|project|projectId|addressCount|createdAt|updatedAt|disabled(At|Reason)|graceUntil|stats|failureRate)$/;

export function planHelius(entry: Members): PlannedWebhook {
  const id = textOf(entry['webhookID']) ?? `without an id, ${hashOf(JSON.stringify(entry))}`;
  const type = textOf(entry['webhookType']) ?? 'enhanced';
  const given = textsOf(entry['accountAddresses']);
  const addresses = [...new Set(given)];
  const what = `${type}, ${addresses.length} addresses`;
  const problems = [
    ...(WEBHOOK_FORMS.some((known) => known === type) ? [] : [`the type ${JSON.stringify(type)} is not offered`]),
    ...problemsOfTarget(entry['webhookURL'], addresses),
  ];
  const labels = labelsOf(entry);
  const changes = [
    ...labels.changes,
    ...(given.length > addresses.length ? [`${given.length - addresses.length} repeated addresses are left out`] : []),
    ...Object.keys(entry)
      .filter((name) => !TAKEN.has(name) && !REPORTED.test(name) && hasContent(entry[name]))
      .map((name) => `the member ${name} is not known here and is left out`),
  ];
  const wanted: WantedWebhook = {
    webhookURL: textOf(entry['webhookURL']) ?? '',
    webhookType: type,
    accountAddresses: addresses,
    transactionTypes: textsOf(entry['transactionTypes']),
    authHeader: textOf(entry['authHeader']),
    txnStatus: textOf(entry['txnStatus']),
    encoding: textOf(entry['encoding']),
    ...labels.wanted,
  };
  return planned({ id, what, active: entry['active'] !== false, wanted, problems, changes });
}

/** A webhook of QuickNode; only the template of wallets names addresses. */
function planQuickNode(entry: Members): PlannedWebhook {
  const network = textOf(entry['network']) ?? '';
  const template = textOf(entry['templateId']) ?? textOf(entry['template_id']);
  const target = isPlainObject(entry['destination_attributes']) ? entry['destination_attributes'] : {};
  const args = entry['templateArgs'] ?? entry['template_args'];
  const lists = isPlainObject(args) ? Object.values(args).map(textsOf) : [];
  const addresses = [...new Set(lists.flat())];
  const isWallets = template !== null && /^solana_?wallet/i.test(template);
  const url = textOf(target['url']);
  const problems = [
    ...(/^solana/.test(network) ? [] : [`${network || 'its network'} is not Solana`]),
    ...(isWallets
      ? problemsOfTarget(url, addresses)
      : [
          template === null
            ? 'its filter is a program of yours: filter in your receiver, or write a plugin'
            : `the template ${template} has no counterpart`,
        ]),
  ];
  const labels = labelsOf(entry);
  const changes = [
    ...labels.changes,
    'deliveries have the form of raw webhooks, an array of transactions',
    'they are signed by Standard Webhooks, not with the security token',
    ...(hasContent(target['compression']) && target['compression'] !== 'none' ? ['bodies are not compressed'] : []),
    ...(hasContent(entry['notification_email']) ? ['no mail is sent: webhooks.operational notifies a receiver'] : []),
  ];
  const wanted: WantedWebhook = {
    webhookURL: url ?? '',
    webhookType: /devnet/.test(network) ? 'rawDevnet' : 'raw',
    accountAddresses: addresses,
    transactionTypes: [],
    authHeader: null,
    txnStatus: null,
    encoding: null,
    ...labels.wanted,
  };
  const what = `${template ?? 'filter'} on ${network || 'an unknown network'}, ${addresses.length} addresses`;
  return planned({
    id: textOf(entry['id']) ?? hashOf(JSON.stringify(entry)),
    what,
    active: entry['status'] === 'active',
    wanted,
    problems,
    changes,
  });
}

/** A stream of QuickNode sends whole blocks, or what a program makes of them: there is no webhook for that. */
function planStream(entry: Members): PlannedWebhook {
  const destination = textOf(entry['destination']) ?? 'unknown';
  const advice =
    destination === 'webhook'
      ? 'read blocks over gRPC or blockSubscribe (plugin streams), or write a plugin with a block processor'
      : 'use the plugin sinks: PostgreSQL, Parquet or NDJSON, or a sink of your own';
  const what = `stream of ${textOf(entry['dataset']) ?? 'blocks'} to ${destination}`;
  const reason = `a stream of blocks is no webhook: ${advice}`;
  return {
    id: textOf(entry['id']) ?? hashOf(JSON.stringify(entry)),
    what,
    active: entry['status'] === 'active',
    wanted: null,
    reasons: [reason],
  };
}

function planned(found: {
  readonly id: string;
  readonly what: string;
  readonly active: boolean;
  readonly wanted: WantedWebhook;
  readonly problems: readonly string[];
  readonly changes: readonly string[];
}): PlannedWebhook {
  const { id, what, active, wanted, problems, changes } = found;
  const isPossible = problems.length === 0;
  return { id, what, active, wanted: isPossible ? wanted : null, reasons: isPossible ? changes : problems };
}

/** The texts for people, as far as they can be stored here. */
function labelsOf(entry: Members): {
  readonly wanted: Pick<WantedWebhook, 'name' | 'description'>;
  readonly changes: readonly string[];
} {
  const changes: string[] = [];
  const label = (member: keyof typeof MAX_LABEL_CHARS): string | null => {
    const text = textOf(entry[member])?.replaceAll(CONTROLS, ' ') ?? null;
    const max = MAX_LABEL_CHARS[member];
    if (text === null || text.length <= max) return text;
    changes.push(`its ${member} is cut at ${max} characters`);
    // Half of a pair may be left at the end.
    return text.slice(0, max).replace(/\p{Cs}$/u, '');
  };
  return { wanted: { name: label('name'), description: label('description') }, changes };
}

function problemsOfTarget(url: unknown, addresses: readonly string[]): string[] {
  const isUrl = typeof url === 'string' && URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
  const wrong = addresses.find((address) => decode32(address) === null);
  return [
    ...(isUrl ? [] : ['its receiver has no http or https address']),
    ...(addresses.length > MAX_ADDRESSES
      ? [`it has ${addresses.length} addresses; at most ${MAX_ADDRESSES} are possible: split it`]
      : []),
    ...(wrong === undefined ? [] : [`${JSON.stringify(wrong.slice(0, 50))} is not an address`]),
  ];
}

/** Whether ours has another name or description than the service; texts that it does not have are no difference. */
export function isLabelledOtherwise(ours: WantedWebhook, wanted: WantedWebhook): boolean {
  return (['name', 'description'] as const).some((label) => wanted[label] !== null && wanted[label] !== ours[label]);
}

/** Equal for webhooks that deliver the same events to the same receiver in the same form. */
export function fingerprintOf(webhook: WantedWebhook): string {
  const { webhookType } = webhook;
  const types = webhook.transactionTypes.includes('ANY') ? [] : [...webhook.transactionTypes];
  const isRaw = webhookType.startsWith('raw');
  const parts = [
    webhook.webhookURL,
    webhookType,
    webhook.authHeader ?? '',
    webhook.txnStatus ?? (isRaw ? 'all' : 'success'),
    webhook.encoding ?? '',
    isRaw ? [] : types.sort(),
    [...webhook.accountAddresses].sort(),
  ];
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}

const textOf = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null);
const textsOf = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((one): one is string => typeof one === 'string') : [];
const hasContent = (value: unknown): boolean =>
  value !== null &&
  value !== undefined &&
  value !== '' &&
  value !== false &&
  !(Array.isArray(value) && value.length === 0);
const hashOf = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 16);
