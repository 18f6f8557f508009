import { type Clock, CodedError, type Command, type Random } from '../../src/plugin/plugin.ts';
import { DASHBOARD_ERRORS, type DashboardConfig } from './config.ts';
import { createAuditLog, renewOperatorToken } from './store.ts';

/** For operators who lost the token, or never had one. */
export function dashboardCommands(clock: Clock, random: Random, config: DashboardConfig): Command[] {
  return [
    {
      path: ['dashboard', 'renew-token'],
      summary:
        'create a new login token for operators; it is shown only once, and replaces the old token and ends all operator sessions',
      options: [{ flags: '--json', description: 'one JSON document' }],
      async run(options, io) {
        if (config.operatorToken !== null)
          throw new CodedError('DASHBOARD_TOKEN_CONFIGURED', DASHBOARD_ERRORS.DASHBOARD_TOKEN_CONFIGURED, {
            exitCode: 64,
          });
        const audit = createAuditLog(io.store, clock, random);
        const entry = { actor: 'command line', address: '', action: 'operator.renew-token', target: 'operator' };
        const token = await audit.record(entry, () => renewOperatorToken(io.store, clock, random));
        if (options['json'] === true) io.json({ token });
        else for (const line of [token, 'It is shown only once. Operator sessions end within a second.']) io.line(line);
      },
    },
  ];
}
