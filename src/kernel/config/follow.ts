import { Type } from '@sinclair/typebox';
import { closed, count, secret } from './pieces.ts';

/** How chains are followed. */
export const followConfig = Type.Object(
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
    leaseMs: count(
      5_000,
      'silence of the leading indexer after which another one takes over, where several are on one PostgreSQL database',
      100,
    ),
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
        retryMaxSeconds: count(3_600, 'longest pause between looks whether an upstream has gained the blocks of a gap'),
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
);
