import type { CommandDescription } from '../../src/plugin/host.ts';
import { accessAdmin } from '../../src/ports/access.ts';

/** The commands of this plugin, which there are only with projects to show. */
export const renewTokenCommand: CommandDescription = {
  path: ['dashboard', 'renew-token'],
  summary:
    'create a new login token for operators; it is shown only once, and replaces the old token and ends all operator sessions',
  options: [{ flags: '--json', description: 'one JSON document' }],
  needs: [accessAdmin],
};

const JSON_OPTION = { flags: '--json', description: 'one JSON document' };
const NAME_OPTION = { flags: '--name <name>', description: 'a-z, 0-9, dot, dash and underscore', required: true };

/** Operators with a token of their own. */
export const OPERATOR_COMMANDS = {
  create: {
    path: ['operators', 'create'],
    summary: 'create an operator with a login token of its own; the token is shown only once',
    options: [
      NAME_OPTION,
      { flags: '--role <role>', description: 'operator, or viewer, who changes nothing; default: viewer' },
      JSON_OPTION,
    ],
    needs: [accessAdmin],
  },
  list: {
    path: ['operators', 'list'],
    summary: 'list the operators that have a token of their own',
    options: [JSON_OPTION],
    needs: [accessAdmin],
  },
  delete: {
    path: ['operators', 'delete'],
    summary: 'delete an operator and end its sessions',
    options: [NAME_OPTION, JSON_OPTION],
    needs: [accessAdmin],
  },
} as const satisfies Record<string, CommandDescription>;
