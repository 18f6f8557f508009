import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';
import { commonFlags } from '../../src/cli/command.ts';
import { commandTable } from '../../src/cli/command-table.ts';
import { loadCliConfig } from '../../src/cli/load-config.ts';
import { assembleOffline } from '../../src/cli/offline.ts';
import { builtInDir } from '../../src/cli/package-files.ts';
import type { SchemaNode } from '../../src/config/node.ts';
import { assembleSchema } from '../../src/config/schema.ts';
import { findPlugins } from '../../src/daemon/registry.ts';
import { allDocuments, type Document, docsPages } from '../helpers/documents.ts';
import { findProjectRoot } from '../helpers/project-root.ts';
import { errorTables } from '../helpers/write-errors-document.ts';

const root = findProjectRoot();
const documents = allDocuments();
const pages = docsPages();

const io = {
  env: { PARHELION_CONFIG: '' },
  cwd: root,
  out: () => {},
  err: () => {},
  isTerminal: false,
  program: 'parhelion',
};
const config = await loadCliConfig({}, { ...io, env: { ...io.env, PARHELION_COMPRESSION__CNFT__TREES: 'all' } });
const plugins = await findPlugins([], { builtInDir, baseDir: root, packageDirs: [root] });
const { merged } = await assembleOffline(config);
// Those of plugins that the default list does not have stand in their definitions.
const commands = [
  ...commandTable,
  ...merged.commands,
  ...plugins.flatMap(({ definition }) => definition.commands ?? []),
];

/** Everything of a list of findings that is wrong, with the page that it stands on. */
function wrongOn(list: readonly Document[], find: (page: Document) => readonly string[]): string[] {
  return list.flatMap((page) => find(page).map((text) => `${page.path}: ${text}`));
}

/** Paths of all sections and keys, `a.b.c`. */
function configPaths(schema: SchemaNode, prefix = ''): string[] {
  return Object.entries(schema.properties ?? {}).flatMap(([key, field]) => [
    prefix + key,
    ...configPaths(field, `${prefix}${key}.`),
  ]);
}
const paths = configPaths(assembleSchema(plugins) as SchemaNode);
const sections = new Set(paths.map((path) => path.split('.')[0]!));

test('every configuration key that is named exists', () => {
  let seen = 0;
  const wrong = wrongOn(documents, ({ spans }) =>
    spans.flatMap((span) => {
      const [path] = /^[a-z][\w-]*(?:\.[a-zA-Z]\w*)+/.exec(span) ?? [];
      if (path === undefined || !sections.has(path.split('.')[0]!)) return [];
      seen += 1;
      return paths.includes(path) ? [] : [path];
    }),
  );
  assert.deepEqual(wrong, []);
  assert.ok(seen > 150, String(seen));
});

test('every variable of the environment is a key', () => {
  const plain = (name: string) => name.toLowerCase().replaceAll(/[_-]/g, '');
  const known = new Set(paths.map((path) => path.split('.').map(plain).join('.')));
  const wrong = wrongOn(documents, ({ text }) =>
    [...text.matchAll(/\bPARHELION_([A-Z_]+__[A-Z_]+)\b/g)].flatMap(([name, rest]) => {
      const isKey = [rest!, rest!.replace(/_FILE$/, '')].some((one) => known.has(one.split('__').map(plain).join('.')));
      return isKey ? [] : [name];
    }),
  );
  assert.deepEqual(wrong, []);
});

