import { type Static, Type } from '@sinclair/typebox';

const closed = { additionalProperties: false } as const;
const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });
const steps = (value: number[], description: string) =>
  Type.Array(Type.Number({ minimum: 0, maximum: 604_800 }), { default: value, maxItems: 50, description });

export const webhooksConfig = Type.Object(
  {
    maxPerProject: count(50, 'webhooks of one project'),
    maxAddresses: count(100_000, 'addresses of one webhook'),
    bodyLimitBytes: count(8_388_608, 'largest request body of the webhook routes'),
    matchTokenOwners: Type.Boolean({
      default: true,
      description: 'whether new webhooks also match the owners of token accounts; false = account keys only',
    }),
    raw: Type.Object(
      {
        extraKeys: Type.Boolean({ default: false, description: 'repeat keys of the node beyond the published ones' }),
      },
      { ...closed, default: {}, description: 'raw payloads' },
    ),
    enhanced: Type.Object(
      {
        preferSwapOverMint: Type.Boolean({
          default: false,
          description:
            'a swap over one market that mints shares of its fee is a SWAP, not a TOKEN_MINT as the hosted service says',
        }),
        setAuthorityEvents: Type.Boolean({
          default: false,
          description: 'report changes of token authorities in events.setAuthority',
        }),
      },
      { ...closed, default: {}, description: 'enhanced payloads' },
    ),
    explorerUrlTemplate: Type.String({
      default: 'https://explorer.solana.com/tx/{signature}?cluster={cluster}',
      description: 'page of a transaction in Discord messages, with {signature} and {cluster}',
    }),
    defaultPreset: Type.Union([Type.Literal('durable'), Type.Literal('compat')], {
      default: 'durable',
      description: 'retry preset of webhooks that name none',
    }),
    retry: Type.Object(
      {
        durable: Type.Object(
          {
            steps: steps([5, 300, 1_800, 7_200, 18_000, 36_000, 36_000], 'seconds before each retry'),
            jitter: Type.Number({ minimum: 0, maximum: 1, default: 0.2, description: 'random part of each step, ±' }),
            timeoutMs: count(10_000, 'deadline of one attempt, DNS to body'),
          },
          { ...closed, default: {}, description: 'patient: more than a day' },
        ),
        compat: Type.Object(
          {
            steps: steps([1, 1, 1], 'seconds before each retry'),
            timeoutMs: count(1_000, 'deadline of one attempt, DNS to body'),
          },
          { ...closed, default: {}, description: 'like the hosted service: three quick retries' },
        ),
      },
      { ...closed, default: {}, description: 'retry presets' },
    ),
    concurrency: Type.Object(
      {
        global: count(64, 'deliveries in flight at once'),
        perWebhook: count(4, 'deliveries of one webhook in flight at once'),
      },
      { ...closed, default: {}, description: 'limits of sending' },
    ),
    ratePerSecond: count(50, 'deliveries per second of one webhook; more wait; 0 = no limit', 0),
    outbox: Type.Object(
      {
        maxRows: count(1_000_000, 'waiting deliveries at which the follower pauses until some are done'),
        maxPerWebhook: count(
          100_000,
          'waiting deliveries of one webhook; further events are counted as missed and not stored',
        ),
      },
      { ...closed, default: {}, description: 'bounds of the outbox' },
    ),
    hold: Type.Object(
      {
        maxRows: count(10_000, 'events kept for a webhook that is off; beyond that the oldest are dropped'),
        ttlHours: count(72, 'how long they are kept'),
      },
      { ...closed, default: {}, description: 'webhooks with onInactive: hold' },
    ),
    replay: Type.Object(
      {
        creditsPerSlot: Type.Number({
          minimum: 0,
          default: 1,
          description: 'credits for each slot that a replay reads again; that of a getBlock',
        }),
      },
      { ...closed, default: {}, description: 'reading past blocks again for one webhook' },
    ),
    retention: Type.Object(
      {
        succeededHours: count(24, 'how long delivered events are kept'),
        failedDays: count(14, 'how long failed and discarded events are kept'),
        attemptsPerDelivery: count(20, 'attempts that are kept of one delivery'),
        attemptsPerWebhook: count(1_000, 'attempts that are kept of one webhook'),
      },
      { ...closed, default: {}, description: 'when deliveries are deleted' },
    ),
    autoDisable: Type.Object(
      {
        enabled: Type.Boolean({ default: true, description: 'disable webhooks whose endpoint keeps failing' }),
        windowMinutes: count(60, 'length of the window'),
        minFinished: count(20, 'finished deliveries in the window below which nothing happens'),
        failureRate: Type.Number({
          minimum: 0,
          maximum: 1,
          default: 0.95,
          description: 'failed share that is too much',
        }),
        quietMinutes: count(10, 'a success within this time prevents it', 0),
        silentHours: count(24, 'also when every attempt of this time failed (and there were minFinished)'),
      },
      { ...closed, default: {}, description: 'automatic disabling' },
    ),
    graceHours: Type.Integer({
      minimum: 24,
      default: 24,
      description: 'time after re-enabling in which a webhook is not disabled automatically',
    }),
    secret: Type.Object(
      { overlapSeconds: count(86_400, 'how long the old secret signs together with a new one', 0) },
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
      { default: null, description: "the operator's own webhook {url, secret}; null = not configured" },
    ),
    maxLagSeconds: Type.Number({
      exclusiveMinimum: 0,
      default: 60,
      description: 'lag that is reported to the operator, after follow.stalledAfterSeconds',
    }),
    maxLagSlots: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], {
      default: null,
      description: 'old form of webhooks.maxLagSeconds, in slots',
      renamedTo: 'webhooks.maxLagSeconds',
    }),
    allowHttp: Type.Boolean({ default: false, description: 'deliver to http addresses anywhere' }),
    allowCidrs: Type.Array(Type.String({ format: 'cidr' }), {
      default: [],
      description: 'networks that may be delivered to although they are private, for example 127.0.0.0/8',
    }),
    allowPorts: Type.Union([Type.Array(Type.Integer({ minimum: 1, maximum: 65_535 })), Type.Null()], {
      default: null,
      description: 'ports that may be delivered to; null = all',
    }),
    caFile: Type.Union([Type.String(), Type.Null()], {
      default: null,
      description: 'PEM file with further certificate authorities of receivers',
    }),
  },
  { ...closed, default: {} },
);

export type WebhooksConfig = Static<typeof webhooksConfig>;
