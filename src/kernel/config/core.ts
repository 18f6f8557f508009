import { type Static, Type } from '@sinclair/typebox';

const closed = { additionalProperties: false } as const;
const port = (value: number, description: string) =>
  Type.Integer({ minimum: 0, maximum: 65535, default: value, description });
const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });

/** A key whose value never appears in logs, dumps or errors. */
export const secret = { secret: true } as const;

/** One entry of a list of upstreams: an address, or an address with details. */
const upstreamEntry = Type.Union([
  Type.String({ format: 'http-url', ...secret }),
  Type.Object(
    {
      url: Type.String({
        format: 'http-url',
        description: 'http or https address of the JSON-RPC endpoint',
        ...secret,
      }),
      websocketUrl: Type.Optional(
        Type.String({
          format: 'ws-url',
          description: 'websocket address; default: the same host, or port + 1 on loopback',
          ...secret,
        }),
      ),
      headers: Type.Optional(
        Type.Record(Type.String(), Type.String(secret), { description: 'headers sent with each request' }),
      ),
      maxConcurrent: Type.Optional(count(64, 'requests at once')),
      archive: Type.Optional(Type.Boolean({ default: false, description: 'keeps the whole history' })),
    },
    closed,
  ),
]);

/** The sections that belong to the kernel. Plugins add one section each, named by their id. */
export const coreConfig = Type.Object(
  {
    dataDir: Type.String({ default: './data', description: 'SQLite file, caches and snapshots' }),
    http: Type.Object(
      {
        host: Type.String({ default: '127.0.0.1', description: 'address of the API listener' }),
        port: port(8787, 'port of the API listener; 0 = any free port'),
        websocketPort: Type.Union([port(0, ''), Type.Null()], {
          default: null,
          description: 'second listener for websockets; null = port + 1, because web3.js derives it that way',
        }),
        bodyLimitBytes: count(1_048_576, 'largest request body'),
        headerTimeoutMs: count(10_000, 'time for the request line and headers'),
        requestTimeoutMs: count(30_000, 'time for the whole request to arrive'),
        handlerTimeoutMs: count(30_000, 'time for a handler to answer'),
        keepAliveTimeoutMs: count(75_000, 'idle time of a kept connection'),
        maxConnections: count(10_000, 'open sockets'),
        maxConnectionsPerAddress: count(
          5_000,
          'open sockets of one client address, websockets too; 0 = no limit; trusted proxies have none',
          0,
        ),
        maxInFlight: count(2_000, 'requests handled at once; more are answered 503 with Retry-After'),
        maxBodyBytesInFlight: count(
          268_435_456,
          'bytes of all request bodies that are held at once; more are answered 503 with Retry-After',
        ),
        targetLimitBytes: count(8_192, 'longest request target'),
        trustedProxies: Type.Array(Type.String({ format: 'cidr' }), {
          default: [],
          description: 'CIDRs whose X-Forwarded-For is believed',
        }),
      },
      { ...closed, default: {} },
    ),
    admin: Type.Object(
      {
        host: Type.String({ default: '127.0.0.1', description: 'address of the admin listener' }),
        port: port(8790, 'port of the admin listener; 0 = any free port'),
        allowedHosts: Type.Array(Type.String(), {
          default: [],
          description: 'further Host names that are accepted beside the loopback ones',
        }),
      },
      { ...closed, default: {} },
    ),
    rpc: Type.Object(
      {
        denyMethods: Type.Array(Type.String(), { default: [], description: 'methods that are answered -32601' }),
        allowMethods: Type.Union([Type.Array(Type.String()), Type.Null()], {
          default: null,
          description: 'if set, all other proxied methods are -32601',
        }),
        upstreamTimeoutMs: count(30_000, 'deadline of a proxied call, retries included'),
        maxUpstreamBytes: count(134_217_728, 'largest proxied answer'),
        maxBatchItems: count(1_000, 'items in one batch'),
        batchConcurrency: count(8, 'items of one batch that run at once'),
        maxBatchBytes: count(33_554_432, 'joint size of the answers of one batch'),
      },
      { ...closed, default: {} },
    ),
    store: Type.Object(
      {
        url: Type.String({
          default: 'sqlite:',
          format: 'store-url',
          description: '`sqlite:` = parhelion.db in dataDir, `sqlite:/path`, or postgres://…',
          ...secret,
        }),
        poolSize: count(10, 'PostgreSQL connections of each role'),
        busyTimeoutMs: count(5_000, 'how long a locked SQLite database is waited for'),
        statementTimeoutMs: count(60_000, 'longest PostgreSQL statement'),
        migrate: Type.Union([Type.Literal('auto'), Type.Literal('manual')], {
          default: 'auto',
          description: 'auto = at start; manual = only by `parhelion migrate`',
        }),
      },
      { ...closed, default: {} },
    ),
    upstream: Type.Object(
      {
        urls: Type.Array(upstreamEntry, {
          default: [],
          description: 'JSON-RPC addresses of the main chain, in order of preference; SOLANA_RPC_URL sets it too',
        }),
        devnet: Type.Object(
          { urls: Type.Array(upstreamEntry, { default: [], description: 'JSON-RPC addresses of the second chain' }) },
          { ...closed, default: {} },
        ),
        healthIntervalMs: count(5_000, 'pause between health checks'),
        coolDownMs: count(10_000, 'how long a failing upstream is left alone'),
        distrustMs: count(60_000, 'how long an upstream that contradicted the chain is left alone'),
        local: Type.Object(
          {
            mode: Type.Union([Type.Literal('auto'), Type.Literal('on'), Type.Literal('off')], {
              default: 'auto',
              description: 'the throw-away local chain',
            }),
            port: port(8899, 'its port; 0 = any free port'),
            slotMs: count(400, 'length of a slot', 0),
            seed: Type.Union([Type.String(), Type.Null()], {
              default: null,
              description: 'genesis seed; null = random at each start',
            }),
            demo: Type.Boolean({ default: true, description: 'run the demo scenario' }),
            control: Type.Boolean({ default: true, description: 'offer the local_* control methods' }),
            finalityDepth: count(32, 'blocks above a finalized block', 0),
            firstSlot: count(1_000, 'slot of the first block', 0),
            maxBlocks: count(20_000, 'older blocks are pruned'),
            lightAssets: Type.Union([Type.String(), Type.Null()], {
              default: null,
              description: 'folder with Light Protocol programs and accounts',
            }),
          },
          { ...closed, default: {} },
        ),
      },
      { ...closed, default: {} },
    ),
    follow: Type.Object(
      {
        enabled: Type.Boolean({ default: true, description: 'follow the chain at all' }),
        startSlot: Type.Union([Type.Literal('latest'), Type.Integer({ minimum: 0 })], {
          default: 'latest',
          description: 'where a first start begins',
        }),
        commitment: Type.Union([Type.Literal('confirmed'), Type.Literal('finalized')], {
          default: 'confirmed',
          description: 'commitment that is followed',
        }),
        pollMs: count(400, 'pause between looks at the tip'),
        window: count(200, 'slots asked for ahead of the cursor'),
        concurrency: count(6, 'blocks fetched at once at the tip'),
        catchUpConcurrency: count(10, 'blocks fetched at once while catching up'),
        bufferBlocks: count(64, 'blocks held before release'),
        bufferBytes: count(536_870_912, 'bytes held before release'),
        headers: Type.Integer({
          minimum: 64,
          maximum: 4096,
          default: 512,
          description: 'released headers that are kept',
        }),
        maxCatchupSlots: count(216_000, 'slots behind the tip beyond which a gap is recorded'),
        holeTimeoutSeconds: count(600, 'how long a hole may stand before the alarm'),
        holePolicy: Type.Union([Type.Literal('wait'), Type.Literal('gap')], {
          default: 'wait',
          description: 'what follows then',
        }),
        maxSupportedTransactionVersion: count(1, 'transaction version asked for', 0),
        requestTimeoutMs: count(30_000, 'deadline of one call to an upstream'),
        maxBodyBytes: count(67_108_864, 'largest block answer'),
        unhealthyLagSlots: count(50, 'slots behind the best at which an upstream is left out'),
        auditIntervalMs: count(5_000, 'pause between finality audits'),
        stalledAfterSeconds: count(60, 'silence after which the chain counts as stalled'),
        stream: Type.Object(
          {
            plugin: Type.Union([Type.Literal('yellowstone'), Type.Null()], {
              default: null,
              description:
                'source of pushed blocks beside the polling: yellowstone needs the package @triton-one/yellowstone-grpc',
            }),
            url: Type.Union([Type.String({ format: 'http-url', ...secret }), Type.Null()], {
              default: null,
              description: 'its address',
              ...secret,
            }),
            token: Type.Union([Type.String(secret), Type.Null()], {
              default: null,
              description: 'its x-token',
              ...secret,
            }),
          },
          { ...closed, default: {} },
        ),
        maxReadyLagSlots: count(150, 'slots behind the tip at which the daemon is not ready'),
        rewindTo: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
          default: null,
          description:
            'take released blocks above this slot back at the start, final ones too; meant for one start: serve --rewind-to',
        }),
        maxGapSlots: count(1_000, 'slots of one gap that are filled before the next gap gets its turn'),
        gapBackfill: Type.Object(
          {
            enabled: Type.Boolean({ default: true, description: 'fill gaps while the chain is followed' }),
            concurrency: count(2, 'blocks of a gap fetched at once'),
            maxLagSlots: count(20, 'slots behind the tip at which filling waits'),
            retryMaxSeconds: count(
              3_600,
              'longest pause between looks whether an upstream has gained the blocks of a gap',
            ),
            addressMode: Type.Boolean({
              default: false,
              description:
                'when no upstream has the blocks of a gap, ask for the transactions of each watched address instead; ' +
                'deliveries that match only by token owner are not found that way',
            }),
            maxAddresses: count(10_000, 'addresses up to which that is done'),
          },
          { ...closed, default: {} },
        ),
      },
      { ...closed, default: {} },
    ),
    jobs: Type.Object(
      {
        concurrency: count(64, 'jobs that run at once'),
        claimBatch: count(256, 'rows per claim'),
        claimAhead: count(
          512,
          'rows that are claimed before a slot is free for them, so that one commit serves many',
          0,
        ),
        settleMs: count(5, 'how long finished attempts are collected before they are written', 0),
        pollMs: count(1_000, 'pause between looks at the outbox when nothing wakes the runner'),
        maxAttempts: count(20, 'attempts of a job whose handler throws'),
      },
      { ...closed, default: {} },
    ),
    lifecycle: Type.Object(
      {
        startTimeoutMs: count(30_000, 'time for one plugin to start'),
        drainTimeoutMs: count(20_000, 'time for accepted requests to finish'),
        stopTimeoutMs: count(10_000, 'time for all plugins to stop'),
      },
      { ...closed, default: {} },
    ),
    log: Type.Object(
      {
        level: Type.Union(
          ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'].map((level) => Type.Literal(level)),
          { default: 'info', description: 'least level that is written' },
        ),
        format: Type.Union([Type.Literal('auto'), Type.Literal('json'), Type.Literal('pretty')], {
          default: 'auto',
          description: 'auto = pretty in a terminal',
        }),
      },
      { ...closed, default: {} },
    ),
    plugins: Type.Array(
      Type.Union([
        Type.String({ minLength: 1 }),
        Type.Object(
          {
            use: Type.String({ minLength: 1, description: 'built-in name, path or package' }),
            enabled: Type.Optional(Type.Boolean({ default: true, description: 'load it' })),
          },
          closed,
        ),
      ]),
      {
        default: [
          'access',
          'compression',
          'enhanced',
          'prices',
          'proxy',
          'sender',
          'token-metadata',
          'wallet',
          'webhooks',
        ],
        description: 'plugins to load: built-in names, paths (./…, /…) or package names',
      },
    ),
  },
  closed,
);

export type CoreConfig = Static<typeof coreConfig>;
export type UpstreamEntry = Static<typeof upstreamEntry>;
