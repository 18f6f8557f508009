import { tableLines, timeText } from '../../src/lib/table-lines.ts';
import type { Command } from '../../src/plugin/plugin.ts';
import type { Clock } from '../../src/ports/clock.ts';
import { usageError } from './config.ts';
import { listOf } from './directory.ts';
import {
  type KeyInfo,
  type KeyLimits,
  type Keys,
  keyView,
  listKeys,
  PERMISSIONS,
  parseExpiry,
  parseOverlap,
  stateOf,
} from './keys.ts';
import type { Overrides, Plans } from './plans.ts';
import {
  findProjectRow,
  listProjects,
  listWallets,
  type ProjectChange,
  type Projects,
  type Wallets,
} from './projects.ts';
import type { ProjectRow } from './tables.ts';
import { readUsage, type UsageRecord, usageRecord } from './usage.ts';

const PROJECT_ID = { flags: '--id <id>', description: 'id of the project, from `projects list`', required: true };

export function projectCommands(parts: CommandParts): Command[] {
  return [
    createProjectCommand(parts),
    listProjectsCommand(),
    showCommand(parts),
    setPlanCommand(parts),
    grantCommand(parts),
  ];
}

function createProjectCommand({ projects, defaultPlan }: CommandParts): Command {
  return {
    path: ['projects', 'create'],
    summary: 'create a project',
    options: [
      { flags: '--name <text>', description: 'display name', required: true },
      { flags: '--plan <name>', description: `a plan of the plans file; default: ${defaultPlan}` },
      { flags: '--wallet <address>', description: 'owner wallet, base58' },
      {
        flags: '--billing-day <day>',
        description: 'day of the month on which a credit cycle starts, 1 to 31; default: today',
      },
      JSON_OPTION,
    ],
    async run(options, io) {
      const wallet = textOf(options, 'wallet');
      const day = textOf(options, 'billingDay');
      const row = await io.store.write((tx) =>
        projects.create(tx, {
          name: String(options['name']),
          plan: textOf(options, 'plan') ?? defaultPlan,
          ...(wallet === undefined ? {} : { wallet }),
          ...(day === undefined ? {} : { billingDay: Number(day) }),
        }),
      );
      if (options['json'] === true) io.json({ id: row.id, name: row.name, plan: row.plan });
      else io.line(`project ${row.id} (${row.name}, plan ${row.plan})`);
    },
  };
}

function listProjectsCommand(): Command {
  return {
    path: ['projects', 'list'],
    summary: 'list the projects',
    options: [{ flags: '--all', description: 'also deleted projects, of which only the usage remains' }, JSON_OPTION],
    async run(options, io) {
      const rows = await listProjects(io.store, { withDeleted: options['all'] === true });
      if (options['json'] === true) {
        io.json(rows.map(view));
        return;
      }
      if (rows.length === 0) {
        io.line('no projects');
        return;
      }
      const cells = rows.map((row) => [row.id, row.plan, projectState(row), timeText(row.created_at), row.name]);
      for (const line of tableLines(['ID', 'PLAN', 'STATE', 'CREATED (UTC)', 'NAME'], cells)) io.line(line);
    },
  };
}

function showCommand({ plans }: CommandParts): Command {
  return {
    path: ['projects', 'show'],
    summary: 'show a project with its limits',
    options: [PROJECT_ID, JSON_OPTION],
    async run(options, io) {
      const row = await findProjectRow(io.store, String(options['id']));
      const limits = plans().limitsOf(row.plan, row.overrides);
      if (limits === null) throw usageError('ACCESS_UNKNOWN_PLAN', row.plan);
      const { creditsLimit, overageCredits, webhooks } = limits;
      const wallets = await listWallets(io.store, row.id);
      const ratePerSecond = Object.fromEntries(limits.ratePerSecond);
      if (options['json'] === true) {
        io.json({ ...view(row), wallets, limits: { creditsLimit, overageCredits, ratePerSecond, webhooks } });
        return;
      }
      const rates = Object.entries(ratePerSecond).map(([group, rate]) => `${group} ${rate}`);
      const lines = [
        ['id', row.id],
        ['name', row.name],
        ['state', projectState(row)],
        ['plan', row.plan],
        ['overrides', row.overrides ?? 'none'],
        ['wallet', row.wallet ?? 'none'],
        ['of members', wallets.length === 0 ? 'none' : wallets.join(' ')],
        ['created (UTC)', timeText(row.created_at)],
        ['usage endpoint', row.admin_api === 1 ? 'on' : 'off'],
        ['credits per cycle', creditsLimit.toLocaleString('en-US')],
        ['credits beyond', overageCredits.toLocaleString('en-US')],
        ['prepaid, granted', row.prepaid_granted.toLocaleString('en-US')],
        ['calls per second', rates.length === 0 ? 'no limit' : rates.join(', ')],
        ['webhooks', webhooks.max === null ? 'no limit' : String(webhooks.max)],
      ] as const;
      for (const line of tableLines(['PROJECT', ''], lines)) io.line(line);
    },
  };
}

