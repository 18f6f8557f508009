import type { CommandDescription } from '../../src/plugin/host.ts';
import { accessAdmin } from '../../src/ports/access.ts';

/** The command of this plugin, which there is only with projects to show. */
export const renewTokenCommand: CommandDescription = {
  path: ['dashboard', 'renew-token'],
  summary:
    'create a new login token for operators; it is shown only once, and replaces the old token and ends all operator sessions',
  options: [{ flags: '--json', description: 'one JSON document' }],
  needs: [accessAdmin],
};
