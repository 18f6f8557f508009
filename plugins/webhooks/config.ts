import { type Static, Type } from '@sinclair/typebox';
import { reloadable } from '../../src/lib/reloadable.ts';

const closed = { additionalProperties: false } as const;
const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });
const steps = (value: number[], description: string) =>
  Type.Array(Type.Number({ minimum: 0, maximum: 604_800 }), { default: value, maxItems: 50, description });

export const webhooksConfig = Type.Object(
  {
    maxPerProject: reloadable(count(50, 'webhooks of one project')),
    maxAddresses: reloadable(count(100_000, 'addresses of one webhook')),
    bodyLimitBytes: reloadable(count(8_388_608, 'largest request body of the webhook routes')),
    matchTokenOwners: reloadable(
      Type.Boolean({
        default: true,
        description: 'whether new webhooks also match the owners of token accounts; false = account keys only',
      }),
    ),
    raw: Type.Object(
      {
        extraKeys: reloadable(
          Type.Boolean({
            default: false,
            description: "include keys of the node's response beyond the published ones",
          }),
        ),
      },
      { ...closed, default: {}, description: 'raw payloads' },
    ),
    explorerUrlTemplate: reloadable(
      Type.String({
        default: 'https://explorer.solana.com/tx/{signature}?cluster={cluster}',
        description:
          'link to a transaction in Discord messages, with {signature} and {cluster}: mainnet-beta, devnet, testnet, or custom for another chain',
      }),
    ),
    defaultPreset: reloadable(
      Type.Union([Type.Literal('durable'), Type.Literal('compat')], {
        default: 'durable',
        description: 'retry preset of webhooks without one',
      }),
    ),
    retry: Type.Object(
      {
        durable: Type.Object(
          {
            steps: reloadable(steps([5, 300, 1_800, 7_200, 18_000, 36_000, 36_000], 'seconds before each retry')),
            jitter: reloadable(
              Type.Number({ minimum: 0, maximum: 1, default: 0.2, description: 'random part of each step, ±' }),
            ),
            timeoutMs: reloadable(count(10_000, 'deadline of one request, from DNS to body')),
          },
          { ...closed, default: {}, description: 'retries over more than a day' },
        ),
        compat: Type.Object(
          {
            steps: reloadable(steps([1, 1, 1], 'seconds before each retry')),
            timeoutMs: reloadable(count(1_000, 'deadline of one request, from DNS to body')),
          },
          { ...closed, default: {}, description: 'like the hosted service: three quick retries' },
        ),
      },
      { ...closed, default: {}, description: 'retry presets' },
    ),
    concurrency: Type.Object(
      {
        global: count(64, 'deliveries of all webhooks in flight'),
        perWebhook: reloadable(count(4, 'deliveries of one webhook in flight')),
      },
      { ...closed, default: {}, description: 'limits of concurrent deliveries' },
    ),
    ratePerSecond: reloadable(count(50, 'deliveries per second of one webhook; further ones wait; 0 = no limit', 0)),
    outbox: Type.Object(
      {
        maxRows: reloadable(count(1_000_000, 'waiting deliveries at which the follower pauses')),
        maxPerWebhook: reloadable(
          count(100_000, 'waiting deliveries of one webhook; further events are recorded as missed and not stored'),
        ),
      },
      { ...closed, default: {}, description: 'limits of the outbox' },
    ),
    hold: Type.Object(
      {
        maxRows: reloadable(
          count(10_000, 'events kept for a webhook that is off; beyond that, the oldest are dropped'),
        ),
        ttlHours: reloadable(count(72, 'how long they are kept')),
      },
      { ...closed, default: {}, description: 'webhooks with onInactive: hold' },
    ),
    replay: Type.Object(
      {
        creditsPerSlot: reloadable(
          Type.Number({
            minimum: 0,
            default: 1,
            description: 'credits for each slot that a replay reads, as for getBlock',
          }),
        ),
      },
      { ...closed, default: {}, description: 'replay of past blocks for one webhook' },
    ),
    retention: Type.Object(
      {
        succeededHours: reloadable(count(24, 'how long delivered events are kept')),
        failedDays: reloadable(count(14, 'how long failed and discarded events are kept')),
        attemptsPerDelivery: reloadable(count(20, 'attempts kept per delivery')),
        attemptsPerWebhook: reloadable(count(1_000, 'attempts kept per webhook')),
      },
      { ...closed, default: {}, description: 'how long deliveries are kept' },
    ),
    autoDisable: Type.Object(
      {
        enabled: reloadable(
          Type.Boolean({ default: true, description: 'switch off webhooks whose receiver keeps failing' }),
        ),
        windowMinutes: reloadable(count(60, 'length of the window')),
        minFinished: reloadable(count(20, 'smallest number of finished deliveries in the window')),
        failureRate: reloadable(
          Type.Number({
            minimum: 0,
            maximum: 1,
            default: 0.95,
            description: 'share of failed deliveries that disables a webhook',
          }),
        ),
        quietMinutes: reloadable(count(10, 'a successful delivery within this time prevents it', 0)),
        silentHours: reloadable(
          count(24, 'also disable if every attempt within this time failed, and there were at least minFinished'),
        ),
      },
      { ...closed, default: {}, description: 'automatic disabling' },
    ),
    graceHours: reloadable(
      Type.Integer({
        minimum: 24,
        default: 24,
        description: 'time after re-enabling in which a webhook is not disabled automatically',
      }),
    ),
    secret: Type.Object(
      { overlapSeconds: reloadable(count(86_400, 'how long the old secret also signs after a rotation', 0)) },
      { ...closed, default: {}, description: 'signing secrets' },
    ),
    operational: Type.Union(
      [
        Type.Object(
          {
            url: Type.String({
              default: '',
              secret: true,
              description: 'receives events about failing webhooks, pauses, stalls and gaps of the chain',
            }),
            secret: Type.String({
              default: '',
              secret: true,
              pattern: '^whsec_[A-Za-z0-9+/]{32,88}={0,2}$',
              description: 'signs these events, whsec_ and 24 to 64 bytes in base64',
            }),
          },
          closed,
        ),
        Type.Null(),
      ],
      { default: null, description: 'webhook of the operator {url, secret}; null = off' },
    ),
    email: Type.Object(
      {
        server: Type.Union([Type.String({ secret: true, pattern: '^smtps?://[^\\s/]+/?$' }), Type.Null()], {
          default: null,
          secret: true,
          description:
            'smtp://USER:PASSWORD@HOST:587 (STARTTLS) or smtps://USER:PASSWORD@HOST:465 (TLS); null = no e-mails',
        }),
        from: Type.Union([Type.String({ pattern: '^[^\\s@<>]+@[A-Za-z0-9.-]+$' }), Type.Null()], {
          default: null,
          description: 'address of the sender',
        }),
        perHour: reloadable(count(20, 'e-mails that one project gets in an hour at most')),
      },
      { ...closed, default: {}, description: 'server that tells owners of projects by e-mail of failing webhooks' },
    ),
    maxLagSeconds: reloadable(
      Type.Number({
        exclusiveMinimum: 0,
        default: 60,
        description: 'lag that is reported to the operator once it lasts for follow.stalledAfterSeconds',
      }),
    ),
    maxLagSlots: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], {
      default: null,
      description: 'old form of webhooks.maxLagSeconds, in slots',
      renamedTo: 'webhooks.maxLagSeconds',
    }),
    allowHttp: Type.Boolean({
      default: false,
      description: 'allow http to every address; if false, only to addresses in allowCidrs',
    }),
    allowCidrs: Type.Array(Type.String({ format: 'cidr' }), {
      default: [],
      description: 'private networks that are allowed as targets, for example 127.0.0.0/8',
    }),
    allowPorts: Type.Union([Type.Array(Type.Integer({ minimum: 1, maximum: 65_535 })), Type.Null()], {
      default: null,
      description: 'allowed ports of targets; null = all',
    }),
    caFile: Type.Union([Type.String({ format: 'file' }), Type.Null()], {
      default: null,
      description: 'PEM file with additional certificate authorities for receivers and for the server of e-mails',
    }),
  },
  { ...closed, default: {} },
);

export type WebhooksConfig = Static<typeof webhooksConfig>;

/** Coded errors of this plugin. */
export const WEBHOOKS_ERRORS = {
  WEBHOOKS_NO_OUTBOX: 'the kernel has no outbox',
  WEBHOOKS_LISTEN: 'the address of `webhooks listen` cannot be listened on',
  WEBHOOKS_TEST_FAILED: 'the receiver did not accept a test event',
  WEBHOOKS_USAGE: 'a command of webhooks was called with invalid values',
  WEBHOOKS_EMAIL: 'webhooks.email cannot be used',
  WEBHOOKS_OPERATIONAL_URL: 'webhooks.operational.url is not an allowed address',
} as const;
