import { tableLines, timeText } from '../../src/lib/table-lines.ts';
import type { CommandDescription } from '../../src/plugin/host.ts';
import type { Command, CommandValues } from '../../src/plugin/plugin.ts';
import type { Clock } from '../../src/ports/clock.ts';
import { KEY_COMMANDS, PROJECT_COMMANDS } from './command-list.ts';
import { usageError } from './config.ts';
import { parseList } from './directory.ts';
import {
  type KeyInfo,
  type KeyLimits,
  type Keys,
  keyView,
  listApiKeys,
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
import { RECENT_DAYS, readRecentUse, readUsage, type UsageRecord, usageRecord } from './usage.ts';

export function projectCommands(parts: AccessCommandParts): Command[] {
  return [
    createProjectCommand(parts),
    listProjectsCommand(parts),
    showCommand(parts),
    setPlanCommand(parts),
    grantCommand(parts),
  ];
}

function createProjectCommand({ projects, defaultPlan }: AccessCommandParts): Command {
  return {
    ...PROJECT_COMMANDS.create,
    async run(options, io) {
      const wallet = textOption(options, 'wallet');
      const day = textOption(options, 'billingDay');
      const row = await io.store.write((tx) =>
        projects.create(tx, {
          name: String(options['name']),
          plan: textOption(options, 'plan') ?? defaultPlan,
          ...(wallet === undefined ? {} : { wallet }),
          ...(day === undefined ? {} : { billingDay: Number(day) }),
        }),
      );
      if (options['json'] === true) io.json({ id: row.id, name: row.name, plan: row.plan });
      else io.line(`project ${row.id} (${row.name}, plan ${row.plan})`);
    },
  };
}

function listProjectsCommand({ clock }: AccessCommandParts): Command {
  return {
    ...PROJECT_COMMANDS.list,
    async run(options, io) {
      const rows = await listProjects(io.store, { withDeleted: options['all'] === true });
      const uses = await readRecentUse(io.store.read, clock.now());
      if (options['json'] === true) {
        io.json(rows.map((row) => ({ ...view(row), recentUse: uses.get(row.id) ?? null })));
        return;
      }
      if (rows.length === 0) {
        io.line('no projects');
        return;
      }
      const cells = rows.map((row) => {
        const use = uses.get(row.id);
        const used = [use?.requests ?? 0, use?.lastDay ?? '-'];
        return [row.id, row.plan, projectState(row), ...used, timeText(row.created_at), row.name];
      });
      const head = ['ID', 'PLAN', 'STATE', `REQUESTS ${RECENT_DAYS} D`, 'LAST USE', 'CREATED (UTC)', 'NAME'];
      for (const line of tableLines(head, cells)) io.line(line);
    },
  };
}

function showCommand({ plans }: AccessCommandParts): Command {
  return {
    ...PROJECT_COMMANDS.show,
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

function setPlanCommand({ projects }: AccessCommandParts): Command {
  return {
    ...PROJECT_COMMANDS.setPlan,
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
export function projectStateCommands({ projects }: AccessCommandParts): Command[] {
  const change = (
    described: CommandDescription,
    made: (options: CommandValues) => ProjectChange,
    said: (row: ProjectRow) => string,
  ): Command => ({
    ...described,
    async run(options, io) {
      const row = await io.store.write((tx) => projects.change(tx, String(options['id']), made(options)));
      if (options['json'] === true) io.json(view(row));
      else io.line(said(row));
    },
  });
  return [
    change(
      PROJECT_COMMANDS.rename,
      (options) => ({ name: String(options['name']) }),
      (row) => `project ${row.id} is named ${row.name}`,
    ),
    change(
      PROJECT_COMMANDS.disable,
      () => ({ isDisabled: true }),
      (row) => `project ${row.id} is disabled`,
    ),
    change(
      PROJECT_COMMANDS.enable,
      () => ({ isDisabled: false }),
      (row) => `project ${row.id} is enabled`,
    ),
    {
      ...PROJECT_COMMANDS.delete,
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

function changeOf(options: CommandValues): ProjectChange {
  const plan = textOption(options, 'plan');
  const override = textOption(options, 'override');
  const adminApi = textOption(options, 'adminApi');
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

function grantCommand({ projects }: AccessCommandParts): Command {
  return {
    ...PROJECT_COMMANDS.grant,
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

export function projectUsageCommands({ plans, clock }: AccessCommandParts): Command[] {
  return [
    {
      ...PROJECT_COMMANDS.usage,
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
      ['left of the plan', record.creditsRemaining === Number.MAX_SAFE_INTEGER ? 'unlimited' : record.creditsRemaining],
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

export function projectWalletCommands({ wallets }: AccessCommandParts): Command[] {
  return [
    {
      ...PROJECT_COMMANDS.addWallet,
      async run(options, io) {
        const [id, wallet] = [String(options['id']), String(options['wallet'])];
        const added = await io.store.write((tx) => wallets.add(tx, id, wallet));
        if (options['json'] === true) io.json({ id, wallet, added });
        else io.line(added ? `${wallet} is a member of project ${id}` : `${wallet} was already a member`);
      },
    },
    {
      ...PROJECT_COMMANDS.removeWallet,
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

export function keyCommands(parts: AccessCommandParts): Command[] {
  return [createKeyCommand(parts), listKeysCommand(parts), revokeCommand(parts), rotateCommand(parts)];
}

function createKeyCommand({ keys, clock }: AccessCommandParts): Command {
  return {
    ...KEY_COMMANDS.create,
    async run(options, io) {
      const expires = textOption(options, 'expires');
      const name = textOption(options, 'name');
      const wallet = textOption(options, 'wallet');
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
      // Key and id look alike, so the id is not beside the key.
      else
        io.line(
          `key ${key}\nIt is shown only once. ${io.program} keys list shows its id, which revoke and rotate ask for.`,
        );
    },
  };
}

function listKeysCommand({ clock }: AccessCommandParts): Command {
  return {
    ...KEY_COMMANDS.list,
    async run(options, io) {
      const rows = await listApiKeys(io.store, textOption(options, 'project'));
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

function revokeCommand({ keys }: AccessCommandParts): Command {
  return {
    ...KEY_COMMANDS.revoke,
    async run(options, io) {
      const id = String(options['id']);
      const revoked = await io.store.write((tx) => keys.revoke(tx, id));
      if (options['json'] === true) io.json({ id, revoked });
      else io.line(revoked ? `key ${id} is revoked` : `key ${id} was already revoked`);
    },
  };
}

function rotateCommand({ keys }: AccessCommandParts): Command {
  return {
    ...KEY_COMMANDS.rotate,
    async run(options, io) {
      const overlapMs = parseOverlap(textOption(options, 'overlap') ?? '24h');
      const made = await io.store.write((tx) => keys.rotate(tx, String(options['id']), overlapMs));
      const { key, id, projectId, expiresAt, oldEndsAt } = made;
      if (options['json'] === true) io.json({ key, id, project: projectId, expiresAt, oldKeyEndsAt: oldEndsAt });
      else io.line(`key ${key}\nIt is shown only once. The old key ends ${timeText(oldEndsAt)} (UTC).`);
    },
  };
}

function limitsText(row: KeyInfo): string {
  const lists = [parseList(row.permissions), parseList(row.cidrs), parseList(row.origins)].flatMap(
    (list) => list ?? [],
  );
  return lists.length === 0 ? '-' : lists.join(' ');
}

/** Commands that replace a list of a key. */
export function keyLimitCommands(parts: AccessCommandParts): Command[] {
  return [
    limitCommand(parts, { described: KEY_COMMANDS.allowIp, option: 'ips', list: 'cidrs' }),
    limitCommand(parts, { described: KEY_COMMANDS.allowOrigin, option: 'origins', list: 'origins' }),
  ];
}

interface LimitCommand {
  readonly described: CommandDescription;
  readonly option: string;
  readonly list: keyof KeyLimits;
}

function limitCommand({ keys, clock }: AccessCommandParts, { described, option, list }: LimitCommand): Command {
  return {
    ...described,
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

export interface AccessCommandParts {
  readonly projects: Projects;
  readonly keys: Keys;
  readonly wallets: Wallets;
  readonly clock: Clock;
  readonly plans: () => Plans;
  readonly defaultPlan: string;
}

/** The text of an option, or undefined. commander names `--billing-day` `billingDay`. */
function textOption(options: CommandValues, name: string): string | undefined {
  const value = options[name];
  return typeof value === 'string' ? value : undefined;
}

/** `a,b` as a list; undefined if the option was not given. */
function listOption(options: CommandValues, name: string): readonly string[] | undefined {
  const list = textOption(options, name)
    ?.split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '');
  return list === undefined || list.length === 0 ? undefined : list;
}
