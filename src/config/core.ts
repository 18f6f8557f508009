import { availableParallelism } from 'node:os';
import { type Static, Type } from '@sinclair/typebox';
import { reloadable, reloadableWhenSet } from '../lib/reloadable.ts';

/** Unknown keys are errors. */
const closed = { additionalProperties: false } as const;
const port = (value: number, description: string) =>
  Type.Integer({ minimum: 0, maximum: 65535, default: value, description });
const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });

/**
 * A key of an earlier version that counts slots instead of time. It is still read if set, with a warning that names its replacement; it is
 * left out of written configurations.
 */
const oldSlots = (renamedTo: string) =>
  Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], {
    default: null,
    description: `old form of ${renamedTo}, in slots`,
    renamedTo,
  });

/** A duration; fractions are allowed. */
const time = (value: number, description: string) => Type.Number({ exclusiveMinimum: 0, default: value, description });

/** A key whose value never appears in logs, dumps or errors. */
export const secret = { secret: true } as const;

const file = (description: string) =>
  reloadableWhenSet(Type.Union([Type.String({ format: 'path' }), Type.Null()], { default: null, description }));

/** The certificate section of the listeners `who`. */
const tlsConfig = (who: string) =>
  Type.Object(
    {
      certFile: file(`TLS certificate chain (PEM) of ${who}; null = plain HTTP; a reload reads the file again`),
      keyFile: file('its private key (PEM, without a passphrase)'),
    },
    { ...closed, default: {} },
  );

/** The sections that contain certificates. */
export const TLS_SECTIONS = ['http', 'admin'] as const;
export type TlsSection = (typeof TLS_SECTIONS)[number];

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
      maxConcurrent: Type.Optional(count(64, 'concurrent requests')),
      archive: Type.Optional(
        Type.Boolean({
          default: false,
          description:
            'has the whole history: the past of wallets is read only from such upstreams, and forwarded calls for old data go to them first',
        }),
      ),
    },
    closed,
  ),
]);

/** Sources of the chains: addresses of nodes, or the local chain. */
const upstreamConfig = Type.Object(
  {
    urls: reloadableWhenSet(
      Type.Array(upstreamEntry, {
        default: [],
        description: 'JSON-RPC addresses of the main chain, in order of preference; SOLANA_RPC_URL sets it too',
      }),
    ),
    devnet: Type.Object(
      {
        urls: reloadableWhenSet(
          Type.Array(upstreamEntry, { default: [], description: 'JSON-RPC addresses of the second chain' }),
        ),
      },
      { ...closed, default: {} },
    ),
    healthIntervalMs: reloadable(count(5_000, 'pause between health checks')),
    coolDownMs: reloadable(count(10_000, 'how long a failing upstream cools down')),
    distrustMs: reloadable(count(60_000, 'how long an upstream that contradicted the chain cools down')),
    quorum: Type.Object(
      {
        agree: reloadable(
          count(
            0,
            'upstreams of the main chain that must name the same block (slot, blockhash, parent) before it is released; more than half of them; 0 = one is enough. Costs one small call per block and further upstream',
            0,
          ),
        ),
        methods: reloadable(
          Type.Array(Type.String(), {
            default: [],
            description:
              'methods whose answers count only if as many upstreams give the same one; every call goes to all upstreams',
          }),
        ),
        waitMs: reloadable(count(3_000, 'how long upstreams that do not agree yet are asked again')),
      },
      { ...closed, default: {} },
    ),
    hedgeAfterMs: reloadable(
      Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], {
        default: null,
        description: 'time without an answer after which a read is also sent to a second upstream; null = never',
      }),
    ),
    hedgeShare: reloadable(
      Type.Number({
        minimum: 0,
        maximum: 1,
        default: 0.05,
        description: 'largest share of such extra calls among all reads',
      }),
    ),
    local: Type.Object(
      {
        mode: Type.Union([Type.Literal('auto'), Type.Literal('on'), Type.Literal('off')], {
          default: 'auto',
          description: 'the local chain, for trying out',
        }),
        port: port(8899, 'port for JSON-RPC and websockets; the next port serves websockets only; 0 = any free port'),
        slotMs: count(400, 'length of a slot', 0),
        seed: Type.Union([Type.String(), Type.Null()], {
          default: null,
          description:
            'genesis seed; null = random at the first start, then that of the last one: chain and store are kept in dataDir',
        }),
        demo: Type.Boolean({ default: true, description: 'run the demo scenario' }),
        control: Type.Boolean({ default: true, description: 'enable the local_* control methods' }),
        consensus: Type.Union([Type.Literal('alpenglow'), Type.Literal('towerbft')], {
          default: 'alpenglow',
          description:
            'how blocks become final: at once, as on mainnet; or after finalityDepth blocks, with forks on request',
        }),
        release: Type.Union([Type.Literal('4.2'), Type.Literal('4.4'), Type.Literal('4.5'), Type.Null()], {
          default: null,
          description:
            'release of Agave whose answers the chain gives: 4.2, 4.4 or 4.5; null = 4.5 with alpenglow, 4.2 with towerbft',
        }),
        refusesConfirmed: Type.Boolean({
          default: false,
          description: 'refuse the commitment confirmed, to see how a client does without it',
        }),
        finalityDepth: count(32, 'with towerbft: number of blocks after which a block is finalized', 0),
        firstSlot: count(1_000, 'slot of the first block', 0),
        maxBlocks: count(20_000, 'number of blocks kept in memory; older ones are pruned'),
        lightAssets: Type.Union([Type.String({ format: 'path' }), Type.Null()], {
          default: null,
          description: 'folder with Light Protocol programs and accounts',
        }),
      },
      { ...closed, default: {} },
    ),
  },
  { ...closed, default: {} },
);

