import { type Static, Type } from '@sinclair/typebox';
import { CodedError, EXIT } from '../../src/lib/coded-error.ts';
import { reloadable } from '../../src/lib/reloadable.ts';

const closed = { additionalProperties: false } as const;

export const accessConfig = Type.Object(
  {
    keyCacheSize: Type.Integer({
      minimum: 1,
      default: 100_000,
      description:
        'keys in the cache of each API process, about 1 kB each, so that a call with a known key needs no query; a key with long lists counts as several',
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
        'file of plans in the form of config/plans.yaml, read at start; null = the published plans, which are those of that file',
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

/** Coded errors of this plugin. */
export const ACCESS_ERRORS = {
  ACCESS_UNKNOWN_PLAN: 'the plan does not exist',
  ACCESS_UNKNOWN_PROJECT: 'there is no project with this id; projects list shows them',
  ACCESS_PROJECT_ENABLED: 'only a disabled project can be deleted: disable it first',
  ACCESS_UNKNOWN_KEY: 'there is no key with this id',
  ACCESS_TOO_MANY_KEYS: 'a project has at most 1,000 keys that are valid or were created within a day',
  ACCESS_BAD_KEY: 'a key has 1 to 256 characters a-z, A-Z, 0-9, "-", "_" and "."',
  ACCESS_BAD_EXPIRY:
    'an expiry is a future time: days such as 90d, or a date such as 2030-01-31 or 2030-01-31T12:00:00Z',
  ACCESS_BAD_NAME: 'a name has 1 to 128 characters',
  ACCESS_BAD_WALLET: 'a wallet is an address: base58 of 32 bytes',
  ACCESS_NOT_A_MEMBER: 'the wallet is not a member of the project; see projects add-wallet',
  ACCESS_TOO_MANY_WALLETS: 'a project has at most 1,000 wallets',
  ACCESS_BAD_NETWORK: 'not an IP address or a range such as 10.0.0.0/8 or fd00::/8, or more than 100 of them',
  ACCESS_BAD_ORIGIN:
    'an origin is scheme and host such as https://app.example or https://*.app.example; a key has at most 100',
  ACCESS_BAD_PERMISSION: 'a permission is a product of the usage record, or admin',
  ACCESS_BAD_BILLING_DAY: 'a billing day is a day of the month, 1 to 31',
  ACCESS_BAD_CREDITS: 'credits are a whole number from 1 to 9007199254740991, and so is their sum',
  ACCESS_BAD_OVERRIDES: 'the values that override a plan are invalid',
  ACCESS_BAD_SWITCH: 'a switch is on or off',
  ACCESS_BAD_OVERLAP: 'an overlap is a number of minutes, hours or days such as 30m, 24h or 7d; 0 for none',
  ACCESS_KEY_ENDED: 'the key is revoked or expired and cannot be rotated',
  ACCESS_PLANS_INVALID: 'the file of the plans cannot be read or has errors',
} as const;

type AccessErrorCode = keyof typeof ACCESS_ERRORS;

/** A usage error of a command: exit code 64. */
export function usageError(code: AccessErrorCode, detail?: string): CodedError {
  const message = detail === undefined ? ACCESS_ERRORS[code] : `${ACCESS_ERRORS[code]}: ${detail}`;
  return new CodedError(code, message, { exitCode: EXIT.usage });
}

/** Permissions of keys: products of the usage record, and `admin` for the usage endpoint. */
export const PERMISSIONS = [
  'rpc',
  'enhancedApi',
  'walletApi',
  'das',
  'webhooks',
  'laserstreamGrpc',
  'archival',
  'photon',
  'other',
  'admin',
] as const;
