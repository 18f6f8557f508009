import { type Static, Type } from '@sinclair/typebox';
import { reloadable } from '../../src/plugin/plugin.ts';

const closed = { additionalProperties: false } as const;

export const accessConfig = Type.Object(
  {
    keyCacheSize: Type.Integer({
      minimum: 1,
      default: 10_000,
      description: 'keys in the cache, so that a call with a known key needs no query',
    }),
    keyCacheMs: Type.Integer({
      minimum: 0,
      maximum: 60_000,
      default: 500,
      description: 'how long a key is cached; a revoked key works at most this much longer',
    }),
    plansFile: Type.Union([Type.String({ format: 'file' }), Type.Null()], {
      default: null,
      description:
        'file of plans, written like config/plans.yaml; null = the published plans, which that file shows; read at start',
    }),
    defaultPlan: Type.String({
      default: 'unlimited',
      description: 'plan of the first project, and of projects created without a plan',
    }),
    usageFlushMs: Type.Integer({
      minimum: 10,
      maximum: 60_000,
      default: 1_000,
      description: 'how often usage is written; a crash loses at most this much',
    }),
    badKeysPerMinute: reloadable(
      Type.Integer({
        minimum: 1,
        default: 120,
        description:
          'wrong keys of one client address (IPv6: /64); beyond that, responses to wrong keys are slowed to one per second; valid keys are not affected',
      }),
    ),
    metricsProjects: Type.Integer({
      minimum: 0,
      maximum: 10_000,
      default: 100,
      description:
        'projects with metrics of their own (requests, errors, credits, rate limits), by id; further ones are counted as `other`; 0 = no metrics per project',
    }),
    anonymous: Type.Object(
      {
        projectId: reloadable(
          Type.Union([Type.String({ format: 'uuid' }), Type.Null()], {
            default: null,
            description: 'project to which calls without a key are counted; null = such calls are refused',
          }),
        ),
        cidrs: reloadable(
          Type.Array(Type.String({ format: 'cidr' }), {
            default: ['127.0.0.0/8', '::1/128'],
            description: 'networks that may call without a key',
          }),
        ),
        ratePerSecondPerIp: reloadable(
          Type.Number({
            minimum: 0.1,
            default: 5,
            description: 'calls per second of one client address (IPv6: /64) without a key, over all groups',
          }),
        ),
      },
      { ...closed, default: {}, description: 'calls without a key' },
    ),
  },
  { ...closed, default: {} },
);

export type AccessConfig = Static<typeof accessConfig>;
