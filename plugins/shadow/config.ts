import { type Static, Type } from '@sinclair/typebox';
import { reloadable } from '../../src/lib/reloadable.ts';

const closed = { additionalProperties: false } as const;
const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });
const share = (value: number, description: string) =>
  Type.Number({ minimum: 0, maximum: 1, default: value, description });

/** Products whose answers can be compared, as in the usage record. */
const COMPARED_PRODUCTS = ['rpc', 'das', 'photon', 'walletApi', 'enhancedApi', 'archival', 'other'] as const;

const reference = Type.Object(
  {
    url: Type.Union([Type.String({ format: 'http-url', secret: true }), Type.Null()], {
      default: null,
      description: 'JSON-RPC address of the reference: a hosted service or a node',
      secret: true,
    }),
    restUrl: Type.Union([Type.String({ format: 'http-url', secret: true }), Type.Null()], {
      default: null,
      description: 'base address of its REST routes; null = it has none, and only JSON-RPC is compared',
      secret: true,
    }),
    apiKey: Type.Union([Type.String({ secret: true }), Type.Null()], {
      default: null,
      description: 'key of the reference, sent as `api-key` in the query; keys of clients are never sent',
      secret: true,
    }),
    timeoutMs: reloadable(count(10_000, 'deadline of a request to the reference', 10)),
    products: Type.Array(Type.Union(COMPARED_PRODUCTS.map((name) => Type.Literal(name))), {
      default: [...COMPARED_PRODUCTS],
      description: 'products that the reference has; `[rpc]` for a node',
    }),
  },
  { ...closed, default: {} },
);

const budget = Type.Object(
  {
    requestsPerDay: reloadable(count(20_000, 'requests to the reference per UTC day', 0)),
    creditsPerDay: reloadable(
      Type.Number({
        minimum: 0,
        default: 100_000,
        description: 'credits of the reference per UTC day, by the published prices',
      }),
    ),
    bytesPerDay: reloadable(count(1_073_741_824, 'bytes sent to and received from the reference per UTC day', 0)),
  },
  { ...closed, default: {} },
);

const ignored = Type.Object(
  {
    method: Type.String({ description: 'JSON-RPC method, `GET /route/:pattern`, or `*` for all' }),
    path: Type.String({
      description:
        'path of the member, such as `result.items[].content`; `*` = one member, `**` at the end = all below',
    }),
  },
  closed,
);

export const shadowConfig = Type.Object(
  {
    reference,
    answers: Type.Union([Type.Literal('here'), Type.Literal('reference')], {
      default: 'here',
      description:
        'whose answer clients get for the chosen requests. reference = theirs, if it arrives within answerWithinMs, otherwise ours; batches are always answered here',
    }),
    answerWithinMs: reloadable(count(3_000, 'with `answers: reference`: how long a client waits for it', 10)),
    share: reloadable(share(0.01, 'share of the requests that is compared')),
    shares: reloadable(
      Type.Record(Type.String(), Type.Number({ minimum: 0, maximum: 1 }), {
        default: {},
        description: 'shares by JSON-RPC method, `GET /route/:pattern` or product; the most exact name counts',
      }),
    ),
    budget,
    maxSlotDistance: reloadable(count(32, 'distance at which two slots count as equal', 0)),
    recheckMs: reloadable(
      count(2_000, 'pause before a different answer is asked of the reference once more, to recognize lag', 0),
    ),
    ignore: reloadable(
      Type.Array(ignored, { default: [], maxItems: 200, description: 'members that are not compared' }),
    ),
    maxConcurrent: count(8, 'requests to the reference at once'),
    maxWaiting: count(64, 'chosen requests that wait; further ones are skipped and counted'),
    maxBodyBytes: reloadable(
      count(524_288, 'longest request or answer that is compared; longer ones are skipped and counted', 1_024),
    ),
    maxBytesInMemory: count(33_554_432, 'bytes of all requests and answers that wait or are compared', 65_536),
    keep: Type.Object(
      {
        differences: reloadable(count(500, 'differences that are stored with both answers, the newest ones')),
        perGroup: reloadable(count(5, 'of them per group of method, path and kind')),
        groups: reloadable(count(2_000, 'groups; the differences of further ones are only counted')),
        bodyBytes: reloadable(count(32_768, 'stored bytes of an answer; the rest is cut off', 256)),
      },
      { ...closed, default: {} },
    ),
  },
  {
    ...closed,
    default: {},
    description:
      'compares answers with a hosted service or a node; needs `shadow` in the list of plugins, which by default does not contain it',
  },
);

export type ShadowConfig = Static<typeof shadowConfig>;

/** Coded errors of this plugin. */
export const SHADOW_ERRORS = {
  SHADOW_CONFIG: 'the plugin shadow is in the list of plugins, and shadow.reference.url is not set',
  SHADOW_USAGE: 'an option of the command is not valid',
  SHADOW_LISTEN: 'the address for deliveries cannot be listened on',
  SHADOW_THRESHOLD: 'more answers differ than the threshold allows',
} as const;
