import { CodedError } from '../lib/coded-error.ts';
import { ROLES, type Role } from '../ports/daemon-view.ts';
import { EXIT } from '../runtime/errors.ts';
import type { CommandValues } from './command.ts';
import type { CliIo } from './io.ts';

/** The roles of a command line: `--role`, else PARHELION_ROLE, else all. Errors: CONFIG_INVALID, exit 64. */
export function chooseRoles(values: CommandValues, io: CliIo): readonly Role[] {
  const flag = values['role'];
  const text = typeof flag === 'string' ? flag : (io.env['PARHELION_ROLE'] ?? '');
  if (typeof flag !== 'string' && text.trim() === '') return ROLES;
  const names = text.split(',').map((name) => name.trim());
  const unknown = names.filter((name) => !ROLES.some((role) => role === name));
  if (unknown.length > 0) {
    const origin = typeof flag === 'string' ? '--role' : 'PARHELION_ROLE';
    throw new CodedError(
      'CONFIG_INVALID',
      `${origin}: "${unknown[0]}" is not a role; the roles are ${ROLES.join(', ')}`,
      {
        exitCode: EXIT.usage,
      },
    );
  }
  return ROLES.filter((role) => names.includes(role));
}

/** Assigns roles to the main thread and to workers: `api` never shares a thread with another role. */
export function splitRoles(roles: readonly Role[]): {
  readonly main: readonly Role[];
  readonly threads: readonly Role[];
} {
  if (roles.length === 1) return { main: roles, threads: [] };
  return { main: roles.filter((role) => role === 'api'), threads: roles.filter((role) => role !== 'api') };
}
