import { type Static, Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../../src/plugin/plugin.ts';
import { JsonText, json, RequestError } from '../../../src/plugin/request.ts';
import type { KeyLimitsChange, KeyView, UsageDay } from '../../../src/ports/access.ts';
import { transactionTypes } from '../../../src/solana/transaction-types.ts';
import { demandOperator, demandOwnProject, identityName, mayChange } from '../sessions.ts';
import {
  API,
  audited,
  missing,
  PAGE_ROUTE,
  type PageContext,
  projectParams,
  REFUSALS,
  sessionCallerOf,
  withHttpErrors,
} from './common.ts';

const projectReply = Type.Object({
  id: Type.String(),
  name: Type.String(),
  plan: Type.String(),
  wallet: Type.Union([Type.String(), Type.Null()]),
  createdAt: Type.Integer({ description: 'unix milliseconds' }),
  isDisabled: Type.Boolean({ description: 'its keys do not work and its deliveries wait' }),
});

const listedProject = Type.Composite([
  projectReply,
  Type.Object({
    recentRequests: Type.Integer({ description: 'requests of the last seven days (UTC), today included' }),
    lastUse: Type.Union([Type.String(), Type.Null()], {
      description: 'the last of these days with use, YYYY-MM-DD; null: none',
    }),
  }),
]);

const projectsReply = Type.Object({
  projects: Type.Array(listedProject),
  plans: Type.Array(Type.String()),
  hasInterfaces: Type.Boolean({ description: 'Whether the plugin parsed is loaded' }),
  hasWebhooks: Type.Boolean({ description: 'Whether the plugin webhooks is loaded' }),
  isLocalChain: Type.Boolean({ description: 'Whether the daemon runs its local chain' }),
  genesisHashes: Type.Record(Type.String(), Type.Union([Type.String(), Type.Null()]), {
    description: 'By chain; null: not known yet',
  }),
});
export type ProjectsAnswer = Static<typeof projectsReply>;
export type Project = Static<typeof listedProject>;

/** Projects, and the login secrets of their owners. */
export function projectRoutes(context: PageContext): readonly Route[] {
  return [
    listRoute(context),
    createRoute(context),
    changeRoute(context),
    deleteRoute(context),
    secretRoute(context),
    budgetsRoute(context),
    requestsRoute(context),
    requestRoute(context),
    choicesRoute(context),
  ];
}

function listRoute({ access, daemon, genesisHashes, guard, isLocalChain }: PageContext): Route {
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: `${API}/projects`,
    summary: 'Projects that the session may see',
    replies: { 200: projectsReply, ...REFUSALS },
    async handler(request) {
      const { identity } = guard.enter(request);
      const own = identity.role === 'project' ? identity.projectId : null;
      const uses = await access.recentUse(own);
      const projects = (await access.projects())
        .filter(({ id }) => own === null || id === own)
        .map((project) => {
          const use = uses.get(project.id);
          return { ...project, recentRequests: use?.requests ?? 0, lastUse: use?.lastDay ?? null };
        });
      const loaded = daemon.plugins().map(({ id }) => id);
      const facts = {
        hasInterfaces: loaded.includes('parsed'),
        hasWebhooks: loaded.includes('webhooks'),
        isLocalChain: isLocalChain(),
        genesisHashes: genesisHashes(),
      };
      return json({ projects, plans: own === null ? access.planNames() : [], ...facts });
    },
  });
}

function budgetsRoute({ budgets, guard }: PageContext): Route {
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: `${API}/projects/:project/budgets`,
    summary:
      'Budgets that a project holds now, in all threads and processes; those of others as of their last measurement',
    params: projectParams,
    replies: { 200: Type.Object({ budgets: Type.Array(Type.Unknown()) }), ...REFUSALS },
    async handler(request) {
      const { project } = request.params;
      demandOwnProject(guard.enter(request), project);
      return json({ budgets: await budgets(project) });
    },
  });
}

function requestsRoute({ guard, requests }: PageContext): Route {
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: `${API}/projects/:project/requests`,
    summary: 'The last requests of a project that this daemon answered, newest first',
    params: projectParams,
    replies: { 200: Type.Object({ requests: Type.Array(Type.Unknown()) }), ...REFUSALS },
    async handler(request) {
      const { project } = request.params;
      demandOwnProject(guard.enter(request), project);
      return json({ requests: (await requests.list(project)).map(({ projectId: _projectId, ...shown }) => shown) });
    },
  });
}

