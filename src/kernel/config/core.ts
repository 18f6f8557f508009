import { type Static, Type } from '@sinclair/typebox';
import { followConfig } from './follow.ts';
import { closed, count, port, secret } from './pieces.ts';
import { tlsConfig } from './tls.ts';
import { upstreamConfig } from './upstream.ts';

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
        tls: tlsConfig('both listeners speak'),
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
        tls: tlsConfig('the admin listener speaks'),
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
    upstream: upstreamConfig,
    follow: followConfig,
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
          'dashboard',
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
export type { UpstreamEntry } from './upstream.ts';
