import { type Static, Type } from '@sinclair/typebox';

const closed = { additionalProperties: false } as const;
const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });

export const dashboardConfig = Type.Object(
  {
    operatorToken: Type.Union([Type.String({ minLength: 16, maxLength: 512, secret: true }), Type.Null()], {
      default: null,
      description:
        'what operators log in with on the admin listener, 16 characters or more; null = with the token that the first start without a configuration file shows, or that `dashboard renew-token` makes',
    }),
    secureCookie: Type.Boolean({
      default: false,
      description:
        'send the cookie over https only: for an admin listener behind a TLS proxy; with admin.tls it always is',
    }),
    sessionIdleMinutes: count(60, 'a session ends after this time without a request'),
    sessionMaxHours: count(12, 'and after this time in any case'),
    maxSessions: count(1_000, 'sessions at once; for a new one the oldest of whoever has the most ends'),
    maxSessionsPerIdentity: count(50, 'sessions at once of the operators, and of the owners of each project'),
    loginFailuresPerMinute: count(10, 'wrong logins of one client address, and ten times as many of all together'),
    auditDays: count(365, 'how long the audit log is kept'),
    liveIntervalMs: count(2_000, 'how often pages get new values', 250),
    maxLiveStreams: count(32, 'pages that get live values at once'),
  },
  { ...closed, default: {} },
);

export type DashboardConfig = Static<typeof dashboardConfig>;