function requestRoute({ guard, requests }: PageContext): Route {
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: `${API}/projects/:project/requests/:requestId`,
    summary: 'One of the last requests of a project, with what it contained and why it failed; keys are masked',
    params: Type.Object({ project: Type.String(), requestId: Type.String({ maxLength: 64 }) }),
    replies: { 200: Type.Object({ request: Type.Unknown() }), ...REFUSALS },
    async handler(request) {
      const { project, requestId } = request.params;
      demandOwnProject(guard.enter(request), project);
      const found = await requests.find(project, requestId);
      if (found === null) throw new RequestError(404, 'request not found');
      const { projectId: _projectId, ...shown } = found;
      return json({ request: shown });
    },
  });
}

const names = Type.Array(Type.String());
const choicesReply = Type.Object({
  permissions: names,
  transactionTypes: names,
  failedDays: Type.Integer(),
});
export type Choices = Static<typeof choicesReply>;

/** A key of the plugin webhooks. */
const FAILED_DAYS = 'webhooks.retention.failedDays';

function choicesRoute({ access, daemon, guard }: PageContext): Route {
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: `${API}/choices`,
    summary: 'What forms offer: permissions of keys, types of transactions, and how long failed deliveries are kept',
    replies: { 200: choicesReply, ...REFUSALS },
    handler(request) {
      guard.enter(request);
      const kept = daemon.settings().find(({ key }) => key === FAILED_DAYS)?.value;
      const failedDays = typeof kept === 'number' ? kept : 0;
      return json({ permissions: access.permissionNames(), transactionTypes: transactionTypes(), failedDays });
    },
  });
}

function createRoute(context: PageContext): Route {
  const { access, guard } = context;
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'POST',
    path: `${API}/projects`,
    summary: 'Create a project',
    body: Type.Object({ name: projectName, plan: Type.String({ maxLength: 64, description: 'Name of its plan' }) }),
    replies: { 201: projectReply, ...REFUSALS },
    async handler(request) {
      const session = guard.change(request);
      demandOperator(session);
      const { name, plan } = request.body;
      const action = { action: 'projects.create', target: `${name} (${plan})` };
      return json(await audited(context, request, session, action, () => access.createProject({ name, plan })), 201);
    },
  });
}

const projectName = Type.String({ minLength: 1, maxLength: 128, description: 'Name of the project' });

function changeRoute(context: PageContext): Route {
  const { access, guard } = context;
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'PATCH',
    path: `${API}/projects/:project`,
    summary: 'Rename, disable or enable a project; absent: unchanged',
    params: projectParams,
    body: Type.Object({
      name: Type.Optional(projectName),
      isDisabled: Type.Optional(Type.Boolean({ description: 'True: its keys stop working, and its deliveries wait' })),
    }),
    replies: { 200: projectReply, ...REFUSALS },
    async handler(request) {
      const session = guard.change(request);
      const { project } = request.params;
      demandOwnProject(session, project);
      demandOperator(session);
      const { name, isDisabled } = request.body;
      const change = {
        ...(name === undefined ? {} : { name }),
        ...(isDisabled === undefined ? {} : { isDisabled }),
      };
      const verb = isDisabled === undefined ? 'rename' : isDisabled ? 'disable' : 'enable';
      const action = { action: `projects.${verb}`, target: name === undefined ? project : `${project}: ${name}` };
      return json(await audited(context, request, session, action, () => access.changeProject(project, change)));
    },
  });
}

function deleteRoute(context: PageContext): Route {
  const { access, guard } = context;
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'DELETE',
    path: `${API}/projects/:project`,
    summary: 'Delete a disabled project with its keys, webhooks and wallets; its usage stays',
    params: projectParams,
    replies: { 200: Type.Object({}), ...REFUSALS, 409: REFUSALS[400] },
    async handler(request) {
      const session = guard.change(request);
      const { project } = request.params;
      demandOwnProject(session, project);
      demandOperator(session);
      const name = (await access.projects()).find(({ id }) => id === project)?.name ?? '';
      const action = { action: 'projects.delete', target: `${name} (${project})` };
      await audited(context, request, session, action, () => access.deleteProject(project));
      context.endSessions(identityName({ role: 'project', projectId: project }));
      return json({});
    },
  });
}

