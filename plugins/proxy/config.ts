import { type Static, Type } from '../../src/plugin/plugin.ts';

const closed = { additionalProperties: false } as const;
const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });

export const proxyConfig = Type.Object(
  {
    stickyMs: count(30_000, 'how long after its last call a caller stays on one upstream; 0 = not at all', 0),
    stickyCallers: count(10_000, 'callers whose upstream is remembered'),
    peekBytes: count(65_536, 'answers up to this size are checked as a whole before they are passed on'),
    cache: Type.Object(
      {
        enabled: Type.Boolean({ default: true, description: 'keep answers that can never change' }),
        memoryBytes: count(67_108_864, 'size of the memory cache'),
        maxEntryBytes: count(16_777_216, 'largest answer that is kept'),
        disk: Type.Union([Type.Literal('public'), Type.Literal('any'), Type.Literal('off')], {
          default: 'public',
          description:
            'disk cache below dataDir: only for the public clusters, since a throw-away chain may start again with the same genesis hash; for any chain; or not at all',
        }),
        diskBytes: count(536_870_912, 'size of the disk cache'),
        diskPendingBytes: count(33_554_432, 'answers that wait to be written; more are not kept on disk'),
      },
      { ...closed, default: {}, description: 'answers that can never change' },
    ),
    credits: Type.Object(
      {
        standard: count(1, 'a standard or unknown method', 0),
        programAccounts: count(10, 'getProgramAccounts', 0),
        historical: count(1, 'a historical method', 0),
        transactionsForAddress: count(
          10,
          'getTransactionsForAddress: signatures, or each 100 full results that are asked for',
          0,
        ),
        sendBundle: count(10, 'sendBundle', 0),
        das: count(10, 'a digital asset method', 0),
        compression: count(10, 'a compression method', 0),
        validityProof: count(100, 'getValidityProof', 0),
        websocketOpened: count(1, 'opening a websocket', 0),
        websocketData: count(
          2,
          'each 0.1 MB (100,000 bytes) of notifications over a websocket, counted by the byte',
          0,
        ),
      },
      { ...closed, default: {}, description: 'price of proxied methods' },
    ),
    websocket: Type.Object(
      {
        maxConnections: count(5_000, 'open client sockets'),
        maxMessageBytes: count(1_048_576, 'largest message of a client'),
        maxSubscriptions: count(1_000, 'subscriptions of one client'),
        maxParamsBytes: count(
          3_500,
          'parameters of one subscription; nodes take messages of 4,096 bytes and close the connection of all others over a larger one',
        ),
        maxInFlight: count(64, 'calls of one client that run at once; then its socket is not read'),
        maxQueuedBytes: count(16_777_216, 'bytes that wait for a slow client; more close it with 1013'),
        pingIntervalMs: count(
          30_000,
          'pause between pings to clients and upstreams; no answer until the next one closes',
        ),
        upstreamSockets: count(4, 'sockets per upstream'),
        upstreamSubscriptions: count(1_000, 'subscriptions per upstream socket'),
        subscribeTimeoutMs: count(15_000, 'how long a subscription may wait for the upstream'),
      },
      { ...closed, default: {}, description: 'subscriptions' },
    ),
  },
  closed,
);

export type ProxyConfig = Static<typeof proxyConfig>;
