import { type Clock, CodedError, type Command, type Random } from '../../src/plugin/plugin.ts';
import type { DashboardConfig } from './config.ts';
import { DASHBOARD_ERRORS } from './errors.ts';
import { createAuditLog, renewOperatorToken } from './store.ts';

/** For whoever lost the token, or never got one. */
export function dashboardCommands(clock: Clock, random: Random, config: DashboardConfig): Command[] {
  return [
    {
      path: ['dashboard', 'renew-token'],
      summary:
        'make the token that operators log in with; it is shown once, and ends the one before and all sessions of operators',
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
        else
          for (const line of [token, 'It is shown this once. The sessions of operators end within a second.'])
            io.line(line);
      },
    },
  ];
}