function secretRoute(context: PageContext): Route {
  const { access, guard, secrets } = context;
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'POST',
    path: `${API}/projects/:project/secret`,
    summary:
      'Create the login secret of a project owner; it is shown only once, replaces the old secret and ends all sessions',
    params: projectParams,
    body: Type.Unknown(),
    bodyOptional: true,
    replies: { 201: Type.Object({ secret: Type.String() }), ...REFUSALS },
    async handler(request) {
      const session = guard.change(request);
      const { project } = request.params;
      demandOwnProject(session, project);
      demandOperator(session);
      const action = { action: 'projects.renew-secret', target: project };
      const secret = await audited(context, request, session, action, async () => {
        // Throws for an unknown project.
        await access.keys(project);
        return secrets.renew(project);
      });
      context.endSessions(identityName({ role: 'project', projectId: project }));
      return json({ secret }, 201);
    },
  });
}

const listOrNull = (description: string) =>
  Type.Union([Type.Array(Type.String({ maxLength: 256 }), { maxItems: 100 }), Type.Null()], { description });
const keyLimits = {
  ips: listOrNull('Addresses and networks that may use it; null: all'),
  permissions: listOrNull('Products and named permissions that it has; null: all'),
  origins: listOrNull('Pages that may use it in a browser; null: all'),
};
const limitFields = Type.Partial(Type.Object(keyLimits)).properties;

/** Bodies may have further members, which must not reach what is called with them. */
const limitsOf = ({ ips, permissions, origins }: KeyLimitsChange): KeyLimitsChange => ({
  ...(ips === undefined ? {} : { ips }),
  ...(permissions === undefined ? {} : { permissions }),
  ...(origins === undefined ? {} : { origins }),
});

const keyReply = Type.Object({
  id: Type.String(),
  prefix: Type.String(),
  name: Type.String(),
  state: Type.String({ description: 'active, revoked or expired' }),
  createdAt: Type.Integer(),
  expiresAt: Type.Union([Type.Integer(), Type.Null()]),
  revokedAt: Type.Union([Type.Integer(), Type.Null()]),
  ...keyLimits,
  usedAt: Type.Union([Type.Integer(), Type.Null()], { description: 'last request with the key, unix milliseconds' }),
});
/** A key with its last use. */
export type ListedKey = KeyView & { readonly usedAt: number | null };
const KEYS = `${API}/projects/:project/keys`;
const keyParams = Type.Object({ ...projectParams.properties, key: Type.String({ maxLength: 64 }) });

/** Keys of a project. */
export function keyRoutes(context: PageContext): readonly Route[] {
  return [listKeysRoute(context), createKeyRoute(context), revokeRoute(context), limitRoute(context)];
}

function listKeysRoute({ access, guard, requests }: PageContext): Route {
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: KEYS,
    summary: 'Keys of a project, with their first characters',
    params: projectParams,
    replies: { 200: Type.Object({ keys: Type.Array(keyReply) }), ...REFUSALS },
    async handler(request) {
      const { project } = request.params;
      demandOwnProject(guard.enter(request), project);
      const keys = await withHttpErrors(access.keys(project));
      const uses = await requests.lastUses(keys.map(({ id }) => id));
      return json({ keys: keys.map((key): ListedKey => ({ ...key, usedAt: uses.get(key.id) ?? null })) });
    },
  });
}

function createKeyRoute(context: PageContext): Route {
  const { access, guard } = context;
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'POST',
    path: KEYS,
    summary: 'Create a key; it is shown only once',
    params: projectParams,
    body: Type.Object({
      name: Type.String({ maxLength: 128, default: '', description: 'Name for people' }),
      ...limitFields,
      expiresAt: Type.Optional(
        Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], { description: 'Unix milliseconds; null: never' }),
      ),
    }),
    replies: { 201: Type.Object({ id: Type.String(), key: Type.String() }), ...REFUSALS },
    async handler(request) {
      const session = guard.change(request);
      const { project } = request.params;
      demandOwnProject(session, project);
      const { name, expiresAt = null } = request.body;
      if (expiresAt !== null && expiresAt <= context.clock.now())
        throw new RequestError(400, 'the expiry must be in the future');
      const action = { action: 'keys.create', target: `${project}: ${name}` };
      const key = { projectId: project, name, expiresAt, ...limitsOf(request.body) };
      return json(await audited(context, request, session, action, () => access.createKey(key)), 201);
    },
  });
}

