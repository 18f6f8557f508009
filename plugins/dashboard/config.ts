import { type Static, type TSchema, Type } from '@sinclair/typebox';
import { reloadable } from '../../src/lib/reloadable.ts';

const closed = { additionalProperties: false } as const;
const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });

const nullable = <Schema extends TSchema>(schema: Schema, description: string) =>
  Type.Union([schema, Type.Null()], { default: null, description });
/** Sources of `frame-ancestors`: nothing else may get into the header. */
const ORIGIN =
  '^(https://(\\*\\.[a-z0-9-]+\\.)?[a-z0-9-]+(\\.[a-z0-9-]+)*|http://(localhost|127\\.0\\.0\\.1))(:[0-9]{1,5})?$';
const people = (who: string) =>
  Type.Array(Type.String({ pattern: '^((\\*|[^\\s@*]+)@[A-Za-z0-9.-]+|(sub|group):.{1,255})$', maxLength: 320 }), {
    default: [],
    maxItems: 1_000,
    description: `${who}: verified e-mail addresses, *@DOMAIN, group:NAME, or sub:ID`,
  });

export const dashboardConfig = Type.Object(
  {
    operatorToken: Type.Union([Type.String({ minLength: 16, maxLength: 512, secret: true }), Type.Null()], {
      default: null,
      description:
        'token with which operators log in, at least 16 characters; null = the token shown by the first start without a configuration file, or created by `dashboard renew-token`',
    }),
    oidc: Type.Object(
      {
        issuer: nullable(
          Type.String({ format: 'http-url' }),
          'address of the identity provider, as it names itself; https, or http on this host; null = none',
        ),
        clientId: nullable(Type.String({ minLength: 1, maxLength: 512 }), 'id of the dashboard at the provider'),
        clientSecret: Type.Union([Type.String({ minLength: 1, maxLength: 4_096, secret: true }), Type.Null()], {
          default: null,
          description: 'secret of the dashboard at the provider',
        }),
        publicUrl: nullable(
          Type.String({ format: 'http-url' }),
          'address of the admin listener as browsers see it; the provider has to allow /dashboard/api/oidc/callback below it',
        ),
        scope: Type.String({ minLength: 6, maxLength: 512, default: 'openid email', description: 'what is asked for' }),
        groupsClaim: Type.String({
          minLength: 1,
          maxLength: 128,
          default: 'groups',
          description: 'member of the ID token that lists the groups of a person',
        }),
        operators: people('who may do everything'),
        viewers: people('who may look at everything'),
      },
      {
        ...closed,
        default: {},
        description: 'log-in of operators by an identity provider (OpenID Connect); needs the package openid-client',
      },
    ),
    portal: Type.Object(
      {
        origins: reloadable(
          Type.Array(Type.String({ pattern: ORIGIN, maxLength: 256 }), {
            default: [],
            maxItems: 100,
            description:
              'origins whose pages may embed the portal, such as https://app.example.com or https://*.example.com; http only on this host',
          }),
        ),
        publicUrl: reloadable(
          nullable(
            Type.String({ format: 'http-url' }),
            'address of the admin listener in links, as browsers of tenants see it; null = that by which a link was asked for',
          ),
        ),
        linkSeconds: reloadable(count(300, 'time in which a link has to be opened; its session ends as any other')),
      },
      { ...closed, default: {}, description: 'pages of one project, to embed in a web app of your own' },
    ),
    secureCookie: Type.Boolean({
      default: false,
      description:
        'send the cookie only over https; for an admin listener behind a TLS proxy; always on with admin.tls',
    }),
    sessionIdleMinutes: reloadable(count(60, 'time without a request after which a session ends')),
    sessionMaxHours: reloadable(count(12, 'time after which a session ends in any case')),
    maxSessions: reloadable(
      count(1_000, 'number of sessions; beyond that, a new one ends the oldest session of the identity with the most'),
    ),
    maxSessionsPerIdentity: reloadable(
      count(50, 'number of sessions of the operators, of the owners of each project, and of its portal'),
    ),
    loginFailuresPerMinute: reloadable(count(10, 'wrong logins of one client address; ten times as many in total')),
    auditDays: reloadable(count(365, 'how long the audit log is kept')),
    sampleIntervalMs: count(20_000, 'interval at which the time series of the overview are measured', 250),
    requestBodies: reloadable(
      Type.Boolean({
        default: true,
        description:
          'keep the bodies of the last requests of each project, and the errors they were answered with, in memory for its page; the first 4 kB, keys masked',
      }),
    ),
    liveIntervalMs: reloadable(count(2_000, 'interval of live updates of pages', 250)),
    maxLiveStreams: reloadable(count(32, 'number of pages with live updates')),
  },
  { ...closed, default: {} },
);

export type DashboardConfig = Static<typeof dashboardConfig>;

/** Coded errors of this plugin. */
export const DASHBOARD_ERRORS = {
  DASHBOARD_OIDC: 'operators cannot log in by dashboard.oidc',
  DASHBOARD_PAGES_MISSING: 'the files of the pages are not where the program was installed',
  DASHBOARD_BAD_OPERATOR:
    'the name of an operator has 1 to 64 of the characters a-z, 0-9, dot, dash and underscore, and its role is operator or viewer; at most 1,000 operators',
  DASHBOARD_OPERATOR_EXISTS: 'there is an operator with this name: delete it first to give it another token or role',
  DASHBOARD_UNKNOWN_OPERATOR: 'there is no operator with this name',
  DASHBOARD_TOKEN_CONFIGURED: 'operators log in with dashboard.operatorToken of the configuration: change it there',
} as const;
