import { tableLines, timeText } from '../../../src/lib/table-lines.ts';
import type { Command } from '../../../src/plugin/plugin.ts';
import { listOf } from '../gate/key-rules.ts';
import { type KeyInfo, type KeyLimits, listKeys, PERMISSIONS, parseExpiry, parseOverlap } from '../projects/keys.ts';
import { type CommandParts, JSON_OPTION, listOption, textOf } from './common.ts';

const ID = { flags: '--id <id>', description: 'id of the key, from `keys list`', required: true };

export function keyCommands(parts: CommandParts): Command[] {
  return [createCommand(parts), listCommand(parts), revokeCommand(parts), rotateCommand(parts)];
}

function createCommand({ keys, clock }: CommandParts): Command {
  return {
    path: ['keys', 'create'],
    summary: 'make a key; it is shown once',
    options: [
      { flags: '--project <id>', description: 'project the key belongs to', required: true },
      { flags: '--name <text>', description: 'what people call it' },
      { flags: '--expires <when>', description: 'days such as 90d, or a date (UTC); without it never' },
      {
        flags: '--permissions <list>',
        description: `what it may be used for: ${PERMISSIONS.join(',')}; without it all`,
      },
      { flags: '--wallet <address>', description: 'member it is for (projects add-wallet); without one the owner' },
      { flags: '--ips <list>', description: 'addresses and networks that may use it; without it all' },
      { flags: '--origins <list>', description: 'origins of web pages that may use it; without it any caller' },
      JSON_OPTION,
    ],
    async run(options, io) {
      const expires = textOf(options, 'expires');
      const name = textOf(options, 'name');
      const wallet = textOf(options, 'wallet');
      const made = await io.store.write((tx) =>
        keys.create(tx, {
          projectId: String(options['project']),
          ...(name === undefined ? {} : { name }),
          ...(wallet === undefined ? {} : { wallet }),
          ...(expires === undefined ? {} : { expiresAt: parseExpiry(expires, clock.now()) }),
          permissions: listOption(options, 'permissions') ?? null,
          cidrs: listOption(options, 'ips') ?? null,
          origins: listOption(options, 'origins') ?? null,
        }),
      );
      const { key, id, projectId, expiresAt } = made;
      if (options['json'] === true) io.json({ key, id, project: projectId, expiresAt });
      else io.line(`key ${key}\nIt is shown this once. To revoke it: ${io.program} keys revoke --id ${id}`);
    },
  };
}

function listCommand({ clock }: CommandParts): Command {
  return {
    path: ['keys', 'list'],
    summary: 'list the keys, by their first characters',
    options: [{ flags: '--project <id>', description: 'of this project only' }, JSON_OPTION],
    async run(options, io) {
      const rows = await listKeys(io.store, textOf(options, 'project'));
      const now = clock.now();
      if (options['json'] === true) {
        io.json(rows.map((row) => keyView(row, now)));
        return;
      }
      if (rows.length === 0) {
        io.line('no keys');
        return;
      }
      const cells = rows.map((row) => [
        row.id,
        `${row.prefix}…`,
        stateOf(row, now),
        row.expires_at === null ? 'never' : timeText(row.expires_at),
        row.project_id,
        limitsText(row),
        row.name,
      ]);
      const head = ['ID', 'KEY', 'STATE', 'EXPIRES (UTC)', 'PROJECT', 'LIMITS', 'NAME'];
      for (const line of tableLines(head, cells)) io.line(line);
    },
  };
}

function revokeCommand({ keys }: CommandParts): Command {
  return {
    path: ['keys', 'revoke'],
    summary: 'end a key at once; a running daemon notices within a second',
    options: [ID, JSON_OPTION],
    async run(options, io) {
      const id = String(options['id']);
      const revoked = await io.store.write((tx) => keys.revoke(tx, id));
      if (options['json'] === true) io.json({ id, revoked });
      else io.line(revoked ? `key ${id} is revoked` : `key ${id} was revoked before`);
    },
  };
}

function rotateCommand({ keys }: CommandParts): Command {
  return {
    path: ['keys', 'rotate'],
    summary: 'make a new key like an old one, which goes on working for a while; the new one is shown once',
    options: [
      ID,
      { flags: '--overlap <time>', description: 'how long the old key works on: 30m, 24h, 7d, 0; without it 24h' },
      JSON_OPTION,
    ],
    async run(options, io) {
      const overlapMs = parseOverlap(textOf(options, 'overlap') ?? '24h');
      const made = await io.store.write((tx) => keys.rotate(tx, String(options['id']), overlapMs));
      const { key, id, projectId, expiresAt, oldEndsAt } = made;
      if (options['json'] === true) io.json({ key, id, project: projectId, expiresAt, oldKeyEndsAt: oldEndsAt });
      else io.line(`key ${key}\nIt is shown this once. The old key ends ${timeText(oldEndsAt)} (UTC).`);
    },
  };
}

export function keyView(row: KeyInfo, now: number) {
  return {
    id: row.id,
    project: row.project_id,
    prefix: row.prefix,
    name: row.name,
    state: stateOf(row, now),
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
    permissions: listOf(row.permissions),
    ips: listOf(row.cidrs),
    origins: listOf(row.origins),
    successor: row.successor_id,
    wallet: row.wallet,
  };
}

function stateOf(row: KeyInfo, now: number): 'active' | 'revoked' | 'expired' {
  if (row.revoked_at !== null) return 'revoked';
  return row.expires_at !== null && row.expires_at <= now ? 'expired' : 'active';
}

function limitsText(row: KeyInfo): string {
  const lists = [listOf(row.permissions), listOf(row.cidrs), listOf(row.origins)].flatMap((list) => list ?? []);
  return lists.length === 0 ? '-' : lists.join(' ');
}

/** Commands that replace a list of a key. */
export function keyLimitCommands(parts: CommandParts): Command[] {
  return [
    limitCommand(parts, {
      path: ['keys', 'allow-ip'],
      summary: 'let only these addresses and networks use a key; a running daemon notices within a second',
      flag: { flags: '--ips <list>', description: '10.0.0.0/8,fd00::/8,192.0.2.7; replaces the list' },
      option: 'ips',
      list: 'cidrs',
    }),
    limitCommand(parts, {
      path: ['keys', 'allow-origin'],
      summary: 'let only web pages of these origins use a key; a running daemon notices within a second',
      flag: { flags: '--origins <list>', description: 'https://app.example,https://*.app.example; replaces the list' },
      option: 'origins',
      list: 'origins',
    }),
  ];
}

interface LimitCommand {
  readonly path: readonly string[];
  readonly summary: string;
  readonly flag: Command['options'][number];
  readonly option: string;
  readonly list: keyof KeyLimits;
}

function limitCommand({ keys, clock }: CommandParts, { path, summary, flag, option, list }: LimitCommand): Command {
  return {
    path,
    summary,
    options: [
      { flags: '--id <id>', description: 'id of the key, from `keys list`', required: true },
      flag,
      { flags: '--any', description: 'removes the list: no limit' },
      JSON_OPTION,
    ],
    async run(options, io) {
      const values = listOption(options, option);
      const change: KeyLimits =
        options['any'] === true ? { [list]: null } : values === undefined ? {} : { [list]: values };
      const row = await io.store.write((tx) => keys.limit(tx, String(options['id']), change));
      const view = keyView(row, clock.now());
      if (options['json'] === true) {
        io.json(view);
        return;
      }
      const allowed = list === 'cidrs' ? view.ips : view.origins;
      io.line(`key ${view.id} may be used from ${allowed === null ? 'everywhere' : allowed.join(', ')}`);
    },
  };
}