/** A key as the audit log names it: its name is what people know it by, its id tells it from others of that name. */
async function keyText({ access }: PageContext, project: string, id: string): Promise<string> {
  // An unknown project is an error of the action itself, which is written down.
  const keys = await access.keys(project).catch(() => []);
  const name = keys.find((key) => key.id === id)?.name ?? '';
  return name === '' ? id : `${name} (${id})`;
}

function revokeRoute(context: PageContext): Route {
  const { access, guard } = context;
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'POST',
    path: `${KEYS}/:key/revoke`,
    summary: 'Revoke a key',
    params: keyParams,
    body: Type.Unknown(),
    bodyOptional: true,
    replies: { 200: Type.Object({ revoked: Type.Boolean() }), ...REFUSALS },
    async handler(request) {
      const session = guard.change(request);
      const { project, key } = request.params;
      demandOwnProject(session, project);
      const action = { action: 'keys.revoke', target: `${project}: ${await keyText(context, project, key)}` };
      return json({
        revoked: await audited(context, request, session, action, () => access.revokeKey(project, key)),
      });
    },
  });
}

function limitRoute(context: PageContext): Route {
  const { access, guard } = context;
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'PUT',
    path: `${KEYS}/:key/limits`,
    summary: 'Limit a key to addresses, permissions or origins; null: no limit; absent: unchanged',
    params: keyParams,
    body: Type.Object(limitFields),
    replies: { 200: Type.Object({}), ...REFUSALS },
    async handler(request) {
      const session = guard.change(request);
      const { project, key } = request.params;
      demandOwnProject(session, project);
      const limits = limitsOf(request.body);
      const words = Object.entries(limits).map(([name, list]) => `${name} ${list?.join(' ') ?? 'all'}`);
      const target = `${project}: ${await keyText(context, project, key)}: ${words.join(', ')}`;
      const action = { action: 'keys.limit', target };
      await audited(context, request, session, action, () => access.limitKey(project, key, limits));
      return json({});
    },
  });
}

const day = Type.String({ pattern: '^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])$', description: 'YYYY-MM-DD, UTC' });
const daysQuery = Type.Object({ from: day, to: day });
const usageDay = Type.Object({
  day: Type.String(),
  product: Type.String(),
  credits: Type.Number(),
  requests: Type.Integer(),
  bytes: Type.Integer(),
});

/** Usage of a project: the record of the cycle, and days as JSON and CSV. */
export function usageRoutes(context: PageContext): readonly Route[] {
  return [usageRoute(context), csvRoute(context)];
}

function usageRoute({ access, guard }: PageContext): Route {
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: `${API}/projects/:project/usage`,
    summary: 'Usage of a project: its cycle, and each day by product',
    params: projectParams,
    query: daysQuery,
    replies: { 200: Type.Object({ cycle: Type.Unknown(), days: Type.Array(usageDay) }), ...REFUSALS },
    async handler(request) {
      const { project } = request.params;
      demandOwnProject(guard.enter(request), project);
      const { from, to } = request.query;
      const [cycle, days] = await withHttpErrors(
        Promise.all([access.usage(project), access.usageDays(project, from, to)] as const),
      );
      return json({ cycle, days });
    },
  });
}

function csvRoute({ access, guard }: PageContext): Route {
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: `${API}/projects/:project/usage.csv`,
    summary: 'The days as CSV',
    params: projectParams,
    query: daysQuery,
    replies: { 200: Type.String({ contentMediaType: 'text/csv' }), ...REFUSALS },
    async handler(request) {
      const { project } = request.params;
      demandOwnProject(guard.enter(request), project);
      const { from, to } = request.query;
      const days = await withHttpErrors(access.usageDays(project, from, to));
      return {
        status: 200,
        bytes: Buffer.from(csvOf(days)),
        contentType: 'text/csv; charset=utf-8',
        headers: { 'Content-Disposition': `attachment; filename="usage-${from}-${to}.csv"` },
      };
    },
  });
}