function setPlanCommand({ projects }: CommandParts): Command {
  return {
    path: ['projects', 'set-plan'],
    summary: 'change the plan of a project, or override values of it; a running daemon notices within a second',
    options: [
      PROJECT_ID,
      { flags: '--plan <name>', description: 'a plan of the plans file' },
      {
        flags: '--override <json>',
        description:
          'all values that override the plan: {"ratePerSecond":{"rpc":20},"overageCredits":5000}; {} for none',
      },
      { flags: '--admin-api <on|off>', description: 'whether the usage endpoint answers' },
      JSON_OPTION,
    ],
    async run(options, io) {
      const change = changeOf(options);
      const row = await io.store.write((tx) => projects.change(tx, String(options['id']), change));
      if (options['json'] === true) io.json(view(row));
      else
        io.line(`project ${row.id} has the plan ${row.plan}${row.overrides === null ? '' : ` with ${row.overrides}`}`);
    },
  };
}

/** Commands that rename, disable and delete a project. */
export function projectStateCommands({ projects }: CommandParts): Command[] {
  const change = (
    name: string,
    { summary, flag }: { readonly summary: string; readonly flag?: Command['options'][number] },
    made: (options: Options) => ProjectChange,
    said: (row: ProjectRow) => string,
  ): Command => ({
    path: ['projects', name],
    summary,
    options: [PROJECT_ID, ...(flag === undefined ? [] : [flag]), JSON_OPTION],
    async run(options, io) {
      const row = await io.store.write((tx) => projects.change(tx, String(options['id']), made(options)));
      if (options['json'] === true) io.json(view(row));
      else io.line(said(row));
    },
  });
  return [
    change(
      'rename',
      {
        summary: 'change the display name of a project',
        flag: { flags: '--name <text>', description: 'the new name', required: true },
      },
      (options) => ({ name: String(options['name']) }),
      (row) => `project ${row.id} is named ${row.name}`,
    ),
    change(
      'disable',
      {
        summary:
          'make the keys of a project stop working and its deliveries wait, and keep its data; a running daemon notices within a second',
      },
      () => ({ isDisabled: true }),
      (row) => `project ${row.id} is disabled`,
    ),
    change(
      'enable',
      { summary: 'enable a disabled project' },
      () => ({ isDisabled: false }),
      (row) => `project ${row.id} is enabled`,
    ),
    {
      path: ['projects', 'delete'],
      summary:
        'delete a disabled project with its keys, wallets, webhooks and their waiting deliveries; its usage remains',
      options: [PROJECT_ID, JSON_OPTION],
      async run(options, io) {
        const id = String(options['id']);
        await io.store.write((tx) => projects.remove(tx, id));
        if (options['json'] === true) io.json({ id, deleted: true });
        else io.line(`project ${id} is deleted; its usage stays: ${io.program} projects usage --id ${id}`);
      },
    },
  ];
}

function projectState({
  disabled_at: disabledAt,
  deleted_at: deletedAt,
}: ProjectRow): 'active' | 'disabled' | 'deleted' {
  if (deletedAt !== null) return 'deleted';
  return disabledAt === null ? 'active' : 'disabled';
}

function changeOf(options: Options): ProjectChange {
  const plan = textOf(options, 'plan');
  const override = textOf(options, 'override');
  const adminApi = textOf(options, 'adminApi');
  if (adminApi !== undefined && adminApi !== 'on' && adminApi !== 'off')
    throw usageError('ACCESS_BAD_SWITCH', adminApi);
  return {
    ...(plan === undefined ? {} : { plan }),
    ...(override === undefined ? {} : { overrides: parseOverrides(override) }),
    ...(adminApi === undefined ? {} : { adminApi: adminApi === 'on' }),
  };
}

