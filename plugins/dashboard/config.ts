import { type Static, Type } from '@sinclair/typebox';
import { reloadable } from '../../src/lib/reloadable.ts';

const closed = { additionalProperties: false } as const;
const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });

export const dashboardConfig = Type.Object(
  {
    operatorToken: Type.Union([Type.String({ minLength: 16, maxLength: 512, secret: true }), Type.Null()], {
      default: null,
      description:
        'token with which operators log in, at least 16 characters; null = the token shown by the first start without a configuration file, or created by `dashboard renew-token`',
    }),
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
      count(50, 'number of sessions of the operators, and of the owners of each project'),
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
  DASHBOARD_PAGES_MISSING: 'the files of the pages are not where the program was installed',
  DASHBOARD_TOKEN_CONFIGURED: 'operators log in with dashboard.operatorToken of the configuration: change it there',
} as const;