/** Products and days contain no characters that CSV must quote. */
function csvOf(days: readonly UsageDay[]): string {
  const lines = days.map(({ day, product, credits, requests, bytes }) =>
    [day, product, credits, requests, bytes].join(','),
  );
  return ['day,product,credits,requests,bytes', ...lines, ''].join('\r\n');
}

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;
/** Endpoints of the API that the pages of a project call with the rights of one of its keys, by the name of their route. */
const ENDPOINTS = [
  {
    name: 'webhooks',
    plugin: 'webhooks',
    // Only these paths, followed only by characters of ids and queries.
    pattern: '^/v0/webhooks(/[A-Za-z0-9-]{1,64}){0,4}(\\?[A-Za-z0-9=&_-]{0,200})?$',
    summary: 'Call a webhook endpoint on behalf of a project',
    // Reads are free.
    charge: {},
  },
  {
    name: 'interfaces',
    plugin: 'parsed',
    pattern: '^/v1/parsed-events/idls(/[1-9A-HJ-NP-Za-km-z]{32,44}(\\?version=[0-9]{1,6})?)?$',
    summary: 'Call an endpoint for interfaces (IDLs) on behalf of a project, at its credits',
    charge: { isCharged: true },
  },
] as const;

/** Members of the answers above with which somebody could act for the project. */
const SECRET_MEMBERS: ReadonlySet<string> = new Set(['authHeader', 'signingSecret']);

/** What a viewer gets to see of an answer. */
function withoutSecrets(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutSecrets);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name,
      SECRET_MEMBERS.has(name) && typeof member === 'string' && member !== '' ? '(hidden)' : withoutSecrets(member),
    ]),
  );
}

export function endpointRoutes(context: PageContext): readonly Route[] {
  const { daemon, guard } = context;
  return ENDPOINTS.map(({ name, plugin, pattern, summary, charge }) =>
    defineRoute({
      ...PAGE_ROUTE,
      method: 'POST',
      path: `${API}/projects/:project/${name}`,
      summary,
      params: projectParams,
      // The limit of the webhook routes: one call can hold a hundred thousand addresses.
      bodyLimitBytes: 8_388_608,
      body: Type.Object({
        method: Type.Union(
          METHODS.map((method) => Type.Literal(method)),
          { description: 'Method of the call' },
        ),
        path: Type.String({ pattern, description: 'Its path and query' }),
        body: Type.Optional(Type.Unknown({ description: 'Its body' })),
      }),
      replies: {
        200: Type.Unknown(),
        ...REFUSALS,
        409: REFUSALS[400],
        429: REFUSALS[400],
        501: REFUSALS[400],
        503: REFUSALS[400],
      },
      async handler(request) {
        const isRead = request.body.method === 'GET';
        const session = isRead ? guard.confirm(request) : guard.change(request);
        const { project: projectId } = request.params;
        demandOwnProject(session, projectId);
        if (!daemon.plugins().some(({ id }) => id === plugin)) throw missing(`the plugin ${plugin} is not loaded`);
        const { caller, isDisabled } = await sessionCallerOf(context, projectId);
        const { method, path, body } = request.body;
        // What it has can be looked at.
        if (isDisabled && !isRead) throw new RequestError(409, 'the project is disabled: enable it first');
        const { requestId, log, signal, remoteAddress } = request;
        const call = () =>
          daemon.call({ method, path, body, caller, ...charge, requestId, log, signal, remoteAddress });
        const isActive = (body as { active?: unknown } | null | undefined)?.active;
        const state = method === 'PATCH' && typeof isActive === 'boolean' ? ` ${isActive ? 'on' : 'off'}` : '';
        const action = { action: `${name}.${method.toLowerCase()}`, target: `${projectId}: ${path}${state}` };
        const { status, text } = isRead ? await call() : await audited(context, request, session, action, call);
        if (!mayChange(session) && text !== '') return json(withoutSecrets(JSON.parse(text)), status);
        return { status, json: new JsonText(text === '' ? 'null' : text) };
      },
    }),
  );
}
