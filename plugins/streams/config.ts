import { type Static, Type } from '@sinclair/typebox';
import { reloadable } from '../../src/lib/reloadable.ts';

const secret = { secret: true } as const;
const closed = { additionalProperties: false } as const;
const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });
const file = (description: string) =>
  Type.Union([Type.String({ format: 'file' }), Type.Null()], { default: null, description });

const grpc = Type.Object(
  {
    host: Type.String({ default: '127.0.0.1', description: 'address to listen on' }),
    port: Type.Integer({
      minimum: 0,
      maximum: 65_535,
      default: 10_000,
      description: 'port to listen on; 0 = any free one',
    }),
    tls: Type.Object(
      {
        certFile: file('TLS certificate chain (PEM); null = plain HTTP/2; read at start'),
        keyFile: file('private key of the certificate (PEM, without a passphrase)'),
      },
      { ...closed, default: {}, description: 'TLS of the gRPC listener' },
    ),
    upstream: Type.Object(
      {
        url: Type.Union([Type.String({ format: 'http-url', ...secret }), Type.Null()], {
          default: null,
          description:
            'a Yellowstone server to which subscriptions with accounts or entries are passed on; null = they are refused',
          ...secret,
        }),
        token: Type.Union([Type.String(secret), Type.Null()], {
          default: null,
          description: 'x-token that is sent to this server',
          ...secret,
        }),
        maxMessageBytes: reloadable(
          count(
            134_217_728,
            'largest update from this server; it counts as answerBytes of the project while it arrives',
          ),
        ),
      },
      { ...closed, default: {}, description: 'subscriptions that only a Yellowstone server can answer' },
    ),
    maxConnections: count(1_000, 'open connections; when full, a new one replaces the oldest one without a call'),
    maxQueuedBytes: reloadable(count(16_777_216, 'bytes queued for a slow reader; beyond that its subscription ends')),
    maxPendingBytes: reloadable(
      count(268_435_456, 'bytes of updates that equal subscriptions at finalized hold until their blocks are final'),
    ),
    maxRequestBytes: reloadable(
      count(41_943_040, 'largest request, compressed or not; a cuckoo filter of 10,000,000 addresses fits'),
    ),
    maxFilters: reloadable(count(64, 'filters of each kind in one subscription')),
    maxAddresses: reloadable(count(100_000, 'addresses in each list of a filter')),
    maxCuckooBytes: reloadable(count(33_554_432, 'largest cuckoo filter')),
    allowFullStream: reloadable(
      Type.Boolean({
        default: true,
        description: 'allow filters of transactions without a condition, which select all transactions',
      }),
    ),
    pingIntervalMs: reloadable(count(10_000, 'pause between ping updates', 100)),
    unary: reloadable(Type.Boolean({ default: true, description: 'answer the unary methods, such as GetSlot' })),
  },
  { ...closed, default: {}, description: 'the gRPC listener' },
);

const websocket = Type.Object(
  {
    maxAddresses: reloadable(count(50_000, 'addresses in each list of a filter of transactionSubscribe')),
    maxParamsBytes: reloadable(
      count(
        8_388_608,
        'size of the parameters of one subscription that is answered here; proxy.websocket.maxMessageBytes limits it too',
      ),
    ),
    maxSubscriptionBytes: reloadable(
      count(
        16_777_216,
        'bytes of one subscription on their way to the websockets; beyond that it ends with 1013, or misses notifications if it is one of parsed transactions',
      ),
    ),
    maxQueuedBytes: reloadable(count(67_108_864, 'bytes of all subscriptions on their way to the websockets')),
    allowFullStream: reloadable(
      Type.Boolean({
        default: true,
        description: 'allow transactionSubscribe without a condition, which selects all transactions',
      }),
    ),
    parsed: Type.Object(
      {
        maxSubscriptions: reloadable(count(25, 'subscriptions of parsed transactions on one connection')),
        maxCallsPerSecond: reloadable(count(10, 'calls about them that one connection may make in a second')),
        maxBehind: reloadable(
          count(2_048, 'notifications that may wait for a client; with more it is closed with 1008'),
        ),
        quietMs: reloadable(
          count(600_000, 'time without a match after which a connection with nothing else is closed with 1000', 1_000),
        ),
        silentMs: reloadable(
          count(
            300_000,
            'time without a message or ping of its client after which such a connection is closed with 1000',
            1_000,
          ),
        ),
      },
      { ...closed, default: {}, description: 'connections with subscriptions of parsed transactions' },
    ),
  },
  { ...closed, default: {}, description: 'subscriptions over the websockets of the API listener' },
);

export const streamsConfig = Type.Object(
  {
    grpc,
    websocket,
    credits: Type.Object(
      {
        data: reloadable(count(2, 'each 0.1 MB (100,000 bytes) of updates before compression, counted by the byte', 0)),
        unary: reloadable(count(1, 'a unary call', 0)),
        parsedEvent: reloadable(count(1, 'a notification of parsedTransactionSubscribe, of any size', 0)),
        parsedSearch: reloadable(
          count(
            1,
            '1,000 transactions that are decoded for a parsedTransactionSubscribe and not wanted, counted by the transaction',
            0,
          ),
        ),
        replayedBlock: reloadable(count(1, 'a block that is read from the ledger for a replay', 0)),
      },
      { ...closed, default: {}, description: 'prices' },
    ),
  },
  { ...closed, default: {} },
);

export type StreamsConfig = Static<typeof streamsConfig>;

/** Coded errors of this plugin. @public */
export const STREAMS_ERRORS = {
  STREAMS_LISTEN: 'the address of streams.grpc cannot be listened on',
  STREAMS_TLS: 'the certificate or key of streams.grpc.tls cannot be used',
} as const;