function parseOverrides(text: string): Overrides | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw usageError('ACCESS_BAD_OVERRIDES', 'it is not JSON');
  }
  if (typeof value !== 'object' || value === null) throw usageError('ACCESS_BAD_OVERRIDES', 'it is no object');
  return Object.keys(value).length === 0 ? null : (value as Overrides);
}

function grantCommand({ projects }: CommandParts): Command {
  return {
    path: ['projects', 'grant'],
    summary: 'add prepaid credits to a project; they are spent after those of the plan and never expire',
    options: [
      PROJECT_ID,
      { flags: '--credits <number>', description: 'number of credits', required: true },
      JSON_OPTION,
    ],
    async run(options, io) {
      const text = String(options['credits']);
      const credits = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
      const row = await io.store.write((tx) => projects.grant(tx, String(options['id']), credits));
      if (options['json'] === true) io.json({ id: row.id, granted: credits, prepaidGranted: row.prepaid_granted });
      else io.line(`project ${row.id} has ${credits.toLocaleString('en-US')} additional prepaid credits`);
    },
  };
}

function view(row: ProjectRow) {
  return {
    id: row.id,
    name: row.name,
    state: projectState(row),
    plan: row.plan,
    wallet: row.wallet,
    createdAt: row.created_at,
    billingDay: row.billing_day,
    overrides: row.overrides === null ? null : (JSON.parse(row.overrides) as unknown),
    adminApi: row.admin_api === 1,
    prepaidGranted: row.prepaid_granted,
  };
}

export function projectUsageCommands({ plans, clock }: CommandParts): Command[] {
  return [
    {
      path: ['projects', 'usage'],
      summary: 'show the usage of a project in its credit cycle (written within a second)',
      options: [
        { flags: '--id <id>', description: 'id of the project, from `projects list`', required: true },
        JSON_OPTION,
      ],
      async run(options, io) {
        const project = await findProjectRow(io.store, String(options['id']));
        const usage = await readUsage(io.store.read, project, plans(), clock.now());
        if (usage === null) throw usageError('ACCESS_UNKNOWN_PLAN', project.plan);
        const record = usageRecord(usage);
        if (options['json'] === true) io.json(record);
        else for (const line of usageLines(record)) io.line(line);
      },
    },
  ];
}

function usageLines(record: UsageRecord): readonly string[] {
  const { creditCycle, subscriptionDetails, credits, requests, dataTransfer } = record;
  const totals = tableLines(
    ['CREDITS', ''],
    [
      ['used', record.creditsUsed],
      ['left of the plan', record.creditsRemaining],
      ['prepaid, used', record.prepaidCreditsUsed],
      ['prepaid, left', record.prepaidCreditsRemaining],
    ],
  );
  const products = Object.keys(credits).map((name) => [
    name,
    credits[name] ?? 0,
    requests[name] ?? 0,
    dataTransfer[name] ?? 0,
  ]);
  return [
    `plan ${subscriptionDetails.plan}, cycle ${creditCycle.start} to ${creditCycle.end}`,
    '',
    ...totals,
    '',
    ...tableLines(['PRODUCT', 'CREDITS', 'REQUESTS', 'BYTES'], products),
  ];
}

const WALLET = { flags: '--wallet <address>', description: 'wallet of a member, base58', required: true };

export function projectWalletCommands({ wallets }: CommandParts): Command[] {
  return [
    {
      path: ['projects', 'add-wallet'],
      summary: 'make a wallet a member of a project; keys can then be created for it (`keys create --wallet`)',
      options: [PROJECT_ID, WALLET, JSON_OPTION],
      async run(options, io) {
        const [id, wallet] = [String(options['id']), String(options['wallet'])];
        const added = await io.store.write((tx) => wallets.add(tx, id, wallet));
        if (options['json'] === true) io.json({ id, wallet, added });
        else io.line(added ? `${wallet} is a member of project ${id}` : `${wallet} was already a member`);
      },
    },
    {
      path: ['projects', 'remove-wallet'],
      summary: 'remove a wallet from a project and revoke its keys; a running daemon notices within a second',
      options: [PROJECT_ID, WALLET, JSON_OPTION],
      async run(options, io) {
        const [id, wallet] = [String(options['id']), String(options['wallet'])];
        const revoked = await io.store.write((tx) => wallets.remove(tx, id, wallet));
        if (options['json'] === true) io.json({ id, wallet, removed: revoked !== null, revokedKeys: revoked ?? 0 });
        else
          io.line(
            revoked === null
              ? `${wallet} is not a member`
              : `${wallet} is no longer a member; revoked keys: ${revoked}`,
          );
      },
    },
  ];
}

