import { type Static, Type } from '@sinclair/typebox';
import { reloadable } from '../../src/lib/reloadable.ts';

const closed = { additionalProperties: false } as const;
const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });

export const proxyConfig = Type.Object(
  {
    stickyMs: reloadable(count(30_000, 'how long a caller stays on one upstream after its last call; 0 = off', 0)),
    stickyCallers: count(10_000, 'number of callers whose upstream is remembered'),
    peekBytes: reloadable(count(65_536, 'responses up to this size are checked completely before they are forwarded')),
    cache: Type.Object(
      {
        enabled: Type.Boolean({ default: true, description: 'cache responses that can never change' }),
        memoryBytes: count(67_108_864, 'size of the memory cache'),
        maxEntryBytes: count(16_777_216, 'largest cached response'),
        disk: Type.Union([Type.Literal('public'), Type.Literal('any'), Type.Literal('off')], {
          default: 'public',
          description:
            'disk cache in dataDir: public = only for the public clusters, because a temporary chain may start again with the same genesis hash; any = for any chain; off',
        }),
        diskBytes: count(536_870_912, 'size of the disk cache'),
        diskPendingBytes: count(
          33_554_432,
          'bytes of responses that wait to be written; further ones are not cached on disk',
        ),
      },
      { ...closed, default: {}, description: 'cache of responses that can never change' },
    ),
    credits: Type.Object(
      {
        standard: reloadable(count(1, 'a standard or unknown method', 0)),
        programAccounts: reloadable(count(10, 'getProgramAccounts', 0)),
        historical: reloadable(count(1, 'a historical method', 0)),
        transactionsForAddress: reloadable(
          count(10, 'getTransactionsForAddress: signatures, or each 100 requested full results', 0),
        ),
        sendBundle: reloadable(count(10, 'sendBundle', 0)),
        das: reloadable(count(10, 'a digital asset method', 0)),
        compression: reloadable(count(10, 'a compression method', 0)),
        validityProof: reloadable(count(100, 'getValidityProof', 0)),
        websocketOpened: reloadable(count(1, 'opening a websocket', 0)),
        websocketData: reloadable(
          count(2, 'each 0.1 MB (100,000 bytes) of notifications over a websocket, counted by the byte', 0),
        ),
      },
      { ...closed, default: {}, description: 'price of proxied methods' },
    ),
    websocket: Type.Object(
      {
        maxConnections: reloadable(count(5_000, 'open client sockets')),
        maxMessageBytes: count(
          8_388_608,
          'largest message of a client; a transactionSubscribe with three lists of 50,000 addresses fits',
        ),
        maxSubscriptions: reloadable(count(1_000, 'subscriptions of one client')),
        maxParamsBytes: reloadable(
          count(
            3_500,
            'size of the parameters of one subscription; a node accepts messages of 4,096 bytes, and closes a shared connection over a larger one',
          ),
        ),
        maxInFlight: reloadable(count(64, 'calls of one client in flight; beyond that, its socket is not read')),
        maxQueuedBytes: reloadable(
          count(16_777_216, 'bytes queued for a slow client; beyond that it is closed with 1013'),
        ),
        pingIntervalMs: reloadable(
          count(
            30_000,
            'interval of pings to clients and upstreams; a connection that is silent until the next ping is closed',
          ),
        ),
        upstreamSockets: reloadable(count(4, 'sockets per upstream')),
        upstreamSubscriptions: reloadable(count(1_000, 'subscriptions per upstream socket')),
        deduplicate: reloadable(
          Type.Boolean({
            default: false,
            description: 'leave out notifications that an upstream repeats: logs of the same signature, and equal ones',
          }),
        ),
        subscribeTimeoutMs: reloadable(count(15_000, 'how long a subscription may wait for the upstream')),
      },
      { ...closed, default: {}, description: 'subscriptions' },
    ),
  },
  closed,
);

export type ProxyConfig = Static<typeof proxyConfig>;
