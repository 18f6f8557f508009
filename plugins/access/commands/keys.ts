import type { Command } from '../../../src/kernel/plugin.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import { parseExpiry } from '../expiry.ts';
import { listKeys, type Projects } from '../projects.ts';

const JSON_OPTION = { flags: '--json', description: 'one JSON document' };

export function keyCommands(projects: Projects, clock: Clock): Command[] {
  return [createKeyCommand(projects, clock), listKeysCommand(clock), revokeKeyCommand(projects)];
}

function createKeyCommand(projects: Projects, clock: Clock): Command {
  return {
    path: ['keys', 'create'],
    summary: 'make a key; it is shown once',
    options: [
      { flags: '--project <id>', description: 'project the key belongs to', required: true },
      { flags: '--name <text>', description: 'what people call it' },
      { flags: '--expires <when>', description: 'days such as 90d, or a date (UTC); without it never' },
      JSON_OPTION,
    ],
    async run(options, io) {
      const { name, expires } = options;
      const expiresAt = typeof expires === 'string' ? parseExpiry(expires, clock.now()) : null;
      const made = await io.store.write((tx) =>
        projects.createKey(tx, {
          projectId: String(options['project']),
          ...(typeof name === 'string' ? { name } : {}),
          ...(expiresAt === null ? {} : { expiresAt }),
        }),
      );
      if (options['json'] === true) io.json({ key: made.key, id: made.id, project: made.projectId, expiresAt });
      else io.line(`key ${made.key}\nIt is shown this once. To revoke it: ${io.program} keys revoke --id ${made.id}`);
    },
  };
}

function listKeysCommand(clock: Clock): Command {
  return {
    path: ['keys', 'list'],
    summary: 'list the keys, by their first characters',
    options: [{ flags: '--project <id>', description: 'of this project only' }, JSON_OPTION],
    async run(options, io) {
      const project = options['project'];
      const rows = await listKeys(io.store, typeof project === 'string' ? project : undefined);
      const state = (row: (typeof rows)[number]) => {
        if (row.revoked_at !== null) return 'revoked';
        return row.expires_at !== null && row.expires_at <= clock.now() ? 'expired' : 'active';
      };
      if (options['json'] === true) {
        io.json(
          rows.map((row) => ({
            id: row.id,
            project: row.project_id,
            prefix: row.prefix,
            name: row.name,
            state: state(row),
            createdAt: row.created_at,
            expiresAt: row.expires_at,
            revokedAt: row.revoked_at,
          })),
        );
        return;
      }
      for (const row of rows)
        io.line(`${row.id}  ${row.prefix.padEnd(8)}…  ${state(row).padEnd(8)}  project ${row.project_id}  ${row.name}`);
      if (rows.length === 0) io.line('no keys');
    },
  };
}

function revokeKeyCommand(projects: Projects): Command {
  return {
    path: ['keys', 'revoke'],
    summary: 'end a key at once; a running daemon notices within a second',
    options: [{ flags: '--id <id>', description: 'id of the key, from `keys list`', required: true }, JSON_OPTION],
    async run(options, io) {
      const id = String(options['id']);
      const revoked = await io.store.write((tx) => projects.revokeKey(tx, id));
      if (options['json'] === true) io.json({ id, revoked });
      else io.line(revoked ? `key ${id} is revoked` : `key ${id} was revoked before`);
    },
  };
}