const KEY_ID = { flags: '--id <id>', description: 'id of the key, from `keys list`', required: true };

export function keyCommands(parts: CommandParts): Command[] {
  return [createKeyCommand(parts), listKeysCommand(parts), revokeCommand(parts), rotateCommand(parts)];
}

function createKeyCommand({ keys, clock }: CommandParts): Command {
  return {
    path: ['keys', 'create'],
    summary: 'create a key; it is shown only once',
    options: [
      { flags: '--project <id>', description: 'project the key belongs to', required: true },
      { flags: '--name <text>', description: 'display name' },
      { flags: '--expires <when>', description: 'days such as 90d, or a date (UTC); default: never' },
      {
        flags: '--permissions <list>',
        description: `permissions of the key: ${PERMISSIONS.join(',')}; default: all`,
      },
      { flags: '--wallet <address>', description: 'member who uses the key (projects add-wallet); default: the owner' },
      { flags: '--ips <list>', description: 'addresses and networks that may use the key; default: all' },
      { flags: '--origins <list>', description: 'origins of web pages that may use the key; default: any caller' },
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
      else io.line(`key ${key}\nIt is shown only once. To revoke it: ${io.program} keys revoke --id ${id}`);
    },
  };
}

function listKeysCommand({ clock }: CommandParts): Command {
  return {
    path: ['keys', 'list'],
    summary: 'list the keys with their first characters',
    options: [{ flags: '--project <id>', description: 'only keys of this project' }, JSON_OPTION],
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
    summary: 'revoke a key; a running daemon notices within a second',
    options: [KEY_ID, JSON_OPTION],
    async run(options, io) {
      const id = String(options['id']);
      const revoked = await io.store.write((tx) => keys.revoke(tx, id));
      if (options['json'] === true) io.json({ id, revoked });
      else io.line(revoked ? `key ${id} is revoked` : `key ${id} was already revoked`);
    },
  };
}

function rotateCommand({ keys }: CommandParts): Command {
  return {
    path: ['keys', 'rotate'],
    summary:
      'replace a key: the new key has the same limits and is shown only once; the old one keeps working for the overlap',
    options: [
      KEY_ID,
      { flags: '--overlap <time>', description: 'how long the old key keeps working: 30m, 24h, 7d, 0; default: 24h' },
      JSON_OPTION,
    ],
    async run(options, io) {
      const overlapMs = parseOverlap(textOf(options, 'overlap') ?? '24h');
      const made = await io.store.write((tx) => keys.rotate(tx, String(options['id']), overlapMs));
      const { key, id, projectId, expiresAt, oldEndsAt } = made;
      if (options['json'] === true) io.json({ key, id, project: projectId, expiresAt, oldKeyEndsAt: oldEndsAt });
      else io.line(`key ${key}\nIt is shown only once. The old key ends ${timeText(oldEndsAt)} (UTC).`);
    },
  };
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
      summary: 'limit a key to addresses and networks; a running daemon notices within a second',
      flag: { flags: '--ips <list>', description: '10.0.0.0/8,fd00::/8,192.0.2.7; replaces the list' },
      option: 'ips',
      list: 'cidrs',
    }),
    limitCommand(parts, {
      path: ['keys', 'allow-origin'],
      summary: 'limit a key to web pages of these origins; a running daemon notices within a second',
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

export interface CommandParts {
  readonly projects: Projects;
  readonly keys: Keys;
  readonly wallets: Wallets;
  readonly clock: Clock;
  readonly plans: () => Plans;
  readonly defaultPlan: string;
}

export type Options = Readonly<Record<string, string | boolean | undefined>>;

const JSON_OPTION = { flags: '--json', description: 'one JSON document' };

/** The text of an option, or undefined. commander names `--billing-day` `billingDay`. */
function textOf(options: Options, name: string): string | undefined {
  const value = options[name];
  return typeof value === 'string' ? value : undefined;
}

/** `a,b` as a list; undefined if the option was not given. */
function listOption(options: Options, name: string): readonly string[] | undefined {
  const list = textOf(options, name)
    ?.split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '');
  return list === undefined || list.length === 0 ? undefined : list;
}