export type UpstreamEntry = Static<typeof upstreamEntry>;

/** How chains are followed. */
const followConfig = Type.Object(
  {
    enabled: Type.Boolean({ default: true, description: 'whether the daemon follows the chain' }),
    startSlot: Type.Union([Type.Literal('latest'), Type.Integer({ minimum: 0 })], {
      default: 'latest',
      description: 'slot at which a first start begins, or latest',
    }),
    commitment: Type.Union([Type.Literal('auto'), Type.Literal('confirmed'), Type.Literal('finalized')], {
      default: 'auto',
      description:
        'commitment that is followed; auto = finalized where the chain finalizes by Alpenglow, else confirmed',
    }),
    consensus: Type.Union([Type.Literal('auto'), Type.Literal('alpenglow'), Type.Literal('towerbft')], {
      default: 'auto',
      description:
        'how the chain finalizes; auto = the upstreams are asked for the certificate of the move to Alpenglow',
    }),
    leaseMs: count(
      5_000,
      'silence of the leading indexer after which another one takes over, if several use one PostgreSQL database',
      100,
    ),
    pollMs: reloadable(count(200, 'pause between polls of the tip')),
    window: reloadable(count(200, 'slots requested ahead of the cursor')),
    concurrency: reloadable(count(6, 'blocks fetched at once at the tip')),
    catchUpConcurrency: reloadable(count(10, 'blocks fetched at once while catching up')),
    bufferBlocks: count(64, 'blocks in memory before release'),
    bufferBytes: count(536_870_912, 'bytes in memory before release'),
    headers: reloadable(
      Type.Integer({
        minimum: 64,
        maximum: 4096,
        default: 512,
        description: 'released headers that are kept',
      }),
    ),
    maxCatchupHours: reloadable(time(24, 'lag beyond which blocks are skipped and recorded as a gap')),
    maxCatchupSlots: oldSlots('follow.maxCatchupHours'),
    holeTimeoutSeconds: reloadable(count(600, 'how long a block may be missing before the alarm')),
    holePolicy: reloadable(
      Type.Union([Type.Literal('wait'), Type.Literal('gap')], {
        default: 'wait',
        description: 'what happens then',
      }),
    ),
    maxSupportedTransactionVersion: count(
      1,
      'highest transaction version requested at first; with values above 1, blocks are read as JSON, which is slower',
      0,
    ),
    requestTimeoutMs: reloadable(count(30_000, 'deadline of one call to an upstream')),
    maxBodyBytes: reloadable(count(67_108_864, 'largest block response')),
    unhealthyLagSeconds: reloadable(time(20, 'lag behind the best upstream beyond which an upstream is not used')),
    unhealthyLagSlots: oldSlots('follow.unhealthyLagSeconds'),
    auditIntervalMs: reloadable(count(1_000, 'pause between finality audits')),
    processorTimeoutSeconds: reloadable(count(60, 'deadline of a block processor per block')),
    onError: reloadable(
      Type.Union([Type.Literal('stop'), Type.Literal('skip-plugin')], {
        default: 'stop',
        description:
          'if a block processor throws or misses its deadline: stop = the chain waits and retries; skip-plugin = the chain continues ' +
          'without the processors of that plugin, which catch up when they work again',
      }),
    ),
    stalledAfterSeconds: reloadable(count(60, 'time without new blocks after which the follower is stalled')),
    stream: Type.Object(
      {
        plugin: Type.Union([Type.Literal('yellowstone'), Type.Null()], {
          default: null,
          description:
            'source of pushed blocks in addition to polling; yellowstone needs the package @triton-one/yellowstone-grpc',
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
    finality: Type.Object(
      {
        checkCores: Type.Number({
          minimum: 0,
          maximum: 1,
          default: 0.5,
          description:
            'share of one core that checks of certificates of finality may take, where follow.stream sends them; beyond it they are sampled; 0 = none is checked',
        }),
      },
      { ...closed, default: {} },
    ),
    maxReadyLagSeconds: reloadable(time(60, 'lag beyond which the daemon is not ready')),
    maxReadyLagSlots: oldSlots('follow.maxReadyLagSeconds'),
    rewindTo: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
      default: null,
      description:
        'at the start, roll back released blocks above this slot, including final ones; meant for a single start: serve --rewind-to',
    }),
    maxGapSlots: reloadable(count(1_000, 'slots of one gap that are filled before the next gap is served')),
    gapBackfill: Type.Object(
      {
        enabled: Type.Boolean({ default: true, description: 'fill gaps while the chain is followed' }),
        concurrency: reloadable(count(2, 'blocks of a gap fetched at once')),
        maxLagSeconds: reloadable(time(8, 'lag beyond which filling pauses')),
        maxLagSlots: oldSlots('follow.gapBackfill.maxLagSeconds'),
        retryMaxSeconds: reloadable(
          count(3_600, 'longest pause between checks whether an upstream now has the blocks of a gap'),
        ),
        addressMode: reloadable(
          Type.Boolean({
            default: false,
            description:
              'if no upstream has the blocks of a gap, request the transactions of each watched address instead; ' +
              'this does not find deliveries that match only by token owner',
          }),
        ),
        maxAddresses: reloadable(count(10_000, 'largest number of addresses for which this is done')),
      },
      { ...closed, default: {} },
    ),
  },
  { ...closed, default: {} },
);

/** The sections that belong to the kernel. Plugins add one section each, named by their id. */
export const coreConfig = Type.Object(
  {
    dataDir: Type.String({
      default: './data',
      format: 'path',
      description:
        'folder of SQLite file, caches and snapshots; relative paths, here and in all keys, count from the folder of the configuration file',
    }),
    http: Type.Object(
      {
        host: Type.String({ default: '127.0.0.1', format: 'host', description: 'address of the API listener' }),
        port: port(8787, 'port of the API listener; 0 = any free port'),
        websocketPort: Type.Union([port(0, ''), Type.Null()], {
          default: null,
          description: 'second listener for websockets; null = port + 1, because web3.js derives it that way',
        }),
        processes: Type.Union([Type.Integer({ minimum: 1, maximum: 256 }), Type.Literal('auto')], {
          default: 1,
          description:
            'processes that serve the API listeners together; auto = one per core; more than one needs a proxy in front for TLS',
        }),
        bodyLimitBytes: reloadable(count(1_048_576, 'largest request body')),
        headerTimeoutMs: reloadable(count(10_000, 'time for the request line and headers')),
        requestTimeoutMs: reloadable(count(30_000, 'time for the whole request to arrive')),
        handlerTimeoutMs: reloadable(
          count(25_000, 'time for a handler to answer; below the 30 s after which clients give up'),
        ),
        compression: reloadable(
          Type.Boolean({
            default: true,
            description:
              'compress responses above 1 KiB for clients that accept gzip, or zstd if this version of Node supports it; also on the admin listener',
          }),
        ),
        keepAliveTimeoutMs: reloadable(count(75_000, 'idle time after which a kept-alive connection is closed')),
        maxConnections: reloadable(
          count(
            10_000,
            'open sockets, fewer if the limit of open files is lower; when full, a new one replaces the one that was idle longest',
          ),
        ),
        maxConnectionsPerAddress: reloadable(
          count(
            5_000,
            'open sockets of one client address (IPv6: /64), including websockets; 0 = no limit; trusted proxies have no limit',
            0,
          ),
        ),
        maxInFlight: reloadable(count(2_000, 'requests in flight; further ones get 503 with Retry-After')),
        maxBodyBytesInFlight: reloadable(
          count(268_435_456, 'bytes of all request bodies in memory; further requests get 503 with Retry-After'),
        ),
        minReadBytesPerSecond: reloadable(
          count(16_384, 'connections that read responses more slowly than this are closed; 0 = no minimum', 0),
        ),
        readWindowMs: reloadable(count(30_000, 'time over which that rate is measured')),
        targetLimitBytes: count(8_192, 'longest request target'),
        trustedProxies: reloadable(
          Type.Array(Type.String({ format: 'cidr' }), {
            default: [],
            description: 'CIDRs of proxies whose X-Forwarded-For is trusted',
          }),
        ),
        tls: tlsConfig('both API listeners'),
      },
      { ...closed, default: {} },
    ),
    admin: Type.Object(
      {
        host: Type.String({ default: '127.0.0.1', format: 'host', description: 'address of the admin listener' }),
        port: port(8790, 'port of the admin listener; 0 = any free port'),
        allowedHosts: reloadable(
          Type.Array(Type.String(), {
            default: [],
            description: 'Host names that are accepted in addition to the loopback ones',
          }),
        ),
        tls: tlsConfig('the admin listener'),
      },
      { ...closed, default: {} },
    ),
    rpc: Type.Object(
      {
        denyMethods: reloadable(
          Type.Array(Type.String(), { default: [], description: 'methods that are refused with -32601' }),
        ),
        allowMethods: reloadable(
          Type.Union([Type.Array(Type.String()), Type.Null()], {
            default: null,
            description: 'if set, all other proxied methods are -32601',
          }),
        ),
        upstreamTimeoutMs: reloadable(
          count(
            25_000,
            'deadline of a proxied call, including retries; keep it below the 30 s after which clients give up, so that they see the error',
          ),
        ),
        maxUpstreamBytes: reloadable(count(134_217_728, 'largest proxied response')),
        maxBatchItems: reloadable(count(1_000, 'items in one batch')),
        batchConcurrency: reloadable(
          count(8, 'items of one batch that run concurrently, besides those that go to an upstream together'),
        ),
        maxBatchBytes: reloadable(count(33_554_432, 'total size of the responses of one batch')),
      },
      { ...closed, default: {} },
    ),
    budgets: Type.Object(
      {
        answerBytes: Type.Union([count(1_073_741_824, ''), Type.Null()], {
          default: null,
          description:
            'bytes of responses that clients have not read yet; null = a quarter of the memory, at least 128 MiB and at most 1 GiB',
        }),
        sockets: count(4_000, 'open websockets'),
        subscriptions: count(100_000, 'websocket subscriptions'),
        subscriptionBytes: count(33_554_432, 'bytes of subscription parameters'),
        streams: count(1_000, 'open gRPC streams'),
        streamFilters: count(4_096, 'filters of gRPC streams; a cuckoo filter counts as 16'),
        streamFilterBytes: count(268_435_456, 'bytes of requests and filters of gRPC streams'),
        passedStreams: count(100, 'gRPC streams that are passed on to a Yellowstone server'),
      },
      {
        ...closed,
        default: {},
        description:
          'limits of what all projects of a process hold together; a further quarter is reserved for projects below their fair share. Limits per project are in its plan',
      },
    ),
    store: Type.Object(
      {
        url: Type.String({
          default: 'sqlite:',
          format: 'store-url',
          description: '`sqlite:` = parhelion.db in dataDir, `sqlite:PATH`, or postgres://…',
          ...secret,
        }),
        poolSize: count(10, 'PostgreSQL connections of each role'),
        busyTimeoutMs: count(5_000, 'how long to wait for a locked SQLite database'),
        statementTimeoutMs: count(60_000, 'longest PostgreSQL statement'),
        migrate: Type.Union([Type.Literal('auto'), Type.Literal('manual')], {
          default: 'auto',
          description: 'auto = at start; manual = only by `parhelion migrate`',
        }),
      },
      { ...closed, default: {} },
    ),
    upstream: upstreamConfig,
    follow: followConfig,
    ledger: Type.Object(
      {
        retain: Type.Object(
          {
            hours: Type.Number({
              minimum: 0,
              default: 0,
              description: 'hours of blocks that are kept on this disk; 0 = no ledger',
            }),
            bytes: count(107_374_182_400, 'largest size of each chain on disk, at least 16 MiB', 16_777_216),
          },
          {
            ...closed,
            default: {},
            description: 'the oldest files are removed when either bound is reached',
          },
        ),
        index: Type.Union([Type.Literal('none'), Type.Literal('followed'), Type.Literal('window')], {
          default: 'window',
          description:
            'window = look-up by signature, and of all but votes by address; followed = look-up only by signature, while the store answers for followed wallets; none = no index, only blocks',
        }),
        threads: Type.Union([Type.Integer({ minimum: 0, maximum: 64 }), Type.Literal('auto')], {
          default: 'auto',
          description:
            'threads per chain that encode fetched blocks while the follower catches up, about 100 MB each; 0 = the thread of the indexer encodes them; auto = 0 on one core, otherwise as many as cores, at most 4',
        }),
        archive: Type.Union([Type.String({ pattern: '^(chdb:.+|clickhouse://.+)$', ...secret }), Type.Null()], {
          default: null,
          description:
            'copy final blocks to ClickHouse: chdb:PATH (a folder; needs the package chdb) or clickhouse://USER:PASSWORD@HOST:8123/DATABASE',
          ...secret,
        }),
      },
      { ...closed, default: {}, description: 'released blocks in files' },
    ),
    parsers: Type.Object(
      {
        preferSwapOverMint: reloadable(
          Type.Boolean({
            default: false,
            description:
              'return SWAP for a swap over a single market that mints shares as its fee; the hosted service returns TOKEN_MINT',
          }),
        ),
        setAuthorityEvents: reloadable(
          Type.Boolean({
            default: false,
            description: 'include changes of token authorities as events.setAuthority',
          }),
        ),
      },
      { ...closed, default: {}, description: 'enhanced transactions, in answers and in webhooks' },
    ),
    jobs: Type.Object(
      {
        concurrency: count(64, 'jobs that run concurrently'),
        claimBatch: reloadable(count(256, 'rows per claim')),
        claimAhead: reloadable(
          count(512, 'rows that are claimed before they can run, so that one commit claims many', 0),
        ),
        writeDelayMs: reloadable(count(5, 'how long results of attempts are collected before they are written', 0)),
        pollMs: reloadable(count(1_000, 'pause between polls of the outbox if nothing wakes the runner')),
        maxAttempts: reloadable(count(20, 'attempts of a job whose handler throws, before it fails')),
      },
      { ...closed, default: {} },
    ),
    lifecycle: Type.Object(
      {
        startTimeoutMs: count(30_000, 'time for one plugin to start'),
        drainTimeoutMs: reloadable(count(20_000, 'time for accepted requests to finish')),
        stopTimeoutMs: reloadable(count(10_000, 'time for all plugins to stop')),
      },
      { ...closed, default: {} },
    ),
    log: Type.Object(
      {
        level: reloadable(
          Type.Union(
            ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'].map((level) => Type.Literal(level)),
            { default: 'info', description: 'lowest level that is written' },
          ),
        ),
        format: Type.Union([Type.Literal('auto'), Type.Literal('json'), Type.Literal('pretty')], {
          default: 'auto',
          description: 'auto = pretty in a terminal',
        }),
        output: Type.Union([Type.Literal('stdout'), Type.Literal('stderr')], {
          default: 'stdout',
          description: 'where lines are written; stderr leaves standard output to a sink of rows',
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
          'accounts',
          'compression',
          'das',
          'dashboard',
          'enhanced',
          'fees',
          'history',
          'mcp',
          'parsed',
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

const MAX_LEDGER_THREADS = 4;

/** Threads that encode blocks of the ledger. They take more CPU in total than the indexer's thread alone, so a single core gets none. */
export function ledgerThreads({ ledger: { threads } }: Pick<CoreConfig, 'ledger'>): number {
  if (threads !== 'auto') return threads;
  const cores = availableParallelism();
  return cores === 1 ? 0 : Math.min(cores, MAX_LEDGER_THREADS);
}

/** Processes that serve the API listeners. */
export function apiProcesses({ http: { processes } }: Pick<CoreConfig, 'http'>): number {
  return processes === 'auto' ? availableParallelism() : processes;
}