const ROUTE = /^((?:[A-Z]+\|?)+) (\/[^\s?]*)/;
const operatorRoutes = [
  '/healthz',
  '/readyz',
  '/metrics',
  '/docs',
  '/docs/guide',
  '/openapi.json',
  '/openrpc.json',
  '/llms.txt',
  '/skill.md',
  '/agents.json',
  '/docs/reference.md',
  '/docs/guide/webhooks.md',
  '/v0/admin/projects/:project/budgets',
  '/v0/admin/reload',
  // Of a plugin that the default list does not have.
  '/v0/admin/shadow',
  '/v0/admin/shadow/groups/:id',
  '/v0/admin/sinks',
].map((path) => `GET ${path}`);
const posted = ['pause', 'resume'].map((act) => `POST /v0/admin/sinks/:name/${act}`);
const portal = ['POST', 'DELETE'].map((method) => `${method} /v0/admin/projects/:project/portal`);
const routes = [
  ...merged.routes.map(({ method, path }) => `${method} ${path}`),
  ...operatorRoutes,
  ...posted,
  ...portal,
  'POST /',
];
/** Parameters have other names on the pages, or stand for a value. */
const shape = (path: string) =>
  path
    .split('/')
    .map((part) => (/^[:{]|^[A-Z]+$/.test(part) ? '*' : part))
    .join('/');
const shapes = new Set(routes.map(shape));
/** Of the plugin `signup`, which is not loaded by default. */
const signup = /^\/v0\/(signup$|wallet-signup$|dev-portal\/|checkout\/|projects(\/|$))/;

test('every route that is named exists', () => {
  let seen = 0;
  const wrong = wrongOn(documents, ({ spans }) =>
    spans.flatMap((span) => {
      const [, methods, path] = ROUTE.exec(span) ?? [];
      if (methods === undefined || signup.test(path!)) return [];
      seen += 1;
      // A last part that stands for several.
      const [, parent, ends] = /^(.*\/)([^/]*)$/.exec(path!)!;
      const places = ends!.split('|').map((end) => `${parent}${end}`);
      const list = methods.split('|').flatMap((method) => places.map((place) => `${method} ${place}`));
      return list.filter((route) => !shapes.has(shape(route)));
    }),
  );
  assert.deepEqual(wrong, []);
  assert.ok(seen > 40, String(seen));
});

test('every public route is on a page of docs/, and every method on the page of its plugin', () => {
  const told = new Set(pages.flatMap(({ spans }) => spans.map((span) => shape(ROUTE.exec(span)?.[0] ?? ''))));
  const open = merged.routes
    .filter(({ auth }) => auth !== 'admin')
    .map(({ method, path }) => shape(`${method} ${path}`));
  assert.ok(open.length > 25);
  assert.deepEqual(
    open.filter((route) => !told.has(route)),
    [],
  );
  const METHOD_PAGES = ['accounts', 'compression', 'das', 'fees', 'history', 'parsed'].map(
    (name) => `docs/reference/${name}.md`,
  );
  const UPSTREAM_METHODS = ['getProgramAccounts', 'getTokenLargestAccounts', 'getTransaction'];
  const spans = pages.filter(({ path }) => METHOD_PAGES.includes(path)).flatMap((page) => page.spans);
  const named = spans.filter(
    (span) => /^((get|search|describe)[A-Z_]\w+|ping)$/.test(span) && !UPSTREAM_METHODS.includes(span),
  );
  const methods = merged.rpc.map(({ name }) => name);
  assert.deepEqual(
    named.filter((name) => !methods.includes(name)),
    [],
  );
  // The page of the proxy names the methods of nodes, too.
  const all = [
    ...named,
    ...pages.filter(({ path }) => path === 'docs/reference/proxy.md').flatMap((page) => page.spans),
  ];
  assert.deepEqual(
    methods.filter((name) => !all.includes(name) && !all.includes(name.replace(/V2$/, ''))),
    [],
  );
});

test('every command and flag that is named exists', () => {
  let seen = 0;
  const known = new Set(commands.map(({ path }) => path.join(' ')));
  const groups = new Set(commands.map(({ path }) => path.slice(0, -1).join(' ')));
  const check = (line: string): string[] => {
    const [, rest] = /^(?:.*\s)?parhelion ([a-z].*)$/.exec(line) ?? [];
    if (rest === undefined) return [];
    seen += 1;
    const words = rest.split(/\s+(?:#.*)?/);
    const count = [3, 2, 1].find((length) => known.has(words.slice(0, length).join(' ')));
    if (count === undefined) return groups.has(words[0]!) && /[|]/.test(words[1] ?? '') ? [] : [line];
    const command = commands.find(({ path }) => path.join(' ') === words.slice(0, count).join(' '))!;
    const flags = ['--help', ...[...command.options, ...commonFlags].map(({ flags: text }) => text.split(' ')[0])];
    return words.filter((word) => word.startsWith('--') && !flags.includes(word.split('=')[0]!)).map(() => line);
  };
  const wrong = wrongOn(documents, ({ spans, blocks }) => [
    ...spans.filter((span) => span.startsWith('parhelion ')).flatMap(check),
    ...blocks.filter(({ language }) => language === 'sh').flatMap(({ text }) => text.split('\n').flatMap(check)),
  ]);
  assert.deepEqual(wrong, []);
  assert.ok(seen > 40, String(seen));
});

test('every metric that is named exists', () => {
  const list = readFileSync(`${root}config/metrics.txt`, 'utf8');
  const wrong = wrongOn(documents, ({ text }) =>
    (text.match(/\bparhelion_[a-z_]+/g) ?? []).filter(
      (name) =>
        !/^parhelion_(process_|nodejs_|sdk$)/.test(name) &&
        !new RegExp(`^${name}${name.endsWith('_') ? '' : ' '}`, 'm').test(list),
    ),
  );
  assert.deepEqual(wrong, []);
});

test('every coded error that is named exists', async () => {
  const codes = [...(await errorTables()).values()].flatMap((table) => Object.keys(table));
  const areas = new Set(codes.map((code) => code.split('_')[0]));
  const wrong = wrongOn(documents, ({ spans }) =>
    spans.filter((span) => /^[A-Z]+_[A-Z_]+$/.test(span) && areas.has(span.split('_')[0]) && !codes.includes(span)),
  );
  assert.deepEqual(
    wrong.filter((text) => !text.endsWith(': TOKEN_MINT') && !/: (WEBHOOK|PROJECT)_ID$/.test(text)),
    [],
  );
});

test('every link leads somewhere, and every script of npm is one', () => {
  const { scripts } = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as { scripts: Record<string, string> };
  const anchors = (path: string) =>
    [...readFileSync(path, 'utf8').matchAll(/^#+ (.*)$/gm)].map(([, title]) =>
      title!
        .toLowerCase()
        .replaceAll(/[^\p{L}\d _-]/gu, '')
        .replaceAll(' ', '-'),
    );
  const wrong = wrongOn(documents, ({ path, prose }) => [
    ...[...prose.matchAll(/\]\((?!https?:)([^)]*)\)/g)]
      .map(([, link]) => link!)
      .filter((link) => {
        const [file, anchor] = link.split('#') as [string, string | undefined];
        const target = file === '' ? join(root, path) : normalize(join(root, dirname(path), file));
        return !existsSync(target) || (anchor !== undefined && !anchors(target).includes(anchor));
      }),
    ...[...prose.matchAll(/npm run ([\w:]+)/g)].map(([, name]) => name!).filter((name) => scripts[name] === undefined),
  ]);
  assert.deepEqual(wrong, []);
});
